//! `locker redact`: the result of a token is erased, and its command does not run again.

use crate::place;

#[test]
fn erased_output_is_not_replayed_and_the_command_does_not_run_again() {
    let place = place();
    let once = ["once", "report/7", "--", "sh", "-c", "echo 4111-1111"];
    assert_eq!(place.run(&once).text(), "4111-1111\n");
    let redact = ["redact", "report/7", "--reason", "request 4711"];
    let dry = place.run(&redact);
    assert_eq!(dry.code, 6, "{}", dry.said);
    assert!(dry.text().contains("its result is erased for ever"), "{}", dry.text());
    assert_eq!(place.run(&once).text(), "4111-1111\n", "nothing was changed");

    let json = place.run(&["show", "report/7", "--output", "json"]).json();
    let of_show = [&redact[..], &["--seen", json["revision"].as_str().unwrap()]].concat();
    let refused = place.run(&of_show);
    assert_eq!((refused.code, refused.said.contains("without --seen")), (4, true), "{}", refused.said);

    let ran = place.act(&redact);
    assert_eq!((ran.code, ran.said.contains("redacted report/7")), (0, true), "{}", ran.said);
    let again = place.run(&once);
    assert_eq!((again.code, again.text()), (1, ""), "{}", again.said);
    assert!(again.said.contains("the work has ended, and its result is not kept"), "{}", again.said);
    let shown = place.run(&["show", "report/7", "--content"]);
    assert_eq!(shown.code, 0, "{}", shown.said);
    assert!(shown.text().contains("not kept: an operator erased it"), "{}", shown.text());
    assert!(shown.text().contains("request 4711") && !shown.text().contains("4111-1111"), "{}", shown.text());
    let json = place.run(&["show", "report/7", "--content", "--output", "json"]).json();
    assert_eq!((json["redacted"].as_bool(), json["resolution"].as_str()), (Some(true), Some("redacted")));
    let audit = place.run(&["audit", "report/7", "--since", "1d"]);
    assert!(audit.text().contains("redacted") && !audit.text().contains("4111-1111"), "{}", audit.text());

    let second = place.run(&redact);
    assert_eq!(second.code, 4, "{}", second.said);
    assert!(second.said.contains("its result is not kept: an operator erased it"), "{}", second.said);
}

#[test]
fn held_command_is_not_redacted() {
    let place = place();
    let held = ["once", "report/8", "--hold-on-failure", "--", "sh", "-c", "echo 4111-1111; exit 3"];
    assert_eq!(place.run(&held).code, 3);
    let refused = place.run(&["redact", "report/8", "--reason", "request 4711"]);
    assert_eq!(refused.code, 4, "{}", refused.said);
    let said = "it is held, and only a token that has ended has a result to erase";
    assert!(refused.said.contains(said), "{}", refused.said);
}

#[test]
fn plan_erases_the_results_of_a_customer() {
    let place = place();
    for key in ["@cust8/report/1", "@cust8/report/2", "@cust9/report/1"] {
        assert_eq!(place.run(&["once", key, "--", "sh", "-c", "echo 4111-1111"]).code, 0);
    }
    let plan = ["plan", "redact", "--tenant", "cust8", "--reason", "request 4711"];
    let shown = place.run(&plan);
    assert_eq!(shown.code, 6, "{}", shown.said);
    assert!(shown.text().contains("redact: 2 of 2 found"), "{}", shown.text());
    assert!(shown.text().contains("its result is erased for ever"), "{}", shown.text());
    let ran = place.act(&plan);
    assert_eq!(ran.code, 0, "{} {}", ran.text(), ran.said);
    for (key, redacted) in [("@cust8/report/1", true), ("@cust8/report/2", true), ("@cust9/report/1", false)]
    {
        let json = place.run(&["show", key, "--output", "json"]).json();
        assert_eq!(json["redacted"], redacted, "{key}");
    }
    let nothing = place.run(&plan);
    assert!(nothing.text().contains("0 of 0 found") || nothing.said.contains("nothing"), "{}", nothing.said);
}
