//! A workflow as a person sees it.

use chrono::{DateTime, Utc};

use super::adopt::result_json;
use super::workflows::Workflows;
use crate::core::answer::AnswerError;
use crate::core::key::{IntoKey, Key};
use crate::core::record::Intervention;
use crate::core::workflow::header::{Header, Listed, WorkflowState};
use crate::core::workflow::name;
use crate::core::workflow::record::{RecordId, StepKind, StepRecord, StepState};
use crate::error::Error;
use crate::store::workflow;

/// A workflow and its steps, as they were read. What a person does to it depends on it being still so.
#[derive(Clone)]
pub struct WorkflowView {
    pub(crate) header: Header,
    pub(crate) steps: Vec<StepView>,
    pub(crate) messages: Vec<Message>,
    pub(crate) result: Option<String>,
}

/// A step as it was read.
#[derive(Debug, Clone)]
pub struct StepView {
    /// As this workflow names it.
    pub(crate) name: String,
    pub(crate) record: StepRecord,
}

/// A message that was committed with a step.
#[derive(Clone)]
pub struct Message {
    pub(crate) stored: workflow::Message,
}

impl Workflows {
    /// Read a workflow and its steps, as of now. `None`: there is none of that key and version.
    ///
    /// # Errors
    ///
    /// [`Error::Key`], [`Error::Record`] if a stored item cannot be read, [`Error::Denied`],
    /// [`Error::Unavailable`].
    ///
    /// # Cost
    ///
    /// 1 query, 1 read unit for each 4 KB; 1 request for its answer, and for each step with a key of its own.
    pub async fn get(&self, key: impl IntoKey, key_version: u32) -> Result<Option<WorkflowView>, Error> {
        let key = key.into_key()?;
        self.view(&name::partition(&key, key_version)).await
    }

    /// The same for a workflow as a listing names it.
    ///
    /// # Errors
    ///
    /// As of [`get`](Self::get).
    pub async fn get_listed(&self, workflow: &str) -> Result<Option<WorkflowView>, Error> {
        self.view(workflow).await
    }

    async fn view(&self, workflow: &str) -> Result<Option<WorkflowView>, Error> {
        let all = Box::pin(self.store().read_workflow(workflow, self.until(None))).await?;
        let Some(header) = all.header else { return Ok(None) };
        let mut steps = Vec::with_capacity(all.records.len());
        for record in all.records {
            let name = name_of(&record.id.item);
            let record = match record.points_to.as_deref().map(RecordId::shared) {
                Some(shared) => self.shared(record, &shared).await?,
                None => record,
            };
            steps.push(StepView { name, record });
        }
        steps.sort_by_key(|step| step.record.number);
        let result = match self.result(&header, None).await {
            // It is being forgotten, and its header comes last.
            Err(Error::Answer(AnswerError::Missing)) if header.state == WorkflowState::Reaping => None,
            result => result?,
        };
        let messages = all.messages.into_iter().map(|stored| Message { stored }).collect();
        Ok(Some(WorkflowView { header, steps, messages, result }))
    }

    /// The record of a step with a key of its own, under the step's name here.
    async fn shared(&self, pointer: StepRecord, shared: &RecordId) -> Result<StepRecord, Error> {
        let found = Box::pin(self.store().read_record(shared, self.until(None))).await?;
        let Some(found) = found else { return Ok(pointer) };
        Ok(StepRecord { number: pointer.number, undo: pointer.undo, pivot: pointer.pivot, ..found })
    }

    /// Say that a message was sent: it is deleted. Saying so twice is harmless.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Unavailable`], [`Error::Unknown`]: say it again.
    ///
    /// # Cost
    ///
    /// 1 request and 1 write unit for each KB of the message.
    pub async fn sent(&self, message: &Message) -> Result<(), Error> {
        let RecordId { workflow, item } = &message.stored.id;
        let guard = workflow::Guard::None;
        let until = self.until(None);
        Box::pin(self.store().delete_item("forget the message", workflow, item, guard, until)).await?;
        Ok(())
    }
}

fn name_of(item: &str) -> String {
    match item.split_once('/') {
        Some(("step", name)) => name.to_owned(),
        Some((prefix, name)) => format!("{prefix}:{name}"),
        None => item.to_owned(),
    }
}

// Inputs, results and messages may be private.
impl std::fmt::Debug for WorkflowView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkflowView")
            .field("name", &self.name())
            .field("state", &self.state())
            .field("reason", &self.reason())
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message").field("topic", &self.topic()).finish_non_exhaustive()
    }
}

impl WorkflowView {
    /// The key, without its version.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::stored(self.header.workflow.split(' ').next().unwrap_or_default().to_owned())
    }

    /// The version of the key.
    #[must_use]
    pub const fn key_version(&self) -> u32 {
        self.header.key_version
    }

    /// Which code drives it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.header.name
    }

    /// How far it is.
    #[must_use]
    pub const fn state(&self) -> WorkflowState {
        self.header.state
    }

    /// Where it is listed. `None`: finished, and kept for ever.
    #[must_use]
    pub const fn listed(&self) -> Option<Listed> {
        self.header.listed
    }

    /// Why it waits, or why it is in quarantine.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.header.reason.as_deref()
    }

    /// Who drives it.
    #[must_use]
    pub fn locked_by(&self) -> Option<&str> {
        self.header.locked_by.as_deref()
    }

    /// How often somebody began to drive it since a person last looked.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.header.attempts
    }

    /// When it was started.
    #[must_use]
    pub const fn created(&self) -> DateTime<Utc> {
        self.header.created
    }

    /// When it may be driven, or forgotten.
    #[must_use]
    pub const fn due(&self) -> DateTime<Utc> {
        self.header.next_due
    }

    /// When it ended.
    #[must_use]
    pub const fn ended(&self) -> Option<DateTime<Utc>> {
        self.header.ended
    }

    /// The answer or the first failure, as JSON text.
    #[must_use]
    pub fn result(&self) -> Option<&str> {
        self.result.as_deref()
    }

    /// Who acted on it last, and why.
    #[must_use]
    pub const fn intervention(&self) -> Option<&Intervention> {
        self.header.intervention.as_ref()
    }

    /// Its steps and their undoings, in the order in which they started.
    #[must_use]
    pub fn steps(&self) -> &[StepView] {
        &self.steps
    }

    /// Messages that were committed and not yet reported as sent.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub(super) fn step(&self, name: &str) -> Option<&StepView> {
        self.steps.iter().find(|step| step.name() == name)
    }
}

impl StepView {
    /// Its name; `undo:` and the name for the undoing of a step, `undo-late:` for that of a late outcome.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// What kind of step it is.
    #[must_use]
    pub const fn kind(&self) -> StepKind {
        self.record.kind
    }

    /// How far it is.
    #[must_use]
    pub const fn state(&self) -> StepState {
        self.record.state
    }

    /// When it started.
    #[must_use]
    pub const fn started(&self) -> DateTime<Utc> {
        self.record.created
    }

    /// When it ended.
    #[must_use]
    pub const fn ended(&self) -> Option<DateTime<Utc>> {
        self.record.ended
    }

    /// The version of its key.
    #[must_use]
    pub fn key_version(&self) -> u32 {
        self.record.key_version.max(1)
    }

    /// How it is undone.
    #[must_use]
    pub fn undo(&self) -> Option<&str> {
        self.record.undo.as_ref().map(|undo| undo.name.as_str())
    }

    /// Whether there is no way back behind it.
    #[must_use]
    pub const fn is_pivot(&self) -> bool {
        self.record.pivot
    }

    /// Its result or failure, as JSON text.
    #[must_use]
    pub fn result(&self) -> Option<String> {
        result_json(&self.record).ok()
    }

    /// Who acted on it, and why.
    #[must_use]
    pub const fn intervention(&self) -> Option<&Intervention> {
        self.record.intervention.as_ref()
    }
}

impl Message {
    /// Where it goes.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.stored.topic
    }

    /// What it says, as JSON text.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.stored.body
    }

    /// The same for ever, so that a receiver can recognise it: the workflow, the step and a number. (Also where the
    /// workflow was forgotten and started anew under the same key.)
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}", self.stored.id.workflow, self.stored.id.item)
    }

    /// When it was committed.
    #[must_use]
    pub const fn created(&self) -> DateTime<Utc> {
        self.stored.created
    }
}
