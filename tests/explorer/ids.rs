//! Ids of a client that are the same in each plan, but for the number of the plan.

use lock_token_testing::NumberedIds;

/// The length of an id.
pub(super) const ID_BYTES: usize = "attempt-0-0000000000000000".len();

/// How many ids a plan has at most.
const OF_A_PLAN: u64 = 1_000_000;

/// The ids of one client.
pub(super) fn ids_of(client: usize) -> NumberedIds {
    NumberedIds::new(format!("attempt-{client}"))
}

/// Begin anew, for another plan. The engine remembers the ids of transactions, so no two plans have
/// the same.
pub(super) fn begin(ids: &NumberedIds, plan: u64) {
    ids.count_from(plan * OF_A_PLAN);
}

/// The same text, as if it were of the first plan.
pub(super) fn of_any_plan(text: &str, plan: u64) -> String {
    text.replace(&format!("-{plan:010}"), "-0000000000")
}
