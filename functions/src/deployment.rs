//! The parts of the functions, built from their environment.

use aws_sdk_dynamodb::Client;
use locker::Locker;
use locker::aws::Sqs;
use locker::message::Router;
use locker::relay::Relay;
use locker::workflow::{Builder, Completer, Reaper, Workflows};

use crate::environment::{CannotStart, Environment};
use crate::orders::Shop;
use crate::packer::Packer;
use crate::payments::Payments;
use crate::purchase::{ORDER_PLACED, PACKED_WITHIN, Purchase, Purchases, SOURCE};
use crate::secrets::Secrets;
use crate::workflows;

/// The begin and the end of a request's token, and those of its order's.
const REQUESTS: u32 = 4;

/// The configuration of a deployed function. All parts share the connections of one client.
pub struct Deployment {
    environment: Environment,
    secrets: Secrets,
    client: Client,
}

/// Neither secrets nor the environment.
impl std::fmt::Debug for Deployment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deployment").finish_non_exhaustive()
    }
}

/// Each method builds a part. An error names the variables to correct.
#[allow(clippy::missing_errors_doc, reason = "one sentence for all")]
impl Deployment {
    /// Reads the environment, and the secrets that it names.
    pub async fn read() -> Result<Self, CannotStart> {
        let environment = Environment::read()?;
        let secrets = Secrets::read(&environment).await?;
        Ok(Self { environment, secrets, client: locker::client::lambda().map_err(CannotStart::of)? })
    }

    /// Whether the API accepts purchases: one of their tables is set.
    #[must_use]
    pub fn has_purchases(&self) -> bool {
        !self.environment.workflows_table.is_empty() || !self.environment.orders_table.is_empty()
    }

    /// The lock tokens.
    pub fn locker(&self) -> Result<Locker, CannotStart> {
        let locker = Locker::builder(&self.client, set("LOCKER_TABLE", &self.environment.table)?);
        let locker = locker.settings(self.environment.settings.clone());
        let locker = locker.with_fingerprint_keys(self.secrets.fingerprints.clone());
        locker.build().map_err(CannotStart::of)
    }

    /// The shop. Lambda must not end the function before the provider's answer is recorded: the
    /// charge would be left in doubt.
    pub fn shop(&self) -> Result<Shop, CannotStart> {
        let shop = Shop::new(self.locker()?, self.payments()?);
        let order = shop.payments.timeout() + shop.locker.settings().give_up_after * REQUESTS;
        let function = self.environment.function_timeout;
        if order > function {
            return Err(CannotStart(format!(
                "PAYMENTS_TIMEOUT_MS and FUNCTION_TIMEOUT_MS do not fit: an order may take {order:?}, and Lambda ends the \
                 function after {function:?}; correct them in the template"
            )));
        }
        Ok(shop)
    }

    /// The purchases. If there is a queue of the packers, they send to it, and wait for their
    /// parcels.
    pub fn purchases(&self) -> Result<Purchases, CannotStart> {
        let router = self.router()?;
        let packed_within = router.is_some().then_some(PACKED_WITHIN);
        let workflows = router.into_iter().fold(self.builder()?, Builder::sending).build();
        let orders_table = set("ORDERS_TABLE", &self.environment.orders_table)?.to_owned();
        let code = Purchase {
            payments: self.payments()?,
            dynamodb: self.client.clone(),
            orders_table,
            packed_within,
        };
        Ok(Purchases { workflows: workflows.map_err(CannotStart::of)?, code })
    }

    /// The workflows, for functions that drive none.
    pub fn workflows(&self) -> Result<Workflows, CannotStart> {
        self.builder()?.build().map_err(CannotStart::of)
    }

    /// The completer of the purchases.
    pub fn completer(&self, purchases: Purchases) -> Completer {
        let completer = workflows::completer(&purchases.workflows, purchases.code);
        self.environment.concurrency.into_iter().fold(completer, Completer::concurrency)
    }

    /// The reaper of the purchases.
    pub fn reaper(&self, purchases: Purchases) -> Reaper {
        let reaper = Reaper::new(&workflows::completer(&purchases.workflows, purchases.code));
        self.environment.concurrency.into_iter().fold(reaper, Reaper::concurrency)
    }

    /// The relay, which has nothing to do without a queue.
    pub fn relay(&self, workflows: &Workflows) -> Result<Relay, CannotStart> {
        let router = self.router()?.ok_or_else(|| CannotStart::missing("PACKING_QUEUE_URL"))?;
        Ok(Relay::new(workflows, router))
    }

    /// The packer.
    pub fn packer(&self) -> Result<Packer, CannotStart> {
        let workflows = self.workflows()?;
        let inbox = workflows.inbox("packer").map_err(CannotStart::of)?;
        let orders_table = set("ORDERS_TABLE", &self.environment.orders_table)?.to_owned();
        Ok(Packer { workflows, inbox, orders_table, queue: self.packing()? })
    }

    /// The routes of messages: `order/placed` to the queue of the packers. `None`: there is none.
    fn router(&self) -> Result<Option<Router>, CannotStart> {
        Ok(self.packing()?.map(|packing| Router::new().route(ORDER_PLACED, packing)))
    }

    fn builder(&self) -> Result<Builder, CannotStart> {
        let Environment { workflows_table, settings, limits, .. } = &self.environment;
        let workflows = Workflows::builder(&self.client, set("LOCKER_WORKFLOWS_TABLE", workflows_table)?);
        let workflows = workflows.settings(settings.clone()).limits(limits.clone());
        let workflows = workflows.source(SOURCE);
        Ok(workflows.with_fingerprint_keys(self.secrets.fingerprints.clone()))
    }

    fn packing(&self) -> Result<Option<Sqs>, CannotStart> {
        let Environment { packing_queue, sqs_endpoint, .. } = &self.environment;
        if packing_queue.is_empty() {
            return Ok(None);
        }
        let mut sqs = aws_sdk_sqs::config::Builder::from(&locker::client::config().map_err(CannotStart::of)?);
        if !sqs_endpoint.is_empty() {
            sqs.set_endpoint_url(Some(sqs_endpoint.clone()));
        }
        Ok(Some(Sqs::queue(&aws_sdk_sqs::Client::from_conf(sqs.build()), packing_queue)))
    }

    fn payments(&self) -> Result<Payments, CannotStart> {
        let unusable = |error: locker::BoxError| CannotStart(format!("PAYMENTS_URL cannot be used: {error}"));
        let Environment { payments_url, payments_timeout, .. } = &self.environment;
        let payments =
            Payments::new(set("PAYMENTS_URL", payments_url)?, *payments_timeout).map_err(unusable)?;
        match &self.secrets.payments {
            Some(credential) => payments.with_credential(credential).map_err(unusable),
            None => Ok(payments),
        }
    }
}

/// The value of a variable that has to be set.
fn set<'a>(variable: &str, value: &'a str) -> Result<&'a str, CannotStart> {
    if value.is_empty() { Err(CannotStart::missing(variable)) } else { Ok(value) }
}
