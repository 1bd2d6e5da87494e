//! Making a plan: what fits is read, and what the act is possible for is planned.

use futures_util::stream::{self, StreamExt as _};

use super::act::Act;
use super::plan::{LeftOut, Plan, Planned};
use super::running::Bulk;
use crate::core::alike;
use crate::core::key::Key;
use crate::core::message::letter::MessageState;
use crate::core::token::work::Work;
use crate::error::Error;
use crate::operator::{Choice, Part, Verb, choices_of};
use crate::operator::{Filter, FindBuilder, Match};
use crate::session::Operator;
use crate::settings::InvalidSetting;

/// A record that fits, and what may be done about it.
enum Look {
    Possible(Planned),
    LeftOut(LeftOut),
}

impl Bulk {
    /// Make a plan, which changes nothing: find what fits, read each record, and say what the act would do to it.
    ///
    /// Only what [needs an operator](crate::operator::Need), or what an operator has answered, is planned: what is running, completed or waits by itself is
    /// left out, with its state as the reason. An act on messages is planned for those that are dead, or archived if they are to be restored, and for one that is
    /// [named](Filter::message) in whatever state it is; nothing else is searched.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] if the act makes no sense: nothing was read. Otherwise the same as [`FindBuilder::read`].
    ///
    /// # Cost
    ///
    /// Same as [`FindBuilder::read`], and 1 strongly consistent read for each record that fits, side by side.
    pub async fn plan(&self, filter: Filter, act: Act, operator: &Operator) -> Result<Plan, Error> {
        act.check().map_err(InvalidSetting::Act)?;
        let session = self.session().ok_or(InvalidSetting::Act("name the tables to act in"))?;
        let mut find = FindBuilder::new().filter(filter.clone()).limit(self.limit);
        find = self.tokens.iter().fold(find, FindBuilder::tokens);
        find = self.workflows.iter().fold(find, FindBuilder::workflows);
        find = states_for(act.verb, &filter).into_iter().fold(find, FindBuilder::only_messages);
        let found = find.read().await?;
        if let Some(error) = found.stopped_by {
            return Err(error);
        }
        let (id, made) = (session.new_id(), session.now());
        let mut plan = Plan {
            id: alike::id_of(&[&id]),
            made,
            act,
            by: operator.by().to_owned(),
            reason: operator.reason().to_owned(),
            filter,
            found: found.matches.len(),
            complete: found.finished,
            items: Vec::new(),
            left_out: Vec::new(),
        };
        // Its reason has to have room for the plan.
        Operator::new(plan.by.clone(), plan.stored_reason())?;
        let looks = stream::iter(found.matches).map(|it| self.look(it, &plan.act)).buffered(self.concurrency);
        let looks: Vec<_> = looks.collect().await;
        for look in looks {
            match look? {
                Look::Possible(planned) => plan.items.push(planned),
                Look::LeftOut(left_out) => plan.left_out.push(left_out),
            }
        }
        plan.items.sort_by_key(|it| it.since);
        Ok(plan)
    }

    async fn look(&self, it: Match, act: &Act) -> Result<Look, Error> {
        let left_out = |because: String| Look::LeftOut(LeftOut { work: it.work.clone(), because });
        let Some(part) = self.read(&it.work).await? else { return Ok(left_out("it is gone".to_owned())) };
        // A workflow may be compensated while it is well, which is a decision about that one. To cancel says so.
        if matches!(part, Part::Workflow(_)) && it.need.is_none() && act.verb != Verb::Cancel {
            return Ok(left_out(state_of(&part)));
        }
        let verb = if act.verb == Verb::Cancel { Verb::Compensate } else { act.verb };
        let fits = |choice: &&Choice| choice.verb == verb && choice.step == act.step;
        let choices = choices_of(&part, self.tokens.as_ref());
        Ok(match choices.iter().find(fits) {
            None => left_out(state_of(&part)),
            Some(choice) => Look::Possible(Planned {
                work: it.work,
                revision: choice.revision.clone(),
                since: it.since,
                cause: it.cause,
                effect: if act.verb == Verb::Cancel {
                    format!("{}, whatever it does meanwhile", choice.effect)
                } else if act.new_key {
                    "it did not happen: it runs again, and gives the provider another key".to_owned()
                } else {
                    choice.effect.clone()
                },
            }),
        })
    }

    /// The record as it is now.
    pub(super) async fn read(&self, work: &Work) -> Result<Option<Part>, Error> {
        Ok(match (work, &self.tokens, &self.workflows) {
            (Work::Token(key), Some(locker), _) => {
                let key = Key::existing(key.as_str())?;
                locker.get(key).await?.map(|record| Part::Token(Box::new(record)))
            }
            (Work::Workflow(key), _, Some(workflows)) => {
                workflows.get_listed(key).await?.map(|view| Part::Workflow(Box::new(view)))
            }
            (name @ Work::Message { .. }, _, Some(workflows)) => {
                workflows.message(name).await?.map(|message| Part::Message(Box::new(message)))
            }
            _ => None,
        })
    }
}

/// The states of the messages that a verb is for. `None`: it is for tokens or workflows.
fn states_for(verb: Verb, filter: &Filter) -> Option<Vec<MessageState>> {
    use MessageState::{Archived, Dead, Unsent, Waiting};
    match verb {
        _ if !verb.is_for_messages() => None,
        // Of one that is named, its state is told.
        _ if filter.is_for_one_message() => Some(vec![Dead, Waiting, Unsent, Archived]),
        Verb::Restore => Some(vec![Archived]),
        // Archived messages are in no "all": they are restored first, or named one by one.
        _ => Some(vec![Dead]),
    }
}

fn state_of(part: &Part) -> String {
    match part {
        Part::Token(record) => format!("it is {}", record.state().as_str()),
        Part::Message(message) => format!("it is {}", message.state().as_str()),
        Part::Workflow(view) => {
            let listed = view.listed().map_or("", |list| list.as_str());
            format!("it is {}, in the list {listed}", view.state().as_str())
        }
    }
}
