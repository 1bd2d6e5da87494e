//! The promises of the product, one file each. `docs/promises.md` says which is where.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod one_winner;
