//! A view as plain text and as JSON, and the cells that both text and screen use.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::view::{ClientRow, PathRow, Server, View};

/// The cell for an unknown number.
const MISSING: &str = "-";

/// The columns of servers.
pub(super) const SERVER_COLUMNS: [&str; 16] = [
    "server", "address", "health", "role", "epoch", "zxid", "lag", "req/s", "ms", "max ms",
    "queued", "conns", "znodes", "watches", "fsync", "max",
];
/// The columns of clients.
pub(super) const CLIENT_COLUMNS: [&str; 8] =
    ["client", "session", "server", "req/s", "requests", "queued", "last", "avg/max ms"];
/// The columns of paths.
pub(super) const PATH_COLUMNS: [&str; 5] = ["path", "reads/s", "bytes/s", "writes/s", "bytes/s"];

/// A number in few characters: with a decimal if it is below 100 and not whole, and with `k`, `M`
/// or `G` if it is large.
pub(super) fn short(number: Option<f64>) -> String {
    let Some(number) = number else { return MISSING.to_owned() };
    let size = number.abs();
    if size < 100.0 && number.fract() != 0.0 {
        return format!("{number:.1}");
    }
    for (unit, suffix) in [(1e9, "G"), (1e6, "M"), (1e4, "k")] {
        let of = if suffix == "k" { 1e3 } else { unit };
        if size >= unit {
            return format!("{:.1}{suffix}", number / of);
        }
    }
    format!("{number:.0}")
}

fn or_missing(text: Option<impl ToString>) -> String {
    text.map_or_else(|| MISSING.to_owned(), |text| text.to_string())
}

/// The cells of a server.
pub(super) fn server_cells(server: &Server) -> [String; 16] {
    [
        server.id.map_or_else(|| MISSING.to_owned(), |id| id.to_string()),
        server.address.clone(),
        server.health.clone(),
        or_missing(server.mode.as_ref()),
        or_missing(server.epoch),
        or_missing(server.zxid.as_ref()),
        or_missing(server.lag),
        short(server.requests_per_s),
        short(server.latency_ms),
        short(server.latency_max_ms),
        short(server.outstanding),
        short(server.connections),
        short(server.znodes),
        short(server.watches),
        short(server.fsync_ms),
        short(server.fsync_max_ms),
    ]
}

/// The cells of a client.
pub(super) fn client_cells(row: &ClientRow) -> [String; 8] {
    let client = &row.client;
    [
        client.address.clone(),
        client.session.clone(),
        row.server.clone(),
        short(row.requests_per_s),
        short(Some(client.received as f64)),
        client.queued.to_string(),
        client.last_op.clone(),
        format!("{}/{}", client.latency_avg, client.latency_max),
    ]
}

/// The cells of a path.
pub(super) fn path_cells(row: &PathRow) -> [String; 5] {
    [
        row.path.clone(),
        short(Some(row.reads_per_s)),
        short(Some(row.read_bytes_per_s)),
        short(Some(row.writes_per_s)),
        short(Some(row.write_bytes_per_s)),
    ]
}

/// The most frequent operations in one line.
pub(super) fn operations(view: &View) -> String {
    let shown = view.operations.iter().take(8);
    shown
        .map(|(name, rate)| format!("{name} {}", short(Some(*rate))))
        .collect::<Vec<_>>()
        .join("  ")
}

/// The view as text.
pub(super) fn plain(view: &View) -> String {
    let mut out = format!("{}\n", view.summary);
    table(&mut out, &SERVER_COLUMNS, view.servers.iter().map(server_cells));
    table(&mut out, &CLIENT_COLUMNS, view.clients.iter().map(client_cells));
    table(&mut out, &PATH_COLUMNS, view.paths.iter().map(path_cells));
    if !view.operations.is_empty() {
        let _ = writeln!(out, "\noperations/s: {}", operations(view));
    }
    for (at, note) in view.notes.iter().enumerate() {
        let _ = writeln!(out, "{}note: {note}", if at == 0 { "\n" } else { "" });
    }
    out
}

fn table<const N: usize>(
    out: &mut String,
    names: &[&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([names[at].chars().count()]).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    out.push('\n');
    for row in std::iter::once(names.map(str::to_owned)).chain(rows) {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// The view as JSON. Unknown values are null.
pub(super) fn json(view: &View) -> Value {
    let server = |it: &Server| {
        json!({
            "id": it.id, "address": it.address, "health": it.health, "role": it.mode, "version": it.version,
            "epoch": it.epoch, "zxid": it.zxid, "lag_txns": it.lag, "requests_per_s": it.requests_per_s,
            "latency_ms": it.latency_ms, "latency_ms_max": it.latency_max_ms, "outstanding": it.outstanding,
            "connections": it.connections, "znodes": it.znodes, "watches": it.watches,
            "fsync_ms": it.fsync_ms, "fsync_ms_max": it.fsync_max_ms,
        })
    };
    let client = |row: &ClientRow| {
        let it = &row.client;
        json!({
            "server": row.server, "address": it.address, "session": it.session, "requests_per_s": row.requests_per_s,
            "requests": it.received, "outstanding": it.queued, "last_operation": it.last_op,
            "latency_ms": it.latency_avg, "latency_ms_max": it.latency_max,
        })
    };
    let path = |it: &PathRow| {
        json!({
            "path": it.path, "reads_per_s": it.reads_per_s, "read_bytes_per_s": it.read_bytes_per_s,
            "writes_per_s": it.writes_per_s, "write_bytes_per_s": it.write_bytes_per_s,
        })
    };
    let operations: serde_json::Map<_, _> =
        view.operations.iter().map(|(name, rate)| (name.clone(), json!(rate))).collect();
    json!({
        "summary": view.summary,
        "servers": view.servers.iter().map(server).collect::<Vec<_>>(),
        "clients": view.clients.iter().map(client).collect::<Vec<_>>(),
        "paths": view.paths.iter().map(path).collect::<Vec<_>>(),
        "operations_per_s": operations,
        "notes": view.notes,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::samples;
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown: Vec<_> = [0.0, 0.25, 3.0, 99.96, 9_999.0, 12_345.0, 1e6, 2.5e9]
            .map(|number| short(Some(number)))
            .to_vec();
        assert_eq!(shown, ["0", "0.2", "3", "100.0", "9999", "12.3k", "1.0M", "2.5G"]);
        assert_eq!(short(None), "-");
    }

    #[test]
    fn text_and_json_say_the_same() {
        let (before, after) = samples();
        let view = View::new(&before, &after, 1);
        let text = plain(&view);
        let line = text.lines().find(|line| line.starts_with("1 ")).unwrap();
        let cells: Vec<_> = line.split_whitespace().collect();
        assert_eq!(
            cells[..8],
            ["1", "127.0.0.1:1", "ok", "leader", "2", "0x20000001a", "0", "500"]
        );
        assert!(text.contains("operations/s: set_data 50  ping 1\n"), "{text}");
        assert!(text.contains("note: 127.0.0.1:3: connection refused\n"), "{text}");
        let json = json(&view);
        assert_eq!(json["servers"][0]["requests_per_s"], 500.0);
        assert_eq!(json["servers"][2]["health"], "unreachable");
        assert_eq!(json["servers"][1]["watches"], Value::Null);
        assert_eq!(json["clients"][0]["requests_per_s"], 400.0);
        assert_eq!(json["operations_per_s"]["set_data"], 50.0);
        assert_eq!(json["paths"][0]["path"], "/app_1");
    }
}
