//! Revisions of a message that code held and left as it was.

/// Between the revision of a content and how many times it was left. No id has it.
const LEFT: char = '~';

/// The revision of a message that was held and left: the content is the one of this revision, and a
/// late request of the hold is refused.
#[cfg(feature = "messages")]
pub(crate) fn left(revision: &str) -> String {
    let (content, times) = revision.split_once(LEFT).unwrap_or((revision, "0"));
    let times: u64 = times.parse().unwrap_or(0);
    format!("{content}{LEFT}{}", times.saturating_add(1))
}

/// Returns the part that all revisions of one content have in common.
pub(crate) fn content_of(revision: &str) -> &str {
    revision.split_once(LEFT).map_or(revision, |(content, _)| content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_that_it_is_left_it_has_another_revision_of_the_same_content() {
        let (once, twice) = (left("a-1"), left(&left("a-1")));
        assert_eq!((once.as_str(), twice.as_str()), ("a-1~1", "a-1~2"));
        assert!([once, twice, "a-1".to_owned()].iter().all(|it| content_of(it) == "a-1"));
        assert_ne!(content_of("a-2"), "a-1");
    }
}
