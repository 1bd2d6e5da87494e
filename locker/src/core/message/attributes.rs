//! Attributes that an event has in addition to those of every event.
//!
//! Source: CloudEvents specification 1.0.2, attribute naming and types; its documented extensions
//! Correlation, Distributed Tracing, Expiry Time and Sequence.

use std::collections::BTreeMap;

use super::id::InvalidMessage;

/// Attributes by their names.
pub(crate) type Attributes = BTreeMap<String, String>;

/// Groups the messages of one business process.
pub(crate) const CORRELATION_ID: &str = "correlationid";
/// The id of the message that caused this one.
pub(crate) const CAUSATION_ID: &str = "causationid";
/// The tenant that the message is about.
pub(crate) const TENANT_ID: &str = "tenantid";

/// The longest name that CloudEvents recommends.
const MAX_NAME: usize = 20;
pub(crate) const MAX_VALUE_BYTES: usize = 1024;
/// The attributes that a sender may add to one message.
pub(crate) const MAX_ATTRIBUTES: usize = 20;

/// The attributes of every event.
pub(crate) const OF_EVERY_EVENT: [&str; 11] = [
    "specversion",
    "id",
    "source",
    "type",
    "subject",
    "time",
    "datacontenttype",
    "sequence",
    "traceparent",
    "data",
    "data_base64",
];
/// Attributes that a sender sets in another way, or that would contradict the form of its events.
const OF_OTHER_FORMS: [&str; 3] = ["dataschema", "sequencetype", "expirytime"];

/// Checks the attributes that a sender adds to a message.
pub(crate) fn check(attributes: &Attributes) -> Result<(), InvalidMessage> {
    if attributes.len() > MAX_ATTRIBUTES {
        return Err(InvalidMessage::Attributes { count: attributes.len() });
    }
    for (name, value) in attributes {
        let fits = (1..=MAX_NAME).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if !fits || OF_EVERY_EVENT.iter().chain(&OF_OTHER_FORMS).any(|other| other == name) {
            return Err(InvalidMessage::Attribute { name: name.chars().take(MAX_NAME).collect() });
        }
        if !is_value(value) {
            return Err(InvalidMessage::AttributeValue { name: name.clone(), bytes: value.len() });
        }
    }
    Ok(())
}

fn is_value(value: &str) -> bool {
    (1..=MAX_VALUE_BYTES).contains(&value.len()) && !value.chars().any(char::is_control)
}

/// The attributes of a message that is sent while the message `id` is processed. `correlation`: the
/// correlation id of that message. Values that no message of ours may have are left out, since
/// their sender cannot correct them.
#[cfg(feature = "messages")]
pub(crate) fn caused_by(id: &str, correlation: Option<&str>) -> Attributes {
    let caused = [(CAUSATION_ID, id), (CORRELATION_ID, correlation.unwrap_or(id))];
    let caused = caused.into_iter().filter(|(_, value)| is_value(value));
    caused.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, value: &str) -> Attributes {
        Attributes::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn bounds_of_attributes_are_included() {
        let (long, longest) = ("v".repeat(1025), "v".repeat(1024));
        for (name, value, fits) in [
            ("correlationid", "a b", true),
            ("a1", "\u{e9}", true),
            (&"n".repeat(20), &longest, true),
            (&"n".repeat(21), "v", false),
            ("", "v", false),
            ("tenantId", "v", false),
            ("tenant_id", "v", false),
            ("sequence", "v", false),
            ("dataschema", "v", false),
            ("tenantid", "", false),
            ("tenantid", &long, false),
            ("tenantid", "a\nb", false),
        ] {
            assert_eq!(check(&of(name, value)).is_ok(), fits, "{name:?}");
        }
        let many = |count: usize| (0..count).map(|n| (format!("a{n}"), "v".to_owned())).collect();
        assert!(check(&many(20)).is_ok() && check(&many(21)).is_err());
    }

    #[cfg(feature = "messages")]
    #[test]
    fn first_message_of_a_chain_is_its_correlation() {
        let pairs = |id: &str, correlation| caused_by(id, correlation).into_iter().collect::<Vec<_>>();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs("1", Some("c")), [pair(CAUSATION_ID, "1"), pair(CORRELATION_ID, "c")]);
        assert_eq!(pairs("1", None), [pair(CAUSATION_ID, "1"), pair(CORRELATION_ID, "1")]);
        assert_eq!(pairs(&"i".repeat(1025), Some("c")), [pair(CORRELATION_ID, "c")]);
        assert_eq!(pairs("a\n", None), []);
    }
}
