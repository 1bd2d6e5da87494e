//! A workflow of ten steps of every kind, whose books say how often each effect took place.

use aws_sdk_dynamodb::types::{AttributeValue, Put};
use locker::workflow::{Flow, List, StepState, Stop, Workflow};
use locker::{Intervened, Operator};

use crate::bench::{Books, Desk};

#[derive(Debug, Clone)]
pub(crate) struct Ten {
    pub(crate) books: Books,
    pub(crate) rows: String,
}

impl Ten {
    pub(crate) fn new(desk: &Desk) -> Self {
        Self { books: Books::default(), rows: desk.rows.clone() }
    }

    /// A result that a second run would not repeat.
    fn effect(&self, name: &str) -> String {
        self.books.enter(name);
        format!("{name}:{}", self.books.entries().len())
    }

    async fn put_row(&self, flow: &Flow, name: &str) -> Result<String, Stop> {
        let row = Put::builder()
            .table_name(&self.rows)
            .item("id", AttributeValue::S(format!("{}/{name}", flow.key().as_str())))
            .condition_expression("attribute_not_exists(id)")
            .build()
            .expect("a put");
        flow.atomic(name).put(row).message("rows/put", &name).commit(&name.to_owned()).await
    }
}

impl Workflow for Ten {
    const NAME: &'static str = "ten";
    type Input = ();
    type Output = Vec<String>;

    async fn run(&self, flow: &Flow, (): ()) -> Result<Vec<String>, Stop> {
        let mut results = Vec::new();
        for number in 0..4 {
            let (step, once) = (format!("step#{number}"), format!("once#{number}"));
            let done = flow.step(&step).input(&number).run(|_| async { Ok(self.effect(&step)) });
            results.push(done.await?);
            let done = flow.once(&once).input(&number).run(|_| async { Ok(self.effect(&once)) });
            results.push(done.await?);
            if number < 2 {
                results.push(self.put_row(flow, &format!("atomic#{number}")).await?);
            }
        }
        Ok(results)
    }
}

/// An operator resolves steps by the provider's books, until the workflow is out of quarantine.
pub(crate) async fn put_right(desk: &Desk, ten: &Ten, key: &str) {
    let (workflows, _) = desk.machine();
    let operator = Operator::new("alice", "looked it up").unwrap();
    for _ in 0..10 {
        let view = desk.view(key).await;
        if view.listed() != Some(List::Quarantine) {
            return;
        }
        let doubt =
            view.steps().iter().find(|step| step.state() == StepState::Started).map(|step| step.name());
        let done = match doubt {
            // Its driver woke and recorded it.
            None => workflows.retry(&view, &operator).await,
            Some(step) if ten.books.count(&step) == 0 => workflows.retry_step(&view, &step, &operator).await,
            Some(step) => workflows.resolve_step(&view, &step, &"by hand".into(), &operator).await,
        };
        assert_eq!(done.unwrap(), Intervened::Done);
        desk.settle(ten).await;
    }
    panic!("it is quarantined again and again");
}
