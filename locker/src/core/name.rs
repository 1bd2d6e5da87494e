//! Names of workflows and of their steps, and the keys composed of them.

#![cfg_attr(not(feature = "workflow"), allow(dead_code, reason = "only workflows use all of it"))]

use std::sync::Arc;

use crate::core::key::Key;

/// Longest name of a workflow or a step, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 200;

/// Why a name was refused. Nothing was sent; correct the name and call again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidName {
    /// The name is empty or too long.
    #[error(
        "a name must have 1 to {MAX_NAME_BYTES} bytes, this one has {bytes}; name what the step does, such as charge"
    )]
    Length {
        /// Bytes given.
        bytes: usize,
    },
    /// The name has a prefix that is reserved for compensations or events.
    #[error(
        "a name cannot start with compensation:, compensation-late: or event:, which are reserved for \
         compensations and events"
    )]
    Reserved,
    /// The id of a name that was composed of a text and an id.
    #[error("the name ends with #, so its id is empty; give each step an id of its own, such as fund#7")]
    EmptyId,
    /// A name in code that contains the sign between the parts of a path.
    #[error(
        "the name has a : at byte {at}, which separates a branch of a map from its steps; leave it out, such as \
         fund-charge"
    )]
    Path {
        /// Its position, in bytes from 0.
        at: usize,
    },
    /// A character that names do not allow.
    #[error(
        "the name has {what} at byte {at}; names are printable ASCII without space, / and ~, such as fund#7"
    )]
    Character {
        /// The kind of character found.
        what: &'static str,
        /// Its position, in bytes from 0.
        at: usize,
    },
}

/// Begins the names of events that operators see.
pub(crate) const EVENT_PREFIX: &str = "event:";

/// Between the name of a branch of a map and the names of its steps. A shell passes it on, so that
/// the path of a step can be pasted into a command.
const BRANCH: char = ':';

/// Checks the name that code gives to a step, in this branch, and the path that they make.
pub(crate) fn check_in(branch: &Branch, name: &str) -> Result<(), InvalidName> {
    check(name)?;
    if let Some(at) = name.find(BRANCH) {
        return Err(InvalidName::Path { at });
    }
    check(&branch.path(name))
}

/// A branch of a map, or of the maps that are in each other. Its steps are at paths such as
/// `fund#7:charge`. Default: no branch, where the path of a step is its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Branch(Option<Arc<str>>);

impl Branch {
    /// The branch with this id of a map with this name, which is in this branch.
    pub(crate) fn of_map(&self, map: &str, id: &str) -> Result<Self, InvalidName> {
        let path = self.path(&with_id(map, id));
        check(&path)?;
        // A step of the branch has a name of at least one byte.
        match path.len() + 2 {
            bytes if bytes > MAX_NAME_BYTES => Err(InvalidName::Length { bytes }),
            _ => Ok(Self(Some(format!("{path}{BRANCH}").into()))),
        }
    }

    /// The branch of a map with this name that a step with this path is in.
    pub(crate) fn of_map_with(&self, map: &str, path: &str) -> Option<Self> {
        let id = self.name(path)?.strip_prefix(map)?.strip_prefix('#')?;
        let end = path.len() - id.len() + id.find(BRANCH)? + BRANCH.len_utf8();
        Some(Self(Some(path.get(..end)?.into())))
    }

    /// The path of a step of this branch.
    pub(crate) fn path(&self, name: &str) -> String {
        match &self.0 {
            Some(prefix) => format!("{prefix}{name}"),
            None => name.to_owned(),
        }
    }

    /// The name in a path. `None`: it is the path of another branch.
    pub(crate) fn name<'a>(&self, path: &'a str) -> Option<&'a str> {
        match &self.0 {
            Some(prefix) => path.strip_prefix(&**prefix),
            None => Some(path),
        }
    }
}

/// Checks a name, or the path of a step. `/` and `~` separate the parts of keys.
pub(crate) fn check(name: &str) -> Result<(), InvalidName> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(InvalidName::Length { bytes: name.len() });
    }
    if ["compensation:", "compensation-late:", EVENT_PREFIX].iter().any(|prefix| name.starts_with(prefix)) {
        return Err(InvalidName::Reserved);
    }
    for (at, character) in name.char_indices() {
        let what = match character {
            '/' => "a /",
            '~' => "a ~",
            ' ' => "a space",
            '!'..='~' => continue,
            _ if character.is_control() => "a control character",
            _ => "a character outside ASCII",
        };
        return Err(InvalidName::Character { what, at });
    }
    if name.ends_with('#') {
        return Err(InvalidName::EmptyId);
    }
    Ok(())
}

/// Composes a name from a text and an id. No two ids have the same name: characters that a name
/// does not allow are percent-encoded, as are `%`, `#` and `:`.
pub(crate) fn with_id(text: &str, id: &str) -> String {
    let mut name = format!("{text}#");
    for byte in id.bytes() {
        if byte.is_ascii_graphic() && !b"/~%#:".contains(&byte) {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    name
}

/// The partition of a workflow. Keys have no space, so no version of one key is another key.
pub(crate) fn partition(key: &Key, version: u32) -> String {
    if version <= 1 { key.as_str().to_owned() } else { format!("{} v{version}", key.as_str()) }
}

/// The idempotency key for a provider: one for each workflow, step and version of either.
///
/// Keys and names have no space, and names have no `~`. So no two are equal, and none equals the
/// key of a step that has its own.
pub(crate) fn provider_key(key: &Key, version: u32, step: &str, step_version: u32) -> String {
    let base = format!("{} {step}", key.as_str());
    let whole =
        if version <= 1 && step_version <= 1 { base } else { format!("{base} ~v{version}.{step_version}") };
    Key::stored(whole).for_provider()
}

/// The idempotency key of a step that has its own key: the same as for a lock token with that key.
pub(crate) fn shared_provider_key(key: &Key, version: u32) -> String {
    let whole = if version <= 1 { key.as_str().to_owned() } else { format!("{} ~v{version}", key.as_str()) };
    Key::stored(whole).for_provider()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_names_say_what_to_do() {
        for (name, text) in [
            ("", "a name must have 1 to 200 bytes, this one has 0; name what the step does, such as charge"),
            (
                "fund/7",
                "the name has a / at byte 4; names are printable ASCII without space, / and ~, such as fund#7",
            ),
            (
                "prüfen",
                "the name has a character outside ASCII at byte 2; names are printable ASCII without space, / and ~, such as fund#7",
            ),
        ] {
            assert_eq!(check(name).unwrap_err().to_string(), text);
        }
        assert!(check(&"x".repeat(201)).is_err());
        assert_eq!(check("compensation:a"), Err(InvalidName::Reserved));
        assert!(check("fund#7").is_ok());
    }

    #[test]
    fn ids_of_any_text_have_names_of_their_own() {
        for (id, name) in [("7", "fund#7"), ("a b/c", "fund#a%20b%2Fc"), ("ü~#%:", "fund#%C3%BC%7E%23%25%3A")]
        {
            assert_eq!(with_id("fund", id), name);
            assert_eq!(check(name), Ok(()));
        }
        assert_eq!(check(&with_id("fund", "")), Err(InvalidName::EmptyId));
        assert_eq!(check(&with_id("fund", &"ü".repeat(40))), Err(InvalidName::Length { bytes: 245 }));
    }

    #[test]
    fn steps_of_a_branch_have_paths_of_their_own() {
        let none = Branch::default();
        let fund = none.of_map("fund", "a:b").unwrap();
        let leg = fund.of_map("leg", "2").unwrap();
        for (branch, path) in
            [(&none, "charge"), (&fund, "fund#a%3Ab:charge"), (&leg, "fund#a%3Ab:leg#2:charge")]
        {
            assert_eq!((branch.path("charge").as_str(), branch.name(path)), (path, Some("charge")));
            assert_eq!(check_in(branch, "charge"), Ok(()));
            assert_eq!(check_in(branch, "a:b"), Err(InvalidName::Path { at: 1 }));
            assert_eq!(check_in(branch, ""), Err(InvalidName::Length { bytes: 0 }));
        }
        assert_eq!(none.of_map_with("fund", "fund#a%3Ab:leg#2:charge"), Some(fund.clone()));
        assert_eq!(fund.of_map_with("leg", "fund#a%3Ab:leg#2:charge"), Some(leg.clone()));
        for path in ["fund#1", "funds#1:charge", "fund#1:leg#2:charge"] {
            assert_eq!(fund.of_map_with("leg", path), None);
        }
        assert_eq!([leg.name("fund#a%3Ab:charge"), fund.name("charge")], [None, None]);
        assert_eq!(check_in(&fund, &"x".repeat(200)), Err(InvalidName::Length { bytes: 211 }));
        assert_eq!(none.of_map("fund", ""), Err(InvalidName::EmptyId));
        assert!(none.of_map("fund", &"x".repeat(193)).is_ok());
        assert_eq!(none.of_map("fund", &"x".repeat(194)), Err(InvalidName::Length { bytes: 201 }));
    }

    #[test]
    fn no_two_steps_share_a_provider_key() {
        let plain = Key::parse("a/b").unwrap();
        let posing = Key::parse("a/b~v1.2").unwrap();
        let keys = [
            provider_key(&plain, 1, "c", 1),
            provider_key(&plain, 1, "c", 2),
            provider_key(&plain, 2, "c", 1),
            provider_key(&posing, 1, "c", 1),
            provider_key(&Key::parse("a").unwrap(), 1, "c", 1),
            shared_provider_key(&Key::parse("a/b/c").unwrap(), 1),
            shared_provider_key(&Key::parse("a/b").unwrap(), 2),
            shared_provider_key(&Key::parse("a/b~v2").unwrap(), 1),
        ];
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len(), "{keys:?}");
        assert_ne!(partition(&plain, 2), partition(&Key::parse("a/b~v2").unwrap(), 1));
    }
    #[test]
    fn bounds_and_characters_of_a_name_are_checked() {
        assert_eq!([1, 200].map(|bytes| check(&"x".repeat(bytes))), [Ok(()), Ok(())]);
        assert_eq!(check(&"x".repeat(201)), Err(InvalidName::Length { bytes: 201 }));
        assert_eq!(check("compensation-late:a"), Err(InvalidName::Reserved));
        assert_eq!(check("event:paid"), Err(InvalidName::Reserved));
        assert!(["compensation", "event", "events:a"].into_iter().all(|name| check(name).is_ok()));
        for (name, what) in [
            ("a/b", "a /"),
            ("a~b", "a ~"),
            ("a b", "a space"),
            ("a\tb", "a control character"),
            ("aäb", "a character outside ASCII"),
        ] {
            assert_eq!(check(name), Err(InvalidName::Character { what, at: 1 }));
        }
    }

    #[test]
    fn first_version_adds_nothing_to_a_key() {
        let key = Key::parse("a/b").unwrap();
        assert_eq!([0, 1, 2].map(|version| partition(&key, version)), ["a/b", "a/b", "a/b v2"]);
        let shared = [0, 1, 2].map(|version| shared_provider_key(&key, version));
        assert_eq!(shared, ["a/b", "a/b", "a/b ~v2"]);
        let step = |version, of_step| provider_key(&key, version, "c", of_step);
        assert_eq!([step(1, 1), step(0, 0)], ["a/b c", "a/b c"]);
        assert_eq!([step(1, 2), step(2, 1)], ["a/b c ~v1.2", "a/b c ~v2.1"]);
    }
}
