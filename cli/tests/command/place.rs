//! Every verb needs a place, says which it is, and creates none by reading.

use locker_tests::command::Ran;

use crate::{bare, place};

/// A call of every verb. Those that create something are at the end.
const VERBS: [&[&str]; 17] = [
    &["ls"],
    &["scan"],
    &["status"],
    &["doctor"],
    &["show", "k"],
    &["release", "k", "--reason", "x"],
    &["resolve", "k", "--reason", "x", "--result", "{\"exit\":0}"],
    &["ls", "workflows"],
    &["workflow", "show", "k"],
    &["workflow", "retry", "k", "--reason", "x"],
    &["workflow", "close", "k", "--reason", "x"],
    &["workflow", "cancel", "k", "--not-started", "--reason", "x"],
    &["workflow", "table", "check"],
    &["table", "check"],
    &["table", "create"],
    &["workflow", "table", "create"],
    &["once", "k", "--", "touch", "ran"],
];
const CREATING: usize = 3;

#[test]
fn without_a_place_no_verb_does_anything() {
    let place = place();
    for verb in VERBS {
        let ran = bare(&place, verb, &[]);
        assert_eq!((ran.code, ran.text()), (78, ""), "{verb:?}: {}", ran.said);
        assert_eq!(
            ran.said,
            "locker: name the place of the tables: --table NAME (or LOCKER_TABLE), or --local for a store on this machine \
             (or LOCKER_LOCAL=DIR); nothing was done\n",
            "{verb:?}"
        );
    }
    assert!(!place.path("ran").exists());
    assert!(!place.path("home").exists());
}

#[test]
fn two_places_are_refused_unless_one_was_typed() {
    let place = place();
    let exported = [("LOCKER_TABLE", "locks"), ("LOCKER_LOCAL", "here")];
    for verb in VERBS {
        for (options, variables) in [(&["--local=here", "--table=locks"][..], &[][..]), (&[], &exported)] {
            let ran = bare(&place, &[options, verb].concat(), variables);
            assert_eq!((ran.code, ran.text()), (78, ""), "{verb:?}: {}", ran.said);
            assert!(ran.said.contains("choose one; nothing was done\n"), "{}", ran.said);
        }
    }
    assert!(!place.path("here").exists() && !place.path("ran").exists());
    let typed = bare(&place, &["--local=here", "table", "create"], &[("LOCKER_TABLE", "elsewhere")]);
    assert_eq!(typed.code, 0, "{}", typed.said);
    assert!(place.path("here/locker.db").exists());
    // A variable in place of the option.
    let exported = bare(&place, &["ls"], &[("LOCKER_LOCAL", "here")]);
    assert_eq!(exported.code, 0, "{}", exported.said);
}

#[test]
fn a_variable_that_nothing_reads_is_refused_with_the_nearest_that_is_read() {
    let place = place();
    for verb in [&["once", "k", "--local=here", "--", "touch", "ran"][..], &["ls", "--local=here"]] {
        for (name, nearest) in [
            ("LOCKER_TABEL", "LOCKER_TABLE"),
            ("LOCKER_WORKFLOW", "LOCKER_WORKFLOWS"),
            ("LOCKER_LOCL", "LOCKER_LOCAL"),
            ("LOCKER_SHARD", "LOCKER_SHARDS"),
        ] {
            let ran = bare(&place, verb, &[(name, "locks")]);
            assert_eq!((ran.code, ran.text()), (78, ""), "{name}: {}", ran.said);
            assert_eq!(
                ran.said,
                format!("locker: no variable is called {name}; did you mean {nearest}? Nothing was done\n")
            );
        }
    }
    assert!(!place.path("ran").exists() && !place.path("here").exists());
    for name in ["LOCKER_TABLE", "LOCKER_LOCAL"] {
        let empty = bare(&place, &["once", "k", "--", "touch", "ran"], &[(name, "")]);
        assert_eq!(empty.code, 78, "{}", empty.said);
        assert!(empty.said.contains(" is empty (") && empty.said.contains(name), "{}", empty.said);
    }
    assert_eq!(bare(&place, &["ls", "--local="], &[]).code, 78);
    // Those of the functions are often exported beside those of the command.
    let known = bare(&place, &["once", "k", "--local=here", "--", "true"], &[("LOCKER_EXPECT_MS", "1000")]);
    assert_eq!(known.code, 0, "{}", known.said);
}

#[test]
fn local_alone_is_one_store_whatever_the_working_directory() {
    let place = place();
    let once = |directory: &str, variables: &[(&str, &str)]| {
        std::fs::create_dir_all(place.path(directory)).expect("made");
        let script = "echo x >> $HOME.effects; date +%N";
        let mut command = place.bare(&["once", "report/1", "--local", "--", "sh", "-c", script]);
        let command = command.current_dir(place.path(directory)).envs(variables.iter().copied());
        Ran::of(command.output().expect("the command runs"))
    };
    let (one, two) = (once("one", &[]), once("two", &[]));
    assert_eq!((one.code, two.code, &one.stdout), (0, 0, &two.stdout), "{} {}", one.said, two.said);
    assert_eq!(place.lines("home.effects"), 1);
    assert_eq!(
        std::fs::read_dir(place.path("one")).expect("a directory").count(),
        0,
        "nothing was left here"
    );
    let store = if cfg!(target_os = "macos") {
        "home/Library/Application Support/locker"
    } else {
        "home/.local/share/locker"
    };
    assert!(place.path(store).join("locker.db").exists());
    let listed = bare(&place, &["ls", "--local"], &[]);
    assert_eq!(listed.place.as_deref(), place.path(store).to_str(), "{}", listed.said);
    if !cfg!(target_os = "macos") {
        let data = place.path("data");
        assert_eq!(once("one", &[("XDG_DATA_HOME", data.to_str().expect("UTF-8"))]).code, 0);
        assert!(data.join("locker/locker.db").exists());
        // The XDG specification has relative paths ignored.
        assert_eq!(once("two", &[("XDG_DATA_HOME", "data")]).stdout, one.stdout);
    }
}

#[test]
fn reading_creates_nothing() {
    let place = place();
    let (creating, reading) = (&VERBS[VERBS.len() - CREATING..], &VERBS[..VERBS.len() - CREATING]);
    for verb in reading {
        let ran = bare(&place, &[&["--local=absent"], *verb].concat(), &[]);
        assert_eq!((ran.code, ran.text()), (78, ""), "{verb:?}: {}", ran.said);
        let absent = place.path("absent");
        assert_eq!(
            ran.said,
            format!(
                "locker: there is no store in {}; `locker once` and `locker table create` create one, and no other verb does\n",
                absent.display()
            ),
            "{verb:?}"
        );
        assert!(!absent.exists(), "{verb:?}");
    }
    for (verb, directory) in creating.iter().zip(["a", "b", "c"]) {
        let ran = bare(&place, &[&[format!("--local={directory}").as_str()], *verb].concat(), &[]);
        assert_eq!(ran.code, 0, "{verb:?}: {}", ran.said);
        assert!(place.path(directory).join("locker.db").exists(), "{verb:?}");
    }
    // A store without the table that a verb reads.
    let without = bare(&place, &["--local=c", "ls", "workflows"], &[]);
    assert_eq!(without.code, 78, "{}", without.said);
    assert!(without.said.contains("locker workflow table create"), "{}", without.said);
}

#[cfg(unix)]
#[test]
fn a_store_that_others_may_write_is_refused_by_every_verb() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = place();
    let mode = |path: &str, mode: u32| {
        let path = place.path(path);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("changed");
    };
    let files = |path: &str| std::fs::read_dir(place.path(path)).expect("a directory").count();
    std::fs::create_dir(place.path("open")).expect("made");
    for verb in VERBS {
        mode("open", 0o777);
        for directory in ["open", "open/new"] {
            let ran = bare(&place, &[&[format!("--local={directory}").as_str()], verb].concat(), &[]);
            let is_absent = ran.said.contains("there is no store in");
            let is_refused =
                ran.said.contains("/open can be written by every user of this machine, who could");
            assert!(ran.code == 78 && (is_absent || is_refused), "{directory} {verb:?}: {}", ran.said);
        }
        assert_eq!(files("open"), 0, "{verb:?}");
    }
    mode("open", 0o700);
    for create in [&["table", "create"][..], &["workflow", "table", "create"]] {
        assert_eq!(bare(&place, &[&["--local=open/store"], create].concat(), &[]).code, 0);
    }
    for (path, changed, usual) in
        [("open", 0o777, 0o700), ("open/store", 0o1777, 0o700), ("open/store/locker.db", 0o666, 0o600)]
    {
        mode(path, changed);
        for verb in VERBS {
            let ran = bare(&place, &[&["--local=open/store"], verb].concat(), &[]);
            assert_eq!((ran.code, ran.text()), (78, ""), "{path} {verb:?}: {}", ran.said);
            let said =
                format!("/{path} can be written by every user of this machine, who could exchange the store");
            assert!(
                ran.said.contains(&said) && ran.said.contains("chmod o-w"),
                "{path} {verb:?}: {}",
                ran.said
            );
        }
        mode(path, usual);
    }
    assert!(!place.path("ran").exists());
    // Above the store, a sticky directory is no harm: nobody moves what belongs to another.
    mode("open", 0o1777);
    assert_eq!(bare(&place, &["--local=open/store", "ls"], &[]).code, 0);
}

#[test]
fn every_verb_names_its_place_and_once_does_unless_all_is_well() {
    let place = place();
    let here = place.path("here");
    let once = |arguments: &[&str]| bare(&place, &[&["once", "k", "--local=here"], arguments].concat(), &[]);
    assert_eq!(once(&["--", "true"]).place, None);
    assert_eq!(once(&["--", "true"]).place, None, "a replay");
    let refused = once(&["--fingerprint", "another", "--", "true"]);
    assert_eq!((refused.code, refused.place.as_deref()), (65, here.to_str()), "{}", refused.said);
    assert_eq!(once(&["-v", "--", "true"]).place.as_deref(), here.to_str());
    for verb in [&["ls"][..], &["scan"], &["status"], &["doctor"], &["show", "k"]] {
        let ran = bare(&place, &[verb, &["--local=here"]].concat(), &[]);
        assert_eq!((ran.code, ran.place.as_deref()), (0, here.to_str()), "{verb:?}: {}", ran.said);
    }
    let endpoint = ["--endpoint-url", "http://127.0.0.1:9"];
    let table = bare(&place, &[&["table", "check", "--table", "locks"], &endpoint[..]].concat(), &[]);
    assert_eq!(table.place.as_deref(), Some("table locks, eu-west-1, at http://127.0.0.1:9"));
    let both =
        ["workflow", "table", "check", "--table", "locks", "--workflows", "flows", "--region", "eu-north-1"];
    let both = bare(&place, &[&both, &endpoint[..]].concat(), &[]);
    assert_eq!(both.place.as_deref(), Some("tables locks and flows, eu-north-1, at http://127.0.0.1:9"));
}

#[test]
fn a_region_that_is_nowhere_is_said_at_once() {
    let place = place();
    let mut command = place.bare(&["ls", "--table", "locks"]);
    let ran = Ran::of(command.env_remove("AWS_REGION").output().expect("the command runs"));
    assert_eq!(
        (ran.code, ran.said.as_str()),
        (78, "locker: no region is set; add --region, or set AWS_REGION or the region of the profile\n")
    );
}
