"use strict";
// A talk with two hidden models that hear the same words.

import { ask, element, newIdentity, oneAtATime } from "./asking.js";
import { judging } from "./judging.js";

export function talking({ trouble, news, cards }) {
  const root = document.getElementById("talk");
  const message = document.getElementById("message");
  const list = root.querySelector(".messages");
  const judge = root.querySelector(".judge");
  const card = root.querySelector(".card");
  const composer = root.querySelector(".composer");
  const [decide, leave, idea] = ["decide", "leave", "idea"].map((name) => root.querySelector(`.${name}`));
  let rater = null;
  let state = null;
  let isShown = false;
  let unsent = { text: null, identity: null };

  const form = judging(judge, {
    question: "With whom would you rather go on?",
    isOpen: () => isShown && !judge.hidden,
    save: (answer) => save(answer),
    back: () => showJudging(false),
  });

  function side(name, spoken, isWaiting) {
    const made = element("div", "side");
    made.dataset.side = name;
    made.append(element("small", "", name === "left" ? "Left" : "Right"));
    made.append(element("p", spoken?.error ? "failed" : "reply", isWaiting ? "…" : spoken?.error ?? spoken?.reply ?? ""));
    return made;
  }
  function exchange({ user, left, right }, isWaiting = false) {
    const made = element("li");
    const sides = element("div", "replies");
    sides.append(side("left", left, isWaiting), side("right", right, isWaiting));
    made.append(element("p", "user", user), sides);
    return made;
  }
  function render(waitingFor) {
    list.replaceChildren(...state.messages.map((one) => exchange(one)));
    if (waitingFor) list.append(exchange({ user: waitingFor }, true));
    const hasBegun = state.messages.length > 0 || Boolean(waitingFor);
    const hasReply = state.messages.some(({ left, right }) => left.reply !== null || right.reply !== null);
    root.querySelector(".intro").hidden = hasBegun;
    decide.hidden = !hasReply;
    leave.hidden = !hasBegun;
    idea.hidden = hasBegun || cards.length === 0;
    composer.querySelector(".main").disabled = !state.live;
    message.disabled = !state.live;
    message.placeholder = state.ended ?? "Write to both";
    if (waitingFor || hasBegun) list.lastElementChild.scrollIntoView({ block: "nearest" });
  }
  function showJudging(is) {
    judge.hidden = !is;
    composer.hidden = is;
    if (is) form.start(state.verdict, true);
  }
  function busy(is) { composer.toggleAttribute("inert", is); form.busy(is); }

  // Takes in what the server says of the talk; false, and nothing is taken in, where the person has left in the meantime.
  async function take(path, body) {
    const who = rater;
    const found = await ask(path, body);
    if (who !== rater) return false;
    state = found;
    return true;
  }
  const send = oneAtATime(async () => {
    const who = rater;
    const text = message.value.trim();
    if (!text) return;
    if (text !== unsent.text) unsent = { text, identity: newIdentity() };
    message.value = "";
    card.hidden = true;
    showJudging(false);
    render(text);
    try {
      if (await take("/api/message", { rater, talk: state.talk, message_id: unsent.identity, text })) unsent = { text: null, identity: null };
    } catch (error) {
      if (who === rater) message.value = text;
      throw error;
    } finally {
      if (who === rater && state) render();
    }
  }, trouble, busy);
  const save = oneAtATime(async (answer) => {
    if (!await take("/api/verdict", { rater, talk: state.talk, ...answer })) return;
    news("Saved.");
    showJudging(false);
    render();
    decide.textContent = "Saved. Change it";
  }, trouble, busy);
  const begin = oneAtATime(async () => {
    if (await take("/api/leave", { rater })) reset();
  }, trouble, busy);

  function reset() {
    message.value = "";
    unsent = { text: null, identity: null };
    decide.textContent = state.verdict ? "Saved. Change it" : "I have decided";
    showJudging(false);
    render();
  }
  function another() {
    card.querySelector("p").textContent = cards[Math.floor(Math.random() * cards.length)];
    card.hidden = false;
  }

  composer.addEventListener("submit", (event) => { event.preventDefault(); send(); });
  message.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
  });
  idea.addEventListener("click", another);
  card.querySelector(".another").addEventListener("click", another);
  card.querySelector(".hide").addEventListener("click", () => { card.hidden = true; });
  decide.addEventListener("click", () => { showJudging(true); decide.blur(); });
  leave.addEventListener("click", () => begin());

  return {
    async open(who) {
      isShown = true;
      if (who !== rater || !state) {
        rater = who;
        state = null;
        if (!await take(`/api/talk?rater=${encodeURIComponent(who)}`)) return;
        reset();
      }
      root.hidden = !isShown;
      message.focus({ preventScroll: true });
    },
    close() { isShown = false; root.hidden = true; },
    forget() { rater = null; state = null; },
  };
}
