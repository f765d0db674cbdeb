// Quotas with what is used of them, and the largest subtrees.

import { button, h, table, trying } from "./dom.js";
import { bytes, count, join } from "./format.js";
import { get } from "./server.js";

// Subtrees that are counted: each count is a request.
const COUNTED = 200;

function limit(soft, hard, format) {
  const parts = [soft >= 0 ? `${format(soft)} soft` : null, hard >= 0 ? `${format(hard)} hard` : null];
  return parts.filter((it) => it !== null).join(", ") || "-";
}

function used(value, soft, hard, format) {
  if (value === null) return "-";
  const most = hard >= 0 ? hard : soft;
  const kind = most < 0 ? "" : value > most ? "bad" : value > 0.8 * most ? "warn" : "";
  return h("span", { class: kind }, most > 0 ? `${format(value)} (${Math.round((100 * value) / most)} %)` : format(value));
}

export function quotas() {
  const list = h("div", null);
  const sizes = h("div", null);
  const path = h("input", { class: "grow mono", value: "/", "aria-label": "Below this path" });

  async function look() {
    const found = await get("quotas");
    list.replaceChildren(table([
      ["path", (it) => h("a", { href: "#tree" + encodeURI(it.path) }, it.path), "wide"],
      ["znodes", (it) => used(it.count_used, it.count, it.count_hard, count), "number"],
      ["limit", (it) => limit(it.count, it.count_hard, count)],
      ["bytes", (it) => used(it.bytes_used, it.bytes, it.bytes_hard, bytes), "number"],
      ["limit", (it) => limit(it.bytes, it.bytes_hard, bytes)],
    ], found.quotas, "no quota"), found.complete ? "" : h("p", { class: "quiet" }, "and more"));
  }

  async function measure() {
    const parent = path.value.trim() || "/";
    const found = await get("children", { path: parent, most: COUNTED });
    const rows = [];
    for (const child of found.children) {
      const at = join(parent, child.name);
      const below = child.children === 0 ? 0 : (await get("count", { path: at })).below;
      rows.push({ path: at, znodes: below + 1, bytes: child.bytes });
      if (rows.length % 20 === 0) sizes.replaceChildren(h("p", { class: "quiet" }, `${rows.length} subtrees are counted`));
    }
    rows.sort((a, b) => b.znodes - a.znodes);
    const rest = found.total - rows.length;
    sizes.replaceChildren(table([
      ["path", (it) => h("a", { href: "#tree" + encodeURI(it.path) }, it.path), "wide"],
      ["znodes", (it) => count(it.znodes), "number"],
      ["own bytes", (it) => bytes(it.bytes), "number"],
      ["", (it) => button("below", async () => { path.value = it.path; await measure(); })],
    ], rows.slice(0, 50), "no children"), rest > 0 ? h("p", { class: "quiet" }, `${count(rest)} more children are not counted`) : "");
  }

  trying(look)();
  return {
    element: h("div", null, h("h2", null, "Quotas"), h("div", { class: "panel" }, list),
      h("h2", null, "Largest subtrees"),
      h("div", { class: "panel" }, h("form", { class: "row", onsubmit: trying(measure) }, path, h("button", { type: "submit" }, "Count")), sizes)),
    leave: () => {},
  };
}
