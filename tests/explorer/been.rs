//! Where plans have been: two that come to the same place need not both go on.
//!
//! A place is everything that what follows depends on: the table, the requests that are late, the
//! clock, and for each client how far its program is, what its present call has learned of its
//! exchanges and when, and the request that it wants to send. Nothing else can matter, because the
//! library keeps nothing between two calls but what its caller holds, and within one no more than
//! whether a request may have been applied. Ids are numbered anew in the order in which they
//! appear.
//!
//! Should that ever cease to be so, a walk without merging (`--every-plan`) still sees it, to a
//! smaller depth.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use super::ids::ID_BYTES;
use super::world::{Asked, Kind, World};

/// The places where the plans of a scenario have been, and how far each could go on from there.
#[derive(Debug, Default)]
pub struct Been(HashMap<u64, usize>);

impl Been {
    /// Whether no plan was here with as much left to vary.
    pub(super) fn is_first(&mut self, place: &str, left: usize) -> bool {
        let mut hasher = DefaultHasher::new();
        place.hash(&mut hasher);
        match self.0.entry(hasher.finish()) {
            Entry::Vacant(entry) => {
                entry.insert(left);
                true
            }
            Entry::Occupied(mut entry) if *entry.get() < left => {
                entry.insert(left);
                true
            }
            Entry::Occupied(_) => false,
        }
    }
}

pub(super) fn place(world: &World, lives: [usize; 2], jumped: bool) -> String {
    let mut place = String::with_capacity(4096);
    let token = world.token().map(|token| without_sizes(token.item));
    let answers: BTreeSet<_> = world.answers.iter().collect();
    let parts = (token, lives, jumped, world.now(), world.effects.len(), answers);
    write!(place, "{parts:?}").expect("a string");
    for key in &world.beside {
        write!(place, "{key} {}", world.memory.item(key).is_some()).expect("a string");
    }
    for late in &world.late {
        write!(place, "late {} {}", late.client, in_short(late)).expect("a string");
    }
    for (number, client) in world.clients.iter().enumerate() {
        let wrote = [Kind::Begin, Kind::Finish, Kind::Release, Kind::Doubt, Kind::GiveBack, Kind::Extend]
            .map(|kind| world.wrote(number, kind));
        let parked = client.parked.as_ref().map(in_short);
        let parts = (
            client.at,
            client.answered,
            &client.in_call,
            world.elapsed(number),
            &client.attempt,
            wrote,
            parked,
        );
        write!(place, "{parts:?} {}", world.may_have_written(number)).expect("a string");
    }
    numbered(&place.replace(&world.key, "the token"))
}

/// A request, without the bytes of an answer that is different for each attempt.
fn in_short(asked: &Asked) -> String {
    let mut body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    if asked.kind == Kind::Beside {
        body = body["Item"]["lockToken"].take();
    } else if let Some(values) = body["ExpressionAttributeValues"].as_object_mut() {
        values.remove(":bytes");
    }
    format!("{} {} {:?} {body}", asked.operation, asked.attempt, asked.kind)
}

fn without_sizes(mut item: Value) -> Value {
    if let Some(item) = item.as_object_mut() {
        item.remove("resultBytes");
    }
    item
}

/// Number the ids in the order in which they appear.
pub(super) fn numbered(place: &str) -> String {
    let mut numbered = String::with_capacity(place.len());
    let mut ids: Vec<&str> = Vec::new();
    let mut rest = place;
    while let Some(at) = rest.find("attempt-") {
        let (before, from) = rest.split_at(at);
        let (id, after) = from.split_at(ID_BYTES.min(from.len()));
        let number = ids.iter().position(|known| *known == id).unwrap_or_else(|| {
            ids.push(id);
            ids.len() - 1
        });
        write!(numbered, "{before}<{number}>").expect("a string");
        rest = after;
    }
    numbered.push_str(rest);
    numbered
}
