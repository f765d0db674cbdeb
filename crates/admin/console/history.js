// What happened to a znode, from the logs of the server.

import { button, h, table } from "./dom.js";
import { bytes, time } from "./format.js";
import { get } from "./server.js";

function what(it) {
  if (it.gap) return `transactions between ${it.gap.after} and ${it.gap.before ?? "the end"} are in none of the logs`;
  const parts = [it.change];
  if (it.kind && it.kind !== "persistent") parts.push(it.kind);
  if (it.version !== undefined) parts.push(`version ${it.version}`);
  if (it.cause) parts.push(it.cause);
  if (it.acl && it.change !== "created") parts.push(it.acl.join(", "));
  if (it.data) {
    parts.push(bytes(it.data.bytes));
    if (it.data.begin) parts.push(JSON.stringify(it.data.begin));
  }
  return parts.join(", ");
}

function notes(found) {
  const all = [];
  if (found.cut) all.push("Older changes are in the same logs.");
  if (found.unread_logs > 0) all.push(`${found.unread_logs} older logs were not read.`);
  if (found.first) all.push(`The logs were read from transaction ${found.first} on.`);
  if (found.cut || found.unread_logs > 0) all.push("The command zebu history reads all of them.");
  return h("p", { class: "quiet" }, all.join(" "));
}

export function historyOf(path) {
  const shown = h("div", null);
  const below = h("input", { type: "checkbox" });
  const read = button("Read the logs", async () => {
    read.disabled = true;
    shown.replaceChildren(h("p", { class: "quiet" }, "The logs are read; this may take some seconds."));
    try {
      const found = await get("history", { path, below: String(below.checked) });
      const columns = [
        ["time", (it) => (it.time_ms === undefined || it.time_ms === null ? null : time(it.time_ms))],
        ["transaction", (it) => it.zxid],
        below.checked ? ["path", (it) => it.path] : null,
        ["change", what, "wide"],
        ["session", (it) => it.session],
      ];
      shown.replaceChildren(
        table(columns.filter((it) => it !== null), found.changes.reverse(), "The logs that were read have no change of this znode."),
        notes(found), ...found.errors.map((it) => h("p", { class: "bad" }, it)));
    } catch (error) {
      shown.replaceChildren(h("p", { class: "bad" }, error.message));
    } finally {
      read.disabled = false;
    }
  });
  return h("details", null, h("summary", null, "History"),
    h("div", { class: "row" }, read, h("label", { class: "check" }, below, " with everything below")), shown);
}
