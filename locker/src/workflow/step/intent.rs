//! How a step is to be compensated, as it is stored with its start.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::core::answer;
use crate::core::name;
use crate::core::private::Private;
use crate::core::workflow::step::Intent;
use crate::workflow::stop::StopKind;

/// The compensation that a step declares: a variant of an enum, stored as its name and its content.
pub(crate) fn intent(step: &str, undo: &impl Serialize, recognised: Duration) -> Result<Intent, StopKind> {
    let invalid = |why: &str| StopKind::invalid(step, format!("its compensation {why}"));
    let json = answer::to_json(undo).map_err(|error| invalid(&format!("is refused: {error}")))?;
    let Some((name, input)) = variant(&json) else {
        return Err(invalid("must be a variant of an enum, such as Undo::Refund { order }"));
    };
    name::check(&name).map_err(|error| StopKind::name(step, &error))?;
    // It is part of the record, so every write of the outcome pays for it.
    const MOST: usize = 4096;
    if input.len() > MOST {
        let why = format!("has {} bytes, {MOST} are allowed; pass a reference", input.len());
        return Err(invalid(&why));
    }
    Ok(Intent { name, input: Private(input), recognised: recognised.as_secs() })
}

/// The name and the content of a variant, as serde writes it by default.
fn variant(json: &str) -> Option<(String, String)> {
    if let Ok(name) = serde_json::from_str(json) {
        return Some((name, "null".to_owned()));
    }
    let mut variants = serde_json::from_str::<BTreeMap<String, &RawValue>>(json).ok()?.into_iter();
    let (name, content) = variants.next()?;
    variants.next().is_none().then(|| (name, content.get().to_owned()))
}
