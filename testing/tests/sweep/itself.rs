//! What a plan says takes place, by the trace of its play: deaths, suspensions, late arrivals, two
//! callers, panics.

use std::time::Duration;

use lock_token_testing::sweep::{Found, Plan, Subject, Sweep, World};
use lock_token_testing::{CallFate, Fate};

/// Charges once, under a token; and always finds fault, so that the trace is kept.
struct Noted {
    panics: bool,
}

impl Subject for Noted {
    async fn prepare(&self, world: &World) {
        locker::create_table(&world.dynamodb(), "locks").await.unwrap();
    }

    async fn ask(&self, world: &World) -> Option<String> {
        assert!(!self.panics, "the handler panics");
        let locker = world.locker("locks").build().unwrap();
        // It goes on when the caller has its answer, and ends if the process dies.
        let process = world.clone();
        if format!("{world:?}").contains("\"caller\"") {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(30)).await;
                let _ = process.dynamodb().scan().table_name("locks").send().await;
            });
        }
        let bank = world.provider();
        let token = locker.token("it").take_over_after(Duration::from_secs(60));
        let charged =
            token.run(|attempt| async move { bank.apply(&attempt.idempotency_key(), "charge").await });
        charged.await.ok().map(|charged| charged.into_inner())
    }

    async fn go_on(&self, world: &World) {
        let _ = world.dynamodb().describe_table().table_name("locks").send().await;
    }

    async fn check(&self, world: &World, _: Option<&str>) -> Vec<String> {
        vec![format!("{} charges", world.provider().count("charge"))]
    }
}

fn played(plan: &str) -> Found {
    let plan: Plan = plan.parse().unwrap();
    let swept = Sweep::new(|| Noted { panics: false }).over(vec![plan]);
    swept.found()[0].clone()
}

/// The first line that contains this.
fn line(found: &Found, part: &str) -> Option<usize> {
    found.trace().iter().position(|line| line.contains(part))
}

#[test]
fn two_callers_ask_at_once() {
    let found = played("two=3");
    let (first, second) =
        (line(&found, " caller: asks PutItem"), line(&found, " other caller: asks PutItem"));
    assert!(first.is_some() && second.is_some(), "{found}");
    assert!(second < line(&found, "client comes again") && found.wrong() == ["1 charges"], "{found}");
}

#[test]
fn nothing_of_a_process_that_died_goes_on() {
    let scan = " caller: asks Scan";
    let alive = played("none");
    assert!(line(&alive, scan).is_some(), "what it has spawned goes on\n{alive}");
    for plan in ["d1=DiesBefore", "d1=DiesAfter", "c1=DiesAfter"] {
        let found = played(plan);
        assert!(line(&found, scan).is_none(), "{found}");
        assert_eq!(found.wrong(), ["1 charges"], "another one took it over\n{found}");
    }
}

#[test]
fn one_that_is_suspended_wakes_when_others_have_gone_on() {
    let found = played("c1=FrozenBefore");
    let woken = line(&found, " caller: asks UpdateItem").expect("it wakes, and ends its token");
    let others = found.trace().iter().take(woken).filter(|line| line.contains("client comes again")).count();
    assert!(others >= 1, "{found}");
    let spawned = line(&found, " caller: asks Scan").expect("what it has spawned goes on");
    assert!(line(&found, "client comes again") < Some(spawned), "its task was suspended, too\n{found}");
    assert_eq!(found.wrong(), ["1 charges"], "the provider recognises the key\n{found}");
}

#[test]
fn late_request_arrives_at_the_end_or_soon() {
    let in_the_end = played("c1=Late");
    let late = line(&in_the_end, "late: charge").expect("it arrives");
    assert!(line(&in_the_end, "client comes again") < Some(late), "{in_the_end}");
    let request = played("d2=Late,soon");
    let (late, last) = (line(&request, "late: ").expect("it arrives"), request.trace().len() - 1);
    assert!(late < last, "{request}");
}

#[test]
fn a_plan_reads_back_from_its_text() {
    for text in ["none", "d2=Late,soon", "d3=ReplyLost,c1=DiesAfter,two=7,cancel=4,soon", "c2=Declined"] {
        let plan: Plan = text.parse().unwrap();
        assert_eq!((plan.to_string().as_str(), plan.to_string().parse::<Plan>().as_ref()), (text, Ok(&plan)));
    }
    for text in ["d2", "d2=Odd", "e1=Late", "late", "two=x"] {
        assert!(text.parse::<Plan>().is_err(), "{text}");
    }
}

#[test]
fn a_panic_is_wrong() {
    let swept = Sweep::new(|| Noted { panics: true }).random(0, 1).run();
    assert!(swept.found()[0].wrong()[0].contains("the handler panics"), "{}", swept.found()[0]);
}

#[test]
fn every_fault_that_a_table_can_tell_apart_is_in_the_list() {
    use Fate::{
        Conflict, DiesAfter, DiesBefore, ErrorAfter, ErrorBefore, FrozenAfter, FrozenBefore, Late, Lost,
        ReplyLost, Throttled,
    };
    let all = [
        Lost,
        ReplyLost,
        Late,
        Throttled,
        Conflict,
        ErrorBefore,
        ErrorAfter,
        DiesBefore,
        DiesAfter,
        FrozenBefore,
        FrozenAfter,
    ];
    assert_eq!(Fate::SWEPT, all);
    let calls = [
        CallFate::Refused,
        CallFate::Lost,
        CallFate::ReplyLost,
        CallFate::Late,
        CallFate::DiesBefore,
        CallFate::DiesAfter,
        CallFate::FrozenBefore,
        CallFate::FrozenAfter,
    ];
    assert_eq!(CallFate::SWEPT, calls);
}
