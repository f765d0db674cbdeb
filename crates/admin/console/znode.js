// One znode: data in three forms, edit with a check of the version, ACL, children to create, the end.

import { button, confirmed, h, say, table, trying } from "./dom.js";
import { asHex, asJson, asText, bytes, fromBase64, fromHex, join, time, toBase64 } from "./format.js";
import { historyOf } from "./history.js";
import { get, post } from "./server.js";

const OPEN_ACL = [{ perms: "cdrwa", scheme: "world", id: "anyone" }];

export async function znode(path, into, events) {
  into.replaceChildren(h("p", { class: "quiet" }, "..."));
  let facts;
  try {
    facts = await get("znode", { path });
  } catch (error) {
    // What is deleted has a history, too.
    into.replaceChildren(h("h3", { class: "mono" }, path), h("p", { class: "bad" }, error.message), historyOf(path));
    return;
  }
  const { stat } = facts;
  const again = () => znode(path, into, events);
  into.replaceChildren(
    h("h3", { class: "mono" }, path),
    dataOf(path, facts, again),
    table([["", (it) => it[0]], ["", (it) => it[1], "wide"]], [
      ["version", `${stat.version} (ACL ${stat.aversion}, children ${stat.cversion})`],
      ["data", bytes(stat.data_length)],
      ["children", String(stat.children)],
      ["created", `${time(stat.ctime)}, ${stat.czxid}`],
      ["changed", `${time(stat.mtime)}, ${stat.mzxid}`],
      ["children changed", stat.pzxid],
      ["ephemeral of", stat.ephemeral_owner ?? "-"],
    ]),
    aclOf(path, facts, again),
    childOf(path, events),
    historyOf(path),
    h("div", { class: "row" }, button("Delete this znode", async () => {
      if (!await confirmed(`Delete ${path}, version ${stat.version}?`, "Delete")) return;
      await post("delete", { path, version: stat.version });
      say(`${path} is deleted`);
      events.deleted();
    }, "danger")));
}

function dataOf(path, facts, again) {
  if (facts.data_error) return h("p", { class: "warn" }, `The data cannot be read: ${facts.data_error}`);
  const data = facts.data === null ? new Uint8Array() : fromBase64(facts.data);
  const text = asText(data);
  const views = { Text: text, JSON: text === null ? null : asJson(text), Hex: asHex(data) };
  const shown = h("pre", { tabindex: 0, "aria-label": "Data" });
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "Form of the data" });
  const area = h("div", null, tabs, shown);
  const choose = (name) => {
    shown.textContent = facts.data === null ? "(null)" : views[name];
    for (const tab of tabs.querySelectorAll("button[aria-pressed]")) {
      tab.setAttribute("aria-pressed", String(tab.textContent === name));
    }
  };
  for (const [name, view] of Object.entries(views)) {
    const tab = button(name, () => choose(name));
    tab.setAttribute("aria-pressed", "false");
    tab.disabled = view === null;
    tabs.append(tab);
  }
  tabs.append(button("Edit", () => area.replaceChildren(edit(path, facts, data, text, again))));
  choose(views.JSON !== null && data.length > 0 ? "JSON" : text === null ? "Hex" : "Text");
  return area;
}

function edit(path, facts, data, text, again) {
  const isHex = text === null;
  const hex = () => [...data].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
  const field = h("textarea", { "aria-label": isHex ? "Data in hex" : "Data as text", spellcheck: "false", value: isHex ? hex() : text });
  // A text field turns CR LF into LF, which must not change the data unseen.
  const note = !isHex && text.includes("\r") ? h("p", { class: "warn" }, "The data contain carriage returns: an edit as text removes them.") : null;
  const save = button("Save", async () => {
    const edited = isHex ? fromHex(field.value) : new TextEncoder().encode(field.value);
    if (edited === null) throw new Error("this is no hex");
    try {
      await post("set", { path, data: toBase64(edited), version: facts.stat.version });
    } catch (error) {
      if (error.message === "BAD_VERSION") throw new Error("somebody has changed the data meanwhile: look at them again");
      throw error;
    }
    say(`${path} is saved`);
    await again();
  }, "main");
  return h("div", null, note, field, h("div", { class: "row" }, save, button("Cancel", again),
    h("span", { class: "quiet" }, `only if the version is still ${facts.stat.version}`)));
}

function aclFields(entry) {
  const field = (name, label) => h("input", { "aria-label": label, value: entry[name], class: name === "id" ? "grow" : null, size: name === "perms" ? 6 : 10 });
  const fields = { perms: field("perms", "Permissions"), scheme: field("scheme", "Scheme"), id: field("id", "Id") };
  const row = h("div", { class: "row" }, fields.perms, fields.scheme, fields.id);
  row.append(button("Remove", () => row.remove()));
  row.read = () => ({ perms: fields.perms.value, scheme: fields.scheme.value, id: fields.id.value });
  return row;
}

function aclEditor(list) {
  const rows = h("div", null, list.map(aclFields));
  const add = button("Add an entry", () => rows.append(aclFields({ perms: "r", scheme: "world", id: "anyone" })));
  return { element: h("div", null, rows, add), read: () => [...rows.children].map((row) => row.read()) };
}

function aclOf(path, facts, again) {
  const area = h("div", null, h("h3", null, "ACL"));
  if (facts.acl_error) {
    area.append(h("p", { class: "warn" }, `The ACL cannot be read: ${facts.acl_error}`));
    return area;
  }
  const shown = table([["permissions", (it) => it.perms], ["scheme", (it) => it.scheme], ["id", (it) => it.id, "wide"]], facts.acl);
  const change = button("Change the ACL", () => {
    const editor = aclEditor(facts.acl);
    area.replaceChildren(h("h3", null, "ACL"), editor.element, h("div", { class: "row" },
      button("Save the ACL", async () => {
        const acl = editor.read();
        const isOpen = acl.some((it) => it.scheme === "world" && /[wcda]/.test(it.perms));
        if (isOpen && !await confirmed(`Everybody may then change ${path}. Go on?`, "Save")) return;
        await post("acl", { path, acl, version: facts.stat.aversion });
        say("The ACL is saved");
        await again();
      }, "main"), button("Cancel", again)));
  });
  area.append(shown, change);
  return area;
}

function childOf(path, events) {
  const name = h("input", { required: true, class: "grow" });
  const data = h("input", { class: "grow" });
  const kind = h("select", null, ["persistent", "persistent-sequential", "container"].map((it) => h("option", { value: it }, it)));
  const editor = aclEditor(OPEN_ACL);
  const form = h("form", { onsubmit: trying(async () => {
    const bytesOf = new TextEncoder().encode(data.value);
    const made = await post("create", { path: join(path, name.value), data: toBase64(bytesOf), mode: kind.value, acl: editor.read() });
    say(`${made.path} is created`);
    events.reload();
  }) },
  h("div", { class: "row" }, h("label", { class: "grow" }, "Name", name), h("label", null, "Kind", kind), h("label", { class: "grow" }, "Data as text", data)),
  editor.element,
  h("div", { class: "row" }, h("button", { type: "submit", class: "main" }, "Create")));
  return h("details", null, h("summary", null, "Create a child"), form);
}
