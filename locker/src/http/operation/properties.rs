//! Properties of the token of every request.

use http::{Method, Request, Uri};
use proptest::prelude::*;

use super::*;

/// The caller, the method, the path, and the key of the header.
type Asked = (String, Method, Uri, String);

fn asked() -> impl Strategy<Value = Asked> {
    let method = prop::sample::select(vec![Method::POST, Method::PATCH]);
    let path = prop_oneof![
        4 => "(/(|a|b|%00|%2F|%|@|#|\\.\\.)){1,4}",
        1 => "/[!-~]{0,30}",
        1 => "/\\PC{0,10}",
    ];
    let path = path.prop_filter_map("no such address", |path| path.parse::<Uri>().ok());
    let identity = prop_oneof!["[ab/@%]{1,3}", "[ -~]{1,20}", "\\PC{0,6}"];
    let key = prop_oneof!["[ab/% ]{1,3}", "[ -~]{1,255}"];
    (identity, method, path, key)
}

fn key_for((identity, method, path, key): &Asked) -> Result<Key, WrongKey> {
    let request = Request::builder().method(method).uri(path).body(()).expect("a request");
    token_key(&Operation::method_and_path(), identity, &request.into_parts().0, key)
}

#[test]
fn an_empty_segment_equals_no_segment_of_another_path_and_every_path_has_a_key() {
    let key_for = |path: &str| {
        let uri = path.parse().expect("an address");
        key_for(&("alice".to_owned(), Method::POST, uri, "k1".to_owned())).expect("a key")
    };
    assert_ne!(key_for("/orders//7"), key_for("/orders/%00/7"));
    assert_eq!(key_for("/orders//7").as_str(), "@alice/POST/orders/<>/7/k1");
    assert_eq!(key_for("/caf\u{e9}").as_str(), "@alice/POST/caf%C3%A9/k1");
    for path in ["/orders/<>/7", "/<"] {
        assert!(path.parse::<Uri>().is_err(), "{path} is a path");
    }
}

/// Another spelling of a path: unreserved characters percent-encoded, and hexadecimal digits in
/// lower case.
fn respelt(path: &str, which: u64) -> String {
    let spelt = path.bytes().enumerate().map(|(at, byte)| match byte {
        b'a'..=b'z' | b'.' if which >> (at % 64) & 1 == 1 => format!("%{byte:02x}"),
        _ => char::from(byte).to_string(),
    });
    spelt.collect::<String>().replace("%2F", "%2f")
}

#[test]
fn a_percent_sign_without_digits_is_no_encoded_one() {
    let key_for = |path: &str| {
        let uri = path.parse().expect("an address");
        key_for(&("alice".to_owned(), Method::POST, uri, "k1".to_owned())).expect("a key").as_str().to_owned()
    };
    for (path, name) in [
        ("/%", "<%>"),
        ("/%4", "<%>4"),
        ("/%zz", "<%>zz"),
        ("/%+1", "<%>+1"),
        // A handler reads this as `%25`, and the next one as `%`.
        ("/%%32%35", "<%>25"),
        ("/%25", "%25"),
        ("/%2561", "%2561"),
        ("/%2e%2E", ".."),
        ("/%7e%2f%3c", "~%2F%3C"),
    ] {
        assert_eq!(key_for(path), format!("@alice/POST/{name}/k1"));
    }
}

proptest! {
    #[test]
    fn two_spellings_of_one_path_are_one_token(path in "(/(a|b|%00|%2F|@|\\.\\.)){1,4}", which in any::<u64>()) {
        let [one, other] = [path.clone(), respelt(&path, which)].map(|path| {
            let uri = path.parse().expect("an address");
            key_for(&("alice".to_owned(), Method::POST, uri, "k1".to_owned())).expect("a key")
        });
        prop_assert_eq!(one, other);
    }

    #[test]
    fn requests_share_a_token_only_if_caller_method_path_and_key_are_the_same(one in asked(), other in asked()) {
        let same = |one: &Asked, other: &Asked| {
            (&one.0, &one.1, one.2.path(), &one.3) == (&other.0, &other.1, other.2.path(), &other.3)
        };
        if let (Ok(first), Ok(second)) = (key_for(&one), key_for(&other)) {
            prop_assert_eq!(first == second, same(&one, &other), "{:?} {:?}", one, other);
            let operation = format!("http/{}", one.1);
            prop_assert_eq!(first.scope(), Some(operation.as_str()));
        }
    }

    #[test]
    fn another_path_is_another_token(paths in prop::array::uniform2("(/(|a|%00|%|@)){1,3}"), key in "[a-z]{1,3}") {
        let [one, other] = paths.clone().map(|path| {
            let uri = path.parse().expect("an address");
            key_for(&("alice".to_owned(), Method::POST, uri, key.clone())).expect("a key")
        });
        prop_assert_eq!(one == other, paths[0] == paths[1]);
    }
}
