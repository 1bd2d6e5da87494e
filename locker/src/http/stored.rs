//! Responses as they are stored: readable JSON where they are text, and identical when replayed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, response};
use serde::{Deserialize, Serialize};

use super::body::Whole;
use super::header::IDEMPOTENT_REPLAYED;
use super::problem::Problem;
use super::settings::{HttpSettings, is_replayable};

/// A stored response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredResponse {
    status: u16,
    #[serde(default)]
    headers: Vec<(String, Text)>,
    #[serde(default)]
    body: Text,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    trailers: Vec<(String, Text)>,
}

/// Bytes, stored as text if they are UTF-8 and as base64 otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Text {
    Plain(String),
    Base64 { base64: String },
}

impl Default for Text {
    fn default() -> Self {
        Self::Plain(String::new())
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Plain(text.to_owned()),
            Err(_) => Self::Base64 { base64: STANDARD.encode(bytes) },
        }
    }
}

impl Text {
    fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Plain(text) => Some(text.into_bytes()),
            Self::Base64 { base64 } => STANDARD.decode(base64).ok(),
        }
    }
}

impl StoredResponse {
    /// The stored form of a response. `None` if it has a trailer that is never stored.
    pub(super) fn of(parts: &response::Parts, whole: &Whole, settings: &HttpSettings) -> Option<Self> {
        let kept = parts.headers.iter().filter(|(name, _)| settings.keeps(name));
        let trailers = whole.trailers.iter().flatten();
        Some(Self {
            status: parts.status.as_u16(),
            headers: kept.map(stored).collect(),
            body: (&*whole.bytes).into(),
            // If a trailer such as a gRPC status were missing, the replay would be a different
            // response.
            trailers: trailers
                .map(|field| is_replayable(field.0).then(|| stored(field)))
                .collect::<Option<_>>()?,
        })
    }

    /// A problem that later requests get instead of the response.
    pub(super) fn of_problem(problem: &Problem) -> Self {
        let (parts, body) = problem.response::<String>().into_parts();
        Self {
            status: parts.status.as_u16(),
            headers: parts.headers.iter().map(stored).collect(),
            body: Text::Plain(body),
            trailers: Vec::new(),
        }
    }

    /// Rebuilds the response, marked as a replay. `None` if the stored value is not a response.
    pub(super) fn replay(self) -> Option<Response<Whole>> {
        let trailers = self.trailers.into_iter().map(field).collect::<Option<HeaderMap>>()?;
        let trailers = Some(trailers).filter(|trailers| !trailers.is_empty());
        let mut response = Response::new(Whole { bytes: self.body.into_bytes()?.into(), trailers });
        *response.status_mut() = StatusCode::from_u16(self.status).ok()?;
        for (name, value) in self.headers {
            let (name, value) = field((name, value))?;
            // An operator's response may have any header.
            if is_replayable(&name) {
                response.headers_mut().append(name, value);
            }
        }
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        Some(response)
    }
}

fn stored((name, value): (&HeaderName, &HeaderValue)) -> (String, Text) {
    (name.as_str().to_owned(), value.as_bytes().into())
}

fn field((name, value): (String, Text)) -> Option<(HeaderName, HeaderValue)> {
    let value = HeaderValue::from_bytes(&value.into_bytes()?).ok()?;
    Some((HeaderName::try_from(name).ok()?, value))
}
