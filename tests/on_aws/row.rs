//! A row of the report, as a line of JSON for `tests/on_aws/report.py`.

use serde_json::json;

/// A row of the report.
#[derive(Debug)]
pub(crate) struct Row {
    name: String,
    expected: String,
    seen: String,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), expected: String::new(), seen: String::new() }
    }

    pub(crate) fn expected(self, expected: impl Into<String>) -> Self {
        Self { expected: expected.into(), ..self }
    }

    pub(crate) fn seen(self, seen: impl Into<String>) -> Self {
        Self { seen: seen.into(), ..self }
    }

    /// Prints the row, with whether the seen values are as expected.
    pub(crate) fn is(self, ok: bool) {
        self.print(if ok { "ok" } else { "wrong" });
    }

    /// Prints a row that Moto cannot show.
    pub(crate) fn not_on_moto(self) {
        self.print("not on Moto");
    }

    /// Prints a row that is neither right nor wrong.
    pub(crate) fn not_judged(self) {
        self.print("not judged");
    }

    fn print(self, state: &str) {
        let row = json!({ "row": self.name, "expected": self.expected, "seen": self.seen, "state": state });
        println!("{row}");
    }
}
