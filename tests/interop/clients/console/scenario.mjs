// What an operator does in the console, in a real browser. Arguments: the console's address, the session of a client that
// is to be ended, and a folder for pictures, or nothing.

import { strict as assert } from "node:assert";

import { Browser } from "./browser.mjs";

const [url, session, pictures] = process.argv.slice(2);
const browser = await Browser.start();

// A button by its text, inside an element.
const click = (text, inside = "document") => browser.until(
  `(() => { const found = [...${inside}.querySelectorAll("button, summary")].find((it) => it.textContent === ${JSON.stringify(text)} && it.offsetParent !== null);
    if (!found) return false; found.click(); return true; })()`);
const has = (text) => browser.until(`document.body.innerText.includes(${JSON.stringify(text)})`);
const fill = (selector, text) => browser.until(
  `(() => { const found = document.querySelector(${JSON.stringify(selector)}); if (!found) return false;
    found.value = ${JSON.stringify(text)}; found.dispatchEvent(new Event("input")); found.dispatchEvent(new Event("change")); return true; })()`);
const view = (name) => browser.value(`location.hash = ${JSON.stringify(name)}`);
const picture = async (name) => { if (pictures) await browser.picture(`${pictures}/${name}.png`); };

try {
  await browser.size(1280, 850);
  await browser.open(url);
  await has("Sign in");

  // Wrong credentials are refused, and the page says so.
  await fill("select", "other");
  await fill("main label:not([hidden]) input:not([type])", "nosuchscheme");
  await fill("input[type=password]", "u:p");
  await click("Sign in");
  await has("refused");
  await fill("select", "digest");
  await fill("input[type=password]", "operator:secret");
  await picture("sign-in");
  await click("Sign in");
  await has("This server");
  await browser.until(`document.querySelector(".tile b.good")?.textContent === "ready"`);
  await browser.until(`document.querySelectorAll(".plot polyline")[0].getAttribute("points").includes(",")`);
  await has('digest:"operator"');
  assert.equal(await browser.value("document.cookie"), "", "there are no cookies");
  await picture("overview");

  // The tree by keyboard; children come in pages.
  await view("tree");
  await browser.until(`document.querySelectorAll("[role=treeitem]").length > 1`);
  await browser.until(`document.activeElement.getAttribute("role") === "treeitem"`);
  await browser.press("ArrowDown");
  await browser.press("ArrowDown");
  await browser.until(`document.activeElement.item?.path === "/many"`);
  await browser.press("ArrowRight");
  await browser.until(`document.activeElement.querySelectorAll("[role=treeitem]").length === 200`);
  await click("more (200 of 450)");
  await browser.until(`document.querySelectorAll("[role=treeitem] [role=treeitem] [role=treeitem]").length === 400`);
  await browser.press("ArrowRight");
  await browser.until(`document.activeElement.item?.path.startsWith("/many/n")`);
  await browser.press("ArrowLeft");
  await browser.press("ArrowLeft");
  await browser.until(`document.activeElement.getAttribute("aria-expanded") === "false"`);

  // A znode whose name and data would be markup is text.
  const name = "<b>bold<b>";
  const data = "<img src=x onerror=alert(1)>";
  await browser.press("Home");
  await browser.until(`document.querySelector("h3.mono")?.textContent === "/"`);
  await click("Create a child");
  await fill("details form input[required]", name);
  await fill("details form label:nth-of-type(3) input", data);
  await click("Create");
  await has(`/${name} is created`);
  await view("tree" + encodeURI(`/${name}`));
  await browser.until(`document.querySelector("h3.mono")?.textContent === ${JSON.stringify("/" + name)}`);
  await browser.until(`document.querySelector("pre")?.textContent === ${JSON.stringify(data)}`);
  assert.equal(await browser.value(`document.querySelectorAll("main b, main img").length`), 0);
  await picture("znode");

  // An edit is saved if nobody else was faster.
  await click("Edit");
  await fill("textarea", '{"a":1}');
  await click("Save");
  await has("is saved");
  await browser.until(`document.querySelector("pre")?.textContent === '{\\n  "a": 1\\n}'`);
  await click("Hex");
  await browser.until(`document.querySelector("pre").textContent.startsWith("00000000  7b 22 61 22 3a 31 7d")`);
  await click("Edit");
  await browser.value(`fetch("api/set", { method: "POST", body: JSON.stringify({ path: ${JSON.stringify("/" + name)}, data: "", version: 1 }),
    headers: { "content-type": "application/json", "x-zebu-token": sessionStorage.getItem("zebu-token") } }).then((it) => it.status)`);
  await click("Save");
  await has("somebody has changed the data meanwhile");

  // What happened to a znode is read from the logs.
  await view("tree");
  await view("tree" + encodeURI(`/${name}`));
  await browser.until(`document.querySelector("h3.mono")?.textContent === ${JSON.stringify("/" + name)}`);
  await click("History");
  await click("Read the logs");
  await has('data set, version 1, 7 B, "{\\"a\\":1}"');
  await has("created, 28 B");
  await picture("history");

  // The end of a znode is asked for first.
  await view("tree");
  await view("tree" + encodeURI(`/${name}`));
  await browser.until(`document.querySelector("h3.mono")?.textContent === ${JSON.stringify("/" + name)}`);
  await click("Delete this znode");
  await click("Delete", `document.querySelector("dialog")`);
  await has("is deleted");
  await browser.until(`document.querySelector("h3.mono")?.textContent === "/"`);
  await view("tree" + encodeURI(`/${name}`));
  await has("NO_NODE");
  await click("History");
  await click("Read the logs");
  await has("deleted, by a request");

  // Search by prefix.
  await fill("input[type=search]", "/many/n44");
  await click("Search");
  await browser.until(`document.querySelectorAll("[role=treeitem]").length === 10`);

  // A session is ended.
  await view("clients");
  await browser.until(`[...document.querySelectorAll("td code")].some((it) => it.textContent === ${JSON.stringify(session)})`);
  await fill("input[type=search]", session);
  await browser.until(`document.querySelectorAll("tbody tr").length === 1`);
  await picture("clients");
  await click("End the session");
  await click("End it", `document.querySelector("dialog")`);
  await has("on its way");

  for (const [name, text] of [["ensemble", "Configuration"], ["quotas", "Largest subtrees"]]) {
    await view(name);
    await has(text);
  }
  await has("451 (50 %)");
  await click("Count");
  await browser.until(`[...document.querySelectorAll("td")].some((it) => it.textContent === "451")`);
  await picture("quotas");

  // Narrow and dark: nothing is wider than the screen.
  await browser.size(390, 844, true);
  for (const name of ["overview", "tree", "clients", "ensemble", "quotas"]) {
    await view(name);
    await browser.until(`document.title.length > 0 && document.querySelector("nav [aria-current]").getAttribute("href") === ${JSON.stringify("#" + name)}`);
    if (name === "overview") await browser.until(`document.querySelectorAll(".tile").length > 5`);
    const width = await browser.value("document.documentElement.scrollWidth");
    assert.ok(width <= 390, `${name} is ${width} px wide`);
    await picture(`narrow-${name}`);
  }

  await click("Sign out");
  await has("Sign in");
  assert.deepEqual(browser.faults, []);
  console.log("done");
} finally {
  await browser.end();
}
