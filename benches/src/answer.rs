//! Answers like those of an orders API: JSON of a given size, the same in every run.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

/// An answer: the lines of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    id: String,
    article: String,
    quantity: u32,
    cents: u64,
    currency: String,
}

/// An answer of about this many bytes of JSON.
#[must_use]
pub fn of_size(bytes: usize) -> Answer {
    const ARTICLES: [&str; 4] = ["espresso cup", "moka pot", "coffee, 1 kg", "filter paper"];
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut answer = Answer { lines: Vec::new() };
    let mut size = 0;
    while size < bytes {
        let line = Line {
            id: format!("{:016x}{:016x}", next(), next()),
            article: ARTICLES[usize::try_from(next() % 4).expect("small")].to_owned(),
            quantity: u32::try_from(next() % 9 + 1).expect("small"),
            cents: next() % 100_000,
            currency: "EUR".to_owned(),
        };
        size += to_json(&line).len() + 1;
        answer.lines.push(line);
    }
    answer
}

/// The JSON of an answer.
#[must_use]
pub fn to_json<T: Serialize>(answer: &T) -> String {
    serde_json::to_string(answer).expect("JSON")
}

/// Compresses a text as the library does.
#[must_use]
pub fn gzip(json: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(json.len() / 2), Compression::new(5));
    encoder.write_all(json.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

/// Unpacks a compressed text.
#[must_use]
pub fn gunzip(packed: &[u8]) -> String {
    let mut json = String::new();
    GzDecoder::new(packed).read_to_string(&mut json).expect("gzip");
    json
}
