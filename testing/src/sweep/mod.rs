//! Plays your handler or workflow under every fault, and with a death at every request.
//!
//! A [`Sweep`] plays your code many times with an embedded DynamoDB and a provider. The first play
//! has no faults and counts the requests. Then each request fails once in every way: it is lost,
//! its reply is lost, it arrives late, it is refused, the process dies before or after it, or the
//! process is suspended while others continue. The same applies to each call to the provider.
//! A death or a suspension stops the whole process: its spawned tasks stop at their next request or
//! call.
//!
//! Background work after the answer is swept as well. A completer that repeats the same requests
//! and receives the same replies in many rounds is swept once. Then two callers start at once, in
//! many orders, an operator cancels at each request, and several faults are combined at random.
//! After each play, time passes, the client repeats its request with the same key, and the
//! completer runs. At the end your check examines the records.
//!
//! A sweep runs in one process, on the real library and SDK and an embedded DynamoDB, with a clock
//! that advances by itself. A handler has a few hundred plays, which take some seconds; a workflow
//! with more requests takes longer.
//!
//! ```
//! use lock_token_testing::sweep::{Subject, Sweep, World};
//! use locker::RunError;
//!
//! struct Checkout;
//!
//! impl Subject for Checkout {
//!     async fn prepare(&self, world: &World) {
//!         locker::create_table(&world.dynamodb(), "locks").await.unwrap();
//!     }
//!
//!     // What your handler does: charge order 7 once, and answer with the receipt.
//!     async fn ask(&self, world: &World) -> Option<String> {
//!         let locker = world.locker("locks").build().unwrap();
//!         let bank = world.provider();
//!         let charged = locker
//!             .token(("order", 7))
//!             .run(|attempt| async move { bank.apply(&attempt.idempotency_key(), "charge").await })
//!             .await;
//!         charged.ok().map(|receipt| receipt.into_inner())
//!     }
//!
//!     async fn check(&self, world: &World, _: Option<&str>) -> Vec<String> {
//!         let charges = world.provider().count("charge");
//!         if charges > 1 { vec![format!("the card was charged {charges} times")] } else { Vec::new() }
//!     }
//! }
//!
//! Sweep::new(|| Checkout).run().expect_nothing_wrong();
//! ```
//!
//! # A defect that only a sweep finds
//!
//! A shop charges an order under its token, and then records it for the warehouse. A repeated
//! request has the stored receipt, and records nothing. All its ordinary tests pass: the order is
//! charged and recorded, even if it is sent twice, and even if two requests arrive at once.
//!
//! ```
//! use aws_sdk_dynamodb::types::AttributeValue;
//! use lock_token_testing::sweep::{Subject, Sweep, World};
//!
//! struct Shop;
//!
//! impl Subject for Shop {
//!     async fn prepare(&self, world: &World) {
//!         for table in ["locks", "orders"] {
//!             locker::create_table(&world.dynamodb(), table).await.unwrap();
//!         }
//!     }
//!
//!     async fn ask(&self, world: &World) -> Option<String> {
//!         let locker = world.locker("locks").build().unwrap();
//!         let bank = world.provider();
//!         let paid = locker.token(("order", 7)).run(|attempt| bank.apply(&attempt.idempotency_key(), "charge")).await.ok()?;
//!         if !paid.is_replay() {
//!             let id = AttributeValue::S("7".to_owned());
//!             world.dynamodb().put_item().table_name("orders").item("lockToken", id).send().await.ok()?;
//!         }
//!         Some(paid.into_inner())
//!     }
//!
//!     async fn check(&self, world: &World, answer: Option<&str>) -> Vec<String> {
//!         let orders = world.dynamodb().scan().table_name("orders").send().await.unwrap().count;
//!         let is_wrong = answer.is_some() && orders == 0;
//!         is_wrong.then(|| "the order is paid, and the warehouse does not know it".to_owned()).into_iter().collect()
//!     }
//! }
//!
//! let swept = Sweep::new(|| Shop).run();
//! assert_eq!(swept.found()[0].plan().to_string(), "d2=DiesAfter");
//! ```
//!
//! `d2=DiesAfter` is a plan. The sweep removed all faults from it that are not necessary for the
//! failure. The process dies after the second request to DynamoDB was applied. With
//! [`expect_nothing_wrong`](Swept::expect_nothing_wrong) the test fails and prints the play, which
//! the variable `LOCKER_SWEEP` plays again:
//!
//! ```text
//! 18 of 352 plans went wrong. The shortest:
//! plan d2=DiesAfter: play it again with LOCKER_SWEEP=d2=DiesAfter
//!     d1 caller: asks PutItem order/7 inProgress 200
//!     c1 caller: call charge under order/7
//!     d2 caller: asks UpdateItem order/7 200  <- DiesAfter
//!     d3 client: asks PutItem order/7 inProgress 400
//!     client comes again after 60s: told Some("receipt-1")
//! WRONG the order is paid, and the warehouse does not know it
//! ```
//!
//! A line of the trace begins with the number of a request (`d`) or a call (`c`) and the process:
//! `caller` and `other caller` ask first, `client` repeats the request later, and `completer` runs
//! the [background work](Subject::go_on).
//!
//! The repaired form records the order under the token, before the token is completed. The whole
//! program, its ordinary tests, and both sweeps are in `tests/shop.rs` of this package.
//!
//! # Plans
//!
//! | fault or event | at | how |
//! |---|---|---|
//! | a request to DynamoDB | each | [`Fate::SWEPT`](crate::Fate::SWEPT): seven faults, two deaths, two suspensions |
//! | a call of yours, or to the [`Provider`](crate::Provider) | each | [`CallFate::SWEPT`](crate::CallFate::SWEPT): the same, with a refusal in place of DynamoDB's errors |
//! | a late request or call | each | in one play after the answer (at most half a day later), in another three requests later |
//! | a late request or call of [background work](Subject::go_on) | each | in one play half a day later or at the end, in another three requests later |
//! | a second caller with the same key | the beginning | in 16 orders |
//! | a client that repeats its request | each pause, until it is answered | its requests and calls are numbered on, for random plans |
//! | a completer or other [background work](Subject::go_on) | each pause, for four days | each of its requests, as above |
//! | an operator who [cancels](Subject::cancel) | each request, alone and with each call that is late | if there [is one](Subject::CANCELS) |
//! | a provider that [declines](Subject::DECLINES) | each call, alone and with each reply that does not arrive | if it may |
//! | one to three faults | at random | [`random`](Sweep::random) plans |

mod places;
mod plan;
mod play;
mod process;
mod swept;
mod tokens;
mod wire;
mod world;

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use plan::{InvalidPlan, Plan};
pub use swept::{Found, Swept};
pub use world::World;

use places::Counted;
use play::{Played, play};

/// The environment variable that contains the only plan to play.
const VARIABLE: &str = "LOCKER_SWEEP";

/// The code to play, and the check of its records.
///
/// Each play has its own subject, made by the function that [`Sweep::new`] receives. Its methods
/// run in processes that may die at any `await`. So data that has to outlive a process belongs in
/// DynamoDB or the [`Provider`](crate::Provider).
pub trait Subject {
    /// Creates the tables and other initial data. There are no faults here.
    fn prepare(&self, world: &World) -> impl Future<Output = ()>;

    /// Sends a client's request once. Clients repeat it with the same key until they have an
    /// answer.
    ///
    /// Returns the final answer, as a text to compare: **two clients must not receive different
    /// answers.** `None`: there is no final answer yet, such as after a 409 or 503, or an operator
    /// is needed.
    ///
    /// A panic fails the play. Await spawned tasks: as in any program on tokio, the panic of a task
    /// that is not awaited is printed and goes unnoticed.
    fn ask(&self, world: &World) -> impl Future<Output = Option<String>>;

    /// Runs background work once, such as a run of a completer. It may have faults.
    fn go_on(&self, world: &World) -> impl Future<Output = ()> {
        let _ = world;
        async {}
    }

    /// Cancels as an operator. Called if `CANCELS` is set, or if a plan contains `cancel`. The
    /// default panics, so that the plays fail.
    #[allow(clippy::panic, reason = "it is for tests")]
    fn cancel(&self, world: &World) -> impl Future<Output = ()> {
        let _ = world;
        async { panic!("a plan cancels: implement `Subject::cancel`, which cancels as an operator") }
    }

    /// Whether plays include an operator who [cancels](Self::cancel).
    const CANCELS: bool = false;

    /// Whether plays include calls that are [declined](crate::CallFate::Declined): a permanent
    /// failure. The declined call has no effect. An earlier call under the same key may have had
    /// one.
    const DECLINES: bool = false;

    /// Returns the errors at the end, four days after the answer. If your code sets a retention,
    /// set more than four days. Compare the records with the answer. Read the tables with
    /// `world.dynamodb()`. There are no faults here.
    fn check(&self, world: &World, answer: Option<&str>) -> impl Future<Output = Vec<String>>;
}

/// A sweep over all plans. See the [module](self).
#[must_use = "nothing is played until it is run"]
pub struct Sweep<S> {
    make: Box<dyn Fn() -> S + Sync>,
    recognises_for: Duration,
    random: u64,
    seed: u64,
    stops: bool,
}

impl<S> std::fmt::Debug for Sweep<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sweep")
            .field("random", &self.random)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl<S: Subject> Sweep<S> {
    /// Creates a sweep. The function makes a subject for each play.
    pub fn new(make: impl Fn() -> S + Sync + 'static) -> Self {
        Self {
            make: Box::new(make),
            recognises_for: Duration::from_secs(24 * 3600),
            random: 300,
            seed: 1,
            stops: false,
        }
    }

    /// Sets how long the [`Provider`](crate::Provider) recognises an idempotency key. Default: 24
    /// hours. Zero: it recognises no keys, and each call is a new effect.
    pub const fn recognises_for(mut self, time: Duration) -> Self {
        self.recognises_for = time;
        self
    }

    /// Sets the number of random plans with several faults, and their seed. Default: 300 of seed 1.
    pub const fn random(mut self, plans: u64, seed: u64) -> Self {
        (self.random, self.seed) = (plans, seed);
        self
    }

    /// Plays no more plans after the first failure. Plans with one fault are played first.
    pub const fn stop_at_first(mut self) -> Self {
        self.stops = true;
        self
    }

    /// Plays all plans, on all cores.
    ///
    /// If the play without faults fails, no other plan is played. A play without faults that sends
    /// no request, or that has no final answer, fails.
    ///
    /// If the environment variable `LOCKER_SWEEP` is set, plays only its plan and prints the trace.
    /// If a fault of that plan does not take place, the play fails.
    ///
    /// # Panics
    ///
    /// If `LOCKER_SWEEP` is not a valid plan.
    #[allow(clippy::panic, reason = "it is for tests")]
    #[must_use = "look what it found, such as by `expect_nothing_wrong`"]
    pub fn run(&self) -> Swept {
        if let Some(text) = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty()) {
            let plan: Plan = text.parse().unwrap_or_else(|error| panic!("{VARIABLE}: {error}"));
            let Played { mut wrong, trace, sent, .. } = self.play(&plan);
            println!("plan {plan}\n    {}", trace.join("\n    "));
            let unreached = plan.unreached(sent);
            if unreached != Plan::default() {
                let Counted { requests, calls } = sent;
                wrong.push(format!(
                    "{unreached} did not take place: this play has {requests} requests and {calls} calls. Unset {VARIABLE} to play all plans"
                ));
            }
            let found = if wrong.is_empty() { Vec::new() } else { vec![Found { plan, wrong, trace }] };
            return Swept { plans: 1, found };
        }
        let well = self.play(&Plan::default());
        if !well.wrong.is_empty() {
            let it = Found { plan: Plan::default(), wrong: well.wrong, trace: well.trace };
            return Swept { plans: 1, found: vec![it] };
        }
        let places = &well.places;
        let mut plans = Plan::each(places, S::CANCELS);
        if S::DECLINES {
            let declined: Vec<_> = Plan::each_declined(places).collect();
            plans.extend(declined.iter().cloned());
            for declined in declined {
                // A refusal leads to other requests, such as those of a compensation.
                plans.extend(declined.each_beside(&self.play(&declined).places));
            }
        }
        let seeds = (0..self.random).map(|n| self.seed.wrapping_mul(1_000_003).wrapping_add(n));
        plans.extend(seeds.map(|seed| Plan::random(seed, places, S::CANCELS)));
        let mut swept = self.over(plans);
        if let Some(first) = swept.found.first_mut() {
            self.shrink(first);
        }
        swept
    }

    /// Plays these plans.
    #[must_use = "look what it found, such as by `expect_nothing_wrong`"]
    pub fn over(&self, plans: Vec<Plan>) -> Swept {
        let mut seen = HashSet::new();
        let plans: VecDeque<Plan> = plans.into_iter().filter(|plan| seen.insert(plan.clone())).collect();
        let waiting = Mutex::new(plans);
        let played_plans = AtomicUsize::new(0);
        let found = Mutex::new(Vec::new());
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
                scope.spawn(|| {
                    while let Some(plan) = next() {
                        let played = self.play(&plan);
                        played_plans.fetch_add(1, Ordering::Relaxed);
                        if !played.wrong.is_empty() {
                            if self.stops {
                                waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
                            }
                            let it = Found { plan, wrong: played.wrong, trace: played.trace };
                            found.lock().unwrap_or_else(PoisonError::into_inner).push(it);
                        }
                    }
                });
            }
        });
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|it| (it.plan.faults(), it.trace.len(), it.plan.to_string()));
        Swept { plans: played_plans.into_inner(), found }
    }

    /// Plays a plan. A play without faults is wrong if it proves nothing.
    fn play(&self, plan: &Plan) -> Played {
        let mut played = play(self, plan);
        if *plan == Plan::default() {
            played.wrong.extend(played.proves_nothing().map(str::to_owned));
        }
        played
    }

    /// Removes each fault that is not necessary for the failure.
    fn shrink(&self, found: &mut Found) {
        let without = |plan: Plan| {
            let Played { wrong, trace, .. } = self.play(&plan);
            (!wrong.is_empty()).then_some(Found { plan, wrong, trace })
        };
        loop {
            let smaller = found.plan.smaller().into_iter().find_map(without);
            match smaller {
                Some(smaller) => *found = smaller,
                None => return,
            }
        }
    }
}
