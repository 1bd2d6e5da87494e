//! Malformed events.

use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

/// Any JSON, with the texts and numbers that events hold.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let telling = prop::sample::select(vec![
        "",
        "POST",
        "/orders",
        "orders/../..",
        "/a b",
        "/\u{0}",
        "2.0",
        "alice",
        "application/json",
        "=?&%",
        "\u{fffd}\n",
        "[",
        "caf\u{e9}",
        "{\"orderId\":\"1\",\"cents\":1,\"currency\":\"EUR\"}",
        "\"k1\"",
        "k1, k2",
        "sub",
    ]);
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        2 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        4 => telling.prop_map(Value::from),
        1 => "\\PC{0,20}".prop_map(Value::from),
        1 => "[\u{0}-\u{ff}]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            hash_map("[a-zA-Z\\-]{1,8}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The event with some of its members, at any depth, removed or replaced.
pub(crate) fn mutated(event: Value) -> impl Strategy<Value = Value> {
    let change = (any::<prop::sample::Index>(), prop::option::weighted(0.8, any_json()));
    vec(change, 1..4).prop_map(move |changes| {
        let mut event = event.clone();
        for (at, value) in changes {
            let members = members(&event);
            let Some(pointer) = (!members.is_empty()).then(|| at.get(&members)) else { continue };
            match (pointer.rsplit_once('/'), value) {
                (_, Some(value)) => *event.pointer_mut(pointer).expect("a member") = value,
                (Some((parent, name)), None) => {
                    if let Some(object) = event.pointer_mut(parent).and_then(Value::as_object_mut) {
                        object.remove(&name.replace("~1", "/").replace("~0", "~"));
                    }
                }
                (None, None) => {}
            }
        }
        event
    })
}

/// The JSON pointers of every member.
fn members(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect()
        }
        _ => vec![],
    };
    let below = |(name, child): (String, &Value)| {
        let deeper: Vec<_> = members(child).into_iter().map(|deeper| format!("/{name}{deeper}")).collect();
        std::iter::once(format!("/{name}")).chain(deeper).collect::<Vec<_>>()
    };
    children.into_iter().flat_map(below).collect()
}

/// This many inputs of a kind, or `PROPTEST_CASES` if it is set. A test prints its failing input,
/// which belongs in `kept.rs` once it is understood.
pub(crate) fn inputs<T: std::fmt::Debug>(
    usual: u32,
    of: &impl Strategy<Value = T>,
) -> impl Iterator<Item = T> {
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { Config::default().cases } else { usual };
    let mut runner = TestRunner::new(Config::default());
    (0..cases).map(move |_| of.new_tree(&mut runner).expect("an input").current())
}

/// An order for a batch or a request.
pub(crate) fn order(id: &str) -> Value {
    json!({ "orderId": id, "cents": 1000, "currency": "EUR" })
}
