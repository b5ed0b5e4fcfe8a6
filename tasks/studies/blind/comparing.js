"use strict";
// One pair of dialogues after the other.

import { ask, element, oneAtATime } from "./asking.js";
import { judging } from "./judging.js";

export function comparing({ trouble, news, progress }) {
  const root = document.getElementById("compare");
  const done = document.getElementById("done");
  let rater = null;
  let state = null;
  let shownAt = 0;
  let isShown = false;
  let leftAt = null; // what is done meanwhile is no time of the judgement

  const form = judging(root.querySelector(".judge"), {
    question: "Which one supported the person better?",
    isOpen: () => isShown && !root.hidden,
    save: (answer) => save(answer),
    back: () => goTo(state.place - 1),
  });

  function show() {
    const isDone = state.place === undefined;
    root.hidden = isDone || !isShown;
    done.hidden = !isDone || !isShown;
    return !isDone;
  }

  function render() {
    progress(state.answered, state.total);
    if (!show()) return;
    for (const side of ["left", "right"]) {
      const list = root.querySelector(`article[data-side="${side}"] ol`);
      list.replaceChildren(...state[side].map(({ user, reply }) => {
        const turn = element("li");
        turn.append(element("p", "user", user), element("p", "reply", reply || ""));
        return turn;
      }));
    }
    form.start(state.answer, state.place > 0);
    shownAt = performance.now();
    root.querySelector(".sides").scrollTo({ left: 0 });
    window.scrollTo({ top: 0 });
  }

  async function load(place) {
    const who = rater;
    const asked = place === null ? "" : `&place=${place}`;
    const found = await ask(`/api/pair?rater=${encodeURIComponent(who)}${asked}`);
    if (who !== rater) return; // it was for the person before
    state = found;
    render();
  }
  const goTo = oneAtATime(async (place) => { if (place >= 0) await load(place); }, trouble, form.busy);
  const save = oneAtATime(async (answer) => {
    const who = rater;
    const seconds = Math.round((performance.now() - shownAt) / 100) / 10;
    const after = await ask("/api/answer", { rater: who, place: state.place, pair: state.pair, seconds, ...answer });
    if (who !== rater) return;
    news(`Saved. ${after.answered} of ${after.total}.`);
    await load(after.next);
  }, trouble, form.busy);

  done.querySelector("button").addEventListener("click", () => goTo(state.total - 1));
  for (const button of root.querySelectorAll(".tabs button")) {
    button.addEventListener("click", () => {
      root.querySelector(`article[data-side="${button.dataset.side}"]`).scrollIntoView({ inline: "start", block: "nearest", behavior: "smooth" });
    });
  }
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) root.querySelector(`.tabs [data-side="${target.dataset.side}"]`).setAttribute("aria-pressed", isIntersecting);
  }, { root: root.querySelector(".sides"), threshold: 0.6 });
  for (const article of root.querySelectorAll("article")) seen.observe(article);

  return {
    async open(who) {
      isShown = true;
      if (leftAt !== null) shownAt += performance.now() - leftAt;
      leftAt = null;
      if (who === rater && state) { show(); return; }
      rater = who;
      state = null;
      await load(null);
    },
    close() {
      if (isShown) leftAt = performance.now();
      isShown = false;
      root.hidden = true;
      done.hidden = true;
    },
    forget() { rater = null; state = null; },
  };
}
