"use strict";
// Two things: tables that sort, and a browser for all dialogues. Text is only ever set as text, never as markup.

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const order = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
    heads.forEach((other) => other.hasAttribute("aria-sort") && other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    for (const body of table.tBodies) {
      if (body.classList.contains("divider")) continue;
      const key = (row) => row.cells[column].dataset.value;
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "" || y === "") return (x === "") - (y === ""); // not measured: always last
        return sign * (column === 0 ? x.localeCompare(y) : Number(x) - Number(y));
      };
      body.append(...[...body.rows].sort(compare));
    }
  }));
}

const store = JSON.parse(document.getElementById("dialogues").textContent);
const text = (number) => (number === null ? null : store.texts[number]);

const decode = (row, kind) => Object.fromEntries(store[kind].map((name, i) => {
  if (name === "turns") return [name, row[i].map((turn) => decode(turn, "turn"))];
  if (name === "evidence") return [name, row[i].map((item) => decode(item, "evidence"))];
  return [name, text(row[i])];
}));

function filled(templateId, values) {
  const node = document.getElementById(templateId).content.firstElementChild.cloneNode(true);
  const each = (name, action) => [node, ...node.querySelectorAll(`[data-${name}]`)].forEach((element) => {
    if (element.hasAttribute(`data-${name}`)) action(element, values[element.getAttribute(`data-${name}`)]);
  });
  each("slot", (element, value) => { element.textContent = value ?? ""; });
  each("if", (element, value) => { element.hidden = value === null; });
  each("tone-of", (element, value) => { element.dataset.tone = value; });
  each("level-of", (element, value) => { element.style.setProperty("--level", value || 0); });
  each("points-of", (element, value) => { element.setAttribute("points", value); });
  each("list", (element, items) => {
    element.replaceChildren(...items.map((item) => filled(element.dataset.list, item)));
  });
  return node;
}

function startBrowser(root) {
  const at = Object.fromEntries(store.dialogue.map((name, i) => [name, i]));
  const turnAt = Object.fromEntries(store.turn.map((name, i) => [name, i]));
  const form = root.querySelector("form");
  const list = root.querySelector(".list");
  const pane = root.querySelector(".pane");
  const page = 100;
  let found = [];
  let shown = 0;
  let current = null;

  const distinct = (name) => [...new Set(store.dialogues.map((row) => text(row[at[name]])))].sort();
  const choices = (name, first, values) => {
    form.elements[name].replaceChildren(new Option(first, ""), ...values.map((value) => new Option(value, value)));
  };
  choices("variant", "all", distinct("variant"));
  choices("need", "all", distinct("need"));
  choices("outcome", "all", distinct("outcome"));
  choices("beside", "nobody", distinct("variant"));

  function matches(row, hits) {
    const fits = (name) => !form.elements[name].value || text(row[at[name]]) === form.elements[name].value;
    if (!fits("variant") || !fits("need") || !fits("outcome")) return false;
    if (hits === null) return true;
    const said = (turn) => ["user", "think", "reply"].some((name) => hits.has(turn[turnAt[name]]));
    return hits.has(row[at.persona]) || row[at.turns].some(said);
  }

  function search() {
    const words = form.elements.words.value.trim().toLowerCase();
    const hits = words ? new Set(store.texts.flatMap((value, i) => (value.toLowerCase().includes(words) ? [i] : []))) : null;
    found = store.dialogues.filter((row) => matches(row, hits));
    root.querySelector(".count").textContent = `${found.length} of ${store.dialogues.length} dialogues`;
    list.replaceChildren();
    shown = 0;
    more();
    show(found.includes(current) ? current : found[0] ?? null);
  }

  function more() {
    list.querySelector(".more")?.remove();
    for (const row of found.slice(shown, shown + page)) list.append(entry(row));
    shown = Math.min(found.length, shown + page);
    if (shown < found.length) {
      const item = document.createElement("li");
      const button = document.createElement("button");
      item.className = "more";
      button.textContent = `${found.length - shown} more`;
      button.addEventListener("click", more);
      item.append(button);
      list.append(item);
    }
  }

  function entry(row) {
    const item = document.createElement("li");
    const button = document.createElement("button");
    const part = (tag, value) => Object.assign(document.createElement(tag), { textContent: value });
    const meter = part("span", "");
    meter.className = "meter";
    meter.style.setProperty("--level", text(row[at.level]));
    button.append(part("b", text(row[at.final])), meter, part("span", `${text(row[at.persona])} · ${text(row[at.variant])}`), part("small", text(row[at.need])));
    button.dataset.tone = text(row[at.outcome]);
    button.addEventListener("click", () => show(row));
    item.append(button);
    item.row = row;
    return item;
  }

  function show(row) {
    current = row;
    for (const item of list.children) {
      if (item.row === row) item.firstChild.setAttribute("aria-current", "true");
      else item.firstChild.removeAttribute("aria-current");
    }
    if (row === null) return pane.replaceChildren();
    const beside = form.elements.beside.value;
    const other = beside && store.dialogues.find((one) => one !== row && text(one[at.variant]) === beside && one[at.persona] === row[at.persona]);
    pane.className = other ? "pane beside" : "pane";
    pane.replaceChildren(...[row, other].filter(Boolean).map((one) => filled("dialogue", decode(one, "dialogue"))));
  }

  form.addEventListener("input", search);
  root.hidden = false;
  search();
}

if (store.dialogues.length) startBrowser(document.getElementById("browser"));

addEventListener("beforeprint", () => document.querySelectorAll("details.fold").forEach((fold) => { fold.open = true; }));
