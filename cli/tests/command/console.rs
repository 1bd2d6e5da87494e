//! `locker console`: who may use it. Each rule is broken by a request, over HTTP.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use locker_tests::command::{Place, until};
use locker_tests::web::Web;

use crate::place;

/// Starts a console, and does not enter it.
fn start(place: &Place, options: &[&str]) -> Web {
    Web::start(place.command(&[&["console"], options].concat()), place.path("console.log"))
}

/// Starts a console, and enters it.
pub(crate) fn open(place: &Place, options: &[&str]) -> Web {
    start(place, options).entered()
}

#[test]
fn first_address_is_valid_once_and_redirects_without_its_secret() {
    let place = place();
    let mut web = start(&place, &[]);
    let name = web.host.split('.').next().expect("a name");
    assert!(web.host.ends_with(&format!(".localhost:{}", web.port)) && name.len() == 17, "{}", web.host);
    let secret = web.first.split('=').nth(1).expect("a secret").to_owned();
    assert_eq!(secret.len(), 32, "128 bits");
    let first = web.ask("GET", &web.first, &[("host", &web.host)], "");
    assert_eq!((first.status, first.header("location")), (303, "/"));
    let cookie = first.header("set-cookie");
    let (value, attributes) = cookie.split_once("; ").expect("attributes");
    assert_eq!(attributes, "HttpOnly; SameSite=Strict; Path=/");
    assert!(!value.contains(&secret), "the cookie is another secret");
    web.cookie = value.to_owned();
    assert_eq!(web.get("/").status, 200);

    let second = web.ask("GET", &web.first, &[("host", &web.host)], "");
    assert_eq!((second.status, second.header("set-cookie")), (403, ""));
    until(|| web.log().contains("used a second time, and refused"));
    assert_eq!(web.get("/").status, 200, "nobody ends the session by an old address");
    // Only the operator sees the new address. It ends the session of whoever entered before.
    let (old, newest) = (web.cookie.clone(), web.newest());
    web.enter(&newest);
    assert_eq!(web.get("/").status, 200);
    assert_eq!(web.ask("GET", "/", &[("host", &web.host), ("cookie", &old)], "").status, 401);
}

#[test]
fn request_without_the_secret_or_the_cookie_is_refused() {
    let place = place();
    let web = open(&place, &[]);
    let host = ("host", web.host.as_str());
    for wrong in ["/enter", "/enter?secret=", "/enter?secret=00000000000000000000000000000000"] {
        let refused = web.ask("GET", wrong, &[host], "");
        assert_eq!((refused.status, refused.header("set-cookie")), (403, ""), "{wrong}");
    }
    assert!(!web.log().contains("a new address"), "a guess prints nothing");
    let (name, value) = web.cookie.split_once('=').expect("a cookie");
    let other = format!("{name}={}", "0".repeat(value.len()));
    let shorter = format!("{name}={}", &value[1..]);
    let renamed = format!("other={value}");
    for cookie in [other, shorter, renamed, name.to_owned(), value.to_owned()] {
        for path in ["/", "/style.css", "/script.js", "/workflow/data?key=a", "/nothing"] {
            let refused = web.ask("GET", path, &[host, ("cookie", &cookie)], "");
            assert_eq!(refused.status, 401, "{path} with {cookie}");
            assert!(!refused.body.contains("<html"), "{}", refused.body);
        }
    }
    let among = format!("a=b; {}; c=d", web.cookie);
    assert_eq!(web.ask("GET", "/", &[host, ("cookie", &among)], "").status, 200);
}

#[test]
fn another_host_is_refused_before_routing() {
    let place = place();
    let web = start(&place, &[]);
    let port = web.port;
    let others = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("evil.example:{port}"),
        format!("x{}", web.host),
        web.host.split(':').next().expect("a name").to_owned(),
    ];
    for other in &others {
        for path in ["/", &web.first, "/style.css", "/nothing"] {
            assert_eq!(web.ask("GET", path, &[("host", other)], "").status, 421, "{other} {path}");
        }
    }
    let twice = [("host", web.host.as_str()), ("host", "evil.example")];
    assert_ne!(web.ask("GET", &web.first, &twice, "").status, 303);
    let absolute = format!("http://evil.example{}", web.first);
    assert_ne!(web.ask("GET", &absolute, &[("host", &web.host)], "").status, 303);
    // None of these requests used the address up.
    let upper = web.host.to_uppercase();
    assert_eq!(web.ask("GET", &web.first, &[("host", &upper)], "").status, 303);
}

#[test]
fn console_listens_on_loopback_only() {
    let place = place();
    let web = start(&place, &[]);
    let port = format!(":{:04X}", web.port);
    for (file, loopback) in
        [("/proc/net/tcp", "0100007F"), ("/proc/net/tcp6", "00000000000000000000000001000000")]
    {
        // Other systems than Linux do not have the file.
        let all = std::fs::read_to_string(file).unwrap_or_default();
        for line in all.lines() {
            let mut fields = line.split_whitespace().skip(1);
            let (Some(local), Some(state)) = (fields.next(), fields.nth(1)) else { continue };
            assert!(
                state != "0A" || !local.ends_with(&port) || local == format!("{loopback}{port}"),
                "{local}"
            );
        }
    }
}

#[test]
fn request_that_may_change_something_needs_the_origin_and_the_token_of_a_page() {
    let place = place();
    let web = open(&place, &[]);
    let page = web.get("/").body;
    let token = page.split("name=\"token\" content=\"").nth(1).and_then(|rest| rest.split('"').next());
    let form = format!("reason=x&token={}", token.expect("a token"));
    let own = format!("http://{}", web.host);
    let other_port = format!("http://{}", web.host.replace(&web.port.to_string(), "1"));
    let secure = format!("https://{}", web.host);
    let ask = |method: &str, origin: Option<&str>, more: &[(&str, &str)], body: &str| {
        let mut headers = vec![("host", web.host.as_str()), ("cookie", web.cookie.as_str())];
        headers.extend(origin.map(|origin| ("origin", origin)));
        headers.extend(more);
        web.ask(method, "/", &headers, body).status
    };
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let others = [None, Some("null"), Some("http://evil.example"), Some(&other_port), Some(&secure)];
        for origin in others {
            assert_eq!(ask(method, origin, &[], &form), 403, "{method} {origin:?}");
        }
        for body in ["", "reason=x", "token=", "token=00000000000000000000000000000000"] {
            assert_eq!(ask(method, Some(&own), &[], body), 403, "{method} {body}");
        }
        // It passes, and no page changes anything yet.
        assert_eq!(ask(method, Some(&own), &[], &form), 405, "{method}");
        let of_script = [("x-locker-token", token.expect("a token"))];
        assert_eq!(ask(method, Some(&own), &of_script, ""), 405, "{method}");
        assert_eq!(ask(method, Some("null"), &of_script, ""), 403, "{method}");
        for wrong in ["", "00000000000000000000000000000000"] {
            let of_script = [("x-locker-token", wrong)];
            assert_eq!(ask(method, Some(&own), &of_script, ""), 403, "{method} {wrong}");
        }
    }
    let large = format!("{form}&more={}", "x".repeat(70_000));
    assert_eq!(ask("POST", Some(&own), &[], &large), 403);
}

#[test]
fn every_response_forbids_scripts_frames_and_storage_of_others() {
    let place = place();
    let web = open(&place, &[]);
    let own = [("host", web.host.as_str()), ("cookie", web.cookie.as_str())];
    let replies = [
        web.get("/"),
        web.get("/style.css"),
        web.get("/script.js"),
        web.get("/token?key=absent"),
        web.get("/token"),
        web.get("/nothing"),
        web.ask("POST", "/", &own, ""),
        web.ask("GET", "/", &own[..1], ""),
        web.ask("GET", &web.first, &own[..1], ""),
        web.ask("GET", "/", &[("host", "evil.example")], ""),
        web.ask("HEAD", "/", &own, ""),
    ];
    let statuses: Vec<_> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses, [200, 200, 200, 404, 400, 404, 403, 401, 403, 421, 200]);
    for reply in &replies {
        let policy = reply.header("content-security-policy");
        let parts = [
            "default-src 'none'",
            "style-src 'self'",
            "script-src 'self'",
            "img-src 'self' data:",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ];
        assert!(parts.iter().all(|part| policy.split("; ").any(|it| it == *part)), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(reply.header("referrer-policy"), "same-origin");
        assert_eq!(reply.header("cache-control"), "no-store");
    }
    assert_eq!(replies[10].body, "");
}

#[test]
fn port_that_another_program_holds_on_either_loopback_address_is_refused() {
    let place = place();
    let addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))];
    for address in addresses {
        // A machine without IPv6 has no `::1` that another program could hold.
        let Ok(taken) = TcpListener::bind(address) else { continue };
        let port = taken.local_addr().expect("an address").port().to_string();
        let ran = place.run(&["console", "--port", &port]);
        assert_eq!(ran.code, 78, "{address}: {}", ran.said);
        assert!(ran.said.contains("choose another with --port"), "{}", ran.said);
    }
}

#[test]
fn stock_command_names_the_place_of_dev() {
    let ran = place().run(&["dev"]);
    assert_eq!(ran.code, 2);
    assert!(ran.said.contains("in a checkout of the source, run `cargo run -- dev`"), "{}", ran.said);
}
