//! The JMX interface of the original over HTTP: attributes as JSON, and operations as POST
//! requests. There is one further operation, which lets another server lead.
//!
//! Everybody who reaches the port can read attributes, as with the commands. An operation needs all
//! permissions on `/`; the client authenticates with the same header as for the command `snapshot`.
//!
//! Source: `ZooKeeperServerBean`, `DataTreeBean`, `LeaderBean`, `LocalPeerBean`, `RemotePeerBean`,
//! `ConnectionBean`.

mod settings;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use tracing::info;
use zebu_proto::{ServerId, SessionId};
use zebu_zab::config::{Member, Role};

use crate::commands::{self, addresses, client_address, connection, field};
use crate::four_letter::{Mode, full_version};
use crate::http::Client;
use crate::json::Json;
use crate::served::{Ended, LearnerFacts, Served};
use crate::site::{authorized, json};

/// The most ephemerals of a session in a list.
const EPHEMERALS_MAX: usize = 1_000;

type Shared = State<Arc<dyn Served>>;

/// The routes below `/jmx`.
pub fn management(served: Arc<dyn Served>) -> Router {
    Router::new()
        .route("/jmx", get(server))
        .route("/jmx/connections", get(connections))
        .route("/jmx/connections/{session}", get(one_connection))
        .route("/jmx/connections/{session}/{operation}", axum::routing::post(of_connection))
        .route("/ensemble/hand_over", axum::routing::post(hand_over))
        .route("/jmx/server/reset_statistics", axum::routing::post(reset_statistics))
        .with_state(served)
}

async fn server(State(served): Shared) -> Response {
    json(StatusCode::OK, &attributes(served.as_ref()))
}

async fn connections(State(served): Shared) -> Response {
    json(StatusCode::OK, &Json::Object(commands::connections(served.as_ref(), true)))
}

async fn one_connection(State(served): Shared, Path(session): Path<String>) -> Response {
    let facts = session_of(&session).and_then(|session| {
        let all = served.connections();
        let found = all.iter().find(|it| it.session.as_ref().is_some_and(|of| of.id == session))?;
        let Json::Object(mut fields) = connection(found, true) else { return None };
        let mut ephemerals = served.ephemerals_of(session, EPHEMERALS_MAX + 1);
        let is_all = ephemerals.len() <= EPHEMERALS_MAX;
        ephemerals.truncate(EPHEMERALS_MAX);
        fields.push(field("is_secure", found.is_secure));
        fields.push(("ephemeral_nodes".to_owned(), Json::list(ephemerals)));
        fields.push(field("ephemeral_nodes_complete", is_all));
        Some(Json::Object(fields))
    });
    match facts {
        Some(facts) => json(StatusCode::OK, &facts),
        None => no_connection(&session),
    }
}

fn no_connection(session: &str) -> Response {
    let why = format!(
        "no connection to this server has the session {session}, or there is no such session"
    );
    json(StatusCode::NOT_FOUND, &commands::failed("connections", why))
}

/// Parses a session id in the form of `cons` or of the commands.
pub(crate) fn session_of(text: &str) -> Option<SessionId> {
    let id = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()? as i64,
        None => text.parse().ok()?,
    };
    Some(SessionId(id))
}

async fn reset_statistics(
    State(served): Shared,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response {
    const NAME: &str = "reset_statistics";
    if let Err((status, why)) = authorized(served.as_ref(), &client, request.headers()).await {
        return json(status, &commands::failed(NAME, why));
    }
    served.reset_stats();
    json(StatusCode::OK, &commands::failed(NAME, Json::Null))
}

async fn hand_over(
    State(served): Shared,
    Query(arguments): Query<HashMap<String, String>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response {
    const NAME: &str = "hand_over";
    if let Err((status, why)) = authorized(served.as_ref(), &client, request.headers()).await {
        return json(status, &commands::failed(NAME, why));
    }
    let to = match arguments.get("to").map(|to| to.parse().map(ServerId)) {
        None => None,
        Some(Ok(to)) => Some(to),
        Some(Err(_)) => {
            let why =
                "to is the id of a server, such as to=2; without it the best follower leads next";
            return json(StatusCode::BAD_REQUEST, &commands::failed(NAME, why));
        }
    };
    let who = client.address.ip();
    match served.hand_over(to).await {
        Ok(heir) => {
            info!(
                "this server has handed over to server.{}, as requested over HTTP from {who}",
                heir.0
            );
            let Json::Object(mut fields) = commands::failed(NAME, Json::Null) else {
                unreachable!("an answer has fields")
            };
            fields.push(field("to", heir.0));
            json(StatusCode::OK, &Json::Object(fields))
        }
        Err(why) => json(StatusCode::CONFLICT, &commands::failed(NAME, why.to_string())),
    }
}

async fn of_connection(
    State(served): Shared,
    Path((session, operation)): Path<(String, String)>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response {
    if let Err((status, why)) = authorized(served.as_ref(), &client, request.headers()).await {
        return json(status, &commands::failed(&operation, why));
    }
    operate(served.as_ref(), &session, &operation, &client.address.ip().to_string())
}

/// Executes an operation on a connection if the client has the permission.
pub(crate) fn operate(served: &dyn Served, session: &str, operation: &str, who: &str) -> Response {
    let Some(id) = session_of(session) else { return no_connection(session) };
    let ended = match operation {
        "terminate_session" => served.end_session(id),
        "terminate_connection" => served.end_connection(id),
        "reset_counters" => served.reset_connection(id),
        other => {
            let why = format!(
                "there are terminate_session, terminate_connection and reset_counters, and no {other}"
            );
            return json(StatusCode::NOT_FOUND, &commands::failed(other, why));
        }
    };
    match ended {
        Ended::Done => {
            info!("{operation} of session {id} was requested over HTTP from {who}");
            json(StatusCode::OK, &commands::failed(operation, Json::Null))
        }
        Ended::Unknown => no_connection(session),
        Ended::Elsewhere(leader) => {
            let leader = leader.map_or_else(
                || "no leader is known".to_owned(),
                |leader| format!("server.{} leads", leader.0),
            );
            let why = format!("only the leader ends a session that all servers know: {leader}");
            json(StatusCode::CONFLICT, &commands::failed(operation, why))
        }
    }
}

fn attributes(served: &dyn Served) -> Json {
    let serving = served.serving();
    let (server, conf) = (served.server(), served.conf());
    let ms = |ms: u128| Json::from(i64::try_from(ms).unwrap_or(i64::MAX));
    let or_off = |number: Option<u32>| Json::from(number.map_or(-1, i64::from));
    let mut all = vec![
        (
            "server".to_owned(),
            Json::object([
                ("version", full_version().into()),
                ("server_state", serving.map_or(Json::Null, |mode| mode.name().into())),
                ("uptime", server.uptime_ms.into()),
                ("client_port", or_off(conf.client_port.map(u32::from))),
                ("secure_client_port", or_off(conf.secure_client_port.map(u32::from))),
                ("client_port_listen_backlog", or_off(conf.backlog)),
                ("tick_time", ms(conf.tick_ms)),
                ("max_client_cnxns_per_host", i64::from(conf.connections_per_address).into()),
                ("min_session_timeout", ms(conf.session_timeout_min_ms)),
                ("max_session_timeout", ms(conf.session_timeout_max_ms)),
                ("packets_received", server.packets_received.into()),
                ("packets_sent", server.packets_sent.into()),
                ("outstanding_requests", server.outstanding.into()),
                ("num_alive_connections", server.connections.into()),
                ("min_request_latency", server.latency_min_ms.into()),
                ("avg_request_latency", server.latency_avg_ms.into()),
                ("max_request_latency", server.latency_max_ms.into()),
                ("fsync_threshold_exceed_count", server.slow_syncs.into()),
                ("data_dir_size", conf.sizes.data_bytes.into()),
                ("log_dir_size", conf.sizes.log_bytes.into()),
                ("connection_drop_probability", server.connection_drop_probability.into()),
                ("trace_mask", served.trace_mask().into()),
                ("auth_failed_count", server.auth_failures.into()),
                ("non_mtls_local_conn_count", server.plain_local.into()),
                ("non_mtls_remote_conn_count", server.plain_remote.into()),
                ("last_client_response_size", server.response_sizes.last_bytes.into()),
                ("min_client_response_size", server.response_sizes.min_bytes.into()),
                ("max_client_response_size", server.response_sizes.max_bytes.into()),
                ("settings", served.config().map_or(Json::Null, settings::of)),
            ]),
        ),
        (
            "data_tree".to_owned(),
            Json::object([
                ("node_count", server.znodes.into()),
                ("watch_count", server.watches.into()),
                ("ephemerals_count", server.ephemerals.into()),
                ("approximate_data_size", server.data_bytes.into()),
                ("last_zxid", format!("{:#x}", server.zxid.0).into()),
                ("global_sessions", server.sessions.into()),
                ("local_sessions", server.local_sessions.into()),
            ]),
        ),
    ];
    all.extend(of_member(served, serving));
    let operations = [
        "POST /jmx/server/reset_statistics",
        "POST /jmx/connections/{session}/terminate_session",
        "POST /jmx/connections/{session}/terminate_connection",
        "POST /jmx/connections/{session}/reset_counters",
        "POST /ensemble/hand_over",
    ];
    all.push(("operations".to_owned(), Json::list(operations)));
    Json::Object(all)
}

/// The attributes of a member of an ensemble.
fn of_member(served: &dyn Served, serving: Option<Mode>) -> Vec<(String, Json)> {
    let (Some(facts), Some(ensemble)) = (served.member(), served.ensemble()) else {
        return Vec::new();
    };
    let leader = ensemble.leader;
    let peer = |member: &Member| {
        let role = if member.role == Role::Participant { "participant" } else { "observer" };
        Json::object([
            ("server_id", member.id.0.into()),
            ("quorum_addresses", addresses(member, |at| at.quorum_port)),
            ("election_addresses", addresses(member, |at| at.election_port)),
            ("client_address", client_address(member)),
            ("learner_type", role.into()),
            ("leader", (leader == Some(member.id)).into()),
            ("local", (member.id == ensemble.me).into()),
        ])
    };
    let id = |server: Option<zebu_proto::ServerId>| server.map_or(Json::Null, |it| it.0.into());
    let mut all = vec![(
        "ensemble".to_owned(),
        Json::object([
            ("server_id", ensemble.me.0.into()),
            ("state", serving.map_or("leaderelection", Mode::name).into()),
            ("leader_id", id(leader)),
            ("learner_master_id", id(facts.master)),
            ("quorum_size", facts.voters.into()),
            ("init_limit", i64::from(facts.init_ticks).into()),
            ("sync_limit", i64::from(facts.sync_ticks).into()),
            ("config_version", format!("{:#x}", ensemble.members.version().0).into()),
            ("waits_for", Json::list(facts.lacks)),
            ("replicas", Json::List(ensemble.members.members().map(peer).collect())),
        ]),
    )];
    if let Some(leads) = facts.leader {
        all.push((
            "leader".to_owned(),
            Json::object([
                ("current_zxid", format!("{:#x}", served.server().zxid.0).into()),
                ("uptime", leads.uptime_ms.into()),
                ("learners", leads.learners.connected.into()),
                ("synced_followers", leads.learners.followers.into()),
                ("synced_non_voting_followers", leads.learners.without_vote.into()),
                ("synced_observers", leads.learners.observers.into()),
                ("pending_syncs", leads.pending_syncs.into()),
                ("last_proposal_size", leads.proposals.last.into()),
                ("min_proposal_size", leads.proposals.min.into()),
                ("max_proposal_size", leads.proposals.max.into()),
            ]),
        ));
    }
    let newest = served.server().zxid;
    let learner = |it: LearnerFacts| {
        let acked = it.acked;
        let not_acked = it.unacknowledged(newest);
        let (observes, it) = (it.observes, it.connection);
        let is_same_epoch = it.last_zxid.0 >> 32 == newest.0 >> 32;
        let lag = is_same_epoch.then(|| newest.0.saturating_sub(it.last_zxid.0).max(0));
        Json::object([
            ("server_id", it.server.0.into()),
            ("remote_socket_address", it.remote.to_string().into()),
            ("learner_type", if observes { "observer" } else { "follower" }.into()),
            ("established", it.established_ms.into()),
            ("queued_packets", it.queued_packets.into()),
            ("queued_packets_size", it.queued_bytes.into()),
            ("packets_received", it.packets_received.into()),
            ("packets_sent", it.packets_sent.into()),
            ("requests", it.requests.into()),
            ("last_zxid", format!("{:#x}", it.last_zxid.0).into()),
            ("txns_not_sent", lag.map_or(Json::Null, Json::from)),
            ("last_acked_zxid", acked.map_or(Json::Null, |it| format!("{:#x}", it.zxid.0).into())),
            ("txns_not_acked", not_acked.map_or(Json::Null, Json::from)),
            (
                "ms_since_ack",
                acked.map_or(Json::Null, |it| {
                    i64::try_from(it.age.as_millis()).unwrap_or(i64::MAX).into()
                }),
            ),
        ])
    };
    let learners = served.learners().into_iter().map(learner).collect();
    all.push(("learners".to_owned(), Json::List(learners)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_are_read_in_both_forms() {
        assert_eq!(session_of("0x10000697ae10000"), Some(SessionId(0x0100_0069_7ae1_0000)));
        assert_eq!(session_of("-2"), Some(SessionId(-2)));
        assert_eq!(session_of("0xfffffffffffffffe"), Some(SessionId(-2)));
        for text in ["", "0x", "x", "0x1ffffffffffffffff", "1 "] {
            assert_eq!(session_of(text), None, "{text}");
        }
    }
}
