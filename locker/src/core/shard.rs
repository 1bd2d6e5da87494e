//! Spreading `inProgress` and `error` over partitions of the index.
//!
//! A partition of an index takes about 1,000 writes a second, and a token costs it two: one when it
//! enters and one when it leaves. So one value of `status` carries about 500 tokens a second.

use sha2::{Digest, Sha256};

pub(crate) const IN_PROGRESS: &str = "inProgress";
/// Work in progress that no listing asks for. Conditions compare only the beginning, so it is
/// `inProgress` to them.
pub(crate) const UNLISTED: &str = "inProgressUnlisted";
pub(crate) const ERROR: &str = "error";
/// Audit records of operators, which are not unfinished work: only their own listing asks for them.
pub(crate) const AUDIT: &str = "audit";

/// The value of `status` for a token, such as `inProgress`, or `inProgress_3` with several shards.
pub(crate) fn status(base: &str, token: &str, shards: u16) -> String {
    if shards <= 1 {
        return base.to_owned();
    }
    let digest = Sha256::digest(token.as_bytes());
    let number = u64::from_be_bytes([
        digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6], digest[7],
    ]);
    format!("{base}_{}", number % u64::from(shards))
}

/// Every value of `status` that a listing has to query. The bare value is always included, so that
/// raising the number of shards hides no token.
pub(crate) fn all(base: &str, shards: u16) -> Vec<String> {
    let numbered = if shards > 1 { shards } else { 0 };
    std::iter::once(base.to_owned()).chain((0..numbered).map(|shard| format!("{base}_{shard}"))).collect()
}

/// The same for several values.
pub(crate) fn all_of<'a>(bases: impl IntoIterator<Item = &'a str>, shards: u16) -> Vec<String> {
    bases.into_iter().flat_map(|base| all(base, shards)).collect()
}

/// One of this many shards. `chance`: from 0 to 1.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "at most a thousand shards"
)]
pub(crate) fn any(shards: usize, chance: f64) -> usize {
    let number = (chance * shards as f64) as usize;
    number.min(shards.saturating_sub(1))
}

/// Which state a stored `status` names.
pub(crate) fn base_of(status: &str) -> Option<&'static str> {
    [IN_PROGRESS, UNLISTED, ERROR].into_iter().find(|base| is_of(status, base))
}

/// Whether a stored `status` has this base, with or without a shard suffix.
pub(crate) fn is_of(status: &str, base: &str) -> bool {
    match status.strip_prefix(base) {
        Some("") => true,
        // Exact, since a listing queries no other value.
        Some(rest) => rest
            .strip_prefix('_')
            .is_some_and(|shard| shard.parse::<u16>().is_ok_and(|number| number.to_string() == shard)),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_shard_has_no_suffix() {
        assert_eq!(status(IN_PROGRESS, "order/create/1", 1), "inProgress");
        assert_eq!(all(ERROR, 1), ["error"]);
    }

    #[test]
    fn a_token_keeps_its_shard_for_ever() {
        // Pinned: a change of the hash would hide stored tokens from the scanner.
        assert_eq!(status(IN_PROGRESS, "order/create/1", 8), "inProgress_5");
        assert_eq!(status(ERROR, "order/create/1", 8), "error_5");
    }

    #[test]
    fn every_shard_is_listed_and_known() {
        assert_eq!(all(IN_PROGRESS, 3), ["inProgress", "inProgress_0", "inProgress_1", "inProgress_2"]);
        assert_eq!(all_of([ERROR, AUDIT], 2), ["error", "error_0", "error_1", "audit", "audit_0", "audit_1"]);
        for token in 0..200 {
            let status = status(IN_PROGRESS, &token.to_string(), 3);
            assert!(all(IN_PROGRESS, 3).contains(&status));
            assert_eq!(base_of(&status), Some(IN_PROGRESS));
        }
    }

    #[test]
    fn each_shard_is_drawn_and_no_other() {
        let drawn = (0..=100).map(|percent| any(4, f64::from(percent) / 100.0));
        assert_eq!(drawn.collect::<std::collections::BTreeSet<_>>(), [0, 1, 2, 3].into());
    }

    #[test]
    fn an_unlisted_token_is_in_progress_to_every_condition_and_in_no_listing() {
        assert!(UNLISTED.starts_with(IN_PROGRESS));
        for shards in [1, 3] {
            let status = status(UNLISTED, "order/create/1", shards);
            assert_eq!(base_of(&status), Some(UNLISTED));
            assert!(!all(IN_PROGRESS, shards).contains(&status));
        }
    }

    #[test]
    fn other_statuses_are_not_ours() {
        for status in [
            "COMPLETED",
            "INPROGRESS",
            "inProgressing",
            "inProgress_x",
            "inProgress_+3",
            "error_007",
            "error_",
            "",
        ] {
            assert_eq!(base_of(status), None, "{status}");
        }
    }
}
