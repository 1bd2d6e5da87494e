//! The promises of the product, one file each. `docs/promises.md` says which is where.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod answers;
mod attributes_of_others;
mod bad_input;
mod bare_refusals;
mod beside;
mod by_hand;
mod conflicts;
mod done_is_done;
mod doubt;
mod handed_on;
#[path = "http/mod.rs"]
mod http_layer;
mod late_owner;
mod lost_replies;
mod metered;
mod nothing_vanishes;
mod one_winner;
mod operators;
mod price;
mod records_of_others;
mod redacted;
mod released_key;
mod remembered;
mod restored;
mod same_request;
mod scanned;
mod storm_of_doubt;
mod stuck_is_visible;
mod taking_over;
mod unlisted;
mod values;
mod waiting;
