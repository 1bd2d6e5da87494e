//! `locker workflow` used wrongly on purpose: each mistake has its text and its code, and writes nothing.

use serde_json::json;

use crate::dev::Dev;
use crate::place::{Place, Ran};

const KEY: &str = "@you/purchase/k1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_named_and_write_nothing() {
    let place = Place::new();
    let dev = Dev::start(&place);
    assert_eq!(dev.purchase("k1", 1).await.0, 201);
    dev.stop();
    let show = || place.run(&["workflow", "show", KEY, "--output", "json"]).json();
    let before = show();
    let absent = "there is no workflow nothing; `locker workflow ls` lists what is unfinished\n";
    let ended = "@you/purchase/k1 has ended already, as completed; nothing was written\n";
    let because = ["--reason", "x"];
    for (arguments, code, said) in [
        (&["show", "nothing"][..], 3, absent),
        (&["show", KEY, "--key-version", "2"], 3, "there is no workflow @you/purchase/k1 --key-version 2;"),
        (&["show", ""], 2, "the key is empty; "),
        (&["show", KEY, "--key-version", "0"], 2, "0 is not in 1.."),
        (&["retry", KEY], 2, "--reason <TEXT>"),
        (&["retry", KEY, "--reason", " "], 2, "the reason is 1 to 1000 bytes"),
        (&["retry", "nothing", because[0], because[1]], 3, absent),
        (&["retry", KEY, because[0], because[1]], 4, ended),
        (&["compensate", KEY, because[0], because[1]], 4, ended),
        (&["cancel", KEY, because[0], because[1]], 4, ended),
        (&["close", KEY, because[0], because[1]], 4, ended),
        (&["cancel", "nothing", because[0], because[1]], 3, absent),
        (&["cancel", KEY, "--step", "ship", because[0], because[1]], 4, ended),
        (&["skip", KEY, because[0], because[1]], 2, "--step <STEP>"),
        (&["resolve", KEY, "--step", "charge", because[0], because[1]], 2, "--result <JSON>"),
        (
            &["resolve", KEY, "--step", "charge", "--result", "ch_1", because[0], because[1]],
            2,
            "--result is not JSON: ",
        ),
        (
            &["resolve", KEY, "--step", "chrage", "--result", "1", because[0], because[1]],
            3,
            "has no record of a step chrage, but of: place, charge, pay; if it has yet to start, add --not-started\n",
        ),
        (
            &["retry", KEY, "--step", "chrage", because[0], because[1]],
            3,
            "has no record of a step chrage, but of: place, charge, pay\n",
        ),
        (&["ls", "--quarantine", "--due"], 2, "cannot be used with"),
        (&["frobnicate"], 2, "unrecognized subcommand"),
    ] {
        let ran = place.run(&[&["workflow"], arguments].concat());
        assert_eq!((ran.code, ran.text()), (code, ""), "{arguments:?}: {}", ran.said);
        assert!(ran.said.contains(said), "{arguments:?}: {}", ran.said);
    }
    assert_eq!(show(), before);
    let unfinished = place.run(&["workflow", "ls", "--output", "json"]).json();
    assert_eq!(unfinished, json!({ "workflows": [], "complete": true }));
}

#[test]
fn which_tables_and_which_provider_must_be_clear() {
    let place = Place::new();
    let bare = |arguments: &[&str]| Ran::of(place.bare(arguments).output().expect("the command runs"));
    let aws = ["--table", "locks", "--endpoint-url", "http://127.0.0.1:9"];
    let named = [&aws[..], &["--workflows", "workflows"]].concat();
    for (arguments, said) in [
        (
            vec!["workflow", "ls", "--workflows", "mine"],
            "locker: --workflows is for a table of DynamoDB; add --table NAME\n",
        ),
        (
            [&["workflow", "ls"], &aws[..]].concat(),
            "locker: name the table of workflows, too: --workflows NAME, or LOCKER_WORKFLOWS\n",
        ),
        (
            [&["complete"], &named[..]].concat(),
            "locker: name the payment provider, too: --payments-url URL, or PAYMENTS_URL\n",
        ),
        (
            [&["reap", "--payments-url", "http://127.0.0.1:9"], &named[..]].concat(),
            "locker: name the table of order rows, too: --orders-table NAME, or ORDERS_TABLE\n",
        ),
        (
            [&["complete", "--payments-url", "localhost:9", "--orders-table", "orders"], &named[..]].concat(),
            "locker: --payments-url: an address is http or https",
        ),
        (
            [&["workflow", "ls", "--workflows", "a table"], &aws[..]].concat(),
            "locker: a table name is 3 to 255 letters",
        ),
    ] {
        let ran = bare(&arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.said);
        assert!(ran.said.starts_with(said), "{arguments:?}: {}", ran.said);
    }
    // What is typed beats what is exported.
    let mut typed = place.bare(&["workflow", "ls", "--local", "here"]);
    typed.env("LOCKER_TABLE", "elsewhere").env("LOCKER_WORKFLOWS", "elsewhere");
    let typed = Ran::of(typed.output().expect("the command runs"));
    assert_eq!(
        (typed.code, typed.said.as_str()),
        (0, "locker: no workflow is unfinished or in quarantine\n")
    );
    assert_eq!(bare(&[&["workflow", "ls"], &named[..]].concat()).code, 69, "out of reach");
}

#[test]
fn the_table_of_workflows_is_made_and_checked() {
    let place = Place::new();
    let made = place.run(&["workflow", "table", "create"]);
    assert_eq!(made.code, 0, "{}", made.said);
    let checked = place.run(&["workflow", "table", "check"]);
    assert_eq!((checked.code, checked.text()), (0, ""), "{}", checked.said);
    assert!(checked.said.ends_with("workflows is as the code needs it\n"), "{}", checked.said);
}
