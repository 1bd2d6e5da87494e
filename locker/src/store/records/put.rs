//! Conditional puts and deletes of whole items. Each write has its own revision, by which a write
//! whose reply was lost is recognised.

#![cfg_attr(
    not(feature = "messages"),
    allow(dead_code, reason = "only relay, inbox and dead letters use all of it")
)]

use crate::core::retry::Tries;
use crate::error::Error;
use crate::store::expression::{Change, Guard, Request};
use crate::store::item::{Item, item_key};
use crate::store::schema::attribute as a;
use crate::store::{Store, Until, Written};

impl Store {
    /// Puts an item. `item` makes the same item for each try, so that the first try needs no copy.
    /// `revision`: the revision of the item, if it has one.
    ///
    /// It is not generic: all kinds of items share the machine code of one write, which fits into
    /// a processor's cache.
    pub(crate) async fn put_item(
        &self,
        verb: &'static str,
        item: &(dyn Fn() -> Item + Sync),
        revision: Option<&str>,
        guard: Guard<'_>,
        until: Until,
    ) -> Result<Written<Option<Item>>, Error> {
        self.put_or_delete(verb, &|| Request::guarded(Change::Put(item()), guard), revision, until).await
    }

    /// Deletes an item.
    pub(crate) async fn delete_item(
        &self,
        verb: &'static str,
        workflow: &str,
        item: &str,
        guard: Guard<'_>,
        until: Until,
    ) -> Result<Written<Option<Item>>, Error> {
        let request = || Request::guarded(Change::Delete { key: item_key(workflow, item) }, guard);
        self.put_or_delete(verb, &request, None, until).await
    }

    /// A write whose reply was lost is known by its revision.
    async fn put_or_delete(
        &self,
        verb: &'static str,
        request: &(dyn Fn() -> Request + Sync),
        revision: Option<&str>,
        until: Until,
    ) -> Result<Written<Option<Item>>, Error> {
        let mut tries = Tries::default();
        let item = match self.apply(verb, request, &mut tries, until).await? {
            Written::Done => return Ok(Written::Done),
            Written::Refused { found, .. } => found,
        };
        let stored = item.as_ref().and_then(|item| item.get(a::REVISION)?.as_s().ok());
        // A deletion was applied and its reply was lost, so the next request finds no item. Without
        // a lost reply, another writer has deleted the item, perhaps after a change.
        let gone_as_asked = item.is_none() && revision.is_none() && tries.silent;
        if gone_as_asked || (revision.is_some() && stored.map(String::as_str) == revision) {
            return Ok(Written::Done);
        }
        Ok(Written::Refused { found: item, after_silence: tries.silent })
    }
}
