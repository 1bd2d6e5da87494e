//! One `dev` for one store, requests that end before it does, and a store that --fresh leaves
//! alone.

use locker_tests::command::until;

use crate::dev::Dev;
use crate::place;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_dev_on_one_store_is_refused_and_told_who_serves_it() {
    let place = place();
    if !place.is_embedded() {
        return;
    }
    let dev = Dev::start(&place);
    let first = dev.order("k1", 1).await;
    assert_eq!(first.0, 201);
    for options in [&["dev", "--port", "0", "--provider-port", "0"][..], &["dev", "--fresh"]] {
        let second = place.run(options);
        assert_eq!((second.code, second.text()), (78, ""), "{}", second.said);
        let holder = format!("process {}, at {}", dev.process(), dev.api());
        assert!(second.said.contains(&holder), "{}", second.said);
    }
    assert_eq!((dev.order("k1", 1).await, dev.books().await.len()), (first.clone(), 1));
    // A process that is killed leaves its file, and no lock.
    dev.kill();
    let dev = Dev::start(&place);
    assert_eq!((dev.order("k1", 1).await, dev.books().await.len()), (first, 1), "its books are on record");
    dev.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_on_its_way_is_answered_before_it_stops() {
    let place = place();
    let dev = Dev::start_with(&place, &["--patience", "3"]);
    dev.mood("slow").await;
    let asked = tokio::spawn(dev.request("orders", "k1", 1).send());
    while dev.books().await.is_empty() {
        tokio::task::yield_now().await;
    }
    // It was charged, and its reply is on its way for longer than the API waits.
    dev.interrupt();
    let answered = asked.await.expect("no panic").expect("a response, and not a closed connection");
    assert_eq!(answered.status().as_u16(), 504);
    until(|| {
        std::fs::read_to_string(place.path("log"))
            .is_ok_and(|log| log.contains("stopped; the provider has 1 charge"))
    });
    dev.stop_of_its_own();
}

#[test]
fn fresh_empties_no_store_of_anybody_else() {
    let place = place();
    let fresh = ["dev", "--fresh", "--port", "0", "--provider-port", "0"];
    assert_eq!(place.once("report/1", &[], "echo sent").text(), "sent\n");
    let ran = place.run(&fresh);
    let (code, said) = if place.is_embedded() { (4, "are not of `dev`") } else { (2, "is never emptied") };
    assert_eq!(ran.code, code, "{}", ran.said);
    assert!(ran.said.contains(said), "{}", ran.said);
    assert_eq!(place.once("report/1", &[], "echo again").text(), "sent\n", "it is as it was");
}

#[test]
fn a_file_of_dev_that_cannot_be_read_is_named_and_left_as_it_is() {
    let place = place();
    if !place.is_embedded() {
        return;
    }
    Dev::start(&place).stop();
    for name in ["queue.json", "books.json"] {
        let file = place.path(".locker").join(name);
        std::fs::write(&file, "tea").expect("written");
        let ran = place.run(&crate::dev::ON_FREE_PORTS);
        assert_eq!(ran.code, 78, "{}", ran.said);
        assert!(ran.said.contains("cannot read ") && ran.said.contains(name), "{}", ran.said);
        assert!(ran.said.contains("move the file away, or begin again with --fresh"), "{}", ran.said);
        assert_eq!(std::fs::read_to_string(&file).expect("text"), "tea");
    }
}
