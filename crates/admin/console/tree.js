// The tree: children come a page at a time, when somebody asks for them. Arrow keys move as in any tree.

import { h, button, say, trying } from "./dom.js";
import { bytes, count, join, parentOf, prefixOf } from "./format.js";
import { get } from "./server.js";
import { znode } from "./znode.js";

const PAGE = 200;
// Pages without a match that a search asks for before it lets the user decide.
const SEARCH_PAGES = 25;

class Item {
  constructor(view, path, name, facts) {
    this.view = view;
    this.path = path;
    this.facts = facts;
    this.turn = h("span", { class: "turn", "aria-hidden": true }, facts.children > 0 ? "▸" : "");
    const about = [facts.children > 0 ? count(facts.children) : null, facts.ephemeral ? "ephemeral" : null,
      facts.bytes > 0 ? bytes(facts.bytes) : null].filter((it) => it !== null).join(", ");
    this.label = h("div", { class: "label" }, this.turn, h("span", null, name), h("span", { class: "quiet" }, about));
    this.list = h("ul", { role: "group", hidden: true });
    this.element = h("li", { role: "treeitem", tabindex: -1, "aria-selected": "false" }, this.label, this.list);
    if (facts.children > 0) this.element.setAttribute("aria-expanded", "false");
    this.element.item = this;
    this.label.addEventListener("click", trying(async (event) => {
      event.stopPropagation();
      this.view.select(this);
      if (event.target === this.turn || event.detail === 2) await this.toggle();
    }));
  }

  get isOpen() {
    return !this.list.hidden;
  }

  async toggle() {
    if (this.isOpen) this.close();
    else await this.open();
  }

  close() {
    this.list.hidden = true;
    this.list.replaceChildren();
    if (this.facts.children > 0) {
      this.turn.textContent = "▸";
      this.element.setAttribute("aria-expanded", "false");
    }
  }

  async open() {
    if (this.isOpen) return;
    this.list.hidden = false;
    this.turn.textContent = "▾";
    this.element.setAttribute("aria-expanded", "true");
    await this.more("");
  }

  async more(after) {
    const found = await get("children", { path: this.path, after, most: PAGE });
    if (found.gone) {
      say("The list has changed: it begins anew.");
      this.list.replaceChildren();
      await this.more("");
      return;
    }
    this.list.append(...found.children.map((it) => new Item(this.view, join(this.path, it.name), it.name, it).element));
    if (found.next !== null) {
      const shown = this.list.children.length;
      const more = h("li", { role: "none" });
      more.append(button(`more (${count(shown)} of ${count(found.total)})`, async () => {
        await this.more(found.next);
        more.remove();
      }));
      this.list.append(more);
    }
  }
}

export function tree() {
  const rootList = h("ul", { role: "tree", "aria-label": "Znodes" });
  const frame = h("div", { class: "panel tree" }, rootList);
  const detail = h("div", { class: "panel" }, h("p", { class: "quiet" }, "Choose a znode."));
  const search = h("input", { type: "search", class: "grow", placeholder: "/path/prefix", "aria-label": "Search by path prefix" });
  const view = { selected: null };

  view.select = (item) => {
    view.selected?.element.setAttribute("aria-selected", "false");
    for (const other of rootList.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
    view.selected = item;
    item.element.setAttribute("aria-selected", "true");
    item.element.tabIndex = 0;
    item.element.focus({ preventScroll: true });
    show(item.path);
  };

  // The address that this view has put, or has found.
  let own = location.hash;

  function show(path) {
    // The person has gone elsewhere, and that view is about to come.
    if (location.hash !== own) return;
    history.replaceState(null, "", "#tree" + encodeURI(path));
    own = location.hash;
    znode(path, detail, { reload: trying(() => reload(path)), deleted: trying(() => reload(parentOf(path))) });
  }

  // Opens everything above a path as far as the first pages have it, and shows the znode.
  async function reload(path) {
    const opened = await get("children", { path: "/", most: 1 });
    const root = new Item(view, "/", "/", { children: opened.total, bytes: 0 });
    rootList.replaceChildren(root.element);
    await root.open();
    let item = root;
    const parts = path === "/" ? [] : path.slice(1).split("/");
    for (const part of parts) {
      const next = [...item.list.children].map((it) => it.item).find((it) => it?.path === join(item.path, part));
      if (next === undefined) break;
      item = next;
      if (item.path !== path && item.facts.children > 0) await item.open();
    }
    if (item.path === path) view.select(item);
    else show(path);
  }

  rootList.addEventListener("keydown", trying(async (event) => {
    const item = event.target.closest("[role='treeitem']")?.item;
    if (item === undefined || event.target.tagName === "BUTTON") return;
    const all = [...rootList.querySelectorAll("[role='treeitem']")];
    const at = all.indexOf(item.element);
    const to = (element) => { if (element?.item) view.select(element.item); };
    switch (event.key) {
      case "ArrowDown": to(all[at + 1]); break;
      case "ArrowUp": to(all[at - 1]); break;
      case "Home": to(all[0]); break;
      case "End": to(all[all.length - 1]); break;
      case "ArrowRight": if (item.isOpen) to(all[at + 1]); else if (item.facts.children > 0) await item.open(); break;
      case "ArrowLeft": if (item.isOpen) item.close(); else to(item.element.parentElement.closest("[role='treeitem']")); break;
      case "Enter": view.select(item); break;
      default: return;
    }
    event.preventDefault();
    view.selected.element.scrollIntoView({ block: "nearest" });
  }));

  async function find() {
    const { parent, prefix } = prefixOf(search.value.trim());
    if (prefix === "") { await reload(parent); return; }
    rootList.replaceChildren();
    await searched(parent, prefix, "");
  }

  async function searched(parent, prefix, from) {
    let after = from;
    const item = (it) => new Item(view, join(parent, it.name), join(parent, it.name), it).element;
    for (let pages = 0; pages < SEARCH_PAGES; pages += 1) {
      const found = await get("children", { path: parent, prefix, after, most: PAGE });
      if (found.gone) { say("The list has changed: search again."); return; }
      // The znode of exactly that name comes first, wherever it is among its siblings.
      if (found.exact !== null) rootList.append(item(found.exact));
      rootList.append(...found.children.filter((it) => it.name !== prefix).map(item));
      after = found.next;
      if (after === null || rootList.children.length >= PAGE) break;
    }
    if (after !== null) {
      const more = h("li", { role: "none" });
      more.append(button("search on", async () => { more.remove(); await searched(parent, prefix, after); }));
      rootList.append(more);
    } else if (rootList.children.length === 0) {
      rootList.append(h("li", { role: "none", class: "quiet" }, "nothing begins so"));
    }
    const first = rootList.querySelector("[role='treeitem']");
    if (first !== null) first.tabIndex = 0;
  }

  const form = h("form", { class: "row", onsubmit: trying(find) }, search, h("button", { type: "submit" }, "Search"),
    button("All", () => reload("/")));
  const asked = decodeURI(location.hash.replace(/^#tree/, "")) || "/";
  trying(() => reload(asked))();
  return { element: h("div", null, h("h2", null, "Znodes"), form, h("div", { class: "split" }, frame, detail)), leave: () => {} };
}
