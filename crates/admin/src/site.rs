//! The paths of the HTTP server: the commands, health, and the Prometheus page.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::future::Future as _;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Extension, Router};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::task::JoinError;
use tokio::time::Sleep;
use tracing::{error, info};
use zebu_proto::{Causes, Identity};

use crate::commands::{self, Answer, Command, Started};
use crate::console::ConsoleOptions;
use crate::four_letter::Mode;
use crate::health::{self, Health};
use crate::http::Client;
use crate::json::Json;
use crate::loggers::{self, LoggersFault};
use crate::management::management;
use crate::pages::Pages;
use crate::prometheus::{self as exposition, PageOptions};
use crate::received::{pass, received};
use crate::served::{DataFile, Denied, RestoreDenied, Served, TakenSnapshot};

/// Settings of the commands and the health checks.
#[derive(Debug, Clone)]
pub struct Options {
    /// The path of the commands: empty, or with a slash at the beginning and none at the end.
    pub command_url: String,
    /// Whether snapshots over HTTP are enabled.
    pub snapshot: bool,
    /// Whether a restore over HTTP is enabled.
    pub restore: bool,
    /// The shortest time between two snapshots, and between two restores.
    pub interval: Duration,
    /// The longest pause of a client that sends a snapshot.
    pub idle_timeout: Duration,
    /// The settings with which the server was started.
    pub started: Started,
    /// The settings of the console, if it is served.
    pub console: Option<ConsoleOptions>,
}

struct Admin {
    served: Arc<dyn Served>,
    options: Options,
    health: Watched,
    snapshots: Rate,
    restores: Rate,
}

/// The observed health of the server. Clones share it.
#[derive(Clone, Default)]
pub struct Watched(Arc<Mutex<Health>>);

impl Watched {
    /// Observes the server at intervals while the future is polled.
    pub async fn watch(self, served: Arc<dyn Served>) {
        let mut last = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(health::INTERVAL).await;
            let now = tokio::time::Instant::now();
            let elapsed = now.duration_since(last);
            last = now;
            self.lock().look(served.progress(), elapsed);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Health> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Shared = State<Arc<Admin>>;

/// The routes of the commands and of the health checks.
pub fn admin(served: Arc<dyn Served>, options: Options, health: Watched) -> Router {
    let url = options.command_url.clone();
    let beside = management(served.clone());
    let beside = match options.console.clone() {
        Some(console) => {
            beside.merge(crate::console::console(served.clone(), console, url.clone()))
        }
        None => beside,
    };
    let state = Arc::new(Admin {
        served,
        options,
        health,
        snapshots: Rate::default(),
        restores: Rate::default(),
    });
    let mut router = Router::new()
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/ensemble", get(ensemble))
        .route("/backup/files", get(data_files))
        .route("/backup/files/{name}", get(data_file))
        .route(&format!("{url}/"), get(list))
        .route(&format!("{url}/{{*name}}"), any(command));
    if !url.is_empty() {
        router = router.route(&url, get(list));
    }
    // If the commands have this path, it belongs to the commands.
    if url != loggers::URL {
        router = router.route(loggers::URL, get(levels).post(set_level));
    }
    router.with_state(state).merge(beside)
}

/// The route of the Prometheus page.
pub fn prometheus(served: Arc<dyn Served>, options: PageOptions) -> Router {
    let page = move |headers: HeaderMap| {
        let accept = headers.get(ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let content_type = exposition::content_type(accept);
        let page = exposition::page(served.as_ref(), options, content_type);
        std::future::ready(([(CONTENT_TYPE, content_type)], page))
    };
    Router::new().route("/metrics", get(page))
}

/// The server's ensemble, and its role there.
async fn ensemble(State(admin): Shared) -> Response {
    let (id, state) = match admin.served.identity() {
        Identity::Unknown => (Json::Null, "unknown"),
        Identity::Proposed { id, .. } => (id.to_string().into(), "proposed"),
        Identity::Settled(id) => (id.to_string().into(), "settled"),
    };
    let mode = admin.served.serving();
    let member = admin.served.member();
    let server = member.as_ref().map_or(Json::Null, |member| member.me.0.into());
    let lacks = member.into_iter().flat_map(|member| member.lacks).map(Json::from);
    json(
        StatusCode::OK,
        &Json::object([
            ("ensemble", id),
            ("state", state.into()),
            ("server", server),
            ("role", mode.map_or(Json::Null, |mode| mode.name().into())),
            ("lacks", Json::List(lacks.collect())),
        ]),
    )
}

async fn list(State(admin): Shared) -> Response {
    let page = commands::list(&admin.options.command_url);
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

pub(crate) fn json(status: StatusCode, json: &Json) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], json.to_string()).into_response()
}

async fn levels() -> Response {
    loggers_answer(loggers::list(zebu_logs::control::control()))
}

/// Changes levels for a client with all permissions on `/`.
async fn set_level(
    State(admin): Shared,
    Query(arguments): Query<HashMap<String, String>>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
) -> Response {
    match authorized(admin.served.as_ref(), &client, &headers).await {
        Ok(()) => loggers_answer(loggers::change(zebu_logs::control::control(), &arguments)),
        Err((status, why)) => json(status, &Json::object([("error", why.into())])),
    }
}

fn loggers_answer(answer: Result<Json, LoggersFault>) -> Response {
    match answer {
        Ok(answer) => json(StatusCode::OK, &answer),
        Err(why) => {
            let why = why.to_string();
            json(StatusCode::BAD_REQUEST, &Json::object([("error", why.into())]))
        }
    }
}

async fn command(
    State(admin): Shared,
    Path(name): Path<String>,
    Query(arguments): Query<HashMap<String, String>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response {
    let (method, headers) = (request.method(), request.headers());
    match *method {
        Method::GET | Method::HEAD | Method::POST => {}
        Method::TRACE => return StatusCode::FORBIDDEN.into_response(),
        _ => return allowed(StatusCode::METHOD_NOT_ALLOWED),
    }
    let Some(command) = commands::by_name(&name) else {
        let error = format!("Unknown command: {name}");
        return json(StatusCode::OK, &commands::failed(&name, error));
    };
    let is_post = *method == Method::POST;
    let is_restore = command.name == commands::RESTORE;
    if is_post && !is_restore {
        return allowed(StatusCode::METHOD_NOT_ALLOWED);
    }
    if !command.needs_auth {
        let mask = arguments.get("traceMask").map(String::as_str);
        let answer = commands::run(command, mask, &admin.served, &admin.options.started).await;
        return match answer {
            Answer::Fields(fields) => json(StatusCode::OK, &fields),
            Answer::Pages(pages) => {
                let body = Body::new(PageBody(pages));
                ([(CONTENT_TYPE, "application/json")], body).into_response()
            }
        };
    }
    if let Some(refused) = commands::refused(command, admin.served.serving()) {
        return json(StatusCode::OK, &refused);
    }
    if let Err((status, why)) = authorized(admin.served.as_ref(), &client, headers).await {
        return json(status, &commands::failed(command.name, why));
    }
    if is_restore && !is_post {
        return allowed(StatusCode::METHOD_NOT_ALLOWED);
    }
    if is_restore {
        let fuzzy = arguments.get("fuzzy").is_some_and(|it| it.eq_ignore_ascii_case("true"));
        return restore(&admin, command, request.into_body(), fuzzy).await;
    }
    let streaming = arguments.get("streaming").is_none_or(|it| it.eq_ignore_ascii_case("true"));
    snapshot(&admin, command, streaming).await
}

fn allowed(status: StatusCode) -> Response {
    (status, [(ALLOW, "GET, HEAD, POST")]).into_response()
}

/// Whether the header authenticates a client with all permissions on `/`.
///
/// Source: `Commands.checkAuthorization`.
pub(crate) async fn authorized(
    served: &dyn Served,
    client: &Client,
    headers: &HeaderMap,
) -> Result<(), (StatusCode, String)> {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(header) = header else {
        let why = "Auth info is missing for the command";
        return Err((StatusCode::UNAUTHORIZED, why.to_owned()));
    };
    let denied = |denied: Denied| {
        let status = match denied {
            Denied::Unknown => StatusCode::UNAUTHORIZED,
            Denied::Forbidden => StatusCode::FORBIDDEN,
        };
        (status, denied.to_string())
    };
    // For `ip` and `x509`, the connection itself identifies the client, so the scheme needs no
    // credential.
    let header = header.trim();
    let (scheme, data) = match header.split_once(' ') {
        None if matches!(header, "ip" | "x509") => (header, ""),
        parts => parts.ok_or_else(|| denied(Denied::Unknown))?,
    };
    served.authorize(client, scheme, data.trim()).await.map_err(denied)
}

/// Takes a snapshot and sends it.
///
/// Source: `Commands.SnapshotCommand`.
async fn snapshot(admin: &Arc<Admin>, command: &Command, streaming: bool) -> Response {
    let failed = |status, why: &str| json(status, &commands::failed(command.name, why));
    if !admin.options.snapshot {
        return failed(StatusCode::SERVICE_UNAVAILABLE, "Snapshot command is disabled");
    }
    let metrics = admin.served.metrics();
    if !admin.snapshots.allows(Instant::now(), admin.options.interval) {
        metrics.snapshot_rate_limited_count.add(1);
        return failed(StatusCode::TOO_MANY_REQUESTS, "Snapshot command is rate limited");
    }
    let served = admin.served.clone();
    let taken = tokio::task::spawn_blocking(move || served.take_snapshot()).await;
    let TakenSnapshot { file, zxid, bytes } = match taken {
        Ok(Ok(taken)) => taken,
        Ok(Err(why)) => {
            metrics.snapshot_error_count.add(1);
            error!("a snapshot requested over HTTP cannot be taken: {}", Causes(&why));
            return failed(StatusCode::INTERNAL_SERVER_ERROR, "Snapshot cannot be taken");
        }
        Err(_) => return failed(StatusCode::INTERNAL_SERVER_ERROR, "Snapshot cannot be taken"),
    };
    info!("a snapshot was requested over HTTP and taken at zxid {zxid}");
    let mut response = if streaming {
        let body = Body::new(FileBody::new(file, bytes, admin.served.clone()));
        ([(CONTENT_TYPE, "application/octet-stream")], body).into_response()
    } else {
        json(StatusCode::OK, &commands::failed(command.name, Json::Null))
    };
    for (name, value) in
        [("last_zxid", format!("{:#x}", zxid.0)), ("snapshot_size", bytes.to_string())]
    {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Replaces the server's state by a snapshot that the client sends.
///
/// Source: `Commands.RestoreCommand`.
async fn restore(admin: &Arc<Admin>, command: &Command, body: Body, fuzzy: bool) -> Response {
    let failed = |status, why: String| json(status, &commands::failed(command.name, why));
    if !admin.options.restore {
        let why = "Restore command is disabled";
        return failed(StatusCode::SERVICE_UNAVAILABLE, why.to_owned());
    }
    let metrics = admin.served.metrics();
    if !admin.restores.allows(Instant::now(), admin.options.interval) {
        metrics.restore_rate_limited_count.add(1);
        let why = "Restore command is rate limited";
        return failed(StatusCode::TOO_MANY_REQUESTS, why.to_owned());
    }
    let (to, mut from) = received();
    let served = admin.served.clone();
    let work = tokio::task::spawn_blocking(move || served.restore(&mut from, fuzzy));
    pass(body, &to, admin.options.idle_timeout).await;
    // Closing the channel ends the reader.
    drop(to);
    let denied = match work.await {
        Ok(Ok(restored)) => {
            let fields = [
                ("last_zxid", restored.zxid.0.into()),
                ("snapshot_zxid", restored.snapshot.0.into()),
                ("znodes", restored.znodes.into()),
                ("sessions", restored.sessions.into()),
                ("has_digest", restored.has_digest.into()),
                ("command", command.name.into()),
                ("error", Json::Null),
            ];
            return json(StatusCode::OK, &Json::object(fields));
        }
        Ok(Err(denied)) => denied,
        Err(_) => RestoreDenied::Failed("the snapshot cannot be restored".to_owned()),
    };
    metrics.restore_error_count.add(1);
    if !matches!(denied, RestoreDenied::Failed(_)) {
        // Nothing was changed, so a corrected request need not wait.
        admin.restores.forget();
    }
    error!("a snapshot that was handed in over HTTP is not restored: {denied}");
    let status = match denied {
        RestoreDenied::Unusable(_) | RestoreDenied::Fuzzy => StatusCode::BAD_REQUEST,
        RestoreDenied::Busy => StatusCode::CONFLICT,
        RestoreDenied::Ensemble | RestoreDenied::Stops => StatusCode::SERVICE_UNAVAILABLE,
        RestoreDenied::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    failed(status, denied.to_string())
}

/// The files of this server's data directory, for a client with all permissions on `/`.
async fn data_files(
    State(admin): Shared,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
) -> Response {
    if let Err(refused) = may_copy(&admin, &client, &headers).await {
        return refused;
    }
    let served = admin.served.clone();
    let listed = tokio::task::spawn_blocking(move || served.data_files()).await;
    let files = match flat(listed) {
        Ok(files) => files,
        Err(why) => {
            error!("the files of the data cannot be listed: {why}");
            return failed_copy(StatusCode::INTERNAL_SERVER_ERROR, "The files cannot be listed");
        }
    };
    let file = |file: DataFile| {
        Json::object([("name", file.name.as_str().into()), ("bytes", file.bytes.into())])
    };
    let files = Json::List(files.into_iter().map(file).collect());
    json(StatusCode::OK, &Json::object([("files", files)]))
}

/// One file of the data directory.
async fn data_file(
    State(admin): Shared,
    Path(name): Path<String>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
) -> Response {
    if let Err(refused) = may_copy(&admin, &client, &headers).await {
        return refused;
    }
    let served = admin.served.clone();
    match flat(tokio::task::spawn_blocking(move || served.open_data_file(&name)).await) {
        Ok(Some((file, bytes))) => {
            let body = Body::new(FileBody::new(file, bytes, admin.served.clone()));
            ([(CONTENT_TYPE, "application/octet-stream")], body).into_response()
        }
        Ok(None) => failed_copy(StatusCode::NOT_FOUND, "No such file"),
        Err(why) => {
            error!("a file of the data cannot be opened: {why}");
            failed_copy(StatusCode::INTERNAL_SERVER_ERROR, "The file cannot be opened")
        }
    }
}

/// The result of work on another thread, which may have panicked.
fn flat<T>(done: Result<io::Result<T>, JoinError>) -> io::Result<T> {
    done.map_err(io::Error::other)?
}

/// Whether the client may copy all data of this server.
async fn may_copy(admin: &Admin, client: &Client, headers: &HeaderMap) -> Result<(), Response> {
    if !admin.options.snapshot {
        let why = "Copies are disabled, as snapshots are";
        return Err(failed_copy(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let authorized = authorized(admin.served.as_ref(), client, headers).await;
    authorized.map_err(|(status, why)| failed_copy(status, &why))
}

fn failed_copy(status: StatusCode, why: &str) -> Response {
    json(status, &Json::object([("error", why.into())]))
}

impl Admin {
    /// The parts that make no progress.
    fn standstill(&self) -> Vec<String> {
        let standstill = self.health.lock().standstill();
        standstill.into_iter().map(|it| it.text().to_owned()).collect()
    }
}

/// The time of the last request of a kind that is limited.
#[derive(Default)]
struct Rate(Mutex<Option<Instant>>);

impl Rate {
    /// Whether enough time has passed since the last request that was allowed.
    fn allows(&self, now: Instant, interval: Duration) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let may = asked.is_none_or(|asked| now.duration_since(asked) >= interval);
        if may {
            *asked = Some(now);
        }
        may
    }

    /// Forgets the last request.
    fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The answer to a probe: the list of faults.
fn probe(mode: Option<Mode>, wrong: &[String], damaged: &[String]) -> Response {
    let status = if wrong.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut fields = vec![
        ("status", if wrong.is_empty() { "ok" } else { "unavailable" }.into()),
        ("role", mode.map_or(Json::Null, |mode| mode.name().into())),
        ("reasons", Json::list(wrong.iter().map(String::as_str))),
    ];
    // Neither a restart nor another server would help the clients.
    if !damaged.is_empty() {
        fields.push(("damaged_files", Json::list(damaged.iter().map(String::as_str))));
    }
    let fields = fields.into_iter().map(|(key, value): (&str, Json)| (key.to_owned(), value));
    json(status, &Json::Object(fields.collect()))
}

async fn live(State(admin): Shared) -> Response {
    probe(admin.served.serving(), &admin.standstill(), &admin.served.damaged_files())
}

async fn ready(State(admin): Shared, Query(arguments): Query<HashMap<String, String>>) -> Response {
    let mode = admin.served.serving();
    let mut wrong = admin.standstill();
    match mode {
        None => wrong.push("no client is served".to_owned()),
        Some(Mode::ReadOnly) => wrong.push("only read-only clients are served".to_owned()),
        Some(_) => {}
    }
    if matches!(mode, None | Some(Mode::ReadOnly)) {
        wrong.extend(admin.served.member().into_iter().flat_map(|member| member.lacks));
    }
    if let Some(role) = arguments.get("role") {
        const ROLES: [&str; 4] = ["leader", "follower", "observer", "standalone"];
        if !ROLES.contains(&role.as_str()) {
            let why = format!("role is none of {}", ROLES.join(", "));
            return json(StatusCode::BAD_REQUEST, &Json::object([("error", why.into())]));
        }
        // A standalone server orders writes itself, as a leader does.
        let leads = role == "leader" && mode == Some(Mode::Standalone);
        if !leads && mode.is_none_or(|mode| mode.name() != role) {
            wrong.push("the role has changed".to_owned());
        }
    }
    probe(mode, &wrong, &admin.served.damaged_files())
}

/// An answer that is built while it is sent.
struct PageBody(Pages);

impl hyper::body::Body for PageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            match self.0.next_page() {
                Some(page) if page.is_empty() => {}
                Some(page) => return Poll::Ready(Some(Ok(Frame::data(page.into())))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// The number of bytes of a file that are read at a time.
const READ_BYTES: u64 = 64 << 10;

/// A file of a known length, sent no quicker than the server permits.
struct FileBody {
    file: File,
    left: u64,
    served: Arc<dyn Served>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl FileBody {
    fn new(file: File, left: u64, served: Arc<dyn Served>) -> Self {
        Self { file, left, served, pause: None }
    }
}

impl hyper::body::Body for FileBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let most = self.left.min(READ_BYTES);
        let mut bytes = Vec::with_capacity(most as usize);
        let read = (&self.file).take(most).read_to_end(&mut bytes);
        Poll::Ready(Some(match read {
            Ok(0) => Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.left -= read as u64;
                let pause = self.served.pause_shipping(read as u64);
                let waits = self.left > 0 && !pause.is_zero();
                self.pause = waits.then(|| Box::pin(tokio::time::sleep(pause)));
                Ok(Frame::data(bytes.into()))
            }
            Err(error) => Err(error),
        }))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests;
