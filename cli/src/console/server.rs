//! The server of the console: its addresses, its routes, and the price of each page.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::config::interceptors::FinalizerInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::get_item::GetItemOutput;
use aws_sdk_dynamodb::operation::query::QueryOutput;
use aws_sdk_dynamodb::types::ConsumedCapacity;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use futures_util::future::try_join_all;
use locker::operator::Console;
use tokio::net::TcpListener;

use super::access::{Gate, Token, guard};
use super::pages::{self, Page, Visit};
use super::runs::Runs;
use super::{params, used};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::output;

/// How long a page may read.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the dry run of a plan may read: it reads each record.
const PATIENCE_OF_PLANS: Duration = Duration::from_secs(5 * 60);
/// Ports that are tried, if any is good.
const TRIES: usize = 16;

/// The tables, and the settings of the pages.
pub(super) struct Desk {
    pub(super) connection: Connection,
    /// The operator who looks, for the log.
    pub(super) viewer: String,
    /// Whether inputs, results and bodies may be shown.
    pub(super) shows_data: bool,
    /// Whether the pages have acts.
    pub(super) may_change: bool,
    /// The plans that are applied.
    pub(super) runs: Arc<Runs>,
}

impl Desk {
    /// The console over all tables that exist, for one page.
    pub(super) async fn console(&self) -> Result<Console, Exit> {
        Ok(self.connection.console().await?.deadline(output::now() + PATIENCE))
    }

    /// The same, for the dry run of a plan.
    pub(super) async fn planner(&self) -> Result<Console, Exit> {
        Ok(self.connection.console().await?.deadline(output::now() + PATIENCE_OF_PLANS))
    }

    /// Refuses what writes, if the console only reads.
    pub(super) fn allows_changes(&self) -> Result<(), Exit> {
        let said =
            "this console only reads: start it with --allow-changes, or paste the command line of an act";
        if self.may_change { Ok(()) } else { Err(Exit::say(Exit::SETUP, said)) }
    }
}

/// The web console of a connection, which listens on loopback.
///
/// Everything is read with the credentials of the connection. Nothing is written, except by an act
/// of an operator if changes are [allowed](Self::allow_changes).
#[must_use = "a console answers nothing until it is served"]
pub struct WebConsole {
    listeners: Vec<TcpListener>,
    gate: Arc<Gate>,
    desk: Desk,
}

impl std::fmt::Debug for WebConsole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebConsole").field("place", &self.desk.connection.place).finish_non_exhaustive()
    }
}

impl WebConsole {
    /// Listens on a port of 127.0.0.1, and of `::1` if the machine has it; 0 takes any free port.
    ///
    /// The user of this process is the operator whom the log names if a page shows an input, a
    /// result or a body.
    ///
    /// # Errors
    ///
    /// [`Exit::SETUP`] if the port is taken.
    pub async fn open(connection: &Connection, port: u16) -> Result<Self, Exit> {
        let (listeners, port) = listen(port).await?;
        let connection = metered(connection)?;
        let desk = Desk {
            connection,
            viewer: output::operator(),
            shows_data: true,
            may_change: false,
            runs: Arc::default(),
        };
        Ok(Self { listeners, gate: Arc::new(Gate::new(port)?), desk })
    }

    /// Sets the operator who looks, and whether inputs, results and bodies may be shown.
    pub(super) fn shown_to(self, viewer: String, shows_data: bool) -> Self {
        Self { desk: Desk { viewer, shows_data, ..self.desk }, ..self }
    }

    /// Adds the acts of operators to the pages.
    pub fn allow_changes(self) -> Self {
        Self { desk: Desk { may_change: true, ..self.desk }, ..self }
    }

    /// The plans that it applies.
    pub(super) fn runs(&self) -> Arc<Runs> {
        Arc::clone(&self.desk.runs)
    }

    /// Returns a first address for a browser. It contains a secret: it is valid once, and for five
    /// minutes.
    ///
    /// # Errors
    ///
    /// [`Exit::FAILED`] if the operating system has no random bytes.
    pub fn address(&self) -> Result<String, Exit> {
        self.gate.invite()
    }

    /// Answers until it is dropped.
    ///
    /// # Errors
    ///
    /// [`Exit::FAILED`] if it can no longer listen.
    pub async fn serve(self) -> Result<(), Exit> {
        let router = router(self.gate, Arc::new(self.desk));
        let served = self.listeners.into_iter().map(|it| axum::serve(it, router.clone()).into_future());
        let failed = |error| Exit::say(Exit::FAILED, format!("could not serve the console: {error}"));
        try_join_all(served).await.map(drop).map_err(failed)
    }
}

/// Binds both loopback addresses. A browser may try `::1` first, so another user who listens there
/// would receive the secret.
async fn listen(port: u16) -> Result<(Vec<TcpListener>, u16), Exit> {
    let busy = |error: std::io::Error| {
        let said = format!(
            "could not listen on port {port} of 127.0.0.1 and ::1: {error}; choose another with --port"
        );
        Exit::say(Exit::SETUP, said)
    };
    let mut tries = 0;
    loop {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(busy)?;
        let taken = first.local_addr().map_err(busy)?.port();
        match TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, taken))).await {
            Ok(second) => return Ok((vec![first, second], taken)),
            Err(error) if error.kind() != ErrorKind::AddrInUse => return Ok((vec![first], taken)),
            Err(error) if port != 0 || tries == TRIES => return Err(busy(error)),
            Err(_) => tries += 1,
        }
    }
}

/// The routes. The rules of access come first: a refused request is not routed.
fn router(gate: Arc<Gate>, desk: Arc<Desk>) -> Router {
    let routes = Router::new().fallback(answer).with_state(desk);
    Router::new().fallback_service(routes).layer(from_fn_with_state(gate, guard))
}

/// All pages. A page that is asked for by GET reads; only the forms write.
async fn answer(State(desk): State<Arc<Desk>>, request: Request) -> Response {
    let (path, mut asked) = (request.uri().path().to_owned(), params(request.uri()));
    match path.as_str() {
        "/style.css" => return asset("text/css; charset=utf-8", include_str!("assets/style.css")),
        "/script.js" => return asset("text/javascript; charset=utf-8", include_str!("assets/script.js")),
        _ => {}
    }
    let token = request.extensions().get::<Token>().map(|token| token.0.clone()).unwrap_or_default();
    let is_form = match *request.method() {
        Method::GET | Method::HEAD => false,
        Method::POST if desk.may_change => true,
        _ => {
            let allowed = if desk.may_change { "GET, HEAD, POST" } else { "GET, HEAD" };
            return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, allowed)]).into_response();
        }
    };
    let body = request.into_body();
    if is_form {
        // The guard has read it, and bounded it.
        let form = to_bytes(body, usize::MAX).await.unwrap_or_default();
        asked.extend(form_urlencoded::parse(&form).into_owned());
    }
    let page = async {
        let page = if is_form {
            changed(&path, &Visit { desk: &desk, asked: &asked, token: &token }).await
        } else {
            shown(&path, &Visit { desk: &desk, asked: &asked, token: &token }).await
        };
        match page {
            Ok(page) => page,
            Err(exit) => Page::of_failure(&exit, is_form),
        }
        .into_response(&desk, &token)
    };
    used::measured(page).await
}

/// The pages. None of them writes.
async fn shown(path: &str, visit: &Visit<'_>) -> Result<Page, Exit> {
    let Visit { desk, asked, .. } = visit;
    match path {
        "/" => pages::attention(desk).await,
        "/group" => pages::group(desk, asked).await,
        "/doubt" => pages::doubt(desk).await,
        "/workflows" => pages::workflows(desk).await,
        "/workflow" => pages::workflow(desk, asked).await,
        "/workflow/data" => pages::workflow_data(desk, asked).await,
        "/token" => pages::token(desk, asked).await,
        "/token/data" => pages::token_data(desk, asked).await,
        "/messages" => pages::messages(desk).await,
        "/message" => pages::message(desk, asked).await,
        "/message/data" => pages::message_data(desk, asked).await,
        "/find" => pages::find(desk, asked).await,
        "/audit" => pages::audit(desk, asked).await,
        "/health" => pages::health(desk).await,
        "/act" => pages::act_form(visit).await,
        "/plan/new" => pages::plan_form(visit).await,
        "/plan" => pages::plan(visit).await,
        "/plan/data" => pages::plan_data(visit),
        _ => Err(Exit::say(Exit::NOT_FOUND, "there is no such page; begin with Needs attention")),
    }
}

/// The forms. The rules of access have checked where each comes from.
async fn changed(path: &str, visit: &Visit<'_>) -> Result<Page, Exit> {
    match path {
        "/act" => pages::act(visit).await,
        "/plan" => pages::make_plan(visit).await,
        "/plan/apply" => pages::apply_plan(visit).await,
        "/plan/stop" => pages::stop_plan(visit).await,
        _ => Err(Exit::say(Exit::NOT_FOUND, "there is no such form; begin with Needs attention")),
    }
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// The same connection, with a client that counts the reads of a page.
fn metered(connection: &Connection) -> Result<Connection, Exit> {
    let config = connection.client.config().to_builder().interceptor(Meter).build();
    let mut metered = connection.clone();
    metered.client = aws_sdk_dynamodb::Client::from_conf(config);
    metered.settings.consumed_capacity = true;
    metered.locker = locker::Locker::builder(&metered.client, &metered.table)
        .settings(metered.settings.clone())
        .build()?;
    Ok(metered)
}

/// Counts the requests of a page, and the read units that DynamoDB reports.
#[derive(Debug)]
struct Meter;

impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "Meter"
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let output = context.output_or_error().and_then(Result::ok);
        let consumed = output.and_then(|output| {
            let of_query = output.downcast_ref::<QueryOutput>().and_then(QueryOutput::consumed_capacity);
            of_query.or_else(|| output.downcast_ref::<GetItemOutput>()?.consumed_capacity())
        });
        used::count(consumed.and_then(ConsumedCapacity::capacity_units).unwrap_or_default());
        Ok(())
    }
}
