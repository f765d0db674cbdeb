//! The console: a page for the browser with what an operator looks at and does.
//!
//! The page is made of files inside the binary; it asks for nothing elsewhere. Whoever signs in gets a session of a client
//! inside this process with their own address and identities ([`InsideSession`]), and a token that names it. All requests
//! for znodes go through that session, so ACLs, quotas and limits hold as for any client.
//!
//! **Against other sites:** requests need the token in a header, which no other site knows and no browser adds by itself;
//! changes are POST requests; a request whose `Host` is neither an address nor a configured name is refused, so that a name
//! of somebody else's cannot be made to point here. Answers say that nothing else may frame, script or style the page.

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

/// How the console is served.
#[derive(Debug, Clone, Default)]
pub struct ConsoleOptions {
    /// Names by which browsers may reach the server, besides `localhost` and all addresses.
    pub hosts: Vec<String>,
    /// How long somebody who does nothing stays signed in.
    pub idle: Duration,
}

/// What everything of the console shares.
struct Console {
    served: Arc<dyn Served>,
    signed: Arc<Signed>,
    hosts: Vec<String>,
    command_url: String,
    /// Histories are read one at a time.
    reads_history: Arc<Semaphore>,
}

/// Nothing but the page's own files; texts become scripts nowhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// The files of the page, by the last part of their path.
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

/// Everything below `/console`.
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

/// Refuses what comes by a name of somebody else's, and says in each answer what a browser may do with it.
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
    /// Whether a request comes to an address or a name of this server.
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
