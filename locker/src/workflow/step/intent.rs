//! How a step is to be compensated, as it is stored with its start.

use std::time::Duration;

use serde::Serialize;

use crate::core::answer;
use crate::core::name;
use crate::core::private::Private;
use crate::core::workflow::step::Intent;
use crate::workflow::stop::Stop;

pub(crate) fn intent(name: String, input: &impl Serialize, recognised: Duration) -> Result<Intent, Stop> {
    name::check(&name).map_err(|error| Stop::name(&name, &error))?;
    let refused = |error| Stop::invalid(&name, format!("the input of its compensation is refused: {error}"));
    let input = answer::to_json(input).map_err(refused)?;
    // It is part of the record, so every write of the outcome pays for it.
    const MOST: usize = 4096;
    if input.len() > MOST {
        let reason = format!(
            "the input of its compensation has {} bytes, {MOST} are allowed; pass a reference",
            input.len()
        );
        return Err(Stop::invalid(&name, reason));
    }
    Ok(Intent { name, input: Private(input), recognised: recognised.as_secs() })
}
