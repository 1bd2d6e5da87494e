//! `locker console`: pages over tables that were not read, or not to the end of their lists.

use lock_token_testing::Embedded;
use locker_tests::Counted;
use locker_tests::web::Web;

use crate::console_pages::has;
use crate::console_wrong::over;
use crate::{bare, place};

/// After its first two requests, no list can be read.
#[test]
fn page_that_was_read_in_part_denies_nothing() {
    for (path, denial) in
        [("/workflows", "Each workflow has ended"), ("/find?text=nowhere&all=yes", "Nothing was found")]
    {
        let (engine, place) = (Embedded::memory().expect("an engine"), place());
        let (served, web) = over(&engine, &place, &[]);
        served.deny_after("Query", 2);
        let page = web.get(path).body;
        has(&page, &["0 found. The lists were not read to their end", "role=\"alert\""]);
        assert!(!page.contains(denial), "{path}: {page}");
    }
}

#[test]
fn page_without_a_table_of_workflows_denies_nothing_in_it() {
    let (engine, place) = (Embedded::memory().expect("an engine"), place());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(locker::create_table(&engine.client(), "locks")).expect("a table");
    let served = Counted::start(&engine);
    let console = ["console", "--table", "locks", "--endpoint-url", served.endpoint()];
    let web = Web::start(place.bare(&console), place.path("console.log")).entered();
    for (path, denial) in [
        ("/workflows", "Each workflow has ended"),
        ("/messages", "No message is"),
        ("/doubt", "No token and no step"),
        ("/audit", "No operator acted"),
        ("/find?text=nowhere", "its whole key finds it"),
        ("/group?id=9a8fac0a", "no item is in the group"),
    ] {
        let page = web.get(path).body;
        has(&page, &["console reads only tokens; no table of workflows was named"]);
        assert!(!page.contains(denial), "{path}: {page}");
    }
    for path in ["/workflow?key=order%2F7", "/workflow/data?key=order%2F7"] {
        let page = web.get(path);
        assert_eq!(page.status, 400, "{path}: {}", page.body);
        has(&page.body, &["name the table of workflows, too: --workflows NAME"]);
        assert!(!page.body.contains("There is no workflow"), "{path}: {}", page.body);
    }
}

#[test]
fn local_store_without_a_table_of_workflows_has_no_workflow() {
    let place = place();
    let created = bare(&place, &["table", "create", "--local=alone"], &[]);
    assert_eq!(created.code, 0, "{}", created.said);
    let web = Web::start(place.bare(&["console", "--local=alone"]), place.path("console.log")).entered();
    for (path, parts) in [
        ("/workflows", &["Each workflow has ended"][..]),
        ("/messages", &["No message is dead", "No message is archived"]),
        ("/doubt", &["No token and no step"]),
        ("/audit", &["No operator acted"]),
        ("/find?text=nowhere", &["Nothing was found. A token with a result"]),
    ] {
        let page = web.get(path).body;
        has(&page, parts);
        assert!(!page.contains("reads only"), "{path}: {page}");
    }
}
