//! One rule for operators on messages through every door: the single act, the choices, a plan, its
//! application, and the verbs of the library.

use std::ops::ControlFlow;
use std::time::Duration;

use locker::dead_letters::DeadLetters;
use locker::inbox::Delivery;
use locker::message::{MessageState, NewMessage};
use locker::operator::{Act, ApplyOptions, Console, Filter, Part, Verb};
use locker::workflow::{Message, Workflows};
use locker::{Class, Error, Intervened, Operator, Work};
use locker_tests::ada;

use crate::post::Post;

const STATES: [&str; 5] = ["unsent", "dead", "received", "archived", "held by code"];

fn acts() -> [Act; 6] {
    [Act::redrive(), Act::archive(), Act::restore(), Act::discard(), Act::note(), Act::release()]
}

/// The only message of a fresh table, in this state.
async fn message(post: &Post, workflows: &Workflows, state: &str) -> Message {
    if ["unsent", "dead"].contains(&state) {
        let letter = NewMessage::new("order/placed", &7).subject("order/7");
        post.commit([workflows.outbox().message(letter).unwrap()]).await;
        if state == "dead" {
            post.desk.bench.clock.advance(Duration::from_secs(60));
            post.calls.next([lock_token_testing::CallFate::Declined]);
            assert_eq!(post.relay().0.run().await.unwrap().dead, 1);
        }
    } else {
        let consumer = workflows.inbox("packer").unwrap().consumer();
        let delivery = Delivery::new("sqs-7", "order 7").group("order/7");
        consumer.dead_letter(&delivery, Class::Permanent, "it is no order").await.unwrap();
    }
    let found = async |state: MessageState| {
        let listed = workflows.messages(state).fetch().await.unwrap().items;
        workflows.message(&listed[0].work).await.unwrap().unwrap()
    };
    match state {
        "unsent" => found(MessageState::Unsent).await,
        "archived" => {
            let dead = found(MessageState::Dead).await;
            assert_eq!(workflows.archive(&dead, &ada()).await.unwrap(), Intervened::Done);
            found(MessageState::Archived).await
        }
        "held by code" => {
            let decides = DeadLetters::new(workflows, Operator::new("orders", "code").unwrap());
            let hangs = decides.run(async |_: &Message| std::future::pending().await);
            assert!(tokio::time::timeout(Duration::from_secs(1), hangs).await.is_err());
            found(MessageState::Dead).await
        }
        _ => found(MessageState::Dead).await,
    }
}

/// Each message has a clock of its own.
fn without_time(reason: &str) -> String {
    reason.split(' ').filter(|word| !word.ends_with('Z')).collect::<Vec<_>>().join(" ")
}

async fn by_verb(workflows: &Workflows, seen: &Message, verb: Verb) -> Option<Result<Intervened, Error>> {
    Some(match verb {
        Verb::Redrive => workflows.redrive(seen, &ada()).await,
        Verb::Archive => workflows.archive(seen, &ada()).await,
        Verb::Restore => workflows.restore(seen, &ada()).await,
        Verb::Discard => workflows.discard(seen, &ada()).await,
        Verb::Note => workflows.annotate(seen, &ada()).await,
        _ => return None,
    })
}

#[tokio::test(start_paused = true)]
async fn every_act_on_every_message_has_one_answer_through_every_door() {
    for state in STATES {
        for act in acts() {
            let case = format!("{} on {state}", act.verb);
            let new = async || {
                let post = Post::new().await;
                let (workflows, _) = post.desk.machine();
                let message = message(&post, &workflows, state).await;
                (post, workflows, message)
            };

            // The single act.
            let (post, workflows, seen) = new().await;
            let console = Console::new().workflows(&workflows);
            let part = Part::Message(Box::new(seen.clone()));
            let answer = console.check(&part, &act);
            let choices = seen.choices(post.desk.now()).into_iter().map(|(verb, _)| verb);
            assert_eq!(answer.is_ok(), choices.collect::<Vec<_>>().contains(&act.verb), "{case}");
            match (&answer, console.act(&part, &act, &ada()).await.unwrap()) {
                (Ok(_), Intervened::Done) => {}
                (Err(_), Intervened::NotPossible) => {
                    let now = workflows.message(&seen.work()).await.unwrap().unwrap();
                    assert_eq!(now.revision(), seen.revision(), "{case}");
                }
                other => panic!("{case}: {other:?}"),
            }

            // The verb of the library.
            let (_post, workflows, seen) = new().await;
            if let Some(done) = by_verb(&workflows, &seen, act.verb).await {
                let expected = if answer.is_ok() { Intervened::Done } else { Intervened::NotPossible };
                assert_eq!(done.unwrap(), expected, "{case}: the verb");
            }

            // A plan for this one message, and its application.
            let (_post, workflows, seen) = new().await;
            let console = Console::new().workflows(&workflows);
            let filter = Filter::new().message(seen.short_id());
            let plan = console.plan(filter, act.clone(), &ada()).await.unwrap();
            if act.verb == Verb::Release {
                assert_eq!(plan.items.len() + plan.left_out.len(), plan.found, "{case}");
                assert!(plan.items.is_empty(), "{case}");
                continue;
            }
            let items = plan.items.iter().map(|it| Ok(it.effect.clone()));
            let left_out = plan.left_out.iter().map(|it| Err(without_time(&it.because)));
            let planned = answer.as_ref().map(|meaning| meaning.effect.clone());
            let planned = planned.map_err(|refusal| without_time(&refusal.because));
            assert_eq!(items.chain(left_out).collect::<Vec<_>>(), [planned], "{case}: the plan");
            let goes_on = |_: &_| ControlFlow::Continue(());
            let report = console.apply(&plan, &ApplyOptions::default(), goes_on).await.unwrap();
            assert_eq!(report.done, usize::from(answer.is_ok()), "{case}: applied");
            assert!(matches!(seen.work(), Work::Message { .. }));
        }
    }
}
