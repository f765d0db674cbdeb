// Drives a headless Chromium over its debugging pipe: no library, and no port that others could use.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PATIENCE_MS = 120_000;

export class Browser {
  static async start() {
    const browser = new Browser();
    browser.folder = mkdtempSync(join(tmpdir(), "zebu-console-"));
    browser.process = spawn("chromium", ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
      "--no-first-run", "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
      `--user-data-dir=${browser.folder}`, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    browser.pending = new Map();
    browser.next = 0;
    browser.faults = [];
    let received = "";
    browser.process.stdio[4].setEncoding("utf8");
    browser.process.stdio[4].on("data", (text) => {
      received += text;
      for (let end = received.indexOf("\0"); end >= 0; end = received.indexOf("\0")) {
        const message = JSON.parse(received.slice(0, end));
        received = received.slice(end + 1);
        browser.take(message);
      }
    });
    browser.process.on("exit", () => {
      for (const { reject } of browser.pending.values()) reject(new Error("the browser has ended"));
    });
    const { targetInfos } = await browser.call("Target.getTargets");
    const page = targetInfos.find((it) => it.type === "page");
    const attached = await browser.call("Target.attachToTarget", { targetId: page.targetId, flatten: true });
    browser.session = attached.sessionId;
    for (const domain of ["Page", "Runtime", "Log"]) await browser.call(`${domain}.enable`);
    return browser;
  }

  take(message) {
    const waiting = this.pending.get(message.id);
    if (waiting !== undefined) {
      this.pending.delete(message.id);
      if (message.error) waiting.reject(new Error(message.error.message));
      else waiting.resolve(message.result);
    } else if (message.method === "Runtime.exceptionThrown") {
      const { exceptionDetails } = message.params;
      this.faults.push(exceptionDetails.exception?.description ?? exceptionDetails.text);
    } else if (message.method === "Log.entryAdded" && message.params.entry.level === "error") {
      // An answer that is an error is no fault of the page.
      const { text, source, url } = message.params.entry;
      if (source !== "network") this.faults.push(`${text} ${url ?? ""}`);
    } else if (message.method === "Runtime.consoleAPICalled" && message.params.type === "error") {
      this.faults.push(JSON.stringify(message.params.args));
    }
  }

  call(method, params = {}) {
    const id = (this.next += 1);
    const message = { id, method, params };
    if (this.session !== undefined) message.sessionId = this.session;
    return new Promise((resolve, reject) => {
      this.pending.set(id, { resolve, reject });
      this.process.stdio[3].write(JSON.stringify(message) + "\0");
    });
  }

  async open(url) {
    await this.call("Page.navigate", { url });
  }

  // The value of an expression in the page.
  async value(expression) {
    const { result, exceptionDetails } = await this.call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  // Waits until an expression is true.
  async until(expression) {
    const end = Date.now() + PATIENCE_MS;
    let last;
    while (Date.now() < end) {
      last = await this.value(expression).catch((error) => error.message);
      if (last === true) return;
      await new Promise((resolve) => { setTimeout(resolve, 50); });
    }
    const text = await this.value("document.body.innerText").catch(() => "");
    throw new Error(`${expression} does not become true: ${last}\n${text}\n${this.faults.join("\n")}`);
  }

  async press(key) {
    for (const type of ["keyDown", "keyUp"]) {
      await this.call("Input.dispatchKeyEvent", { type, key, code: key, windowsVirtualKeyCode: KEYS[key] });
    }
  }

  async size(width, height, dark = false) {
    await this.call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
    const features = [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }];
    await this.call("Emulation.setEmulatedMedia", { features });
  }

  async picture(path) {
    const { data } = await this.call("Page.captureScreenshot", { format: "png" });
    writeFileSync(path, Buffer.from(data, "base64"));
  }

  async end() {
    const ended = new Promise((resolve) => { this.process.on("exit", resolve); });
    await Promise.race([this.call("Browser.close").catch(() => {}), ended]);
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const KEYS = { ArrowDown: 40, ArrowUp: 38, ArrowLeft: 37, ArrowRight: 39, Enter: 13, Home: 36, Tab: 9 };
