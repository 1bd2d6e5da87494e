//! `locker workflow` without workflow code: listing, and its tables.

use locker_tests::command::Ran;

use crate::place;

#[test]
fn command_without_a_table_name_exits_with_2() {
    let place = place();
    let bare = |arguments: &[&str]| Ran::of(place.bare(arguments).output().expect("the command runs"));
    let aws = ["--table", "locks", "--endpoint-url", "http://127.0.0.1:9"];
    let named = [&aws[..], &["--workflows", "workflows"]].concat();
    for (arguments, said) in [
        (
            vec!["ls", "workflows", "--local", "--workflows", "mine"],
            "locker: --workflows is for a table of DynamoDB; add --table NAME\n",
        ),
        (
            [&["ls", "workflows"], &aws[..]].concat(),
            "locker: name the table of workflows, too: --workflows NAME, or LOCKER_WORKFLOWS\n",
        ),
        (
            [&["ls", "workflows", "--workflows", "a table"], &aws[..]].concat(),
            "locker: a table name must be 3 to 255 letters",
        ),
    ] {
        let ran = bare(&arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.said);
        assert!(ran.said.starts_with(said), "{arguments:?}: {}", ran.said);
    }
    // What is typed beats what is exported.
    assert_eq!(bare(&["workflow", "table", "create", "--local=here"]).code, 0);
    let mut typed = place.bare(&["ls", "workflows", "--local=here"]);
    typed.env("LOCKER_TABLE", "elsewhere").env("LOCKER_WORKFLOWS", "elsewhere");
    let typed = Ran::of(typed.output().expect("the command runs"));
    assert_eq!(typed.code, 0, "{}", typed.said);
    assert!(typed.said.starts_with("locker: no listed record fits (workflows: "), "{}", typed.said);
    // The exported tables belong together.
    let discard = ["dead", "discard", "--all", "--reason", "test", "--endpoint-url", "http://127.0.0.1:9"];
    for (typed, other) in [(["--table", "locks"], "--workflows"), (["--workflows", "workflows"], "--table")] {
        let with = |exported: [&str; 2]| {
            let mut command = place.bare(&[&discard[..], &typed].concat());
            command.env("LOCKER_TABLE", exported[0]).env("LOCKER_WORKFLOWS", exported[1]);
            Ran::of(command.output().expect("the command runs"))
        };
        let mixed = with(["production", "production-workflows"]);
        assert_eq!(mixed.code, 2, "{}", mixed.said);
        assert!(mixed.said.contains(&format!("name other tables; type {other}, too")), "{}", mixed.said);
        assert_eq!(with(["locks", "workflows"]).code, 69, "the same tables, which are unreachable");
    }
    let mut alone = place.bare(&[&["ls", "workflows"], &aws[..]].concat());
    let alone = Ran::of(alone.env("LOCKER_WORKFLOWS", "workflows").output().expect("the command runs"));
    assert_eq!(alone.code, 69, "without LOCKER_TABLE, they are meant together: {}", alone.said);
    assert_eq!(bare(&[&["ls", "workflows"], &named[..]].concat()).code, 69, "unreachable");
}

#[test]
fn the_table_of_workflows_is_made_and_checked() {
    let place = place();
    let made = place.run(&["workflow", "table", "create"]);
    assert_eq!(made.code, 0, "{}", made.said);
    let checked = place.run(&["workflow", "table", "check"]);
    assert_eq!((checked.code, checked.text()), (0, ""), "{}", checked.said);
    assert!(checked.said.ends_with("workflows matches what the code needs\n"), "{}", checked.said);
}
