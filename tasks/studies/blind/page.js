"use strict";
// Who is here and what they do. The name stays in this browser, so that a reload goes on where it was.

import { ask, oneAtATime } from "./asking.js";
import { comparing } from "./comparing.js";
import { talking } from "./talking.js";

const NAME = "rater";
const [welcome, name, modes, who, bar, line, spoken] = ["welcome", "name", "modes", "who", "progress", "trouble", "news"].map((id) => document.getElementById(id));

function trouble(error) {
  line.hidden = !error;
  line.textContent = error ? error.message : "";
}
function news(text) { spoken.textContent = text; }
function progress(answered, total) {
  bar.querySelector("span").textContent = `${answered} of ${total}`;
  Object.assign(bar.querySelector("progress"), { value: answered, max: total });
}

const offered = await ask("/api/start").catch((error) => { trouble(error); return { compare: false, talk: false, cards: [] }; });
const doing = {};
let rater = null; // of this page: another one of this browser may be somebody else's
if (offered.compare) doing.compare = comparing({ trouble, news, progress });
if (offered.talk) doing.talk = talking({ trouble, news, cards: offered.cards });

async function open(mode) {
  for (const other of Object.values(doing)) other.close();
  for (const button of modes.querySelectorAll("button")) button.setAttribute("aria-pressed", button.dataset.mode === mode);
  sessionStorage.setItem("mode", mode);
  bar.hidden = mode !== "compare";
  await doing[mode].open(rater);
}

const enter = oneAtATime(async (given) => {
  await ask(`/api/start?rater=${encodeURIComponent(given)}`);
  localStorage.setItem(NAME, given);
  rater = given;
  who.querySelector("span").textContent = given;
  welcome.hidden = true;
  who.hidden = false;
  modes.hidden = Object.keys(doing).length < 2;
  const last = sessionStorage.getItem("mode");
  await open(doing[last] ? last : Object.keys(doing)[0]);
}, trouble);

function greet() {
  localStorage.removeItem(NAME);
  rater = null;
  for (const one of Object.values(doing)) { one.close(); one.forget(); }
  welcome.hidden = false;
  who.hidden = true;
  modes.hidden = true;
  bar.hidden = true;
  name.value = "";
  name.focus();
}

welcome.addEventListener("submit", (event) => { event.preventDefault(); const given = name.value.trim().replace(/\p{Surrogate}/gu, "\ufffd"); if (given) enter(given); });
who.querySelector("button").addEventListener("click", greet);
for (const button of modes.querySelectorAll("button")) button.addEventListener("click", () => oneAtATime(open, trouble)(button.dataset.mode));

if (location.search) history.replaceState(null, "", "/"); // the key of the address is in a cookie now
const known = localStorage.getItem(NAME);
if (!Object.keys(doing).length) trouble(new Error(line.textContent || "There is nothing to compare here."));
else if (known) {
  await enter(known);
  if (!line.hidden && who.hidden) { const said = line.textContent; greet(); trouble(new Error(said)); }
} else greet();
