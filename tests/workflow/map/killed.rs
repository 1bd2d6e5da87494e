//! A map whose driver is killed repeatedly.

use locker::workflow::{Flow, Outcome, Stop, Workflow};
use locker_tests::DAY;

use crate::bench::{Books, Desk, LATER};

const ITEMS: usize = 200;
const WIDTH: usize = 16;

/// Charges each item at a provider that recognises its keys for a day.
#[derive(Clone, Default)]
struct Fund {
    effects: Books,
    requests: Books,
}

impl Workflow for Fund {
    const NAME: &'static str = "fund";
    type Input = ();
    type Output = Vec<usize>;

    async fn run(&self, flow: &Flow, (): ()) -> Result<Vec<usize>, Stop> {
        flow.map("fund", (0..ITEMS).map(|item| (item, item)), WIDTH, async |flow, item| {
            let charge = flow.once("charge").recognised_for(DAY);
            charge
                .run(async |it| {
                    self.requests.enter(it.idempotency_key());
                    if self.effects.count(it.idempotency_key()) == 0 {
                        self.effects.enter(it.idempotency_key());
                    }
                    // The reply takes a moment, in which the driver may be killed.
                    tokio::task::yield_now().await;
                    Ok(item)
                })
                .await
        })
        .await
    }
}

#[tokio::test]
async fn map_that_is_killed_at_random_has_each_effect_once() {
    for seed in [1, 2, 3] {
        let (desk, code) = (Desk::new().await, Fund::default());
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut kills, mut resent) = (0, 0);
        let results = loop {
            assert!(kills < 60, "seed {seed}: it does not end");
            let (workflows, wire) = desk.machine();
            let running = tokio::spawn({
                let code = code.clone();
                async move { workflows.start(&code, "fund/1", &()).run().await }
            });
            // Each run makes progress. All runs together need 600 exchanges.
            let last = random.usize(20..120);
            while wire.count() < last && !running.is_finished() {
                tokio::task::yield_now().await;
            }
            running.abort();
            match running.await {
                Ok(outcome) => {
                    let Outcome::Completed(results) = outcome.unwrap() else {
                        panic!("seed {seed}: it stopped")
                    };
                    break results;
                }
                Err(_) => kills += 1,
            }
            let requests = code.requests.entries().len();
            resent = requests - code.effects.entries().len();
            desk.bench.clock.advance(LATER);
        };
        assert_eq!(*results, (0..ITEMS).collect::<Vec<_>>());
        let mut effects = code.effects.entries();
        effects.sort();
        let mut keys: Vec<_> = (0..ITEMS).map(|item| format!("fund/1 fund#{item}:charge")).collect();
        keys.sort();
        assert_eq!(effects, keys, "seed {seed}");
        assert!(kills > 3 && resent > 0, "seed {seed}: {kills} kills, {resent} requests sent again");
    }
}
