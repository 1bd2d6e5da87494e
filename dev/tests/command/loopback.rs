//! The two servers of `dev` answer programs of this machine, and no web page; the embedded engine
//! answers neither.

use locker_tests::web::Web;
use reqwest::header::{HOST, HeaderName, ORIGIN};

use crate::dev::Dev;
use crate::place;

#[tokio::test]
async fn no_web_page_reaches_the_servers() {
    let place = place();
    let dev = Dev::start(&place);
    let http = reqwest::Client::builder().build().expect("a client");
    for server in [dev.api(), dev.provider()] {
        let here = server.strip_prefix("http://").expect("an address");
        let port = here.rsplit(':').next().expect("a port");
        let (by_name, named) = (format!("LocalHost:{port}"), format!("http://localhost:{port}"));
        let rebound = [format!("evil.example:{port}"), format!("127.0.0.1.evil.example:{port}")];
        let cases: [(HeaderName, &str, bool); 12] = [
            (HOST, here, true),
            (HOST, &by_name, true),
            (ORIGIN, server, true),
            (ORIGIN, &named, true),
            // DNS rebinding.
            (HOST, "evil.example", false),
            (HOST, &rebound[0], false),
            (HOST, &rebound[1], false),
            // Another port, which is that of HTTP if none is named.
            (HOST, "127.0.0.1:1", false),
            (HOST, "127.0.0.1", false),
            // A simple request of another page, of one on another port, and of a sandboxed frame.
            (ORIGIN, "https://evil.example", false),
            (ORIGIN, "http://127.0.0.1:1", false),
            (ORIGIN, "null", false),
        ];
        for (name, value, answered) in cases {
            let post = http.post(format!("{server}/mood/mute")).header(&name, value);
            let response = post.send().await.expect("a response");
            assert_eq!(response.status() != 403, answered, "{server} {name}: {value}");
            if !answered {
                assert!(response.text().await.expect("text").contains("nothing was done"));
            }
            dev.mood("well").await;
        }
    }
    let mute = http.post(format!("{}/mood/mute", dev.provider())).header(ORIGIN, "https://evil.example");
    assert_eq!(mute.send().await.expect("a response").status(), 403);
    assert_eq!(dev.order("k1", 1).await.0, 201, "the provider is as it was");
    dev.stop();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn it_listens_where_it_says_and_nowhere_else() {
    let place = place();
    let dev = Dev::start(&place);
    let mut ports = locker_tests::command::listening(dev.process());
    let port = |server: &str| server.rsplit(':').next().expect("a port").parse::<u16>().expect("a number");
    let mut said = [port(dev.api()), port(dev.provider()), Web::at(dev.console()).port];
    ports.sort_unstable();
    // The console listens on both loopback addresses.
    ports.dedup();
    said.sort_unstable();
    assert_eq!(ports, said);
    dev.stop();
}
