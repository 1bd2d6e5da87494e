//! Promises of workflows: once-only steps that outlive their driver, resumed, compensated, or
//! quarantined.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "workflow/after_the_return.rs"]
mod after_the_return;
#[path = "workflow/approvals.rs"]
mod approvals;
#[path = "workflow/asked.rs"]
mod asked;
#[path = "workflow/atomic.rs"]
mod atomic;
#[path = "workflow/attacked.rs"]
mod attacked;
#[path = "workflow/attacked_30.rs"]
mod attacked_30;
#[path = "workflow/audited.rs"]
mod audited;
#[path = "workflow/bench.rs"]
mod bench;
#[path = "workflow/by_hand.rs"]
mod by_hand;
#[path = "workflow/by_time.rs"]
mod by_time;
#[path = "workflow/changed.rs"]
mod changed;
#[path = "workflow/closed_again.rs"]
mod closed_again;
#[path = "workflow/code_errors.rs"]
mod code_errors;
#[path = "workflow/compensate.rs"]
mod compensate;
#[path = "workflow/completer.rs"]
mod completer;
#[path = "workflow/continued.rs"]
mod continued;
#[path = "workflow/corrected.rs"]
mod corrected;
#[path = "workflow/deleted.rs"]
mod deleted;
#[path = "workflow/eight.rs"]
mod eight;
#[path = "workflow/eight_swept.rs"]
mod eight_swept;
#[path = "workflow/end_of_time.rs"]
mod end_of_time;
#[path = "workflow/endings.rs"]
mod endings;
#[path = "workflow/events.rs"]
mod events;
#[path = "workflow/events_acts.rs"]
mod events_acts;
#[path = "workflow/events_late.rs"]
mod events_late;
#[path = "workflow/events_races.rs"]
mod events_races;
#[path = "workflow/exhausted.rs"]
mod exhausted;
#[path = "workflow/fair.rs"]
mod fair;
#[path = "workflow/faults.rs"]
mod faults;
#[path = "workflow/first_and_later.rs"]
mod first_and_later;
#[path = "workflow/former_life.rs"]
mod former_life;
#[path = "workflow/former_versions.rs"]
mod former_versions;
#[path = "workflow/gauges.rs"]
mod gauges;
#[path = "workflow/header_size.rs"]
mod header_size;
#[path = "workflow/in_doubt.rs"]
mod in_doubt;
#[path = "workflow/input.rs"]
mod input;
#[path = "workflow/inside_a_step.rs"]
mod inside_a_step;
#[path = "workflow/interleavings.rs"]
mod interleavings;
#[path = "workflow/large_results.rs"]
mod large_results;
#[path = "workflow/last_chance.rs"]
mod last_chance;
#[path = "workflow/layouts.rs"]
mod layouts;
#[path = "workflow/left_behind.rs"]
mod left_behind;
#[path = "workflow/lost_drivers.rs"]
mod lost_drivers;
#[path = "workflow/lost_progress.rs"]
mod lost_progress;
#[path = "workflow/map.rs"]
mod map;
#[path = "workflow/nested_key.rs"]
mod nested_key;
#[path = "workflow/odd_types.rs"]
mod odd_types;
#[path = "workflow/odd_ways.rs"]
mod odd_ways;
#[path = "workflow/owners.rs"]
mod owners;
#[path = "workflow/pauses.rs"]
mod pauses;
#[path = "workflow/plan.rs"]
mod plan;
#[path = "workflow/plan_acts.rs"]
mod plan_acts;
#[path = "workflow/plan_bounds.rs"]
mod plan_bounds;
#[path = "workflow/plan_changed.rs"]
mod plan_changed;
#[path = "workflow/plan_filter.rs"]
mod plan_filter;
#[path = "workflow/plan_workflows.rs"]
mod plan_workflows;
#[path = "workflow/polling.rs"]
mod polling;
#[path = "workflow/price.rs"]
mod price;
#[path = "workflow/private.rs"]
mod private;
#[path = "workflow/reaper.rs"]
mod reaper;
#[path = "workflow/reaper_at_once.rs"]
mod reaper_at_once;
#[path = "workflow/redacted.rs"]
mod redacted;
#[path = "workflow/refused.rs"]
mod refused;
#[path = "workflow/renamed.rs"]
mod renamed;
#[path = "workflow/reported.rs"]
mod reported;
#[path = "workflow/reported_after.rs"]
mod reported_after;
#[path = "workflow/reported_between.rs"]
mod reported_between;
#[path = "workflow/reported_equal.rs"]
mod reported_equal;
#[path = "workflow/request.rs"]
mod request;
#[path = "workflow/restored.rs"]
mod restored;
#[path = "workflow/resume.rs"]
mod resume;
#[path = "workflow/retry.rs"]
mod retry;
#[path = "workflow/reused_versions.rs"]
mod reused_versions;
#[path = "workflow/rule.rs"]
mod rule;
#[path = "workflow/seat_and_wallet.rs"]
mod seat_and_wallet;
#[path = "workflow/seat_by_event.rs"]
mod seat_by_event;
#[path = "workflow/shared.rs"]
mod shared;
#[path = "workflow/status.rs"]
mod status;
#[path = "workflow/status_bounds.rs"]
mod status_bounds;
#[path = "workflow/ten.rs"]
mod ten;
#[path = "workflow/time_is_up.rs"]
mod time_is_up;
#[path = "workflow/time_left.rs"]
mod time_left;
#[path = "workflow/timeline.rs"]
mod timeline;
#[path = "workflow/timers.rs"]
mod timers;
#[path = "workflow/unread_lists.rs"]
mod unread_lists;
#[path = "workflow/values.rs"]
mod values;
#[path = "workflow/versions.rs"]
mod versions;
#[path = "workflow/waits.rs"]
mod waits;
#[path = "workflow/zombie.rs"]
mod zombie;
