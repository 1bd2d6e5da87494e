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
