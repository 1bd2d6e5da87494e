//! `locker workflow` used wrongly on purpose: each mistake has its text and its code, and writes
//! nothing.

use locker_tests::command::Ran;
use serde_json::json;

use crate::dev::Dev;
use crate::place;

const KEY: &str = "@you/purchase/k1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_named_and_write_nothing() {
    let place = place();
    let dev = Dev::start(&place);
    assert!([200, 201].contains(&dev.packed("k1", 1).await.0));
    dev.stop();
    let show = || place.run(&["workflow", "show", KEY, "--output", "json"]).json();
    let before = show();
    let absent = "there is no workflow nothing; `locker ls workflows` lists unfinished workflows\n";
    let ended = "@you/purchase/k1 was left as it is: it is completed, which ";
    let because = ["--reason", "x"];
    for (arguments, code, said) in [
        (&["show", "nothing"][..], 3, absent),
        (&["show", KEY, "--key-version", "2"], 3, "there is no workflow @you/purchase/k1 --key-version 2;"),
        (&["show", ""], 2, "the key is empty; "),
        (&["show", KEY, "--key-version", "0"], 2, "0 is not in 1.."),
        (&["retry", KEY], 2, "--reason <TEXT>"),
        (&["retry", KEY, "--reason", " "], 2, "the reason must be 1 to 1000 bytes"),
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
            "it has no record of step chrage; recorded: place, charge, pay; to resolve it anyway, add --not-started\n",
        ),
        (
            &["retry", KEY, "--step", "chrage", because[0], because[1]],
            3,
            "has no record of step chrage; recorded: place, charge, pay\n",
        ),
        (&["ls", "--quarantine"], 2, "use `locker ls workflows --need quarantined`"),
        (&["frobnicate"], 2, "unrecognized subcommand"),
    ] {
        let ran = place.run(&[&["workflow"], arguments].concat());
        assert_eq!((ran.code, ran.text()), (code, ""), "{arguments:?}: {}", ran.said);
        assert!(ran.said.contains(said), "{arguments:?}: {}", ran.said);
    }
    assert_eq!(show(), before);
    let unfinished = place.run(&["ls", "workflows", "--output", "json"]).json();
    assert_eq!((&unfinished["workflows"], &unfinished["complete"]), (&json!([]), &json!(true)));
}

#[test]
fn the_provider_and_the_rows_must_be_named() {
    let place = place();
    let tables = ["--table", "locks", "--workflows", "workflows", "--endpoint-url", "http://127.0.0.1:9"];
    for (arguments, said) in [
        (&["complete"][..], "locker: name the payment provider, too: --payments-url URL, or PAYMENTS_URL\n"),
        (
            &["reap", "--payments-url", "http://127.0.0.1:9"],
            "locker: name the table of order rows, too: --orders-table NAME, or ORDERS_TABLE\n",
        ),
        (
            &["complete", "--payments-url", "localhost:9", "--orders-table", "orders"],
            "locker: --payments-url: the address must be http or https",
        ),
    ] {
        let ran = place.bare(&[arguments, &tables].concat()).output();
        let ran = Ran::of(ran.expect("the command runs"));
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.said);
        assert!(ran.said.starts_with(said), "{arguments:?}: {}", ran.said);
    }
}
