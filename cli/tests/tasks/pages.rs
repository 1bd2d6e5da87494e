//! What each page of the web console reads, on the large store.

use locker_tests::web::Web;

use crate::Night;

/// A page, the most read units that it may take, and a text that it contains.
const PAGES: [(&str, f64, &str); 9] = [
    ("/", 20.0, "the ledger is read only"),
    ("/group?need=inDoubt&id=", 2.0, "@cust0/pay/0"),
    ("/workflow?key=buy%2F0", 20.0, "the ledger is read only"),
    ("/token?key=%40cust7%2Forder%2F4711", 20.0, "completed"),
    ("/find?text=%40cust7%2Forder%2F4711", 20.0, "token @cust7/order/4711"),
    ("/find?text=nowhere", 20.0, "Nothing was found"),
    ("/find?text=cust7&all=yes", 50.0, "@cust7/mail/7"),
    ("/audit", 3.0, "Audit"),
    ("/health", 25.0, "Backlog"),
];

/// Reads each page, and compares the units of DynamoDB with those that the page shows.
pub(crate) fn cost(night: &mut Night) {
    let log = night.store.directory.path().join("console.log");
    let web = Web::start(night.command(&["console"]), log).entered();
    let home = web.get("/").body;
    let before = home.split("&amp;need=inDoubt").next().expect("a group");
    let id = before.rsplit("/group?id=").next().expect("its id").to_owned();
    for (path, most, text) in PAGES {
        let path = if path.ends_with("id=") { format!("{path}{id}") } else { path.to_owned() };
        let _before = night.counted.take();
        let page = web.get(&path);
        let asked = night.counted.take();
        assert!(page.body.contains(text), "{path}: {text} is not in {}", page.body);
        assert!(asked.read_units <= most, "{path}: {} read units", asked.read_units);
        let shown = page.body.split("This page: ").nth(1).and_then(|rest| rest.split(" read units").next());
        let expected = format!("{} requests, {:.1}", asked.requests, asked.read_units);
        assert_eq!(shown, Some(expected.as_str()), "{path}");
        night.rows.push(format!("| page {path} | 0 | - | {} | {} |", asked.requests, asked.read_units));
    }
}
