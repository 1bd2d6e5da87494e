//! The same steps for each of many items, several items at a time.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::flow::Flow;
use super::step::name::IntoStepName;
use super::stop::{Stop, StopKind};
use crate::core::name::Branch;

impl Flow {
    /// Runs the same steps for each item, for at most `width` items at a time.
    ///
    /// Returns the results in the order of the items.
    ///
    /// An item is an id and a value. Each item has a branch, and `code` receives the flow of the
    /// branch. In the map `fund`, the step `charge` of the item with the id 7 has the name
    /// `fund#7:charge`. A resumed workflow finds the steps of an item by its id, so an id must
    /// belong to the same item in each run. Use the key of the item as the id. If the items and
    /// their order never change, use their positions: `items.into_iter().enumerate()`.
    ///
    /// ```
    /// use locker::Failure;
    /// use locker::workflow::{Flow, Stop};
    ///
    /// struct Wallet {
    ///     id: u64,
    ///     cents: u64,
    /// }
    ///
    /// # async fn pay(_wallet: &Wallet, _key: &str) -> Result<u64, Failure> { todo!() }
    /// async fn fund(flow: &Flow, wallets: Vec<Wallet>) -> Result<Vec<u64>, Stop> {
    ///     let items = wallets.into_iter().map(|wallet| (wallet.id, wallet));
    ///     flow.map("fund", items, 16, async |flow, wallet| {
    ///         flow.once("charge").run(async |it| pay(&wallet, it.idempotency_key()).await).await
    ///     })
    ///     .await
    /// }
    /// ```
    ///
    /// Pass an async closure with two parameters: a [`Flow`] by value and an item. It may borrow
    /// from the surrounding code. In the closure, use the flow of the branch for each step. With
    /// the outer flow, all items would share one step. If the compiler reports "expected a tuple
    /// with 2 elements", the items have no ids.
    ///
    /// The branches run in the task of the code. A map spawns no task, so code that blocks the
    /// thread blocks all branches. A branch may sleep, wait for an event with its own
    /// [part](super::Event::part), and contain another map. A compensation may use a map. For a few
    /// different branches, use `tokio::join!` and steps with different names.
    ///
    /// If the workflow fails, the steps of all branches are compensated in reverse order of their
    /// starts.
    ///
    /// # Errors
    ///
    /// [`Stop`], when all branches that began have ended; pass it on.
    ///
    /// - After a branch failed permanently, no further branch begins. Exception: branches that an
    ///   earlier run began, because the outcomes of their steps must be known. To continue with the
    ///   other items, return the failure from the branch as a value, with
    ///   [`outcome`](super::Once::outcome).
    /// - If a branch waits, is to be retried, or has a step in doubt, the other branches still
    ///   begin. The workflow resumes when the first branch is due. The code of every branch then
    ///   runs again, with its recorded steps.
    ///
    /// One branch may return [`continue_as_new`](Self::continue_as_new). The other branches still
    /// begin. If another branch failed, the map returns that failure instead. If two branches
    /// return `continue_as_new`, the workflow is quarantined, because the next version has one
    /// input.
    ///
    /// The workflow is quarantined before any branch begins if two items have the same id, if an id
    /// results in a name of more than 200 bytes, or if the width is 0.
    ///
    /// # Cost
    ///
    /// The steps of the branches, and nothing else. A resume reads all steps in one query, with 1
    /// request for each MB.
    ///
    /// Concurrent [`atomic`](Self::atomic) steps of several branches conflict with each other in
    /// DynamoDB and are retried, because each of them checks the header of the workflow. Use a
    /// small width for them.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the steps of its branches. A dropped `once` may have happened, so
    /// the workflow waits until its driver can no longer be at work.
    pub fn map<K, I, T, F, R>(
        &self,
        name: impl IntoStepName,
        items: impl IntoIterator<Item = (K, I)>,
        width: usize,
        code: F,
    ) -> impl Future<Output = Result<Vec<T>, Stop>>
    where
        K: fmt::Display,
        F: Fn(Self, I) -> R,
        R: Future<Output = Result<T, Stop>> + Send,
    {
        let name = name.into_step_name();
        let items: Vec<_> = items.into_iter().map(|(id, item)| (id.to_string(), item)).collect();
        async move {
            let map = async {
                let begun = Branches::of(self, &name, items, width)?.run(code).await;
                begun.map_err(Stop::kind)
            };
            Ok(self.call_map(&name, Box::pin(map)).await?)
        }
    }
}

/// The branches of a map that have not begun.
struct Branches<'a, I> {
    flow: &'a Flow,
    name: &'a str,
    width: usize,
    /// The items with their positions and branches.
    waiting: VecDeque<(usize, Branch, I)>,
}

impl<'a, I> Branches<'a, I> {
    fn of(flow: &'a Flow, name: &'a str, items: Vec<(String, I)>, width: usize) -> Result<Self, StopKind> {
        if width == 0 {
            return Err(StopKind::invalid(name, "the width of a map must be at least 1, got 0"));
        }
        let mut ids = HashSet::with_capacity(items.len());
        let mut waiting = VecDeque::with_capacity(items.len());
        for (position, (id, item)) in items.into_iter().enumerate() {
            let branch = flow.branch().of_map(name, &id).map_err(|error| {
                StopKind::invalid(name, format!("the id of the item at position {position}: {error}"))
            })?;
            if !ids.insert(id) {
                let why = format!(
                    "the item at position {position} has the id of an earlier item; give each item a different \
                     id"
                );
                return Err(StopKind::invalid(name, why));
            }
            waiting.push_back((position, branch, item));
        }
        Ok(Self { flow, name, width, waiting })
    }

    async fn run<T, F, R>(mut self, code: F) -> Result<Vec<T>, Stop>
    where
        F: Fn(Flow, I) -> R,
        R: Future<Output = Result<T, Stop>> + Send,
    {
        let mut results: Vec<Option<T>> = self.waiting.iter().map(|_| None).collect();
        let mut stops: Vec<(usize, Stop)> = Vec::new();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < self.width
                && let Some((position, branch, item)) = self.waiting.pop_front()
            {
                running.push(Running { position, code: Box::pin(code(self.flow.in_branch(branch), item)) });
            }
            match running.next().await {
                Some((position, Ok(result))) => {
                    if let Some(place) = results.get_mut(position) {
                        *place = Some(result);
                    }
                }
                Some((position, Err(stop))) => {
                    // A branch that continues has not failed, and the version has all its items.
                    if stop.is_outcome() && !stop.continues() {
                        self.begin_no_other();
                    }
                    stops.push((position, stop));
                }
                None => break,
            }
        }
        // Every other stop holds the workflow as well. A stop may come from the code between two
        // steps, and no step has noted such a stop.
        stops.sort_by_key(|(position, stop)| (!stop.is_outcome(), stop.continues(), *position));
        let mut stops = stops.into_iter().map(|(_, stop)| stop);
        let Some(first) = stops.next() else { return Ok(results.into_iter().flatten().collect()) };
        for stop in stops {
            if first.continues() && stop.continues() {
                let why = "two items continue as the next version of the key, which has one input; continue \
                           after the map";
                return Err(StopKind::invalid(self.name, why).into());
            }
            self.flow.note_map(self.name, &stop.kind());
        }
        Err(first)
    }

    /// Removes the branches that no run has begun, after a branch failed. An earlier run may have
    /// begun branches that this run has not reached: only their code resolves steps in doubt.
    fn begin_no_other(&mut self) {
        let begun = self.flow.begun_branches(self.name);
        self.waiting.retain(|(_, branch, _)| begun.contains(branch));
    }
}

/// A branch whose code runs. The type of its code is erased, because the compiler would reach its
/// recursion limit at a map in a map.
struct Running<'a, T> {
    position: usize,
    code: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
}

impl<T> Future for Running<'_, T> {
    type Output = (usize, T);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.code.as_mut().poll(context).map(|output| (self.position, output))
    }
}
