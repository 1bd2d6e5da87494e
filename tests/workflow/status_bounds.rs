//! What a report reads and says at its bounds: the sample of a group, runs that were cut short, and
//! who ran.

use chrono::TimeDelta;
use locker::operator::{Console, Filter, LastRun, Machine, Match, Need, Status};
use locker::workflow::{Completer, Flow, Reaper, Stop, Workflow};
use locker::{Error, Failure, Scanner};
use locker_tests::{Fate, MINUTE, held_by};

use crate::bench::{Desk, LATER};

/// Waits for a provider that is down, under two names.
#[derive(Clone)]
struct Down<const OTHER: bool>;

impl<const OTHER: bool> Workflow for Down<OTHER> {
    const NAME: &'static str = if OTHER { "other" } else { "down" };
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.step("pay").run(|_| async { Err::<(), _>(Failure::needs_operator("odd".to_owned())) }).await
    }
}

/// Done at once.
#[derive(Clone)]
pub(crate) struct Done;

impl Workflow for Done {
    const NAME: &'static str = "done";
    type Input = ();
    type Output = ();

    async fn run(&self, _: &Flow, (): ()) -> Result<(), Stop> {
        Ok(())
    }
}

async fn status_of(desk: &Desk) -> Status {
    let (locker, _) = desk.bench.machine();
    Console::new().tokens(&locker).workflows(&desk.machine().0).status().await.unwrap()
}

async fn run_of(desk: &Desk, machine: Machine) -> LastRun {
    let runs = status_of(desk).await.runs;
    runs.into_iter().find(|run| run.machine == machine).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_group_shows_its_oldest_with_the_cause_of_that_one() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let mut held = Vec::new();
    // What is due later was begun first: held is what was begun, and the list is in the order of
    // due times.
    for (key, due) in [("oldest", LATER * 3), ("middle", LATER * 2), ("newest", MINUTE)] {
        let lock = held_by(locker.token(key).expect_within(due)).await;
        lock.hold(&format!("no reply to ch_{key}7a7b7c")).await.unwrap();
        held.push(locker.get(key).await.unwrap().unwrap().revision());
        desk.bench.clock.advance(MINUTE);
    }
    let status = status_of(&desk).await;
    let [group] = status.groups.as_slice() else { panic!("{status:?}") };
    assert_eq!((group.count, group.sample.as_str()), (3, "oldest"));
    assert_eq!(group.sample_cause.as_deref(), Some("no reply to ch_oldest7a7b7c"));
    assert_eq!(group.sample_revision.as_ref(), Some(&held[0]));
    assert_eq!(group.first, Some(desk.now() - TimeDelta::minutes(3)), "since its work began");
    assert_eq!(group.last, Some(desk.now() - TimeDelta::minutes(1)));
    assert_eq!(status.rows_read, 3);
}

#[tokio::test(start_paused = true)]
async fn workflows_of_two_names_are_two_groups_though_their_cause_is_one() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    workflows.start(&Down::<false>, "down/1", &()).run().await.unwrap();
    workflows.start(&Down::<true>, "other/1", &()).run().await.unwrap();
    let status = status_of(&desk).await;
    assert_eq!(status.groups.iter().map(|group| group.count).collect::<Vec<_>>(), [1, 1], "{status:?}");
    assert_eq!(status.groups[0].cause, status.groups[1].cause);
}

#[tokio::test(start_paused = true)]
async fn workflow_in_time_has_no_need_and_is_found() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    let (workflows, _) = desk.machine_with(|_, limits| limits.retry_for = LATER * 72);
    let _in_time = held_by(locker.token("in-time").expect_within(LATER)).await;
    workflows.start(&Busy, "busy/1", &()).run().await.unwrap();
    let found = async || {
        let all = Console::new().tokens(&locker).workflows(&workflows).list(&Filter::new()).await;
        let needs = |it: Match| (it.work.key().to_owned(), it.need);
        all.unwrap().matches.into_iter().map(needs).collect::<Vec<_>>()
    };
    let of = |token, workflow| [("in-time".to_owned(), token), ("busy/1".to_owned(), workflow)];
    assert_eq!(found().await, of(None, None));
    // Due for ten minutes: a completer may be on its way.
    desk.bench.clock.advance(MINUTE * 10);
    assert_eq!(found().await, of(None, None));
    assert_eq!((status_of(&desk).await.count(), status_of(&desk).await.rows_read), (0, 0), "not even read");
    desk.bench.clock.advance(MINUTE * 6);
    assert_eq!(found().await, of(None, Some(Need::Undriven)));
}

#[tokio::test(start_paused = true)]
async fn token_that_moves_to_another_list_is_listed_once() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.machine();
    let lock = held_by(desk.bench.machine().0.token("moves")).await;
    wire.next([Fate::Ok, Fate::HeldBefore]);
    let list = tokio::spawn(async move { Console::new().tokens(&locker).list(&Filter::new()).await });
    while wire.held() == 0 {
        assert!(!list.is_finished(), "it reads two lists");
        tokio::task::yield_now().await;
    }
    lock.hold("odd").await.unwrap();
    wire.let_through();
    let listed = list.await.unwrap().unwrap();
    let keys: Vec<_> = listed.matches.iter().map(|it| it.work.key()).collect();
    assert_eq!((keys, listed.rows_read), (vec!["moves"], 2), "it was in both lists");
}

/// Waits for a provider that is busy.
#[derive(Clone)]
struct Busy;

impl Workflow for Busy {
    const NAME: &'static str = "busy";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: &Flow, (): ()) -> Result<(), Stop> {
        flow.step("pay").run(|_| async { Err::<(), _>(Failure::transient("busy".to_owned())) }).await
    }
}

#[tokio::test(start_paused = true)]
async fn why_a_list_could_not_be_read_is_said_though_the_next_one_could_be() {
    let desk = Desk::new().await;
    let (locker, wire) = desk.bench.impatient_machine();
    for order in 0..3 {
        held_by(locker.token(("order", order))).await.hold("odd").await.unwrap();
    }
    // The last run of the scanner is read, and what is overdue is not.
    wire.next([Fate::Ok, Fate::Denied]);
    let status = Console::new().tokens(&locker).status().await.unwrap();
    assert!(matches!(status.stopped_by, Some(Error::Denied { .. })), "{status:?}");
    assert_eq!((status.count(), status.finished), (0, false));
}

#[tokio::test(start_paused = true)]
async fn a_completer_and_a_reaper_that_were_cut_short_have_not_seen_everything() {
    let desk = Desk::new().await;
    let (workflows, _) = desk.machine();
    for number in 0..3 {
        workflows.start(&Done, ("done", number), &()).run().await.unwrap();
        workflows.start(&Busy, ("busy", number), &()).run().await.unwrap();
    }
    desk.bench.clock.advance(LATER * 24 * 60);
    let completer = Completer::new(&workflows).register(Busy).register(Done);
    assert!(!completer.clone().limit(1).run().await.unwrap().finished);
    assert!(!run_of(&desk, Machine::Completer).await.finished);
    assert!(!Reaper::new(&completer).limit(1).run().await.unwrap().finished);
    let cut = run_of(&desk, Machine::Reaper).await;
    assert_eq!((cut.finished, cut.by.as_deref()), (false, Some("test/machine")));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_say_when_one_saw_everything_saw_it_itself() {
    let desk = Desk::new().await;
    let (locker, _) = desk.bench.machine();
    Scanner::new(&locker).run().await.unwrap();
    let mut items = desk.bench.items().await;
    let mut run = items.remove(0);
    assert!(run.remove("since").is_some(), "{run:?}");
    desk.bench.client.put_item().table_name(&desk.bench.table).set_item(Some(run)).send().await.unwrap();
    let run = run_of(&desk, Machine::Scanner).await;
    assert_eq!((run.saw_all, run.is_silent), (run.at, false));
}
