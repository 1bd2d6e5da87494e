//! The lines of a history: as `locker --history` writes them, and as a function's log contains them.

use locker_tests::history::{Call, History, Op, Outcome};

const FLAT: &str = r#"{"history":"outcome","call":"c1","op":"begin","token":"pay/7","owner":"me","attempt":"a1","outcome":"tookOver","found":"a0","at":"2026-11-21T11:09:09.120001Z"}"#;

fn read(text: &str) -> History {
    let mut history = History::default();
    history.read(text.as_bytes()).unwrap();
    history
}

fn call(text: &str) -> Call {
    read(text).tokens()[0].1[0].clone()
}

#[test]
fn a_file_and_a_log_contain_the_same_event() {
    let flat = call(FLAT);
    assert_eq!((flat.op, flat.outcome), (Op::Begin, Some(Outcome::TookOver)));
    assert_eq!(flat.ended.to_string(), "2026-11-21T11:09:09.120001Z");
    let lambda = format!(r#"{{"level":"DEBUG","fields":{FLAT},"span":{{"requestId":"r"}}}}"#);
    assert_eq!(call(&lambda), flat);
}

#[test]
fn other_lines_are_skipped_and_half_a_line_is_damaged() {
    for other in
        ["\n", "START RequestId", r#"{"fields":{"message":"the work ended"}}"#, r#"{"history":1}"#, "history"]
    {
        let history = read(other);
        assert_eq!((history.other_lines, history.damaged_lines, history.events), (1, 0, 0), "{other}");
    }
    for damaged in [&FLAT[..90], &FLAT.replace("tookOver", "stole"), r#"{"history":"invoke"}"#] {
        let history = read(damaged);
        assert_eq!((history.other_lines, history.damaged_lines, history.events), (0, 1, 0), "{damaged}");
    }
}
