//! Properties of every key.

use proptest::prelude::*;

use super::*;
use crate::core::token::item::TokenItem;
use crate::corpus;

/// Parts that are hard to encode, and arbitrary text.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => r"[a-c/%@ 025F]{0,6}",
        2 => "[!-~ ]{0,40}",
        1 => "\\PC{0,12}",
        1 => any::<String>(),
        1 => "[/% ]{300,1100}",
    ]
}

/// A scope, an id, and the tenants that the key is put under, in this order.
type Parts = (String, String, Vec<String>);

fn parts() -> impl Strategy<Value = Parts> {
    let scope = prop_oneof![3 => "[a-c%@/25F]{1,6}", 1 => part()];
    (scope, part(), prop::collection::vec(part(), 0..3))
}

fn compose((scope, id, tenants): &Parts) -> Result<Key, InvalidArgument> {
    tenants.iter().try_fold(Key::new(scope, id)?, Key::tenant)
}

fn decode(text: &str) -> String {
    text.replace("%20", " ").replace("%2F", "/").replace("%25", "%")
}

/// Recovers the parts of a composed key, which proves that no two lists of parts make the same key.
fn taken_apart(key: &str) -> Option<Parts> {
    let mut tenants = Vec::new();
    let mut rest = key;
    while let Some(tenant) = rest.strip_prefix('@') {
        let (tenant, after) = tenant.split_once('/')?;
        tenants.insert(0, decode(tenant));
        rest = after;
    }
    let (scope, id) = rest.rsplit_once('/')?;
    Some((scope.to_owned(), decode(id), tenants))
}

fn says_what_to_do(error: &InvalidArgument) -> bool {
    let said = error.to_string();
    [
        "name what is to be done once",
        "use a digest",
        "encode or hash it first",
        "not a path such as order/create",
    ]
    .iter()
    .any(|advice| said.contains(advice))
}

fn is_sound(key: &Key) -> bool {
    let token = key.as_str();
    (1..=MAX_KEY_BYTES).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_graphic())
        && (1..=255).contains(&key.for_provider().len())
        && key.digest().len() == 8
}

/// `Debug`, which may be logged, does not show the text of the key.
fn is_silent(key: &Key) -> bool {
    let shown = format!("{key:?}");
    shown == format!("Key({}#{})", key.scope().unwrap_or_default(), digest_of(key.as_str()))
}

fn check_text(text: &str) -> Result<(), TestCaseError> {
    match Key::parse(text) {
        Ok(key) => {
            prop_assert_eq!(key.as_str(), text);
            prop_assert!(is_sound(&key) && is_silent(&key));
            prop_assert_eq!(&Key::stored(text.to_owned()), &key);
        }
        Err(error) => {
            prop_assert!(says_what_to_do(&error), "{}", error);
            let allowed =
                (1..=MAX_KEY_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
            prop_assert!(!allowed, "refused for no reason: {}", error);
        }
    }
    match Key::existing(text) {
        Ok(key) => {
            prop_assert_eq!(key.as_str(), text);
            prop_assert!(is_silent(&key) && key.for_provider().len() <= 255);
        }
        Err(error) => prop_assert!(text.is_empty() && says_what_to_do(&error)),
    }
    Ok(())
}

#[test]
fn the_kept_texts_are_keys_or_clear_errors() {
    for (name, bytes) in corpus::read("keys") {
        check_text(&String::from_utf8_lossy(&bytes)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

proptest! {
    #[test]
    fn every_text_is_a_key_or_a_clear_error(text in part()) {
        check_text(&text)?;
    }

    #[test]
    fn a_composed_key_tells_its_parts(parts in parts()) {
        match compose(&parts) {
            Ok(key) => {
                prop_assert!(is_sound(&key) && is_silent(&key));
                prop_assert_eq!(key.scope(), Some(parts.0.as_str()));
                // The last tenant comes first, where a policy matches it.
                let mut found = taken_apart(key.as_str()).expect("a composed key");
                prop_assert_eq!(std::mem::take(&mut found.2), parts.2.clone());
                prop_assert_eq!((found.0, found.1), (parts.0, parts.1));
            }
            Err(error) => prop_assert!(says_what_to_do(&error), "{}", error),
        }
    }

    #[test]
    fn different_parts_are_different_keys(one in parts(), other in parts()) {
        prop_assume!(one != other);
        if let (Ok(one), Ok(other)) = (compose(&one), compose(&other)) {
            prop_assert_ne!(one, other);
        }
    }

    #[test]
    fn a_tenant_reaches_no_key_of_another(one in part(), other in part(), mine in part(), theirs in part()) {
        prop_assume!(one != other);
        let keys = Key::parse(mine).and_then(|key| key.tenant(&one)).ok()
            .zip(Key::parse(theirs).and_then(|key| key.tenant(&other)).ok());
        if let Some((mine, theirs)) = keys {
            prop_assert_ne!(&mine, &theirs);
            let (prefix, _) = mine.as_str().split_once('/').expect("a tenant");
            let prefix = format!("{prefix}/");
            prop_assert!(!theirs.as_str().starts_with(&prefix), "a policy on {} matches it", prefix);
        }
    }

    #[test]
    fn no_key_is_that_of_an_answer(one in part(), other in part(), id in "[0-9a-f-]{0,36}") {
        if let (Ok(one), Ok(other)) = (Key::parse(one), Key::parse(other)) {
            let answer = TokenItem::Answer { token: one.as_str(), id: &id }.to_string();
            prop_assert_ne!(other.as_str(), &answer);
            // DynamoDB takes 2,048 bytes.
            prop_assert!(answer.len() <= 2048 && Key::parse(answer).is_err());
        }
    }
}
