// The ensemble at a glance, and live plots of this server.

import { h, table } from "./dom.js";
import { bytes, count, rate, span } from "./format.js";
import { Plot } from "./plot.js";
import { me, page } from "./server.js";

const INTERVAL_MS = 2000;

function tile(name, value, kind) {
  return h("div", { class: "tile" }, h("b", { class: kind }, value), h("span", null, name));
}

function replicas(all) {
  const { ensemble } = all;
  const learners = new Map(all.learners.map((it) => [it.server_id, it]));
  const stateOf = (it) => {
    if (it.local) return ensemble.state;
    if (it.leader) return "leader";
    return learners.has(it.server_id) ? learners.get(it.server_id).learner_type : null;
  };
  const lagOf = (it) => {
    if (it.local) return 0;
    return learners.get(it.server_id)?.txns_not_sent ?? null;
  };
  return table([
    ["server", (it) => `server.${it.server_id}${it.local ? " (this one)" : ""}`],
    ["votes", (it) => (it.learner_type === "participant" ? "yes" : "no")],
    ["role", (it) => {
      const state = stateOf(it);
      if (state !== null) return state;
      return h("span", { class: "quiet" }, ensemble.state === "leader" ? "not connected" : "known to the leader");
    }],
    ["lag", (it) => { const lag = lagOf(it); return lag === null ? "-" : count(lag); }, "number"],
    ["zxid", (it) => (it.local ? all.data_tree.last_zxid : learners.get(it.server_id)?.last_zxid)],
    ["quorum", (it) => it.quorum_addresses.join(", ")],
    ["clients", (it) => it.client_address],
  ], ensemble.replicas);
}

export function overview() {
  const tiles = h("div", { class: "tiles" });
  const members = h("div", null);
  const plots = {
    requests: new Plot("Packets from clients /s", count),
    latency: new Plot("Latency, ms", (it) => it.toFixed(2)),
    sync: new Plot("Sync of the log, ms", (it) => it.toFixed(2)),
    outstanding: new Plot("Requests in progress", count),
  };
  const element = h("div", null, h("h2", null, "This server"), tiles,
    h("h2", null, "Last minutes"), h("div", { class: "plots" }, Object.values(plots).map((it) => it.element)), members);
  let before = null;
  let timer;

  function mean(now, names) {
    const of = (what, when) => names.reduce((sum, name) => sum + (when[`${what}_${name}`] ?? NaN), 0);
    if (before === null) return null;
    const counted = of("cnt", now) - of("cnt", before.monitor);
    const sum = of("sum", now) - of("sum", before.monitor);
    return counted > 0 && sum >= 0 ? sum / counted : null;
  }

  async function look() {
    const [jmx, monitor, ready] = await Promise.all([
      page("../jmx"), page(`..${me.commands}/monitor`), page("../health/ready"),
    ]);
    const now = { at: performance.now(), all: JSON.parse(jmx), monitor: JSON.parse(monitor) };
    const health = JSON.parse(ready);
    const { server, data_tree: tree, ensemble } = now.all;
    const epoch = Number(BigInt(tree.last_zxid) >> 32n);
    const reasons = health.reasons ?? [];
    tiles.replaceChildren(
      tile("health", health.status === "ok" ? "ready" : "not ready", health.status === "ok" ? "good" : "bad"),
      tile("role", server.server_state ?? "serves nobody"),
      tile("version", server.version.split(",")[0].split("-")[0]),
      tile("up", span(server.uptime)),
      ensemble ? tile("epoch", String(epoch)) : null ?? "",
      tile("zxid", tree.last_zxid),
      tile("connections", count(server.num_alive_connections)),
      tile("sessions", count(tree.global_sessions + tree.local_sessions)),
      tile("znodes", count(tree.node_count)),
      tile("data", bytes(tree.approximate_data_size)),
      tile("watches", count(tree.watch_count)),
      tile("ephemerals", count(tree.ephemerals_count)),
      tile("syncs above the limit", count(server.fsync_threshold_exceed_count),
        server.fsync_threshold_exceed_count > 0 ? "warn" : ""),
      ...reasons.map((reason) => h("p", { class: "bad" }, reason)));
    const elapsed = before === null ? 0 : now.at - before.at;
    plots.requests.add(rate(before?.all.server.packets_received, server.packets_received, elapsed));
    plots.latency.add(mean(now.monitor, ["readlatency", "updatelatency"]));
    plots.sync.add(mean(now.monitor, ["fsynctime"]));
    plots.outstanding.add(server.outstanding_requests);
    if (ensemble) {
      const leader = ensemble.leader_id === null ? h("span", { class: "bad" }, "no leader is known") : `server.${ensemble.leader_id} leads`;
      members.replaceChildren(h("h2", null, "Ensemble"),
        h("div", { class: "panel" }, h("p", null, leader, `, epoch ${epoch}, configuration ${ensemble.config_version}`), replicas(now.all)));
    }
    before = now;
  }

  async function again() {
    try {
      await look();
    } catch (error) {
      tiles.replaceChildren(h("p", { class: "bad" }, error.message));
    }
    timer = setTimeout(again, INTERVAL_MS);
  }
  again();
  return { element, leave: () => clearTimeout(timer) };
}
