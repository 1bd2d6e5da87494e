//! Where a plan has come to: two that come to the same place need not both go on.
//!
//! A place is the tables, the requests that are late, the clock, the provider's books, what was
//! told, and of each living actor everything that it asked and heard, and when. An actor does the
//! same again if it hears the same, so nothing else can matter, and nothing is assumed of what the
//! library keeps in memory. What one that died or ended has heard matters no more: there most plans
//! meet. Ids are numbered anew in the order in which they appear, but for those of the living.

use locker::Clock as _;
use std::fmt::Write as _;
use std::hash::Hasher as _;

use super::super::been::numbered;
use super::super::ids::of_any_plan;
use super::super::memory::TABLE;
use super::play::{Progress, WORKFLOWS};
use super::world::{Life, World};

pub(super) fn place(world: &World, progress: &Progress) -> String {
    let mut place = String::with_capacity(16_384);
    for table in [WORKFLOWS, TABLE] {
        for row in world.memory.rows(table) {
            write!(place, "{row}").expect("a string");
        }
    }
    for (actor, late) in &world.late {
        write!(place, "late {actor} {late}").expect("a string");
    }
    let (books, told, now) = (&world.books, &world.told, world.clock.now().timestamp_millis());
    write!(place, "{books:?} {:?} {told:?} {now} {progress:?}", world.post).expect("a string");
    for (number, actor) in world.actors.iter().enumerate() {
        write!(place, "{:?}", actor.life).expect("a string");
        if actor.life == Life::Alive {
            write!(place, "{} {:?}", actor.history.finish(), actor.outage.is_some()).expect("a string");
            place = place.replace(&format!("attempt-{number}-"), &format!("living-{number}-"));
        }
    }
    numbered(&of_any_plan(&place, world.plan))
}
