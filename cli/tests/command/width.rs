//! Tables on terminals of some widths, and elsewhere.

use locker_tests::command::Place;

use crate::place;
use crate::terminal::Terminal;

/// The lines of a verb on a terminal.
fn shown(place: &Place, verb: &[&str], columns: u16, variable: Option<&str>) -> Vec<String> {
    let mut command = place.command(verb);
    match variable {
        Some(columns) => command.env("COLUMNS", columns),
        None => command.env_remove("COLUMNS"),
    };
    let (shown, status) = Terminal::start(&mut command, columns).end();
    assert!([Some(0), Some(5)].contains(&status.code()), "{shown}");
    shown.lines().map(str::to_owned).collect()
}

#[test]
fn a_table_is_no_wider_than_its_terminal() {
    let place = place();
    for key in ["report/2026-11/one", "report/2026-11/two"] {
        let script =
            "echo the mail server answered nothing at all, and then closed the connection >&2; exit 9";
        assert_eq!(place.once(key, &["--hold-on-failure"], script).code, 9);
    }
    let whole = place.run(&["ls"]);
    let long = whole.text().lines().map(str::len).max().expect("lines");
    assert!(long > 120, "{}", whole.text());
    assert_eq!(whole.text().lines().count(), 3, "a header and a line for each, if it is no terminal");
    for (columns, variable) in [(40, None), (80, None), (120, None), (300, Some("40"))] {
        let most = variable.map_or(usize::from(columns), |columns| columns.parse().expect("a number"));
        for (verb, parts) in [
            (&["ls"][..], &["report/2026-11/one", "report/2026-11/two", "held", "mail server"][..]),
            (&["show", "report/2026-11/one"], &["report/2026-11/one", "held", "mail"]),
        ] {
            let lines = shown(&place, verb, columns, variable);
            let text = lines.join(" ");
            for part in parts {
                assert!(text.contains(part), "{columns}: {part}: {lines:#?}");
            }
            // A line to paste is one line.
            let table = lines.iter().take_while(|line| !line.starts_with("What may be done now"));
            for line in table {
                assert!(line.chars().count() <= most, "{columns}: {lines:#?}");
            }
        }
    }
    let narrow = shown(&place, &["ls"], 40, None);
    assert!(narrow.iter().any(|line| line == "report/2026-11/one"), "a record for each: {narrow:#?}");
    assert_eq!(shown(&place, &["ls"], 300, None).len(), 3);
}
