//! The identity of an event: two events under one name may be the same event.

use crate::core::answer::Encoded;
use crate::core::token::record::digest_of;

/// The id that the sender gave the event, if any, and the value of the event.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) id: Option<String>,
    pub(crate) value: Encoded,
}

impl Identity {
    /// Returns whether both are the same event.
    ///
    /// If both have ids, the ids decide. Otherwise the values decide. The relation is not
    /// transitive: an event without an id equals two events that have the same value and different
    /// ids. So an event is compared with the main event of its name first.
    pub(crate) fn same(&self, other: &Self) -> bool {
        match (&self.id, &other.id) {
            (Some(id), Some(other)) => id == other,
            _ => self.value.comparable() == other.value.comparable(),
        }
    }

    /// Returns the part of a sort key that distinguishes surplus events of one name.
    ///
    /// Two concurrent signals of the same event have the same sort key, so the second signal finds
    /// the event of the first.
    pub(crate) fn digest(&self) -> String {
        match &self.id {
            Some(id) => digest_of(format!("id {id}").as_bytes()),
            None => digest_of(&self.value.comparable()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Option<&str>, json: &str) -> Identity {
        Identity { id: id.map(str::to_owned), value: Encoded::plain(json.to_owned()) }
    }

    #[test]
    fn ids_decide_if_both_have_one_and_otherwise_the_values() {
        let kinds = [None, Some("1"), Some("2")].map(|id| ["1", "2"].map(|json| event(id, json)));
        let kinds = kinds.as_flattened();
        let rows = kinds.iter().map(|stored| {
            let cells = kinds.iter().map(|arriving| if stored.same(arriving) { 's' } else { 'o' });
            cells.collect::<String>()
        });
        // Columns and rows: no id, id 1, id 2, each with the value 1 and the value 2.
        let table = ["sososo", "ososos", "sossoo", "osssoo", "soooss", "osooss"];
        assert_eq!(rows.collect::<Vec<String>>(), table);
    }

    #[test]
    fn order_of_members_and_spaces_is_no_difference() {
        let [one, other] = [r#"{"a":1,"b":2}"#, r#"{ "b": 2, "a": 1 }"#].map(|json| event(None, json));
        assert!(one.same(&other));
        assert_eq!(one.digest(), other.digest());
    }

    #[test]
    fn ids_and_values_have_digests_of_their_own() {
        assert_eq!(event(Some("1"), "1").digest(), event(Some("1"), "2").digest());
        assert_ne!(event(Some("1"), "1").digest(), event(Some("2"), "1").digest());
        assert_ne!(event(Some("1"), "1").digest(), event(None, "1").digest());
    }
}
