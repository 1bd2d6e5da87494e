//! Seven scenarios, each a workflow to copy, a provider that keeps books, and a check of what is
//! left: nothing twice, nothing half, or quarantined and listed.
//!
//! [`Rig`] plays one under a [`Plan`] of faults. It uses the real library on the real SDK and an
//! engine in the same process; nothing depends on chance but its seed, so a play that leaves
//! something wrong can be played again.

mod books;
mod broker;
mod cases;
mod funding;
mod order;
mod payouts;
mod plan;
mod post;
mod provider;
mod purchase;
mod receiver;
mod rig;
mod room;
mod seats;
mod shipment;
mod shop;
mod sweep;
mod verify;
mod wire;
mod world;

pub use books::{Books, Call, Entry, EntryState, Said, Verb};
pub use broker::{broker, redrive};
pub use cases::{Answer, CASES, Case, completer};
pub use funding::{Contract, FundContract, Funding};
pub use order::{ChargeOrder, Order};
pub use payouts::{PayOut, Payouts};
pub use plan::{CALL_FATES, CallFate, Fault, Plan};
pub use provider::{Asked, Provider, Reply};
pub use purchase::{Buy, Cart, Purchase};
pub use receiver::{Told, reconcile, take};
pub use rig::{Played, Rig};
pub use room::{Reservation, ReserveRoom};
pub use seats::{BookSeat, Booking, Seat};
pub use shipment::{Parcel, Ship, Shipped};
pub use shop::{Rows, Shop, number, text};
pub use sweep::{Swept, random, singles, sweep};
pub use verify::{Left, in_view};
