// The frame: sign in, choose a view, light or dark.

import { clients } from "./clients.js";
import { button, h, say, trying } from "./dom.js";
import { ensemble } from "./ensemble.js";
import { overview } from "./overview.js";
import { quotas } from "./quotas.js";
import { me, onSignedOut, resume, signIn, signOut } from "./server.js";
import { tree } from "./tree.js";

const VIEWS = [["overview", "Overview", overview], ["tree", "Znodes", tree], ["clients", "Clients", clients],
  ["ensemble", "Configuration", ensemble], ["quotas", "Quotas", quotas]];
const SCHEMES = [["digest", "digest: user:password"], ["", "nobody: what everybody may do"], ["other", "another scheme"]];

const main = document.getElementById("main");
const nav = document.querySelector("nav");
const who = document.getElementById("who");
let current = null;

function theme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  return button(isDark ? "Light" : "Dark", () => {
    root.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("zebu-theme", root.dataset.theme);
    frame();
  });
}

function frame() {
  nav.replaceChildren(...(me === null ? [] : VIEWS.map(([name, title]) => h("a", { href: "#" + name, "aria-current": viewName() === name ? "page" : null }, title))));
  const names = me === null ? [] : [h("span", null, me.identities.join(", ")), button("Sign out", signOut)];
  who.replaceChildren(...names, theme());
}

function viewName() {
  const name = location.hash.slice(1).split("/")[0];
  return VIEWS.some(([known]) => known === name) ? name : "overview";
}

function route() {
  if (me === null) return;
  current?.leave();
  const [, title, view] = VIEWS.find(([name]) => name === viewName());
  document.title = `${title} - Zebu console`;
  current = view();
  main.replaceChildren(current.element);
  frame();
}

function askWho() {
  current?.leave();
  current = null;
  const kind = h("select", null, SCHEMES.map(([value, text]) => h("option", { value }, text)));
  const scheme = h("input", { value: "" });
  const secret = h("input", { type: "password", autocomplete: "current-password" });
  const schemeLabel = h("label", { hidden: true }, "Scheme", scheme);
  const secretLabel = h("label", null, "Credentials", secret);
  kind.addEventListener("change", () => {
    schemeLabel.hidden = kind.value !== "other";
    secretLabel.hidden = kind.value === "";
  });
  const form = h("form", { class: "panel", onsubmit: trying(async () => {
    await signIn(kind.value === "other" ? scheme.value : kind.value, kind.value === "" ? "" : secret.value);
    secret.value = "";
    route();
  }) },
  h("h2", null, "Sign in"),
  h("p", { class: "quiet" }, "As a client of the server does. ACLs hold for you as for any client."),
  h("div", { class: "row" }, h("label", null, "How", kind), schemeLabel, secretLabel, h("button", { type: "submit", class: "main" }, "Sign in")),
  location.protocol === "http:" && !["localhost", "127.0.0.1", "[::1]"].includes(location.hostname)
    ? h("p", { class: "warn" }, "This connection is not encrypted: others on the way can read the credentials.") : null);
  main.replaceChildren(form);
  frame();
  secret.focus();
}

onSignedOut(() => { say("You are signed out"); askWho(); });
addEventListener("hashchange", route);
const chosen = localStorage.getItem("zebu-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
if (await resume()) route();
else askWho();
