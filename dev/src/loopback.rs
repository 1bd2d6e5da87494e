//! What may talk to a server on the loopback interface: programs of this machine, but no web page.
//!
//! A browser lets every page send requests to `127.0.0.1`. Some need no permission of the server, such as a `POST`
//! without a body; and a page whose host name is made to resolve to `127.0.0.1` may read the responses, too. The first
//! are sent with the `Origin` of the page, the second with the page's host name in `Host`.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};

/// Answers 403 to what does not name the server as `127.0.0.1` or `localhost`, and to what a page of another origin
/// sends.
pub(crate) fn refuse_web_pages(router: Router, address: SocketAddr) -> Router {
    router.layer(from_fn(move |request: Request, next: Next| async move {
        if is_meant_for(request.headers(), address) { next.run(request).await } else { refusal(address) }
    }))
}

fn is_meant_for(headers: &HeaderMap, address: SocketAddr) -> bool {
    let hosts = [address.to_string(), format!("localhost:{}", address.port())];
    let is_here = |host: &str| {
        // A port that is not named is that of HTTP.
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        hosts.iter().any(|here| host.eq_ignore_ascii_case(here))
    };
    let (Ok(Some(host)), Ok(origin)) = (only(headers, &HOST), only(headers, &ORIGIN)) else { return false };
    is_here(host) && origin.is_none_or(|origin| origin.strip_prefix("http://").is_some_and(is_here))
}

/// The value of a header that may be there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        _ => Err(()),
    }
}

fn refusal(address: SocketAddr) -> Response {
    let text = format!(
        "This server answers programs on this machine, at http://{address}. The request names another host, or a web page \
         sent it; nothing was done.\n"
    );
    (StatusCode::FORBIDDEN, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_of_this_machine_and_its_own_pages_are_answered() {
        let address = SocketAddr::from(([127, 0, 0, 1], 4000));
        let cases: [(&[(&HeaderName, &str)], bool); 13] = [
            (&[(&HOST, "127.0.0.1:4000")], true),
            (&[(&HOST, "LocalHost:4000")], true),
            (&[(&HOST, "127.0.0.1:4000"), (&ORIGIN, "http://127.0.0.1:4000")], true),
            (&[(&HOST, "127.0.0.1:4000"), (&ORIGIN, "http://localhost:4000")], true),
            (&[], false),
            (&[(&HOST, "evil.example:4000")], false),
            (&[(&HOST, "127.0.0.1.evil.example:4000")], false),
            (&[(&HOST, "127.0.0.1:4001")], false),
            (&[(&HOST, "127.0.0.1:4000"), (&HOST, "evil.example:4000")], false),
            (&[(&HOST, "127.0.0.1:4000"), (&ORIGIN, "https://evil.example")], false),
            (&[(&HOST, "127.0.0.1:4000"), (&ORIGIN, "http://127.0.0.1:4001")], false),
            (&[(&HOST, "127.0.0.1:4000"), (&ORIGIN, "null")], false),
            (&[(&HOST, "127.0.0.1")], false),
        ];
        for (sent, answered) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in sent {
                headers.append(*name, value.parse().unwrap());
            }
            assert_eq!(is_meant_for(&headers, address), answered, "{sent:?}");
        }
        let mut headers = HeaderMap::new();
        headers.append(HOST, "127.0.0.1".parse().unwrap());
        assert!(is_meant_for(&headers, SocketAddr::from(([127, 0, 0, 1], 80))));
    }
}
