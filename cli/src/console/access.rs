//! Access to the console: the rules for each request, and the headers of each response.
//!
//! Loopback is no boundary. Every user and every program of the machine reaches the port, and so
//! does every web page that the browser shows. Each rule refuses some of these requests:
//!
//! | rule | refuses | with |
//! |---|---|---|
//! | `Host` is the random name of this console | a page whose name resolves to 127.0.0.1 | 421 |
//! | the first address has a secret, valid once and for five minutes | another user of the machine | 403 |
//! | a cookie of the random name, `HttpOnly` and `SameSite=Strict` | another user, another page | 401 |
//! | a request that may change something has the `Origin` and the token of a page | another page | 403 |
//! | a strict Content-Security-Policy | markup in a stored text | the browser |
//!
//! The host name is random, because a browser sends the cookies of a host to every port of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use subtle::ConstantTimeEq as _;

use super::params;
use crate::exit::Exit;
use crate::output;

/// The path of the first address.
pub(super) const ENTER: &str = "/enter";
/// How long the first address is valid.
const VALID_FOR: Duration = Duration::from_secs(5 * 60);
/// Former addresses that are still recognised, so that their use is reported.
const REMEMBERED: usize = 8;
const COOKIE: &str = "locker-console";
/// The field of a form, or the header of a request of the script, that contains the token.
const TOKEN_FIELD: &str = "token";
const TOKEN_HEADER: &str = "x-locker-token";
/// The largest form, in bytes.
const LARGEST_FORM: usize = 64 * 1024;

/// `connect-src` lets the script fetch the page again. No inline style or script is allowed.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// 128 random bits, as 32 hexadecimal digits.
#[derive(Clone)]
struct Secret(String);

impl Secret {
    fn new() -> Result<Self, Exit> {
        Ok(Self(random::<16>()?))
    }

    /// Compares in constant time.
    fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

/// Random bytes of the operating system, as hexadecimal digits.
fn random<const N: usize>() -> Result<String, Exit> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Exit::say(Exit::FAILED, format!("could not read random bytes: {error}")))?;
    Ok(hex::encode(bytes))
}

/// The session of one browser. A later entry replaces it.
struct Session {
    cookie: Secret,
    /// The token that each form of its pages contains.
    token: Secret,
}

/// A first address.
struct Invitation {
    secret: Secret,
    until: DateTime<Utc>,
    is_used: bool,
}

/// The token of the session, for the pages.
#[derive(Clone)]
pub(super) struct Token(pub(super) String);

/// The state of the decisions about access.
pub(super) struct Gate {
    /// The authority that each request has to name, such as `4f2a.localhost:40123`.
    host: String,
    state: Mutex<Doors>,
    now: fn() -> DateTime<Utc>,
}

#[derive(Default)]
struct Doors {
    /// The newest is last.
    invitations: VecDeque<Invitation>,
    session: Option<Session>,
}

/// The outcome of a use of a first address.
enum Entered {
    /// The cookie of the new session.
    Welcome(String),
    Unknown,
    Used,
    Expired,
}

impl Gate {
    /// A console that listens on this port.
    pub(super) fn new(port: u16) -> Result<Self, Exit> {
        Self::at(port, output::now)
    }

    fn at(port: u16, now: fn() -> DateTime<Utc>) -> Result<Self, Exit> {
        // A label of a host name begins with a letter.
        let host = format!("c{}.localhost:{port}", random::<8>()?);
        Ok(Self { host, state: Mutex::default(), now })
    }

    /// Returns a new first address.
    pub(super) fn invite(&self) -> Result<String, Exit> {
        let secret = Secret::new()?;
        let address = format!("http://{}{ENTER}?secret={}", self.host, secret.0);
        let mut doors = self.doors();
        doors.invitations.push_back(Invitation { secret, until: (self.now)() + VALID_FOR, is_used: false });
        while doors.invitations.len() > REMEMBERED {
            doors.invitations.pop_front();
        }
        Ok(address)
    }

    fn doors(&self) -> MutexGuard<'_, Doors> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses up a first address.
    fn enter(&self, secret: &str) -> Result<Entered, Exit> {
        let (session, now) = (Session { cookie: Secret::new()?, token: Secret::new()? }, (self.now)());
        let mut doors = self.doors();
        let Some(found) = doors.invitations.iter_mut().find(|it| it.secret.is(secret)) else {
            return Ok(Entered::Unknown);
        };
        if found.is_used {
            return Ok(Entered::Used);
        }
        found.is_used = true;
        if now >= found.until {
            return Ok(Entered::Expired);
        }
        let cookie = session.cookie.0.clone();
        doors.session = Some(session);
        Ok(Entered::Welcome(cookie))
    }

    /// The token of the session, if a cookie of the request is that of the session.
    fn token_of(&self, headers: &HeaderMap) -> Option<Token> {
        let doors = self.doors();
        let session = doors.session.as_ref()?;
        let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies =
            values.flat_map(|value| value.split(';')).filter_map(|it| it.trim().split_once('='));
        let is_it = cookies.any(|(name, value)| name == COOKIE && session.cookie.is(value));
        is_it.then(|| Token(session.token.0.clone()))
    }

    /// Whether the request names this console, once, and nothing else.
    fn is_named(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let is_here = |authority: &str| authority.eq_ignore_ascii_case(&self.host);
        let mut hosts = headers.get_all(header::HOST).iter();
        let (first, second) = (hosts.next(), hosts.next());
        let host = first.and_then(|host| host.to_str().ok());
        second.is_none()
            && host.is_some_and(is_here)
            && uri.authority().is_none_or(|authority| is_here(authority.as_str()))
    }

    /// Whether a page of this console sent the request. A request without `Origin` has no page.
    fn is_from_a_page(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let origin = origins.next().and_then(|origin| origin.to_str().ok());
        let own = origin.and_then(|origin| origin.strip_prefix("http://"));
        origins.next().is_none() && own.is_some_and(|own| own.eq_ignore_ascii_case(&self.host))
    }
}

/// Admits or refuses a request before it is routed, and adds the headers of every response.
pub(super) async fn guard(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let mut response = match admit(&gate, request).await {
        Ok(request) => next.run(request).await,
        Err(refused) => *refused,
    };
    let fixed: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer` a browser sends `Origin: null` with a form (Fetch, "append a request
        // `Origin` header"), and the rule about the origin would refuse the own forms.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Applies the rules in their order. An error is the refusal.
async fn admit(gate: &Gate, mut request: Request) -> Result<Request, Box<Response>> {
    if !gate.is_named(request.uri(), request.headers()) {
        let text = format!("This console answers at http://{} only. Nothing was read.", gate.host);
        return Err(refusal(StatusCode::MISDIRECTED_REQUEST, &text));
    }
    if request.uri().path() == ENTER {
        return Err(Box::new(entrance(gate, &request)));
    }
    let Some(token) = gate.token_of(request.headers()) else {
        let text = "This browser has no session of this console. If you have just opened the address of the terminal, \
                    enter this address again. Otherwise start the console again, and open the address that it prints.";
        return Err(refusal(StatusCode::UNAUTHORIZED, text));
    };
    if request.method() != Method::GET && request.method() != Method::HEAD {
        request = with_token(gate, request, &token).await?;
    }
    request.extensions_mut().insert(token);
    Ok(request)
}

/// Admits a request that may change something: a page of this console sent it, with its token.
async fn with_token(gate: &Gate, request: Request, token: &Token) -> Result<Request, Box<Response>> {
    let refused = |why: &str| refusal(StatusCode::FORBIDDEN, &format!("{why} Nothing was changed."));
    if !gate.is_from_a_page(request.headers()) {
        return Err(refused("No page of this console sent this request."));
    }
    let expected = Secret(token.0.clone());
    let (parts, body) = request.into_parts();
    let Ok(form) = to_bytes(body, LARGEST_FORM).await else {
        return Err(refused("The form is too large, or was cut off."));
    };
    let of_script = parts.headers.get(TOKEN_HEADER).and_then(|value| value.to_str().ok());
    let is_of_script = of_script.is_some_and(|value| expected.is(value));
    let mut fields = form_urlencoded::parse(&form);
    if !is_of_script && !fields.any(|(name, value)| name == TOKEN_FIELD && expected.is(&value)) {
        return Err(refused("The form is of a former session: open its page again."));
    }
    Ok(Request::from_parts(parts, Body::from(form)))
}

/// Exchanges the secret of a first address for a cookie. The redirect removes it from the address.
fn entrance(gate: &Gate, request: &Request) -> Response {
    if request.method() != Method::GET {
        return *refusal(StatusCode::METHOD_NOT_ALLOWED, "Open the address in a browser.");
    }
    let secret = params(request.uri()).remove("secret").unwrap_or_default();
    match gate.enter(&secret) {
        Ok(Entered::Welcome(cookie)) => {
            let cookie = format!("{COOKIE}={cookie}; HttpOnly; SameSite=Strict; Path=/");
            let headers = [(header::LOCATION, "/".to_owned()), (header::SET_COOKIE, cookie)];
            (StatusCode::SEE_OTHER, headers).into_response()
        }
        Ok(Entered::Unknown) => *refusal(
            StatusCode::FORBIDDEN,
            "This is no address of this console: open the one in the terminal.",
        ),
        Ok(Entered::Used) => {
            output::say(
                "the address of the console was used a second time, and refused. If you did not use it twice, another program \
                 of this machine has read it: the new address ends the session of that program",
            );
            again(gate, "This address was used before.")
        }
        Ok(Entered::Expired) => {
            output::say("the address of the console was used after its five minutes, and refused");
            again(gate, "This address was valid for five minutes.")
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Prints a new address in the terminal, which only the operator sees.
fn again(gate: &Gate, why: &str) -> Response {
    match gate.invite() {
        Ok(address) => output::say(format_args!("a new address, valid once and for five minutes: {address}")),
        Err(_) => output::say("no new address could be made; start the console again"),
    }
    *refusal(StatusCode::FORBIDDEN, &format!("{why} Open the new address in the terminal."))
}

/// A refusal in plain text: it has no style, and nothing of the tables.
fn refusal(status: StatusCode, text: &str) -> Box<Response> {
    Box::new(
        (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{text}\n")).into_response(),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use axum::Router;
    use axum::middleware::from_fn_with_state;
    use chrono::TimeDelta;
    use tower::ServiceExt as _;

    use super::*;

    static SECONDS: AtomicI64 = AtomicI64::new(0);

    fn clock() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + SECONDS.load(Ordering::SeqCst), 0).expect("a time")
    }

    async fn status_of(gate: &Arc<Gate>, address: &str) -> StatusCode {
        let page = Router::new().fallback(async || "a page");
        let app = page.layer(from_fn_with_state(Arc::clone(gate), guard));
        let path = address.split_once(&gate.host).expect("the own host").1;
        let request = Request::get(path).header(header::HOST, &gate.host).body(Body::empty());
        app.oneshot(request.expect("a request")).await.expect("a response").status()
    }

    #[tokio::test]
    async fn first_address_is_valid_for_five_minutes() {
        for (seconds, status) in [(0, 303), (299, 303), (300, 403), (86_400, 403)] {
            SECONDS.store(0, Ordering::SeqCst);
            let gate = Arc::new(Gate::at(4000, clock).expect("random bytes"));
            let address = gate.invite().expect("random bytes");
            SECONDS.store(seconds, Ordering::SeqCst);
            assert_eq!(status_of(&gate, &address).await.as_u16(), status, "after {seconds} s");
            // Of an address that was too old, the terminal shows a new one.
            let newest = gate.doors().invitations.back().map(|it| (it.until, it.is_used));
            assert_eq!(
                newest,
                Some(if status == 403 {
                    (clock() + VALID_FOR, false)
                } else {
                    (clock() - TimeDelta::seconds(seconds) + VALID_FOR, true)
                })
            );
            assert_eq!(status_of(&gate, &address).await.as_u16(), 403, "a second use after {seconds} s");
        }
    }

    #[test]
    fn secrets_differ_and_have_128_bits() {
        let secrets: std::collections::BTreeSet<_> =
            (0..100).map(|_| Secret::new().expect("random bytes").0).collect();
        assert!(secrets.len() == 100 && secrets.iter().all(|it| it.len() == 32));
        let secret = Secret("0123".to_owned());
        assert!(secret.is("0123") && !secret.is("0124") && !secret.is("012") && !secret.is(""));
    }
}
