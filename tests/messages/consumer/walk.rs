//! Queues, consumers and operators at random, against books: what is received in a group is handled
//! in that order, nothing is lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use locker::Intervened;
use locker::inbox::Received;
use locker::message::MessageState;

use super::{Warehouse, ada, consumer, delivery, in_state};
use crate::post::{MINUTE, Post};

const GROUPS: [&str; 3] = ["a", "b", "c"];
const STEPS: usize = 120;

async fn walk(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let post = Post::new().await;
    let warehouse = Warehouse::default();
    let mut queues: BTreeMap<&str, VecDeque<String>> = BTreeMap::new();
    let (mut sent, mut given_up, mut archived_once) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    for _ in 0..STEPS {
        let (consumer, workflows, _) = consumer(&post);
        match random.u8(0..10) {
            0..3 => {
                let group = GROUPS[random.usize(..GROUPS.len())];
                let number = sent.entry(group).and_modify(|n| *n += 1).or_insert(1);
                queues.entry(group).or_default().push_back(format!("{group}/{number}"));
            }
            3..6 => {
                let group = GROUPS[random.usize(..GROUPS.len())];
                let Some(body) = queues.get(group).and_then(|queue| queue.front()).cloned() else { continue };
                if random.u8(0..4) == 0 {
                    warehouse.refuse(&[&body]);
                }
                let receives = random.u32(1..12);
                let came_to = consumer
                    .receive(&delivery(&body).receives(receives), async |it| warehouse.pack(it).await)
                    .await;
                // The acknowledgement of what is set aside may be lost.
                let is_lost = matches!(came_to, Ok(Received::DeadLettered)) && random.u8(0..4) == 0;
                if came_to.is_ok() && !is_lost {
                    queues.get_mut(group).unwrap().pop_front();
                }
            }
            6..8 => {
                drop(consumer.run(async |it| warehouse.pack(it).await).await.unwrap());
            }
            _ => {
                if random.bool() {
                    warehouse.refuse(&[]);
                }
                let state = if random.u8(0..3) == 0 { MessageState::Archived } else { MessageState::Dead };
                let of_state = in_state(&workflows, state).await;
                let Some(seen) = of_state.first() else { continue };
                let done = match (state, random.u8(0..6)) {
                    (MessageState::Dead, 0..3) => workflows.redrive(seen, &ada()).await,
                    (MessageState::Dead, 3) => {
                        archived_once.insert(seen.body().to_owned());
                        workflows.archive(seen, &ada()).await
                    }
                    (MessageState::Archived, 0..4) => workflows.restore(seen, &ada()).await,
                    (_, 4) => workflows.annotate(seen, &ada()).await,
                    _ => {
                        given_up.insert(seen.body().to_owned());
                        workflows.discard(seen, &ada()).await
                    }
                };
                assert_eq!(done.unwrap(), Intervened::Done, "seed {seed}");
            }
        }
        post.desk.bench.clock.advance(std::time::Duration::from_secs(random.u64(0..40)));
    }
    // The warehouse is repaired, the operators redrive all that is dead, and the queues are
    // emptied.
    warehouse.refuse(&[]);
    for _ in 0..40 {
        let (consumer, workflows, _) = consumer(&post);
        for archived in in_state(&workflows, MessageState::Archived).await {
            assert_eq!(workflows.restore(&archived, &ada()).await.unwrap(), Intervened::Done);
        }
        for dead in in_state(&workflows, MessageState::Dead).await {
            assert_eq!(workflows.redrive(&dead, &ada()).await.unwrap(), Intervened::Done);
        }
        drop(consumer.run(async |it| warehouse.pack(it).await).await.unwrap());
        for queue in queues.values_mut() {
            if let Some(body) = queue.pop_front() {
                consumer.receive(&delivery(&body), async |it| warehouse.pack(it).await).await.unwrap();
            }
        }
        post.desk.bench.clock.advance(MINUTE * 16);
    }
    assert_eq!(post.unsent().await, 0, "seed {seed}");
    let packed = warehouse.packed();
    for (group, count) in sent {
        let all: Vec<_> = (1..=count).map(|number: u32| format!("{group}/{number}")).collect();
        let mut once = BTreeSet::new();
        let twice = |body: &&String| !once.insert((*body).clone()) || given_up.contains(*body);
        let of: Vec<_> = packed.iter().filter(|body| body.starts_with(group)).collect();
        assert_eq!(
            of.iter().copied().filter(twice).count(),
            0,
            "seed {seed}: handled twice, or after it was discarded: {of:?}"
        );
        let lost: Vec<_> =
            all.iter().filter(|body| !once.contains(*body) && !given_up.contains(*body)).collect();
        assert!(lost.is_empty(), "seed {seed}: lost {lost:?} of {of:?}");
        let mut firsts = BTreeSet::new();
        let is_first = |body: &&String| firsts.insert((*body).clone()) && !archived_once.contains(*body);
        let in_order: Vec<_> = of.iter().copied().filter(is_first).cloned().collect();
        let expected: Vec<_> = all.into_iter().filter(|body| in_order.contains(body)).collect();
        assert_eq!(in_order, expected, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_group_is_processed_once_in_order_under_random_acts() {
    for seed in 0..20 {
        walk(seed).await;
    }
}
