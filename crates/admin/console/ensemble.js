// The configuration of the ensemble, and changes of it: first as a dry run.

import { button, confirmed, h, say, table, trying } from "./dom.js";
import { difference } from "./format.js";
import { page, post } from "./server.js";

export function ensemble() {
  const shown = h("div", null);
  const result = h("div", null);
  const joining = h("input", { class: "grow mono", placeholder: "server.4=host:2888:3888:participant;2181" });
  const leaving = h("input", { class: "mono", placeholder: "3,4" });
  let version = null;

  const change = () => ({ joining: joining.value.trim(), leaving: leaving.value.trim(), version });

  async function dryRun() {
    result.replaceChildren();
    const made = await post("reconfig", { ...change(), dry_run: true });
    const { added, removed } = difference(made.before, made.after);
    const lost = Math.floor((made.voters_after - 1) / 2);
    result.replaceChildren(
      h("h3", null, "This would change"),
      added.length + removed.length === 0 ? h("p", null, "nothing")
        : h("pre", null, removed.map((line) => h("del", null, line)), added.map((line) => h("ins", null, line))),
      h("p", null, `${made.voters_before} voters become ${made.voters_after}: the ensemble then serves without ${lost} of them.`),
      made.voters_after % 2 === 0 ? h("p", { class: "warn" }, "An even number of voters endures no more failures than one voter less.") : "",
      h("p", { class: "quiet" }, "Not tried: whether the new members can be reached and follow the leader."),
      button("Change the ensemble", async () => {
        if (!await confirmed(`Change the ensemble, if its configuration is still ${version}?`, "Change")) return;
        const done = await post("reconfig", change());
        say("The ensemble is changed");
        result.replaceChildren(h("pre", null, done.configuration));
        await look();
      }, "danger"));
  }

  async function look() {
    const all = JSON.parse(await page("../jmx"));
    if (!all.ensemble) {
      shown.replaceChildren(h("p", null, "This server stands alone: it is no member of an ensemble."));
      form.hidden = true;
      return;
    }
    version = all.ensemble.config_version;
    shown.replaceChildren(h("p", null, `Version ${version}, quorum of ${all.ensemble.quorum_size} voters, initLimit ${all.ensemble.init_limit}, syncLimit ${all.ensemble.sync_limit}`),
      table([
        ["server", (it) => `server.${it.server_id}`],
        ["type", (it) => it.learner_type],
        ["quorum", (it) => it.quorum_addresses.join(", ")],
        ["election", (it) => it.election_addresses.join(", ")],
        ["clients", (it) => it.client_address],
        ["", (it) => (it.leader ? "leads" : "")],
      ], all.ensemble.replicas));
  }

  const form = h("form", { class: "panel", onsubmit: trying(dryRun) },
    h("h3", null, "Reconfiguration"),
    h("div", { class: "row" }, h("label", { class: "grow" }, "Joining or changed, separated by commas", joining),
      h("label", null, "Leaving ids", leaving), h("button", { type: "submit", class: "main" }, "Dry run")),
    result);
  trying(look)();
  return { element: h("div", null, h("h2", null, "Configuration"), h("div", { class: "panel" }, shown), form), leave: () => {} };
}
