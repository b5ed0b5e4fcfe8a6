// The browser of dialogues: filters, full-text search, a list of which only the visible rows exist, and one or two dialogues beside it.

async function startBrowser(root, store) {
  const rowHeight = 58; // pixels, as in dialogues.css
  const form = root.querySelector("form");
  const list = root.querySelector(".list");
  const rows = root.querySelector(".rows");
  const pane = root.querySelector(".pane");
  const filters = ["variant", "need", "persona_class", "outcome"];
  let found = [];
  let current = null;

  const distinct = (name) => [...new Set(store.dialogues.map((row) => store.of(row, name)))].sort();
  function choices(name, first, values) {
    const select = form.elements[name];
    select.replaceChildren(new Option(first, ""), ...values.map((value) => new Option(value, value)));
    select.parentElement.hidden = values.length < 2;
  }
  for (const name of filters) choices(name, "all", distinct(name));
  choices("beside", "nobody", distinct("variant"));
  const base = [...form.elements.beside.options].find((option) => option.value && option.value === root.dataset.base);
  if (base) base.defaultSelected = true;

  const searched = ["user", "think", "reply", "content", "target", "activity", "feeling"];
  const count = root.querySelector(".count");
  let asked = 0; // number of the latest search: an older one that ends later is forgotten

  async function search() {
    const number = (asked += 1);
    const words = form.elements.words.value.trim().toLowerCase();
    const wanted = filters.map((name) => [store.at[name], form.elements[name].value]).filter(([, value]) => value);
    root.ariaBusy = "true";
    if (words) count.textContent = "searching …";
    const saying = words ? await store.saying(words, searched) : null;
    if (number !== asked) return;
    found = store.dialogues.filter((row) => (saying === null || saying.has(row)) && wanted.every(([index, value]) => store.texts[row[index]] === value));
    rows.style.height = `${found.length * rowHeight}px`;
    list.scrollTop = 0;
    const featured = (row) => store.of(row, "variant") === root.dataset.featured;
    await show(found.includes(current) ? current : found.find(featured) ?? found.find(besides) ?? found[0] ?? null);
    if (number !== asked) return;
    count.textContent = `${found.length} of ${store.dialogues.length} dialogues`;
    root.ariaBusy = "false";
  }

  function draw() {
    const first = Math.max(0, Math.floor(list.scrollTop / rowHeight) - 4);
    const last = Math.min(found.length, Math.ceil((list.scrollTop + list.clientHeight) / rowHeight) + 4);
    rows.replaceChildren(...found.slice(first, last).map((row, offset) => entry(row, first + offset)));
  }

  function entry(row, index) {
    const part = (tag, name, text) => Object.assign(document.createElement(tag), { className: name, textContent: text });
    const item = part("div", "row", "");
    const meter = part("span", "meter", "");
    meter.style.setProperty("--level", row[store.at.emotions].at(-1));
    item.append(part("b", "final", store.of(row, "final")), part("span", "swatch", ""), part("span", "name", store.of(row, "variant")), meter,
      part("small", "about", `${store.of(row, "need")} · ${store.of(row, "persona")}`));
    marked(item, store.of(row, "variant"));
    item.style.top = `${index * rowHeight}px`;
    item.id = `row-${index}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", row === current);
    item.setAttribute("aria-posinset", index + 1);
    item.setAttribute("aria-setsize", found.length);
    item.addEventListener("click", () => show(row));
    return item;
  }

  function inView(index) {
    const top = index * rowHeight;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + rowHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + rowHeight - list.clientHeight;
  }

  // The same persona with another policy; of repeats the one with the same number.
  function besides(row) {
    const beside = form.elements.beside.value;
    if (!beside || store.of(row, "variant") === beside) return undefined;
    const of = store.dialogues.filter((one) => store.of(one, "variant") === beside && one[store.at.persona] === row[store.at.persona]);
    const repeat = (one) => store.of(one, "dialogue_id").split("/").at(-1);
    return of.find((one) => repeat(one) === repeat(row)) ?? of[0];
  }

  async function show(row) {
    current = row;
    const index = found.indexOf(row);
    if (index >= 0) inView(index);
    list.setAttribute("aria-activedescendant", index >= 0 ? `row-${index}` : "");
    draw();
    const other = row && besides(row);
    const shown = await Promise.all([other, row].filter(Boolean).map(store.read)); // the base stands left, as before and after
    if (current !== row) return;
    pane.className = other ? "pane beside" : "pane";
    pane.replaceChildren(...shown.map((values) => filled("dialogue", values)));
  }

  async function open(row) {
    form.reset();
    await search();
    await show(row);
    root.querySelector(".browse").scrollIntoView({ block: "start" });
  }

  list.addEventListener("scroll", draw);
  list.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8, Home: -found.length, End: found.length };
    if (!(event.key in steps) || !found.length) return;
    event.preventDefault();
    show(found[Math.min(found.length - 1, Math.max(0, found.indexOf(current) + steps[event.key]))]);
  });
  form.addEventListener("input", search);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-opens]");
    const row = button && store.dialogues.find((one) => store.of(one, "dialogue_id") === button.dataset.opens && store.of(one, "variant") === button.dataset.of);
    if (row) open(row);
  });
  addEventListener("resize", draw);
  root.hidden = false;
  await search();
  return open;
}

const browserReady = storeReady.then((store) => (store.dialogues.length ? startBrowser(document.getElementById("browser"), store) : null));
browserReady.then(() => { document.documentElement.dataset.ready = "true"; });

addEventListener("beforeprint", () => document.querySelectorAll("details.fold").forEach((fold) => { fold.open = true; }));
