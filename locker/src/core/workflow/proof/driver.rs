//! A driver: it reads, decides by the rules, and writes one item at a time, as the async layer
//! does.

use std::time::Duration;

use super::sample::{EXPECTED, SKEW, result, step};
use super::world::{STEPS, Scene, World};
use crate::core::answer::{Body, Codec};
use crate::core::time;
use crate::core::workflow::compensation::{self, Compensated, Owed};
use crate::core::workflow::decide::Found;
use crate::core::workflow::header::{Claim, DriverAct, Events, HeaderEvent, Pause};
use crate::core::workflow::place::{Effect, Undo};
use crate::core::workflow::step::{
    Begin, Decision, End, Happened, HolderAct, NewStep, Outcome, Placed, RecordId, Report, Seen, StepEvent,
    StepKind, StepRecord, StepRefusal, StepState,
};

/// How often a driver may claim the workflow.
const CLAIMS: u8 = 2;

#[derive(Debug, Clone, Default)]
pub(super) struct Driver {
    claims: u8,
    at: At,
}

/// Where a driver is.
#[derive(Debug, Clone, Default)]
enum At {
    #[default]
    Out,
    /// About to run this step.
    Forward {
        attempt: String,
        next: usize,
    },
    /// Its start is written.
    Started {
        attempt: String,
        next: usize,
        record: StepRecord,
        doubt: bool,
    },
    /// The header was read after that; about to call the provider.
    Fenced {
        attempt: String,
        next: usize,
        record: StepRecord,
        doubt: bool,
    },
    /// It knows that the step happened.
    Heard {
        attempt: String,
        next: usize,
        record: StepRecord,
    },
    /// It got no reply, or a reply that nothing was done.
    Unheard {
        attempt: String,
        record: StepRecord,
        nothing: bool,
        doubt: bool,
    },
    Release {
        attempt: String,
        doubt: Option<String>,
    },
    /// About to read the effects to compensate.
    Backward {
        attempt: String,
    },
    Compensate {
        attempt: String,
        step: Placed,
        rest: Vec<Placed>,
        version: u32,
    },
    /// The compensation was begun.
    Begun {
        attempt: String,
        step: Placed,
        rest: Vec<Placed>,
        record: StepRecord,
        begun_for: StepState,
    },
    /// The compensation has this result, which is to be recorded.
    Came {
        attempt: String,
        step: Placed,
        rest: Vec<Placed>,
        record: StepRecord,
        begun_for: StepState,
        to: Compensated,
    },
    Mark {
        attempt: String,
        step: Placed,
        rest: Vec<Placed>,
        begun_for: StepState,
        to: Compensated,
    },
}

/// A step of a walk: its description, and the world after it or the rule that it breaks.
pub(super) type Next = Vec<(String, Result<World, String>)>;

impl World {
    /// Returns the possible steps of this driver. `tame`: only steps without faults.
    pub(super) fn drive(&self, scene: Scene, number: usize, tame: bool) -> Next {
        let driver = self.drivers[number].clone();
        let mut next = Next::new();
        let mut then = |what: &str, after: &dyn Fn(&mut Self) -> Result<At, String>| {
            let mut world = self.clone();
            let at = after(&mut world);
            let label = format!("driver {number} {what}");
            next.push((
                label,
                at.map(|at| {
                    world.drivers[number].at = at;
                    world
                }),
            ));
        };
        match driver.at {
            At::Out => {
                let claim = HeaderEvent::Claim(Claim {
                    name: self.header.name.clone(),
                    code: 1,
                    started: self.header.created,
                    owner: format!("machine {number}"),
                    is_named: false,
                    expected: None,
                    may_take: Duration::ZERO,
                    progressed: false,
                    most_crashes: None,
                    restored: None,
                });
                if (driver.claims < CLAIMS || tame) && self.clone().write_header(&claim) {
                    then("claims", &|world| {
                        world.write_header(&claim);
                        world.drivers[number].claims += u8::from(!tame);
                        let attempt = world.header.attempt.clone();
                        Ok(if world.header.is_forward() {
                            At::Forward { attempt, next: 0 }
                        } else {
                            At::Backward { attempt }
                        })
                    });
                }
            }
            At::Forward { attempt, next: step } => {
                then("goes on", &|world| world.forward(scene, attempt.clone(), step));
            }
            At::Started { attempt, next: step, record, doubt } => then("reads the header", &|world| {
                let (attempt, record) = (attempt.clone(), record.clone());
                if world.header.attempt == attempt {
                    return Ok(At::Fenced { attempt, next: step, record, doubt });
                }
                world.hold(&record, HolderAct::Withdraw { doubt })?;
                Ok(At::Out)
            }),
            At::Fenced { attempt, next: step, record, doubt } => {
                let key = key_of(&record);
                then("calls, and hears that it happened", &|world| {
                    world.provider.apply(&key, scene.recognises);
                    Ok(At::Heard { attempt: attempt.clone(), next: step, record: record.clone() })
                });
                if !tame {
                    then("calls, and hears nothing", &|world| {
                        world.provider.on_the_way.push(key.clone());
                        let (attempt, record) = (attempt.clone(), record.clone());
                        Ok(At::Unheard { attempt, record, nothing: false, doubt })
                    });
                    then("calls, and hears that nothing was done", &|_| {
                        let (attempt, record) = (attempt.clone(), record.clone());
                        Ok(At::Unheard { attempt, record, nothing: true, doubt })
                    });
                }
            }
            At::Heard { attempt, next: step, record } => then("records that it happened", &|world| {
                world.provider.reported.push(key_of(&record));
                world.report(scene, &record)?;
                Ok(At::Forward { attempt: attempt.clone(), next: step + 1 })
            }),
            At::Unheard { attempt, record, nothing, doubt } => then("gives up", &|world| {
                let act = if nothing && !doubt { HolderAct::Withdraw { doubt } } else { HolderAct::Leave };
                world.hold(&record, act)?;
                let in_doubt = (!nothing || doubt) && !scene.recognises;
                let doubt = in_doubt.then(|| record.id.item.clone());
                Ok(At::Release { attempt: attempt.clone(), doubt })
            }),
            At::Release { attempt, doubt } => then("releases the workflow", &|world| {
                let reason = "later".to_owned();
                let act = match &doubt {
                    Some(item) => DriverAct::Quarantine { reason, waits_for: Some(item.clone()) },
                    None => DriverAct::Release {
                        at: world.now(),
                        pause: Pause::Failed,
                        reason,
                        progressed: false,
                        failing_after: Duration::from_secs(3600),
                        waits: None,
                    },
                };
                world.write_header(&HeaderEvent::Driver {
                    attempt: attempt.clone(),
                    events: Events::default(),
                    act,
                });
                Ok(At::Out)
            }),
            At::Backward { attempt } => then("reads what to compensate", &|world| {
                let only_late = world.header.is_forward() || world.header.ended.is_some();
                let own = world.records.values().filter(|record| compensation::is_step(record));
                let placed = own.cloned().map(Placed::own).collect();
                let (steps, _) = compensation::to_compensate(placed, only_late);
                Ok(world.back(attempt.clone(), steps))
            }),
            At::Compensate { attempt, step, rest, version } => {
                then("compensates", &|world| world.owed(attempt.clone(), step.clone(), rest.clone(), version))
            }
            At::Begun { attempt, step, rest, record, begun_for } => then("asks for its money", &|world| {
                let to = world.provider.refund(&key_of(&step.record), &record.id.item);
                let (attempt, step, rest, record) =
                    (attempt.clone(), step.clone(), rest.clone(), record.clone());
                Ok(At::Came { attempt, step, rest, record, begun_for, to })
            }),
            At::Came { attempt, step, rest, record, begun_for, to } => {
                then("records its compensation", &|world| {
                    let text = if to == Compensated::Done { "done" } else { "nothing" };
                    let act = HolderAct::End {
                        end: End::Completed(result(text)),
                        doubt: false,
                        ttl: None,
                        by: "run-1".to_owned(),
                    };
                    world.hold(&record, act)?;
                    let (attempt, step, rest) = (attempt.clone(), step.clone(), rest.clone());
                    Ok(At::Mark { attempt, step, rest, begun_for, to })
                })
            }
            At::Mark { attempt, step, rest, begun_for, to } => then("marks it as compensated", &|world| {
                world.mark(attempt.clone(), step.clone(), rest.clone(), begun_for, to)
            }),
        }
        next
    }

    pub(super) fn write_header(&mut self, event: &HeaderEvent) -> bool {
        let stamp = self.stamp();
        let next = self.header.on(event, stamp);
        next.map(|next| self.header = next).is_ok()
    }

    fn forward(&mut self, scene: Scene, attempt: String, next: usize) -> Result<At, String> {
        let is_late = |record: &&StepRecord| record.state == StepState::Late;
        if next == 0 && self.records.values().any(|record| is_late(&record)) {
            return Ok(At::Backward { attempt });
        }
        let Some(name) = STEPS.get(next) else { return Ok(self.end(scene, attempt)) };
        let new = step(name, &attempt, u32::try_from(next).expect("few") + 1);
        let stamp = self.stamp();
        let due = time::after(stamp.now, EXPECTED);
        let how = Begin::Start { version: None, due, expired_at: stamp.now };
        let stored = self.records.get(&new.id.item).cloned();
        match StepRecord::begin(stored.as_ref(), &new, &how, stamp) {
            Ok(record) => {
                self.put(record.clone())?;
                Ok(At::Started { attempt, next, record, doubt: false })
            }
            Err(StepRefusal::Found(Found::Completed)) => Ok(At::Forward { attempt, next: next + 1 }),
            Err(StepRefusal::Found(Found::InDoubt)) => {
                let stored = stored.expect("it was found");
                if !scene.recognises {
                    return Ok(At::Release { attempt, doubt: Some(stored.id.item.clone()) });
                }
                let event = StepEvent::TakeOver { seen: stored.revision.clone(), new: Box::new(new), due };
                let stamp = self.stamp();
                let record = stored.on(&event, stamp).expect("it is in doubt");
                self.put(record.clone())?;
                Ok(At::Started { attempt, next, record, doubt: true })
            }
            Err(StepRefusal::Found(Found::Busy)) => Ok(At::Release { attempt, doubt: None }),
            Err(_) => Ok(self.fail(attempt)),
        }
    }

    fn end(&mut self, scene: Scene, attempt: String) -> At {
        if scene.fails {
            return self.fail(attempt);
        }
        let act = DriverAct::Complete { result: None, note: None };
        self.write_header(&HeaderEvent::Driver { attempt, events: Events::default(), act });
        At::Out
    }

    fn fail(&mut self, attempt: String) -> At {
        let result = Body::Beside { codec: Codec::Json, id: "failure".to_owned(), bytes: 1 };
        let act = DriverAct::Compensate { result, reason: "declined".to_owned() };
        if self.write_header(&HeaderEvent::Driver { attempt, events: Events::default(), act }) {
            return At::Backward { attempt: self.header.attempt.clone() };
        }
        At::Out
    }

    fn hold(&mut self, record: &StepRecord, act: HolderAct) -> Result<(), String> {
        let event = StepEvent::Holder { attempt: record.attempt.clone(), act };
        let stamp = self.stamp();
        let next = self.records.get(&record.id.item).and_then(|stored| stored.on(&event, stamp).ok());
        next.map_or(Ok(()), |next| self.put(next))
    }

    /// Records that a step happened, or reports it where the record does not accept it.
    fn report(&mut self, scene: Scene, record: &StepRecord) -> Result<(), String> {
        let act = HolderAct::End {
            end: End::Completed(result("paid")),
            doubt: false,
            ttl: None,
            by: "run-1".to_owned(),
        };
        let event = StepEvent::Holder { attempt: record.attempt.clone(), act };
        let stamp = self.stamp();
        let stored = self.records.get(&record.id.item).cloned();
        if let Some(next) = stored.as_ref().and_then(|stored| stored.on(&event, stamp).ok()) {
            return self.put(next);
        }
        let outcome = Outcome {
            version: record.key_version,
            is_version_named: true,
            happened: Happened::Yes(result("paid")),
            ended: self.now(),
            compensation: record.compensation.clone(),
            is_same_effect: scene.recognises,
            waits: false,
            is_unrecorded: false,
        };
        let place = NewStep { id: record.id.clone(), ..step("", &record.owner, record.number) };
        let report = Report { step: record.id.clone(), run: self.header.run_id(), place, outcome };
        let header = Some(self.header.clone());
        let mut seen = Seen { step: stored, reporter: header.clone(), answerer: header, beside: Vec::new() };
        let stamp = self.stamp();
        loop {
            match report.decide(&seen, &stamp) {
                Decision::Read(id) => {
                    let found = self.records.get(&id.item).cloned();
                    seen.beside.push((id, found));
                }
                Decision::Answer(_) => return Ok(()),
                // One transaction.
                Decision::Write { steps, headers, .. } => {
                    headers.into_iter().for_each(|(_, header)| self.header = header);
                    return steps.into_iter().try_for_each(|(_, step)| self.put(step));
                }
            }
        }
    }

    fn back(&mut self, attempt: String, mut steps: Vec<Placed>) -> At {
        if steps.is_empty() {
            if self.header.is_forward() && self.header.attempt == attempt {
                return At::Forward { attempt, next: usize::MAX };
            }
            self.write_header(&HeaderEvent::Driver {
                attempt,
                events: Events::default(),
                act: DriverAct::EndCompensated,
            });
            return At::Out;
        }
        let step = steps.remove(0);
        let version = step.record.key_version;
        At::Compensate { attempt, step, rest: steps, version }
    }

    fn owed(
        &mut self,
        attempt: String,
        mut step: Placed,
        rest: Vec<Placed>,
        version: u32,
    ) -> Result<At, String> {
        let first = id_of_compensation(&step, false);
        let begun = self.records.contains_key(&first.item);
        let begun_for = match compensation::owed(&step, "", version, begun, self.now(), SKEW) {
            Owed::Nothing => return Ok(self.back(attempt, rest)),
            Owed::Wait(_) => return Ok(At::Release { attempt, doubt: None }),
            Owed::Cancel => {
                let event = StepEvent::Cancel { seen: step.record.revision.clone(), anyway: false };
                self.change(&mut step, &event)?;
                return Ok(At::Compensate { attempt, step, rest, version });
            }
            Owed::Compensate | Owed::CompensateLate => step.record.state,
            Owed::EndFirst => StepState::Cancelled,
        };
        self.begin_compensation(attempt, step, rest, begun_for)
    }

    fn begin_compensation(
        &mut self,
        attempt: String,
        placed: Placed,
        rest: Vec<Placed>,
        begun_for: StepState,
    ) -> Result<At, String> {
        let late = begun_for == StepState::Late;
        let id = id_of_compensation(&placed, late);
        let new = NewStep { id, kind: StepKind::Compensation, compensation: None, ..step("", &attempt, 9) };
        let stamp = self.stamp();
        let due = time::after(stamp.now, EXPECTED);
        let how = Begin::Start { version: None, due, expired_at: stamp.now };
        let stored = self.records.get(&new.id.item).cloned();
        let record = match StepRecord::begin(stored.as_ref(), &new, &how, stamp) {
            Ok(record) => record,
            Err(StepRefusal::Found(Found::Completed)) => {
                let done = stored.as_ref().is_some_and(|stored| stored.result == Some(result("done")));
                let to = if done { Compensated::Done } else { Compensated::Nothing };
                return Ok(At::Mark { attempt, step: placed, rest, begun_for, to });
            }
            Err(StepRefusal::Found(Found::InDoubt)) => {
                let stored = stored.as_ref().expect("it was found");
                let event = StepEvent::TakeOver { seen: stored.revision.clone(), new: Box::new(new), due };
                let stamp = self.stamp();
                stored.on(&event, stamp).expect("it is in doubt")
            }
            Err(_) => return Ok(At::Release { attempt, doubt: None }),
        };
        self.put(record.clone())?;
        // The fence of a start.
        if self.header.attempt != attempt {
            self.hold(&record, HolderAct::Withdraw { doubt: stored.is_some() })?;
            return Ok(At::Out);
        }
        Ok(At::Begun { attempt, step: placed, rest, record, begun_for })
    }

    fn mark(
        &mut self,
        attempt: String,
        mut step: Placed,
        rest: Vec<Placed>,
        begun_for: StepState,
        to: Compensated,
    ) -> Result<At, String> {
        if !compensation::is_settled(begun_for, to) {
            if step.record.state != StepState::Late {
                return Ok(self.back(attempt, rest));
            }
            return self.begin_compensation(attempt, step, rest, StepState::Late);
        }
        let version = step.record.key_version;
        let event =
            StepEvent::Compensated { seen: step.record.revision.clone(), version: step.record.key_version };
        self.change(&mut step, &event)?;
        if step.record.state == StepState::Compensated {
            return Ok(self.back(attempt, rest));
        }
        Ok(At::Compensate { attempt, step, rest, version })
    }

    /// Writes the result of the event on the record. Then reads the stored record.
    fn change(&mut self, step: &mut Placed, event: &StepEvent) -> Result<(), String> {
        let stamp = self.stamp();
        let stored = self.records[&step.record.id.item].clone();
        if let Ok(next) = stored.on(event, stamp) {
            self.put(next)?;
        }
        step.record = self.records[&step.record.id.item].clone();
        Ok(())
    }
}

fn id_of_compensation(step: &Placed, late: bool) -> RecordId {
    let name = step.name();
    RecordId::compensation("order/7", Undo { effect: Effect { step: &name, version: 1 }, late })
}

/// Returns the key that the provider receives.
pub(super) fn key_of(record: &StepRecord) -> String {
    format!("{} {}", record.id.step_name(), record.key_version)
}
