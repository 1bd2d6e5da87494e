//! One class for each error code of AWS, in the store and in the targets of messages.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::future::ProvideCredentials as Provided;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_runtime::retries::classifiers::{THROTTLING_ERRORS, TRANSIENT_ERRORS};
use aws_sdk_dynamodb::Client;
use locker::inbox::Incoming;
use locker::message::{Sent, Target as _};
use locker::workflow::{Completer, Flow, Outcome, Reaper, Stop, Workflow, Workflows};
use locker::{BeginBuilder, Begun, Error, Locker, Settings, TokenState};
use locker_tests::{Bench, Gate, HOUR, ada, held_by, record_of};
use serde_json::json;

use crate::bench::{Books, Desk, LATER};
use crate::replies::{Reply, Service, bus, envelopes, queue, topic};

/// The class of one request that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// It was not applied, and the next one may be.
    Temporary,
    /// It was not applied, and the next one will not be.
    Final,
    /// It may have been applied.
    Unknown,
}

/// Codes of the documentation of AWS. Source: "Common Error Types" of each API reference.
const DOCUMENTED: [(u16, &str, Class); 17] = [
    (400, "ExpiredTokenException", Class::Temporary),
    (403, "ExpiredToken", Class::Temporary),
    (400, "RequestExpired", Class::Temporary),
    (403, "InvalidSignatureException", Class::Temporary),
    (403, "SignatureDoesNotMatch", Class::Temporary),
    (403, "RequestTimeTooSkewed", Class::Temporary),
    (403, "InvalidClientTokenId", Class::Temporary),
    (403, "UnrecognizedClientException", Class::Temporary),
    (403, "MissingAuthenticationTokenException", Class::Temporary),
    (400, "TransactionConflictException", Class::Temporary),
    (400, "ValidationException", Class::Final),
    (400, "AccessDeniedException", Class::Final),
    (400, "CodeOfTomorrowException", Class::Final),
    (400, "ItemCollectionSizeLimitExceededException", Class::Final),
    (500, "InternalServerError", Class::Unknown),
    (500, "InternalFailure", Class::Unknown),
    (503, "ServiceUnavailable", Class::Unknown),
];

/// The documented codes, and the codes that the SDK sends again.
fn codes() -> Vec<(u16, &'static str, Class)> {
    let throttled = THROTTLING_ERRORS.iter().map(|code| match *code {
        // The same transaction is in progress.
        "TransactionInProgressException" => (400, *code, Class::Unknown),
        code => (400, code, Class::Temporary),
    });
    let transient = TRANSIENT_ERRORS.iter().map(|code| (400, *code, Class::Unknown));
    DOCUMENTED.into_iter().chain(throttled).chain(transient).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Verb {
    Begin,
    ReadFirst,
    TakeOver,
    Complete,
    CompleteLarge,
    Fail,
    Hold,
    Release,
    Extend,
    Read,
    List,
    Resolve,
    Free,
}

const VERBS: [Verb; 13] = [
    Verb::Begin,
    Verb::ReadFirst,
    Verb::TakeOver,
    Verb::Complete,
    Verb::CompleteLarge,
    Verb::Fail,
    Verb::Hold,
    Verb::Release,
    Verb::Extend,
    Verb::Read,
    Verb::List,
    Verb::Resolve,
    Verb::Free,
];

impl Verb {
    /// Verbs that end the work or record its answer.
    const ENDS: [Self; 6] =
        [Self::Complete, Self::CompleteLarge, Self::Fail, Self::Hold, Self::Release, Self::Extend];
}

async fn begin(token: BeginBuilder) -> Result<(), Error> {
    match token.begin().await? {
        Begun::Acquired(lock) => drop(lock),
        other => panic!("{other:?}"),
    }
    Ok(())
}

/// Carries out a verb. The first requests of the verb are refused.
async fn act(
    bench: &Bench,
    (locker, gate): (&Locker, &Gate),
    (verb, key): (Verb, &str),
    (requests, refusal): (usize, (u16, &str)),
) -> Result<(), Error> {
    let lock = match verb {
        Verb::Begin | Verb::ReadFirst | Verb::List => None,
        _ => Some(held_by(locker.token(key)).await),
    };
    let token = || locker.token(key);
    let refuse = || gate.refuse(0..requests, refusal);
    match (verb, lock) {
        (Verb::Begin, _) => {
            refuse();
            begin(token()).await
        }
        (Verb::ReadFirst, _) => {
            refuse();
            begin(token().read_first()).await
        }
        (Verb::TakeOver, _) => {
            bench.clock.advance(HOUR);
            refuse();
            begin(token().take_over_after(Duration::ZERO)).await
        }
        (Verb::List, _) => {
            refuse();
            locker.overdue().fetch().await.map(drop)
        }
        (Verb::Read, _) => {
            refuse();
            locker.get(key).await.map(drop)
        }
        (Verb::Resolve | Verb::Free, lock) => {
            lock.expect("a lock").hold("odd").await?;
            let record = record_of(locker, key).await;
            refuse();
            match verb {
                Verb::Free => locker.release(&record, &ada()).await.map(drop),
                _ => locker.resolve(&record, &json!("done"), &ada()).await.map(drop),
            }
        }
        (_, Some(lock)) => {
            refuse();
            match verb {
                Verb::Complete => lock.complete("done").await?,
                Verb::CompleteLarge => {
                    let noise: String = (0..20_000).map(|_| fastrand::alphanumeric()).collect();
                    lock.complete(&noise).await?;
                }
                Verb::Fail => lock.fail("declined").await?,
                Verb::Hold => lock.hold("odd").await?,
                Verb::Release => lock.release().await?,
                _ => drop(lock.extend(HOUR).await?),
            }
            Ok(())
        }
        (_, None) => unreachable!(),
    }
}

async fn state_of(locker: &Locker, key: &str) -> Option<TokenState> {
    locker.get(key).await.expect("an answer").map(|record| record.state())
}

#[tokio::test(start_paused = true)]
async fn each_code_has_its_class_at_each_verb_of_a_token() {
    let bench = Bench::new().await;
    let gate = Gate::default();
    let locker = bench.locker(&bench.engine.client_behind(&gate), &bench.clock, |_| {});
    let mut well = HashMap::new();
    for verb in VERBS {
        let key = format!("well/{verb:?}");
        act(&bench, (&locker, &gate), (verb, &key), (0, (400, ""))).await.expect("done");
        well.insert(verb, state_of(&locker, &key).await);
    }
    for (status, code, class) in codes() {
        for verb in VERBS {
            let key = format!("{code}/{verb:?}");
            let done = act(&bench, (&locker, &gate), (verb, &key), (1, (status, code))).await;
            match class {
                Class::Temporary | Class::Unknown => {
                    done.unwrap_or_else(|error| panic!("{key}: {error:?}"));
                    assert_eq!(state_of(&locker, &key).await, well[&verb], "{key}");
                }
                Class::Final => {
                    let error = done.expect_err(&key);
                    let Error::Denied { code: said, .. } = &error else { panic!("{key}: {error:?}") };
                    assert_eq!(said.as_deref(), Some(code), "{key}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ends_outlast_refused_signatures_and_begins_do_not() {
    let bench = Bench::new().await;
    let gate = Gate::default();
    let locker = bench.locker(&bench.engine.client_behind(&gate), &bench.clock, |_| {});
    for verb in VERBS {
        let key = format!("often/{verb:?}");
        let refusals = (20, (400, "ExpiredTokenException"));
        let done = act(&bench, (&locker, &gate), (verb, &key), refusals).await;
        gate.refuse([], (400, ""));
        if Verb::ENDS.contains(&verb) {
            done.unwrap_or_else(|error| panic!("{key}: {error:?}"));
            continue;
        }
        let error = done.expect_err(&key);
        assert!(matches!(error, Error::Denied { .. }), "{key}: {error:?}");
        let advice = "the credentials are invalid or have expired, or the clock of this machine is wrong";
        assert!(error.to_string().ends_with(advice), "{key}: {error}");
    }
}

/// Credentials that have expired at the first request, and are new at the second.
#[derive(Debug, Default)]
struct Renewed(std::sync::atomic::AtomicUsize);

impl ProvideCredentials for Renewed {
    fn provide_credentials<'a>(&'a self) -> Provided<'a>
    where
        Self: 'a,
    {
        let number = self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        // Already over: so the SDK asks again for each request.
        let expires = Some(SystemTime::UNIX_EPOCH);
        Provided::ready(Ok(Credentials::new(format!("key{number}"), "secret", None, expires, "test")))
    }
}

#[tokio::test(start_paused = true)]
async fn expired_credentials_are_followed_by_a_new_signature() {
    let bench = Bench::new().await;
    let gate = Gate::default();
    let client = bench.engine.client_behind(&gate);
    let provider = SharedCredentialsProvider::new(Renewed::default());
    let client = Client::from_conf(client.config().to_builder().credentials_provider(provider).build());
    let locker = bench.locker(&client, &bench.clock, |_| {});
    let lock = held_by(locker.token("signed/again")).await;
    assert_eq!(gate.signers(), ["key0"]);
    gate.only_signed_by("key3");
    lock.complete("done").await.expect("recorded");
    assert_eq!(gate.signers(), ["key1", "key2", "key3"]);
    let (other, _) = bench.machine();
    assert_eq!(state_of(&other, "signed/again").await, Some(TokenState::Completed));
}

/// Has a step of each kind.
#[derive(Debug, Clone)]
struct Order(Books);

impl Workflow for Order {
    const NAME: &'static str = "order";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: &Flow, (): ()) -> Result<u32, Stop> {
        flow.step("rate").run(|_| async { Ok(1) }).await?;
        let charge = |_| async {
            self.0.enter("charge");
            Ok(7)
        };
        let charged = flow.once("charge").run(charge).await?;
        flow.atomic("ship").commit(&()).await?;
        Ok(charged)
    }
}

async fn orders(desk: &Desk, gate: &Gate) -> Workflows {
    let mut settings = Settings::default();
    settings.owner = "test/order".to_owned();
    settings.backoff_base = Duration::from_millis(1);
    settings.backoff_cap = Duration::from_millis(10);
    let client = desk.bench.engine.client_behind(gate);
    let workflows = Workflows::builder(&client, &desk.table).settings(settings);
    workflows.with_clock(std::sync::Arc::new(desk.bench.clock.clone())).build().expect("workflows")
}

/// Starts and ends an order, takes a message once, and deletes the order.
async fn order(place: Option<(usize, (u16, &str))>) -> usize {
    let desk = Desk::new().await;
    let (gate, books) = (Gate::default(), Books::default());
    let workflows = orders(&desk, &gate).await;
    if let Some((place, refusal)) = place {
        gate.refuse([place], refusal);
    }
    let outcome = workflows.start(&Order(books.clone()), "order/7", &()).run().await.expect("an outcome");
    assert!(matches!(&outcome, Outcome::Completed(done) if **done == 7), "{place:?}: {outcome:?}");
    assert_eq!(books.entries(), ["charge"], "{place:?}");
    let message = Incoming::new("/orders", "1", "order.placed", "7");
    let inbox = workflows.inbox("packer").expect("an inbox");
    let taken = inbox.atomic(&message).commit().await.unwrap_or_else(|error| panic!("{place:?}: {error:?}"));
    taken.done().unwrap();
    desk.bench.clock.advance(LATER * 24 * 365);
    let reaper = Reaper::new(&Completer::new(&workflows).register(Order(books)));
    let done = reaper.run().await.expect("a run");
    assert_eq!((done.deleted, done.failed), (1, 0), "{place:?}: {done:?}");
    gate.arrived()
}

#[tokio::test(start_paused = true)]
async fn refused_request_of_a_workflow_changes_no_outcome() {
    let requests = order(None).await;
    assert!(requests > 8, "{requests}");
    let refusals = [
        (400, "ExpiredTokenException"),
        (403, "SignatureDoesNotMatch"),
        (400, "ThrottlingException"),
        (400, "TransactionInProgressException"),
        (503, "ServiceUnavailable"),
    ];
    for place in 0..requests {
        for refusal in refusals {
            order(Some((place, refusal))).await;
        }
    }
}

#[tokio::test]
async fn each_code_has_its_class_at_each_target_of_messages() {
    let one = envelopes(1).await;
    for (status, code, class) in codes() {
        let json = json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": "so it is" });
        let json = Service::new([Reply::Is(status, json.to_string())]);
        let xml = format!(
            "<ErrorResponse><Error><Code>{code}</Code><Message>so it is</Message></Error></ErrorResponse>"
        );
        let xml = Service::new([Reply::Is(status, xml)]);
        let said = [
            ("SQS", queue(&json).send(&one).await),
            ("EventBridge", bus(&json).send(&one).await),
            ("SNS", topic(&xml).send(&one).await),
        ];
        for (target, sent) in said {
            let as_expected = match (class, &sent[0]) {
                (Class::Temporary, Sent::Later(cause))
                | (Class::Final, Sent::TargetRefused(cause) | Sent::Refused(cause))
                | (Class::Unknown, Sent::Unknown(cause)) => cause.starts_with(code),
                _ => false,
            };
            assert!(as_expected, "{target} {code}: {sent:?}");
        }
    }
}

/// An entry of a batch has its code without a status.
#[tokio::test]
async fn each_code_of_our_fault_has_its_class_in_a_batch() {
    let one = envelopes(1).await;
    for (_, code, class) in codes() {
        let failed =
            json!({ "Id": "0", "Code": format!("AWS.SimpleQueueService.{code}"), "SenderFault": true });
        let reply = json!({ "Successful": [], "Failed": [failed] });
        let sent = queue(&Service::new([Reply::Is(200, reply.to_string())])).send(&one).await;
        let as_expected = matches!(
            (class, &sent[0]),
            (Class::Temporary, Sent::Later(_))
                | (Class::Final, Sent::TargetRefused(_) | Sent::Refused(_))
                | (Class::Unknown, Sent::Unknown(_))
        );
        assert!(as_expected, "{code}: {sent:?}");
    }
}
