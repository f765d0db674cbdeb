// Sessions and connections of this server, their watches, and the means to end them.

import { button, confirmed, h, say, table, trying } from "./dom.js";
import { count, exactSessions, hexId, span } from "./format.js";
import { get, me, page, post } from "./server.js";

const ROWS = 300;

export function clients() {
  const connections = h("div", null);
  const watches = h("div", null);
  const filter = h("input", { type: "search", placeholder: "address or session", "aria-label": "Filter", oninput: () => show() });
  let all = [];

  async function end(it, operation, question) {
    if (!await confirmed(question, "End it")) return;
    await post("end", { session: it.session_id, operation });
    say("It is on its way");
    await look();
  }

  function show() {
    const wanted = filter.value.trim().toLowerCase();
    const matching = all.filter((it) => wanted === "" || it.remote_socket_address.includes(wanted) || it.hex.includes(wanted));
    const may = me.may_do_everything;
    connections.replaceChildren(
      h("p", { class: "quiet" }, `${count(matching.length)} of ${count(all.length)} connections`
        + (matching.length > ROWS ? `, the ${ROWS} with most requests` : "")),
      table([
        ["session", (it) => h("code", null, it.hex)],
        ["client", (it) => it.remote_socket_address + (it.secure ? " TLS" : "")],
        ["requests", (it) => count(it.packets_received), "number"],
        ["in progress", (it) => count(it.outstanding_requests), "number"],
        ["last", (it) => it.last_operation],
        ["avg/max ms", (it) => `${it.avg_latency ?? "-"}/${it.max_latency ?? "-"}`, "number"],
        ["timeout", (it) => (it.session_timeout ? span(it.session_timeout) : "-"), "number"],
        ["", (it) => (it.session_id === undefined || !may ? "" : h("span", { class: "row" },
          button("Close the connection", () => end(it, "terminate_connection",
            `Close the connection of ${it.hex}? The session lives on, and its client connects again.`)),
          button("End the session", () => end(it, "terminate_session",
            `End the session ${it.hex}? Its ephemerals are deleted.`), "danger")))],
      ], matching.slice(0, ROWS), "no connection"),
      may ? "" : h("p", { class: "quiet" }, "To end a session or a connection, sign in with every permission on /."));
  }

  async function look() {
    const found = exactSessions(await page("../jmx/connections"));
    const secure = found.secure_connections.map((it) => ({ ...it, secure: true }));
    all = [...found.connections, ...secure].map((it) => ({ ...it, hex: it.session_id === undefined ? "-" : hexId(it.session_id) }));
    all.sort((a, b) => b.packets_received - a.packets_received);
    show();
  }

  async function lookAtWatches(from) {
    const found = await get("watches", { from });
    watches.replaceChildren(
      h("p", { class: "quiet" }, `${count(found.total)} data watches` + (found.cut ? ", a part of them" : "")),
      table([["session", (it) => h("code", null, it.session)], ["path", (it) => it.path, "wide"]], found.watches, "no watch"),
      found.next === null ? "" : button("next", () => lookAtWatches(found.next)));
  }

  trying(look)();
  return {
    element: h("div", null, h("h2", null, "Connections"), h("div", { class: "row" }, filter, button("Look again", look)), h("div", { class: "panel" }, connections),
      h("h2", null, "Watches"), h("div", { class: "panel" }, button("Show the watches of this server", () => lookAtWatches(0)), watches)),
    leave: () => {},
  };
}
