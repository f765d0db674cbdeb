//! The requests of the page, as JSON. The session of the signed-in user executes them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tracing::info;
use zebu_jute::{Decode as _, Encode};
use zebu_proto::answer::{AclAndStat, Created, DataAndStat};
use zebu_proto::request::{
    AuthPacket, Create, CreateTtl, PathOnly, PathVersion, PathWatch, Reconfig, SetAcl, SetData,
};
use zebu_proto::{AclRef, Causes, ErrorCode, OpCode, Perms, Stat, Version, Zxid};
use zebu_zab::config::Rules;

use super::signed::Person;
use super::{Console, answer};
use crate::http::Client;
use crate::inside::{ChildrenPage, Lost, Reply};
use crate::management;

/// The header that contains the user's token.
const TOKEN: &str = "x-zebu-token";

/// The most bytes of a request: the largest data of a znode as base64, with some reserve.
const BODY_BYTES_MAX: usize = 4 << 20;
/// The time limit for the body of a request.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// Children in one answer.
const CHILDREN_MAX: usize = 500;
/// The most children that are examined for one answer, under one lock.
const LOOKED_AT_MAX: usize = 8_192;
/// Quotas in one answer.
const QUOTAS_MAX: usize = 1_000;
/// Watches in one answer.
const WATCHES_MAX: usize = 1_000;

type Shared = State<Arc<Console>>;
type Arguments = Query<HashMap<String, String>>;

/// The reason why a request fails.
pub(super) struct Refused(StatusCode, String);

impl axum::response::IntoResponse for Refused {
    fn into_response(self) -> Response {
        answer(self.0, &json!({ "error": self.1 }))
    }
}

impl From<Lost> for Refused {
    fn from(lost: Lost) -> Self {
        Self(StatusCode::UNAUTHORIZED, format!("{lost}; sign in again"))
    }
}

impl From<ErrorCode> for Refused {
    fn from(code: ErrorCode) -> Self {
        let status = match code {
            ErrorCode::NO_NODE => StatusCode::NOT_FOUND,
            ErrorCode::NO_AUTH => StatusCode::FORBIDDEN,
            ErrorCode::BAD_VERSION | ErrorCode::NODE_EXISTS | ErrorCode::NOT_EMPTY => {
                StatusCode::CONFLICT
            }
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self(status, code.name().map_or_else(|| code.to_string(), str::to_owned))
    }
}

fn bad(why: impl Into<String>) -> Refused {
    Refused(StatusCode::BAD_REQUEST, why.into())
}

type Answered = Result<Response, Refused>;

fn ok(json: &Value) -> Answered {
    Ok(answer(StatusCode::OK, json))
}

/// The user.
fn person(console: &Console, headers: &HeaderMap) -> Result<(String, Arc<Person>), Refused> {
    let token = headers.get(TOKEN).and_then(|token| token.to_str().ok()).unwrap_or_default();
    let person = console.signed.by_token(token);
    let person =
        person.ok_or_else(|| Refused(StatusCode::UNAUTHORIZED, "sign in first".to_owned()))?;
    Ok((token.to_owned(), person))
}

/// The JSON of a request. No form of another site can send this content type.
async fn body(headers: &HeaderMap, body: Body) -> Result<Value, Refused> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().is_none_or(|kind| kind.trim() != "application/json") {
        return Err(Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is not JSON".to_owned()));
    }
    let bytes = tokio::time::timeout(BODY_TIME_MAX, to_bytes(body, BODY_BYTES_MAX)).await;
    let bytes = bytes
        .map_err(|_| Refused(StatusCode::REQUEST_TIMEOUT, "the body does not come".to_owned()))?
        .map_err(|_| {
            let why = format!("the body is longer than {BODY_BYTES_MAX} bytes, or incomplete");
            Refused(StatusCode::PAYLOAD_TOO_LARGE, why)
        })?;
    serde_json::from_slice(&bytes).map_err(|error| bad(format!("the body is not JSON: {error}")))
}

fn text<'v>(body: &'v Value, name: &str) -> Result<&'v str, Refused> {
    body[name].as_str().ok_or_else(|| bad(format!("{name} is missing, or is no text")))
}

fn version(body: &Value) -> Result<Version, Refused> {
    let version = body["version"].as_i64().and_then(|version| i32::try_from(version).ok());
    version.map(Version).ok_or_else(|| bad("version is missing, or is no version"))
}

fn data(body: &Value) -> Result<Option<Vec<u8>>, Refused> {
    match &body["data"] {
        Value::Null => Ok(None),
        Value::String(text) => match BASE64_STANDARD.decode(text) {
            Ok(data) => Ok(Some(data)),
            Err(_) => Err(bad("data is not base64")),
        },
        _ => Err(bad("data is neither null nor base64")),
    }
}

fn some(path: &str) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(path))
}

/// The answer to a successful request.
async fn asked(person: &Person, op: OpCode, request: &impl Encode) -> Result<Vec<u8>, Refused> {
    let Reply { err, body } = person.call(op, request.to_bytes()).await?;
    if err == ErrorCode::OK { Ok(body) } else { Err(err.into()) }
}

fn undecodable(_: zebu_jute::DecodeError) -> Refused {
    Refused(StatusCode::INTERNAL_SERVER_ERROR, "the answer cannot be read".to_owned())
}

pub(super) async fn sign_in(
    State(console): Shared,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    sent: Body,
) -> Answered {
    let address = client.address;
    let body = body(&headers, sent).await?;
    let scheme = body["scheme"].as_str().unwrap_or_default();
    let credentials = body["credentials"].as_str().unwrap_or_default();
    let unavailable = |why: &str| Refused(StatusCode::SERVICE_UNAVAILABLE, why.to_owned());
    if !console.signed.has_room() {
        return Err(unavailable("too many are signed in"));
    }
    let session = console.served.open_session(&client).await;
    let mut session = session.map_err(|why| unavailable(&why.to_string()))?;
    if !scheme.is_empty() {
        let packet =
            AuthPacket { kind: 0, scheme: some(scheme), auth: Some(credentials.as_bytes()) };
        let replied = session.call(OpCode::AUTH, packet.to_bytes()).await;
        if replied.is_ok_and(|reply| reply.err == ErrorCode::OK) {
            info!("{address} signs in to the console with the scheme {scheme:?}");
        } else {
            let why = "the scheme or the credentials are refused";
            return Err(Refused(StatusCode::UNAUTHORIZED, why.to_owned()));
        }
    }
    let facts = facts_of(&console, session.as_ref());
    let token = console.signed.enter(session);
    let token = token.ok_or_else(|| unavailable("too many are signed in"))?;
    let mut facts = facts;
    facts["token"] = json!(token);
    ok(&facts)
}

fn facts_of(console: &Console, session: &dyn crate::inside::InsideSession) -> Value {
    json!({
        "session": session.id().to_string(),
        "identities": session.identities(),
        "may_do_everything": session.may_do_everything(),
        "commands": console.command_url,
    })
}

pub(super) async fn sign_out(State(console): Shared, headers: HeaderMap) -> Answered {
    let (token, person) = person(&console, &headers)?;
    console.signed.leave(&token);
    person.close().await;
    ok(&json!({}))
}

pub(super) async fn me(State(console): Shared, headers: HeaderMap) -> Answered {
    let (_, person) = person(&console, &headers)?;
    ok(&person.look(|session| facts_of(&console, session)).await)
}

fn argument<'a>(arguments: &'a HashMap<String, String>, name: &str) -> &'a str {
    arguments.get(name).map(String::as_str).unwrap_or_default()
}

fn stat_json(stat: &Stat) -> Value {
    // Numbers above 2^53 are sent as text, because JavaScript cannot represent them.
    json!({
        "czxid": format!("{:#x}", stat.czxid.0),
        "mzxid": format!("{:#x}", stat.mzxid.0),
        "pzxid": format!("{:#x}", stat.pzxid.0),
        "ctime": stat.ctime,
        "mtime": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeral_owner": (stat.ephemeral_owner != 0).then(|| format!("{:#x}", stat.ephemeral_owner)),
        "data_length": stat.data_length,
        "children": stat.num_children,
    })
}

pub(super) async fn znode(
    State(console): Shared,
    Query(arguments): Arguments,
    headers: HeaderMap,
) -> Answered {
    let (_, person) = person(&console, &headers)?;
    let path = argument(&arguments, "path");
    let read = PathWatch { path: some(path), watch: false };
    let read = person.call(OpCode::GET_DATA, read.to_bytes()).await?;
    let request = PathOnly { path: some(path) };
    let acl = person.call(OpCode::GET_ACL, request.to_bytes()).await?;
    let mut shown = json!({ "path": path });
    if acl.err == ErrorCode::OK {
        let AclAndStat { acl, stat } = AclAndStat::from_bytes(&acl.body).map_err(undecodable)?;
        let entry = |it: &AclRef<'_>| json!({ "perms": format!("{:?}", it.perms), "scheme": it.scheme, "id": it.id });
        shown["acl"] = acl.iter().map(entry).collect();
        shown["stat"] = stat_json(&stat);
    } else {
        shown["acl_error"] = json!(acl.err.name());
    }
    match read.err {
        ErrorCode::OK => {
            let DataAndStat { data, stat } =
                DataAndStat::from_bytes(&read.body).map_err(undecodable)?;
            shown["data"] = json!(data.map(|data| BASE64_STANDARD.encode(data)));
            shown["stat"] = stat_json(&stat);
        }
        // A user who may change the ACL sees the ACL and the stat.
        ErrorCode::NO_AUTH if acl.err == ErrorCode::OK => shown["data_error"] = json!("NO_AUTH"),
        other => return Err(other.into()),
    }
    ok(&shown)
}

pub(super) async fn children(
    State(console): Shared,
    Query(arguments): Arguments,
    headers: HeaderMap,
) -> Answered {
    let (_, person) = person(&console, &headers)?;
    let most = argument(&arguments, "most").parse().unwrap_or(CHILDREN_MAX);
    let page = ChildrenPage {
        path: argument(&arguments, "path"),
        after: argument(&arguments, "after"),
        prefix: argument(&arguments, "prefix"),
        most: most.clamp(1, CHILDREN_MAX),
        looked_at: LOOKED_AT_MAX,
    };
    let found = person.look(|session| session.children(&page)).await?;
    let child = |it: &crate::inside::Child| json!({ "name": it.name, "children": it.children, "bytes": it.bytes, "ephemeral": it.is_ephemeral });
    ok(&json!({
        "children": found.children.iter().map(child).collect::<Vec<_>>(),
        "exact": found.exact.as_ref().map(child),
        "total": found.total,
        "next": found.next,
        "gone": found.is_gone,
    }))
}

pub(super) async fn count(
    State(console): Shared,
    Query(arguments): Arguments,
    headers: HeaderMap,
) -> Answered {
    let (_, person) = person(&console, &headers)?;
    let request = PathOnly { path: some(argument(&arguments, "path")) };
    let body = asked(&person, OpCode::GET_ALL_CHILDREN_NUMBER, &request).await?;
    let count = i32::from_bytes(&body).map_err(undecodable)?;
    ok(&json!({ "below": count }))
}

pub(super) async fn quotas(State(console): Shared, headers: HeaderMap) -> Answered {
    let (_, person) = person(&console, &headers)?;
    let mut quotas = person.look(|session| session.quotas(QUOTAS_MAX + 1)).await?;
    let is_all = quotas.len() <= QUOTAS_MAX;
    quotas.truncate(QUOTAS_MAX);
    let quota = |it: &crate::inside::QuotaFacts| {
        json!({
            "path": it.path, "count": it.count, "bytes": it.bytes, "count_hard": it.count_hard,
            "bytes_hard": it.bytes_hard, "count_used": it.count_used, "bytes_used": it.bytes_used,
        })
    };
    ok(&json!({ "quotas": quotas.iter().map(quota).collect::<Vec<_>>(), "complete": is_all }))
}

pub(super) async fn watches(
    State(console): Shared,
    Query(arguments): Arguments,
    headers: HeaderMap,
) -> Answered {
    person(&console, &headers)?;
    let from = argument(&arguments, "from").parse().unwrap_or(0);
    let (mut watches, mut next) = (Vec::new(), Some(from));
    while let Some(from) = next
        && watches.len() < WATCHES_MAX
    {
        next = console.served.watches_by_session(from, &mut watches);
        // Clients get a turn between two pages.
        tokio::task::yield_now().await;
    }
    let summary = console.served.watch_summary();
    let watch = |it: &crate::four_letter::Watcher| json!({ "session": it.session.to_string(), "path": it.path });
    ok(&json!({
        "watches": watches.iter().take(WATCHES_MAX).map(watch).collect::<Vec<_>>(),
        "next": next.map(|next| next.to_string()),
        "cut": watches.len() > WATCHES_MAX,
        "total": summary.watches,
    }))
}

/// The changes of a znode, from the logs. The logs may contain data that ACLs hide today, so the
/// user needs every permission on `/`.
pub(super) async fn history(
    State(console): Shared,
    Query(arguments): Arguments,
    headers: HeaderMap,
) -> Answered {
    let (_, person) = person(&console, &headers)?;
    may_do_everything(&person).await?;
    let permit = console.reads_history.clone().try_acquire_owned().map_err(|_| {
        let why = "another request reads a history at the moment; try again";
        Refused(StatusCode::TOO_MANY_REQUESTS, why.to_owned())
    })?;
    let path = argument(&arguments, "path").to_owned();
    let below = argument(&arguments, "below") == "true";
    let served = console.served.clone();
    let read = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        served.history(&path, below)
    });
    let failed = |why| Refused(StatusCode::UNPROCESSABLE_ENTITY, why);
    let read = read.await.map_err(|_| failed("the logs cannot be read".to_owned()))?;
    let found = read.map_err(|why| failed(Causes(&why).to_string()))?;
    ok(&json!({
        "changes": found.changes,
        "cut": found.is_cut,
        "first": found.first.map(|first| first.to_string()),
        "unread_logs": found.unread_logs,
        "errors": found.errors,
    }))
}

async fn may_do_everything(person: &Person) -> Result<(), Refused> {
    if person.look(|session| session.may_do_everything()).await {
        return Ok(());
    }
    Err(Refused(StatusCode::FORBIDDEN, "this needs every permission on /".to_owned()))
}

pub(super) async fn create(State(console): Shared, headers: HeaderMap, sent: Body) -> Answered {
    let (_, person) = person(&console, &headers)?;
    let body = body(&headers, sent).await?;
    let (path, data) = (text(&body, "path")?, data(&body)?);
    let acl = acl(&body["acl"])?;
    let (flags, op) = match text(&body, "mode")? {
        "persistent" => (0, OpCode::CREATE),
        "persistent-sequential" => (2, OpCode::CREATE),
        "container" => (4, OpCode::CREATE_CONTAINER),
        "ttl" => (5, OpCode::CREATE_TTL),
        other => return Err(bad(format!("{other} is no kind of znode that the console makes"))),
    };
    let data = data.as_deref();
    let created = if op == OpCode::CREATE_TTL {
        let ttl_ms = body["ttl_ms"].as_i64().ok_or_else(|| bad("ttl_ms is missing"))?;
        let request = CreateTtl { path: some(path), data, acl: Some(acl), flags, ttl_ms };
        asked(&person, op, &request).await?
    } else {
        let request = Create { path: some(path), data, acl: Some(acl), flags };
        asked(&person, op, &request).await?
    };
    let mut decoder = zebu_jute::Decoder::new(&created);
    let Created { path } = Created::decode(&mut decoder).map_err(undecodable)?;
    ok(&json!({ "path": path }))
}

pub(super) async fn set(State(console): Shared, headers: HeaderMap, sent: Body) -> Answered {
    let (_, person) = person(&console, &headers)?;
    let body = body(&headers, sent).await?;
    let data = data(&body)?;
    let request = SetData {
        path: some(text(&body, "path")?),
        data: data.as_deref(),
        version: version(&body)?,
    };
    let body = asked(&person, OpCode::SET_DATA, &request).await?;
    ok(&json!({ "stat": stat_json(&Stat::from_bytes(&body).map_err(undecodable)?) }))
}

pub(super) async fn delete(State(console): Shared, headers: HeaderMap, sent: Body) -> Answered {
    let (_, person) = person(&console, &headers)?;
    let body = body(&headers, sent).await?;
    let request = PathVersion { path: some(text(&body, "path")?), version: version(&body)? };
    asked(&person, OpCode::DELETE, &request).await?;
    ok(&json!({}))
}

/// Parses a list of objects with `perms`, `scheme` and `id`.
fn acl(list: &Value) -> Result<Vec<AclRef<'_>>, Refused> {
    let list = list.as_array().ok_or_else(|| bad("acl is missing, or is no list"))?;
    list.iter()
        .map(|entry| {
            let mut perms = 0;
            for letter in text(entry, "perms")?.chars() {
                let letters = "rwcda";
                let at = letters.find(letter);
                perms |= 1 << at.ok_or_else(|| bad(format!("{letter} is no permission")))?;
            }
            let scheme = Some(Cow::Borrowed(text(entry, "scheme")?));
            Ok(AclRef { perms: Perms(perms), scheme, id: Some(Cow::Borrowed(text(entry, "id")?)) })
        })
        .collect()
}

pub(super) async fn set_acl(State(console): Shared, headers: HeaderMap, sent: Body) -> Answered {
    let (_, person) = person(&console, &headers)?;
    let body = body(&headers, sent).await?;
    let request = SetAcl {
        path: some(text(&body, "path")?),
        acl: Some(acl(&body["acl"])?),
        version: version(&body)?,
    };
    let body = asked(&person, OpCode::SET_ACL, &request).await?;
    ok(&json!({ "stat": stat_json(&Stat::from_bytes(&body).map_err(undecodable)?) }))
}

pub(super) async fn end(
    State(console): Shared,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    sent: Body,
) -> Answered {
    let (_, person) = person(&console, &headers)?;
    let body = body(&headers, sent).await?;
    may_do_everything(&person).await?;
    let (session, operation) = (text(&body, "session")?, text(&body, "operation")?);
    let who = format!("{} at the console", client.address.ip());
    Ok(management::operate(console.served.as_ref(), session, operation, &who))
}

pub(super) async fn reconfig(State(console): Shared, headers: HeaderMap, sent: Body) -> Answered {
    let (_, person) = person(&console, &headers)?;
    let body = body(&headers, sent).await?;
    let list = |name: &str| body[name].as_str().filter(|list| !list.is_empty()).map(Cow::Borrowed);
    let from = text(&body, "version")?;
    let from = i64::from_str_radix(from.trim_start_matches("0x"), 16)
        .map_err(|_| bad("version is no zxid in hex"))?;
    let request = Reconfig {
        joining: list("joining"),
        leaving: list("leaving"),
        members: list("members"),
        config_id: from,
    };
    if body["dry_run"] == json!(true) {
        let ensemble = console.served.ensemble();
        let ensemble = ensemble.ok_or_else(|| bad("this server is no member of an ensemble"))?;
        let rules = Rules { standalone: true, multi_address: true };
        let changed = ensemble.members.changed(&request, Zxid(0), rules);
        let changed = changed
            .map_err(|fault| Refused(StatusCode::UNPROCESSABLE_ENTITY, fault.to_string()))?;
        let lines = |text: String| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with("version="));
            lines.map(str::to_owned).collect()
        };
        return ok(&json!({
            "before": lines(ensemble.members.to_string()),
            "after": lines(changed.to_string()),
            "voters_before": ensemble.members.voters().count(),
            "voters_after": changed.voters().count(),
        }));
    }
    let body = asked(&person, OpCode::RECONFIG, &request).await?;
    let DataAndStat { data, .. } = DataAndStat::from_bytes(&body).map_err(undecodable)?;
    let text = String::from_utf8_lossy(data.unwrap_or_default()).into_owned();
    ok(&json!({ "configuration": text }))
}
