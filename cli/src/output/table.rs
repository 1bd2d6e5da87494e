//! Tables that fit the terminal.

use std::io::IsTerminal as _;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use textwrap::Options;
use textwrap::core::display_width;

use super::filter::plain;
use super::text::Text;

/// The narrowest last column that is still read with ease.
const NARROW: usize = 24;
/// Between two columns, and before the details of a record.
const GAP: u16 = 2;

/// A table without lines, so that other programs can cut it. On a terminal it is as wide as the
/// terminal at most. Cells go through the filter.
pub(crate) fn table<const N: usize>(
    header: Option<[&str; N]>,
    rows: impl IntoIterator<Item = [String; N]>,
) -> Text {
    let rows: Vec<_> = rows.into_iter().map(|row| row.map(|cell| plain(&cell))).collect();
    Text::filtered(fitted(header, &rows, width()))
}

/// The width of the terminal, or the value of `COLUMNS`. `None`: standard output is not a terminal.
fn width() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let is = || terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
    said.or_else(is).filter(|width| *width > 0)
}

fn fitted<const N: usize>(header: Option<[&str; N]>, rows: &[[String; N]], width: Option<usize>) -> String {
    let Some(width) = width else { return lines(header, rows, None) };
    let columns = (0..N).map(|column| {
        let cells = rows.iter().map(|row| row[column].as_str());
        cells.chain(header.map(|header| header[column])).map(display_width).max().unwrap_or_default()
    });
    let columns: Vec<_> = columns.collect();
    let (last, others) = columns.split_last().map_or((0, &[][..]), |(last, others)| (*last, others));
    let others: usize = others.iter().map(|column| column + usize::from(GAP)).sum();
    if others + last <= width {
        return lines(header, rows, None);
    }
    if others + NARROW.min(last) <= width {
        return lines(header, rows, Some(width));
    }
    let records = rows.iter().map(|row| record(header.unwrap_or([""; N]), row, width));
    records.collect::<Vec<_>>().join("\n")
}

/// Returns one line for each row. If there is a width, the last column is wrapped in the rest of
/// the width.
fn lines<const N: usize>(header: Option<[&str; N]>, rows: &[[String; N]], width: Option<usize>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.add_rows(rows);
    if let Some(header) = header {
        table.set_header(header);
    }
    if let Some(width) = width {
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for (number, column) in table.column_iter_mut().enumerate() {
        let is_wrapped = number + 1 == N && width.is_some();
        column.set_padding((0, if is_wrapped { 0 } else { GAP }));
        if !is_wrapped && width.is_some() {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.trim_fmt()
}

/// Returns a row that is too long for a line: its first cell, and below it the other cells with
/// their names.
fn record<const N: usize>(header: [&str; N], row: &[String; N], width: usize) -> String {
    let wrap = |text: &str, indent: &str| {
        let options = Options::new(width).initial_indent(indent).subsequent_indent(indent);
        textwrap::wrap(text, options).join("\n")
    };
    let mut cells = header.iter().zip(row);
    let mut text: Vec<_> = cells.next().map(|(_, first)| wrap(first, "")).into_iter().collect();
    let mut line = String::new();
    for (name, cell) in cells.filter(|(_, cell)| !cell.is_empty() && cell.as_str() != "-") {
        let said = if name.is_empty() { cell.clone() } else { format!("{}: {cell}", name.to_lowercase()) };
        let room = width.saturating_sub(2 * usize::from(GAP) + display_width(&line));
        if line.is_empty() {
            line = said;
        } else if display_width(&said) <= room {
            line = format!("{line}  {said}");
        } else {
            text.push(wrap(&line, "  "));
            line = said;
        }
    }
    if !line.is_empty() {
        text.push(wrap(&line, "  "));
    }
    text.join("\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: [&str; 4] = ["TOKEN", "STATE", "DUE", "CAUSE"];

    fn row(key: &str, cause: &str) -> [String; 4] {
        [key, "inProgress", "3m 20s ago", cause].map(str::to_owned)
    }

    #[test]
    fn rows_that_fit_have_one_line_each() {
        let rows = [row("order/7", "no reply"), row("order/8", "")];
        let whole = fitted(Some(HEADER), &rows, None);
        assert_eq!(
            whole,
            "TOKEN    STATE       DUE         CAUSE
order/7  inProgress  3m 20s ago  no reply
order/8  inProgress  3m 20s ago"
        );
        assert_eq!(fitted(Some(HEADER), &rows, Some(80)), whole);
    }

    #[test]
    fn the_last_column_is_wrapped_in_what_the_others_leave() {
        let rows =
            [row("order/7", "no answer from the provider: error sending request"), row("order/8", "busy")];
        assert_eq!(
            fitted(Some(HEADER), &rows, Some(62)),
            "TOKEN    STATE       DUE         CAUSE
order/7  inProgress  3m 20s ago  no answer from the provider:
                                 error sending request
order/8  inProgress  3m 20s ago  busy"
        );
    }

    #[test]
    fn a_narrow_terminal_has_a_record_for_each_row() {
        let rows = [
            row("@you/order/create/7", "no answer from the provider: error sending request"),
            row("order/8", "-"),
        ];
        assert_eq!(
            fitted(Some(HEADER), &rows, Some(40)),
            "@you/order/create/7
  state: inProgress  due: 3m 20s ago
  cause: no answer from the provider:
  error sending request
order/8
  state: inProgress  due: 3m 20s ago"
        );
    }

    #[test]
    fn names_and_values_keep_their_columns() {
        let rows = [["state", "held"], ["cause", "no answer from the provider, and none since"]];
        assert_eq!(
            fitted(None, &rows.map(|row| row.map(str::to_owned)), Some(34)),
            "state  held\ncause  no answer from the\n       provider, and none since"
        );
    }

    proptest! {
        #[test]
        fn nothing_is_wider_than_the_terminal_and_no_key_is_lost(
            cells in prop::collection::vec(prop::array::uniform4("[a-z0-9/@]{0,60}( [a-z]{1,8}){0,6}"), 1..6),
            width in 30usize..200,
        ) {
            let text = fitted(Some(HEADER), &cells, Some(width));
            for line in text.lines() {
                prop_assert!(display_width(line) <= width, "{width}: {line}");
            }
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            for row in &cells {
                prop_assert!(letters(&text).contains(&letters(&row[0])), "{text}");
            }
        }
    }
}
