// A line over the last minutes.

import { h, svg } from "./dom.js";

const POINTS = 150;

export class Plot {
  constructor(title, format) {
    this.values = [];
    this.format = format;
    this.now = h("span", { class: "quiet" }, "-");
    this.line = svg("polyline", { points: "" });
    this.picture = svg("svg", { viewBox: "0 0 150 50", preserveAspectRatio: "none", role: "img", "aria-label": title },
      svg("line", { x1: 0, y1: 49.5, x2: 150, y2: 49.5 }), this.line);
    this.element = h("div", { class: "panel plot" }, h("h3", null, title, this.now), this.picture);
    this.title = title;
  }

  add(value) {
    this.values.push(value);
    if (this.values.length > POINTS) this.values.shift();
    const known = this.values.filter((it) => it !== null);
    const largest = Math.max(1e-9, ...known);
    const first = POINTS - this.values.length;
    const points = this.values.map((it, at) => (it === null ? null : `${first + at},${(49 - (47 * it) / largest).toFixed(2)}`));
    this.line.setAttribute("points", points.filter((it) => it !== null).join(" "));
    const text = value === null ? "-" : this.format(value);
    this.now.textContent = known.length === 0 ? text : `${text}, at most ${this.format(largest < 1e-6 ? 0 : largest)}`;
    this.picture.setAttribute("aria-label", `${this.title}: ${this.now.textContent}`);
  }
}
