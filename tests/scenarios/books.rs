//! The provider's books: what really happened outside, as recorded by the provider.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// An operation of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verb {
    /// Open an account.
    Open,
    /// Make pending entries in a ledger.
    Fund,
    /// Post pending entries. Posting what is posted is harmless.
    Post,
    /// Archive the pending entries of a reference, now or when they arrive. Posted entries stay.
    Archive,
    /// Take money.
    Charge,
    /// Refund a charge. Each call is one more refund.
    Refund,
    /// Refund the charges of a reference once, and refuse later ones.
    Cancel,
    /// Validate an address.
    Validate,
    /// Print labels.
    Label,
    /// Void the labels of a reference, and refuse later ones.
    Void,
    /// Create an order.
    Create,
    /// Look up the last charge of a reference.
    FindCharge,
    /// Look up the refund of a reference.
    FindRefund,
    /// Take a message, of a broker. It keeps every copy.
    Tell,
}

/// A request to a provider.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// The operation.
    pub verb: Verb,
    /// The caller's reference: an order, a funding, a seat.
    pub about: String,
    /// The account, card, wallet or address.
    pub account: String,
    /// Cents.
    pub amount: i64,
    /// The idempotency key.
    pub key: Option<String>,
    /// The event, of a message.
    #[serde(default)]
    pub event: Option<String>,
    /// Refused if it arrives later than this, in milliseconds since 1970.
    pub valid_until: Option<i64>,
}

/// The answer of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// Done: the provider's id for it, or the result of a lookup.
    Done(String),
    /// Refused permanently.
    Refused(String),
    /// It arrived too late. Nothing was done.
    Expired,
}

/// The state of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the words of the provider")]
pub enum EntryState {
    Pending,
    Posted,
    Archived,
    Done,
    Reversed,
}

/// One entry in the books.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as asked for in the call")]
pub struct Entry {
    pub id: String,
    pub verb: Verb,
    pub about: String,
    pub account: String,
    pub amount: i64,
    pub state: EntryState,
}

/// The books of one provider.
#[derive(Debug, Default)]
pub struct Books {
    /// How long it recognises an idempotency key. `None`: not at all.
    pub recognises_for: Option<Duration>,
    /// All entries, in order.
    pub entries: Vec<Entry>,
    /// The events that the broker took, with copies, in order.
    pub told: Vec<String>,
    /// The balances of cards and wallets.
    pub balances: HashMap<String, i64>,
    keys: HashMap<String, (DateTime<Utc>, Said)>,
    closed: HashSet<String>,
}

impl Books {
    /// Books of a provider that recognises keys for this long, if at all.
    #[must_use]
    pub fn new(recognises_for: Option<Duration>) -> Self {
        Self { recognises_for, ..Self::default() }
    }

    /// Note money that came by itself, such as a transfer.
    pub(super) fn receive(&mut self, about: &str, amount: i64) {
        let (id, account) = (format!("op-{}", self.entries.len() + 1), about.to_owned());
        *self.balances.entry(account.clone()).or_default() -= amount;
        let (verb, state) = (Verb::Charge, EntryState::Done);
        self.entries.push(Entry { id, verb, about: about.to_owned(), account, amount, state });
    }

    /// Apply a call, once for each key.
    pub fn apply(&mut self, call: &Call, now: DateTime<Utc>) -> Said {
        if call.valid_until.is_some_and(|until| until < now.timestamp_millis()) {
            return Said::Expired;
        }
        if let Some(said) = self.known(call, now) {
            return said;
        }
        let said = self.act(call);
        self.remember(call, &said, now);
        said
    }

    /// Refuse a call, unless its key is recognised as done.
    pub fn refuse(&mut self, call: &Call, why: &str, now: DateTime<Utc>) -> Said {
        let said = self.known(call, now).unwrap_or_else(|| Said::Refused(why.to_owned()));
        self.remember(call, &said, now);
        said
    }

    fn known(&self, call: &Call, now: DateTime<Utc>) -> Option<Said> {
        let window = chrono::TimeDelta::from_std(self.recognises_for?).ok()?;
        let (at, said) = self.keys.get(call.key.as_ref()?)?;
        (now - *at < window).then(|| said.clone())
    }

    fn remember(&mut self, call: &Call, said: &Said, now: DateTime<Utc>) {
        if let Some(key) = &call.key {
            self.keys.insert(key.clone(), (now, said.clone()));
        }
    }

    fn act(&mut self, call: &Call) -> Said {
        let Call { verb, about, account, amount, .. } = call;
        if *verb == Verb::Tell {
            self.told.extend(call.event.clone());
            return Said::Done("taken".to_owned());
        }
        let refused = |why: &str| Said::Refused(why.to_owned());
        match verb {
            Verb::Open | Verb::Validate if account.is_empty() => return refused("the name is missing"),
            Verb::Fund | Verb::Charge | Verb::Label if self.closed.contains(about) => {
                return refused("it was cancelled before it came");
            }
            Verb::Fund | Verb::Charge => {
                let balance = self.balances.entry(account.clone()).or_default();
                if *balance < *amount {
                    return refused("insufficient funds");
                }
                *balance -= amount;
            }
            Verb::Refund => *self.balances.entry(account.clone()).or_default() += amount,
            Verb::Validate => return Said::Done("valid".to_owned()),
            Verb::Post => return self.post(about),
            Verb::Archive | Verb::Cancel | Verb::Void => return self.reverse(about),
            Verb::FindCharge => return self.find(Verb::Charge, about),
            Verb::FindRefund => return self.find(Verb::Refund, about),
            Verb::Open | Verb::Label | Verb::Create | Verb::Tell => {}
        }
        let state = if *verb == Verb::Fund { EntryState::Pending } else { EntryState::Done };
        let id = format!("{}-{}", if *verb == Verb::Fund { "le" } else { "op" }, self.entries.len() + 1);
        let entry = Entry {
            id: id.clone(),
            verb: *verb,
            about: about.clone(),
            account: account.clone(),
            amount: *amount,
            state,
        };
        self.entries.push(entry);
        Said::Done(id)
    }

    fn post(&mut self, id: &str) -> Said {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) else {
            return Said::Refused("there is no such entry".to_owned());
        };
        match entry.state {
            EntryState::Pending | EntryState::Posted => {
                entry.state = EntryState::Posted;
                Said::Done(id.to_owned())
            }
            _ => Said::Refused("the entry is archived".to_owned()),
        }
    }

    /// Archive, refund or void the entries of a reference, and close it.
    fn reverse(&mut self, about: &str) -> Said {
        self.closed.insert(about.to_owned());
        let mut posted = false;
        for entry in self.entries.iter_mut().filter(|entry| entry.about == about) {
            entry.state = match entry.state {
                EntryState::Pending => EntryState::Archived,
                EntryState::Done => EntryState::Reversed,
                EntryState::Posted => {
                    posted = true;
                    continue;
                }
                EntryState::Archived | EntryState::Reversed => continue,
            };
            *self.balances.entry(entry.account.clone()).or_default() += entry.amount;
        }
        Said::Done(if posted { "posted" } else { "reversed" }.to_owned())
    }

    fn find(&self, verb: Verb, about: &str) -> Said {
        let found = self.of(verb, about).last().map(|entry| entry.id.clone());
        Said::Done(found.unwrap_or_default())
    }

    /// The entries of a reference.
    pub fn of<'a>(&'a self, verb: Verb, about: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.verb == verb && entry.about == about)
    }

    /// The number of entries of a reference that still stand.
    #[must_use]
    pub fn standing(&self, verb: Verb, about: &str) -> usize {
        let stands = |entry: &&Entry| !matches!(entry.state, EntryState::Archived | EntryState::Reversed);
        self.of(verb, about).filter(stands).count()
    }
}
