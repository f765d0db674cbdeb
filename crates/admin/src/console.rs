//! The console: a web page on which operators inspect and change a server.
//!
//! The files of the page are inside the binary, and the page loads nothing from elsewhere. A user
//! who signs in gets a session of a client inside this process, with the user's own address and
//! identities ([`InsideSession`]), and a token that names the session. All requests for znodes use
//! that session, so ACLs, quotas and limits apply as for every client.
//!
//! **Protection against other sites:** Requests need the token in a header; no other site knows the
//! token, and no browser adds it by itself. Changes are POST requests. A request is refused if its
//! `Host` is neither an address nor a configured name, so a foreign name that resolves to this
//! server is useless. The headers of the answers forbid other sites to frame, script or style the
//! page.

mod api;
mod signed;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::sync::Semaphore;

use crate::served::Served;
use signed::Signed;

/// Settings of the console.
#[derive(Debug, Clone, Default)]
pub struct ConsoleOptions {
    /// Names by which browsers may reach the server, besides `localhost` and all addresses.
    pub hosts: Vec<String>,
    /// The time after which an inactive user is signed out.
    pub idle: Duration,
}

/// State that all parts of the console share.
struct Console {
    served: Arc<dyn Served>,
    signed: Arc<Signed>,
    hosts: Vec<String>,
    command_url: String,
    /// Histories are read one at a time.
    reads_history: Arc<Semaphore>,
}

/// The browser may load the page's own files only, and must not run text as a script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// The files of the page, by the last component of their path.
const FILES: &[(&str, &str, &str)] = &[
    ("", "text/html; charset=utf-8", include_str!("../console/index.html")),
    ("style.css", "text/css; charset=utf-8", include_str!("../console/style.css")),
    ("app.js", JAVASCRIPT, include_str!("../console/app.js")),
    ("server.js", JAVASCRIPT, include_str!("../console/server.js")),
    ("dom.js", JAVASCRIPT, include_str!("../console/dom.js")),
    ("format.js", JAVASCRIPT, include_str!("../console/format.js")),
    ("overview.js", JAVASCRIPT, include_str!("../console/overview.js")),
    ("plot.js", JAVASCRIPT, include_str!("../console/plot.js")),
    ("tree.js", JAVASCRIPT, include_str!("../console/tree.js")),
    ("history.js", JAVASCRIPT, include_str!("../console/history.js")),
    ("znode.js", JAVASCRIPT, include_str!("../console/znode.js")),
    ("clients.js", JAVASCRIPT, include_str!("../console/clients.js")),
    ("ensemble.js", JAVASCRIPT, include_str!("../console/ensemble.js")),
    ("quotas.js", JAVASCRIPT, include_str!("../console/quotas.js")),
];

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The routes below `/console`.
pub(crate) fn console(
    served: Arc<dyn Served>,
    options: ConsoleOptions,
    command_url: String,
) -> Router {
    let signed = Arc::new(Signed::new(options.idle));
    let (hosts, reads_history) = (options.hosts, Arc::new(Semaphore::new(1)));
    let console = Arc::new(Console { served, signed, hosts, command_url, reads_history });
    let mut router = Router::new()
        .route("/console", get(|| async { (StatusCode::SEE_OTHER, [(LOCATION, "console/")]) }))
        .route("/console/api/sign-in", post(api::sign_in))
        .route("/console/api/sign-out", post(api::sign_out))
        .route("/console/api/me", get(api::me))
        .route("/console/api/znode", get(api::znode))
        .route("/console/api/children", get(api::children))
        .route("/console/api/count", get(api::count))
        .route("/console/api/quotas", get(api::quotas))
        .route("/console/api/watches", get(api::watches))
        .route("/console/api/history", get(api::history))
        .route("/console/api/create", post(api::create))
        .route("/console/api/set", post(api::set))
        .route("/console/api/delete", post(api::delete))
        .route("/console/api/acl", post(api::set_acl))
        .route("/console/api/end", post(api::end))
        .route("/console/api/reconfig", post(api::reconfig));
    for (name, kind, text) in FILES {
        let file = move || async move { ([(CONTENT_TYPE, *kind)], *text) };
        router = router.route(&format!("/console/{name}"), get(file));
    }
    router.layer(middleware::from_fn_with_state(console.clone(), guarded)).with_state(console)
}

/// Refuses requests with a foreign `Host`, and adds the headers that restrict the browser to each
/// answer.
async fn guarded(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    let mut response = if console.is_own_name(request.headers()) {
        next.run(request).await
    } else {
        let why = "the console is reached by an address, by localhost, or by a name in admin.console.hosts\n";
        (StatusCode::MISDIRECTED_REQUEST, why).into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

impl Console {
    /// Whether a request names an address or a name of this server as its host.
    fn is_own_name(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// An answer of the console.
fn answer(status: StatusCode, json: &serde_json::Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], Body::from(json.to_string())).into_response()
}

#[cfg(test)]
mod tests;
