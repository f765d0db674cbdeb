// Elements from data. Text is always text: nothing that a server or a client says becomes markup.

export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

let timer;

export function say(text) {
  const said = document.getElementById("said");
  said.textContent = text;
  clearTimeout(timer);
  timer = setTimeout(() => { said.textContent = ""; }, 6000);
}

// A handler that tells what went wrong.
export function trying(work) {
  return async (event) => {
    event?.preventDefault?.();
    try {
      await work(event);
    } catch (error) {
      say(error.message);
    }
  };
}

export function button(text, work, kind) {
  return h("button", { type: "button", class: kind, onclick: trying(work) }, text);
}

// Columns: [title, cell of a row, class].
export function table(columns, rows, empty = "nothing") {
  if (rows.length === 0) return h("p", { class: "quiet" }, empty);
  const head = h("tr", null, columns.map(([title, , kind]) => h("th", { scope: "col", class: kind }, title)));
  const body = rows.map((row) => h("tr", null, columns.map(([, cell, kind]) => h("td", { class: kind }, cell(row) ?? "-"))));
  return h("div", { class: "scroll" }, h("table", null, h("thead", null, head), h("tbody", null, body)));
}

// Asks before something that cannot be taken back.
export function confirmed(question, word) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-label": question },
      h("p", null, question),
      h("div", { class: "row" },
        h("button", { type: "button", class: "danger", onclick: () => dialog.close("yes") }, word),
        h("button", { type: "button", autofocus: true, onclick: () => dialog.close("no") }, "Cancel")));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
  });
}
