//! The clients of the account, with a meter, and the resources.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use locker::workflow::Workflows;
use locker::{Locker, Settings};

use crate::args::Run;
use crate::meter::Meter;

pub(crate) struct Account {
    pub(crate) run: Run,
    pub(crate) meter: Meter,
    pub(crate) client: Client,
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) sns: aws_sdk_sns::Client,
    pub(crate) events: aws_sdk_eventbridge::Client,
}

/// A client of the environment whose requests are counted.
pub(crate) fn client(meter: &Meter) -> Client {
    let config = locker::client::config().expect("credentials and a Region");
    let config = aws_sdk_dynamodb::config::Builder::from(&config).interceptor(meter.of("dynamodb"));
    Client::from_conf(config.build())
}

/// Settings for processes on one machine, which have one clock.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.max_clock_skew = Duration::ZERO;
    settings.consumed_capacity = true;
    settings
}

pub(crate) fn locker(client: &Client, table: &str) -> Locker {
    Locker::builder(client, table).settings(settings()).build().expect("a locker")
}

impl Account {
    pub(crate) fn new(run: Run) -> Self {
        let meter = Meter::default();
        let config = locker::client::config().expect("credentials and a Region");
        let sqs = aws_sdk_sqs::config::Builder::from(&config).interceptor(meter.of("sqs"));
        let sns = aws_sdk_sns::config::Builder::from(&config).interceptor(meter.of("sns"));
        let events = aws_sdk_eventbridge::config::Builder::from(&config).interceptor(meter.of("events"));
        Self {
            client: client(&meter),
            sqs: aws_sdk_sqs::Client::from_conf(sqs.build()),
            sns: aws_sdk_sns::Client::from_conf(sns.build()),
            events: aws_sdk_eventbridge::Client::from_conf(events.build()),
            run,
            meter,
        }
    }

    pub(crate) fn locker(&self) -> Locker {
        locker(&self.client, &self.run.table)
    }

    pub(crate) fn workflows(&self) -> locker::workflow::Builder {
        Workflows::builder(&self.client, &self.run.workflows).settings(settings()).source("/on-aws")
    }

    /// How many workflows or subjects are in work at the same time. Six of them stay below the
    /// bound of the table: a commit of five messages costs about 20 write units.
    pub(crate) const fn width(&self) -> usize {
        if self.run.moto { 4 } else { 6 }
    }
}
