//! A line of an export.

use locker::Class;
use locker::inbox::Delivery;
use serde_json::Value;

/// An exported message, with its class and cause.
pub(super) struct Exported {
    pub(super) delivery: Delivery,
    /// The consumer that dead-lettered it.
    pub(super) consumer: Option<String>,
    /// The time when it was dead-lettered, as text that sorts.
    pub(super) created: String,
    pub(super) class: Class,
    pub(super) cause: Option<String>,
}

impl Exported {
    pub(super) fn read(line: &str) -> Result<Self, String> {
        let line: Value = serde_json::from_str(line).map_err(|error| format!("it is not JSON: {error}"))?;
        if let Some(place) = line["bodyAt"].as_str() {
            let place = if place == "queue" { "its queue" } else { "the claim-check store of its consumer" };
            return Err(format!("its body is in {place}, and not in the file: remove the line"));
        }
        let body = line["body"].as_str().ok_or("it has no body: export prints it")?;
        let mut delivery: Delivery = match &line["delivery"] {
            Value::Null => {
                return Err("it was not received: only received messages can be imported".to_owned());
            }
            delivery => serde_json::from_value(delivery.clone()).map_err(|error| error.to_string())?,
        };
        body.clone_into(&mut delivery.body);
        // How often its consumer tried it, also from the table.
        let attempts = line["attempts"].as_u64().and_then(|attempts| u32::try_from(attempts).ok());
        delivery.receives = attempts.unwrap_or(delivery.receives);
        let class = match &line["class"] {
            Value::Null => Class::InDoubt,
            class => serde_json::from_value(class.clone()).map_err(|error| format!("its class: {error}"))?,
        };
        let created = line["created"].as_str().unwrap_or_default().to_owned();
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        Ok(Self { delivery, consumer: text("consumer"), created, class, cause: text("cause") })
    }
}
