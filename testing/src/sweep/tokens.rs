//! How long DynamoDB recognises a `ClientRequestToken`, by the clock of a play.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Map, Value};

const FIELD: &str = "ClientRequestToken";
/// DynamoDB recognises a token for this long after the success of its transaction.
const RECOGNISED: TimeDelta = TimeDelta::minutes(10);

/// The tokens of the transactions that have succeeded.
///
/// The engine measures the time by the clock of the machine. So a token that DynamoDB would have
/// forgotten is sent to the engine under another name.
#[derive(Debug, Default)]
pub(super) struct Tokens(HashMap<String, Use>);

/// A use of a token.
#[derive(Debug, Clone, Copy)]
struct Use {
    /// How often the token was forgotten before.
    forgotten: u32,
    since: DateTime<Utc>,
}

/// A token in a request.
#[derive(Debug)]
pub(super) struct Token {
    text: String,
    used: Use,
}

impl Tokens {
    /// Returns the token of a request, and the request for the engine.
    pub(super) fn at<'a>(&self, now: DateTime<Utc>, request: &'a [u8]) -> (Option<Token>, Cow<'a, [u8]>) {
        let unchanged = Cow::Borrowed(request);
        if !request.windows(FIELD.len()).any(|part| part == FIELD.as_bytes()) {
            return (None, unchanged);
        }
        let Ok(mut json) = serde_json::from_slice::<Map<String, Value>>(request) else {
            return (None, unchanged);
        };
        let Some(text) = json.get(FIELD).and_then(Value::as_str).map(str::to_owned) else {
            return (None, unchanged);
        };
        let used = match self.0.get(&text) {
            None => Use { forgotten: 0, since: now },
            Some(used) if now - used.since < RECOGNISED => *used,
            Some(used) => Use { forgotten: used.forgotten + 1, since: now },
        };
        let request = if used.forgotten == 0 {
            unchanged
        } else {
            json.insert(FIELD.to_owned(), Value::String(renamed(&text, used.forgotten)));
            Cow::Owned(Value::Object(json).to_string().into_bytes())
        };
        (Some(Token { text, used }), request)
    }

    /// Records that the transaction of a token has succeeded.
    pub(super) fn succeeded(&mut self, token: Token) {
        self.0.insert(token.text, token.used);
    }
}

/// A token has at most 36 characters.
fn renamed(text: &str, forgotten: u32) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}-{forgotten}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_recognised_for_ten_minutes_after_its_success() {
        let (mut tokens, start) = (Tokens::default(), DateTime::<Utc>::UNIX_EPOCH);
        let request = br#"{"ClientRequestToken":"order-7","TransactItems":[]}"#;
        let mut named_at = |seconds, succeeds| {
            let (token, sent) = tokens.at(start + TimeDelta::seconds(seconds), request);
            let named: Value = serde_json::from_slice(&sent).unwrap();
            if succeeds {
                tokens.succeeded(token.unwrap());
            }
            named[FIELD].as_str().unwrap().to_owned()
        };
        assert_eq!([named_at(0, false), named_at(900, true), named_at(1499, true)], ["order-7"; 3]);
        let second = named_at(1500, true);
        assert_ne!(second, "order-7");
        assert!(second.len() <= 36, "{second}");
        assert_eq!(named_at(2099, true), second);
        assert_ne!(named_at(2100, false), second);
        // A request without a token stays as it is.
        let (token, sent) = tokens.at(start, b"{}");
        assert!(token.is_none() && matches!(sent, Cow::Borrowed(b"{}")));
    }
}
