//! Two relays side by side, one busy subject, and a target that is down for some minutes: under a
//! fault at each request, and under several at random.

use std::time::Duration;

use lock_token_testing::{Broker, CallFate, Fate};
use locker::message::{NewMessage, Router};
use locker::relay::Relay;
use locker_tests::Wire;

use crate::consumer::the_dead;
use crate::post::{MINUTE, Post};

const FATES: [Fate; 8] = [
    Fate::Lost,
    Fate::ReplyLost,
    Fate::ErrorBefore,
    Fate::ErrorAfter,
    Fate::Throttled,
    Fate::Conflict,
    Fate::Garbled,
    Fate::Stalls,
];
/// Minutes for which one target is down.
const OUTAGE: usize = 6;
/// Rounds in which everything is sent after that: a pause has a quarter of an hour at most.
const ROUNDS: usize = 12;

/// The subjects, and the number of messages of each.
const HEALTHY: [(&str, usize); 3] = [("busy", 25), ("quiet/1", 2), ("quiet/2", 2)];
const DOWN: [(&str, usize); 3] = [("late/1", 3), ("late/2", 2), ("late/3", 2)];

/// A fault of one of the relays, in one minute, at one of its requests, counted from 1.
#[derive(Debug, Clone, Copy)]
struct Fault {
    relay: usize,
    minute: usize,
    request: usize,
    fate: Fate,
}

struct World {
    post: Post,
    healthy: Broker,
}

impl World {
    async fn new() -> Self {
        let world = Self { post: Post::new().await, healthy: Broker::new() };
        let (workflows, _) = world.post.desk.machine();
        let outbox = workflows.outbox();
        for (topic, subjects) in [("down", DOWN), ("sent", HEALTHY)] {
            for (subject, count) in subjects {
                let message = |number| outbox.message(NewMessage::new(topic, &number).subject(subject));
                world.post.commit((0..count).map(|number| message(number).unwrap())).await;
            }
        }
        world
    }

    fn relay(&self) -> (Relay, Wire) {
        let (workflows, wire) = self.post.desk.machine();
        let router =
            Router::new().route("down", self.post.broker.clone()).route("sent", self.healthy.clone());
        (Relay::new(&workflows, router).concurrency(3), wire)
    }

    /// Runs both relays at the same time. A run that hangs is killed. Returns the requests of each.
    async fn round(&self, minute: usize, faults: &[Fault]) -> [usize; 2] {
        self.post.desk.bench.clock.advance(if minute < OUTAGE { MINUTE } else { MINUTE * 16 });
        let relays = [self.relay(), self.relay()];
        for fault in faults.iter().filter(|fault| fault.minute == minute) {
            relays[fault.relay].1.nth(fault.request, fault.fate);
        }
        let run = |(relay, _): &(Relay, Wire)| {
            let relay = relay.clone();
            async move { drop(tokio::time::timeout(Duration::from_secs(3600), relay.run()).await) }
        };
        tokio::join!(run(&relays[0]), run(&relays[1]));
        relays.map(|(_, wire)| wire.count())
    }
}

/// The target has each message, and the first copies of each subject are in order.
fn has_all(broker: &Broker, subjects: [(&str, usize); 3]) -> bool {
    let once = broker.took_once();
    subjects.into_iter().all(|(subject, count)| {
        let of_subject = once.iter().filter(|it| it.subject == subject).map(|it| it.data.clone());
        of_subject.eq((0..count).map(|number| number.to_string()))
    })
}

/// Plays faults. Returns the requests of both relays in the first minute.
async fn play(faults: &[Fault]) -> [usize; 2] {
    let world = World::new().await;
    world.post.calls.always(CallFate::Refused);
    let mut first = None;
    for minute in 0..OUTAGE {
        let requests = world.round(minute, faults).await;
        first.get_or_insert(requests);
    }
    assert!(world.post.topics().is_empty(), "{faults:?}");
    assert!(has_all(&world.healthy, HEALTHY), "{faults:?}: {:?}", world.healthy.took_once());
    world.post.calls.always(CallFate::Ok);
    for minute in OUTAGE..OUTAGE + ROUNDS {
        if world.post.unsent().await == 0 {
            break;
        }
        world.round(minute, faults).await;
    }
    assert!(has_all(&world.post.broker, DOWN), "{faults:?}: {:?}", world.post.broker.took_once());
    assert!(has_all(&world.healthy, HEALTHY), "{faults:?}");
    assert_eq!(world.post.unsent().await, 0, "{faults:?}");
    assert_eq!(the_dead(&world.post.desk.machine().0).await.len(), 0, "{faults:?}");
    first.unwrap()
}

#[tokio::test(start_paused = true)]
async fn fault_at_any_request_delays_no_other_target_and_loses_nothing() {
    let [requests, _] = play(&[]).await;
    assert!(requests > 20, "{requests}");
    for request in 1..=requests {
        for fate in [FATES[request % 8], FATES[(request + 3) % 8]] {
            play(&[Fault { relay: 0, minute: 0, request, fate }]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn several_faults_at_random_lose_nothing() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        // No fault in the last two minutes of the outage, in which the healthy target gets the rest.
        let faults: Vec<_> = (0..4)
            .map(|_| Fault {
                relay: random.usize(..2),
                minute: random.usize(..OUTAGE - 2),
                request: random.usize(1..60),
                fate: FATES[random.usize(..FATES.len())],
            })
            .collect();
        play(&faults).await;
    }
}
