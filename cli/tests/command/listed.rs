//! What an empty listing says: what it looked at, and of which tokens it speaks.

use std::time::Duration;

use locker::{Begun, Locker};

use crate::place;

#[test]
fn an_empty_listing_speaks_of_listed_tokens_only() {
    let place = place();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let locker = Locker::new(&place.client(), place.table()).expect("a locker");
        let token = locker.token("outer/1").expect_within(Duration::from_secs(60));
        let token = token.take_over_after(Duration::ZERO).unlisted();
        let Ok(Begun::Acquired(lock)) = token.begin().await else { panic!("not acquired") };
        drop(lock);
    });
    assert_eq!(place.show("outer/1")["state"], "inProgress");
    for verb in [&["ls"][..], &["ls", "tokens", "--in-progress"], &["scan"]] {
        let ran = place.run(verb);
        let claims = ran.said.contains("no token is in progress") || ran.said.contains("0 in progress");
        assert!(!claims, "{verb:?} says {:?} while `locker show outer/1` says inProgress", ran.said);
    }
}

/// The functions may have fewer shards than the command.
#[test]
fn command_with_more_shards_hides_no_token() {
    let place = place();
    place.once("lost", &["--shards", "4"], "kill -9 $$");
    let listed = place.run(&["ls", "tokens", "--output", "json"]).json();
    assert_eq!(listed["tokens"].as_array().map(Vec::len), Some(1), "{listed}");
}

#[test]
fn an_empty_listing_names_the_shards_that_were_read() {
    let place = place();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut settings = locker::Settings::default();
        settings.shards = 4;
        let client = place.client();
        let locker = Locker::builder(&client, place.table()).settings(settings).build().expect("a locker");
        for number in 0..5 {
            let Ok(Begun::Acquired(lock)) = locker.token(format!("order/{number}")).begin().await else {
                panic!("not acquired")
            };
            lock.leave_in_doubt("charged, no reply").await;
        }
    });
    let right = place.run(&["ls", "tokens", "--due", "--shards", "4", "--output", "json"]).json();
    assert_eq!(right["tokens"].as_array().map(Vec::len), Some(5));
    for verb in [&["ls"][..], &["ls", "tokens", "--due"], &["scan"]] {
        let ran = place.run(verb);
        let said = "in the 1 shard that was read; if your functions set LOCKER_SHARDS, add --shards";
        let ends = ran.said.trim_end().trim_end_matches(')').ends_with(said);
        assert!(ran.code == 0 && ends, "{verb:?}: {} {:?}", ran.code, ran.said);
    }
}
