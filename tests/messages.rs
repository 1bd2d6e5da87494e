//! Messages: sent at least once if their step was committed, in order for each subject, and never
//! lost without a word.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "workflow/bench.rs"]
#[allow(dead_code, reason = "shared with the tests of workflows")]
mod bench;

#[path = "messages/attributes.rs"]
mod attributes;
#[path = "messages/batches.rs"]
mod batches;
#[path = "messages/claim.rs"]
mod claim;
#[path = "messages/classes.rs"]
mod classes;
#[path = "messages/consumer/mod.rs"]
mod consumer;
#[path = "messages/corrected.rs"]
mod corrected;
#[path = "messages/crossed.rs"]
mod crossed;
#[path = "messages/dead_letters.rs"]
mod dead_letters;
#[path = "messages/delays.rs"]
mod delays;
#[path = "messages/edges.rs"]
mod edges;
#[path = "messages/expiry.rs"]
mod expiry;
#[path = "messages/fair.rs"]
mod fair;
#[path = "messages/faults.rs"]
mod faults;
#[path = "messages/flows.rs"]
mod flows;
#[path = "messages/gapless.rs"]
mod gapless;
#[path = "messages/gauge.rs"]
mod gauge;
#[path = "messages/identities.rs"]
mod identities;
#[path = "messages/in_time.rs"]
mod in_time;
#[path = "messages/inbox.rs"]
mod inbox;
#[path = "messages/inline.rs"]
mod inline;
#[path = "messages/lanes.rs"]
mod lanes;
#[path = "messages/late.rs"]
mod late;
#[path = "messages/operator.rs"]
mod operator;
#[path = "messages/order.rs"]
mod order;
#[path = "messages/outage.rs"]
mod outage;
#[path = "messages/outbox.rs"]
mod outbox;
#[path = "messages/pace.rs"]
mod pace;
#[path = "messages/plan.rs"]
mod plan;
#[path = "messages/plan_followed.rs"]
mod plan_followed;
#[path = "messages/plan_which.rs"]
mod plan_which;
#[path = "messages/post.rs"]
mod post;
#[path = "messages/price.rs"]
mod price;
#[path = "messages/refusals.rs"]
mod refusals;
#[path = "messages/relay.rs"]
mod relay;
#[path = "messages/remembered.rs"]
mod remembered;
#[path = "messages/replies.rs"]
mod replies;
#[path = "messages/rows.rs"]
mod rows;
#[path = "messages/rule.rs"]
mod rule;
#[path = "messages/rules/mod.rs"]
mod rules;
#[path = "messages/side_by_side.rs"]
mod side_by_side;
#[path = "messages/source.rs"]
mod source;
#[path = "messages/turns.rs"]
mod turns;
