//! The same command as the stock one, with one more verb and more options.

use crate::place;

#[test]
fn help_is_that_of_the_command_with_dev_and_the_options_of_the_shop() {
    let place = place();
    let help = place.run(&["--help"]);
    assert_eq!(help.code, 0);
    assert!(help.text().starts_with("Once-only execution with lock tokens on DynamoDB"), "{}", help.text());
    assert!(help.text().contains("Usage: locker [OPTIONS] <COMMAND>"), "{}", help.text());
    assert!(help.text().contains("  dev "), "{}", help.text());
    for verb in ["complete", "reap"] {
        let help = place.run(&[verb, "--help"]);
        assert!(help.text().contains("--payments-url <URL>"), "{}", help.text());
        assert!(help.text().contains(&format!("Usage: locker {verb} ")), "{}", help.text());
        assert!(!help.text().contains("no workflow code"), "{}", help.text());
    }
}

#[test]
fn completions_and_the_manual_have_the_verbs_and_options_of_the_registry() {
    let place = place();
    let script = place.run(&["completions", "bash"]);
    assert_eq!(script.code, 0, "{}", script.said);
    for part in [" dev ", "--provider-port", "--payments-url"] {
        assert!(script.text().contains(part), "{part}");
    }
    assert_eq!(place.run(&["man", "manual"]).code, 0);
    let page = std::fs::read_to_string(place.path("manual/locker-dev.1")).expect("the page of a verb");
    assert!(page.contains("provider\\-port"), "{page}");
}
