//! The promises of the product, one file each. `docs/promises.md` says which is where.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod answers;
mod bad_input;
mod by_hand;
mod conflicts;
mod done_is_done;
mod http_header;
mod late_owner;
mod lost_replies;
mod metered;
mod nothing_vanishes;
mod one_winner;
mod price;
mod records_of_others;
mod same_request;
mod scanned;
mod stuck_is_visible;
mod taking_over;
mod waiting;
