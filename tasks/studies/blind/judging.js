"use strict";
// The form of a judgement: left, tie or right, how sure, and why. By mouse, by touch and by keys.

import { newIdentity } from "./asking.js";

const KEYS = { ArrowLeft: "left", ArrowRight: "right", t: "tie", T: "tie" };

export function judging(place, { question, save, back, isOpen }) {
  place.append(document.getElementById("judging").content.cloneNode(true));
  const form = place.querySelector("form");
  const more = form.querySelector(".more");
  const reason = form.querySelector(".reason");
  const saving = form.querySelector(".save");
  const goBack = form.querySelector(".back");
  form.querySelector(".question").textContent = question;
  let judgement = { choice: null, confidence: null };
  let sent = { content: null, identity: null };

  function show() {
    for (const button of form.querySelectorAll("[data-choice]")) button.setAttribute("aria-pressed", button.dataset.choice === judgement.choice);
    for (const button of form.querySelectorAll("[data-confidence]")) button.setAttribute("aria-pressed", Number(button.dataset.confidence) === judgement.confidence);
    more.hidden = judgement.choice === null;
    saving.disabled = judgement.choice === null || judgement.confidence === null;
  }
  function set(changes) {
    judgement = { ...judgement, ...changes };
    show();
  }
  // The same answer keeps its identity when it is sent again, so that it is saved once; a changed one is a new answer.
  function answer() {
    const content = JSON.stringify([judgement, reason.value]);
    if (content !== sent.content) sent = { content, identity: newIdentity() };
    return { answer_id: sent.identity, ...judgement, reason: reason.value };
  }
  function send() {
    if (!saving.disabled) save(answer());
  }

  form.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (button?.dataset.choice) set({ choice: button.dataset.choice });
    if (button?.dataset.confidence) set({ confidence: Number(button.dataset.confidence) });
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); send(); });
  goBack.addEventListener("click", () => back());
  reason.addEventListener("keydown", (event) => {
    if (event.key === "Escape") reason.blur();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); send(); }
  });
  document.addEventListener("keydown", (event) => {
    const writing = event.target.closest?.("textarea, input");
    const button = event.target.closest?.("button");
    const isOnItsOwn = event.key === "Enter" && button && !button.matches(".save, [aria-pressed=true]");
    if (!isOpen() || writing || isOnItsOwn || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (KEYS[event.key]) set({ choice: KEYS[event.key] });
    else if ("123".includes(event.key) && judgement.choice) set({ confidence: Number(event.key) });
    else if (event.key.toLowerCase() === "r" && judgement.choice) reason.focus();
    else if (event.key === "Backspace") back();
    else if (event.key === "Enter" && !saving.disabled) send();
    else return;
    event.preventDefault();
  });

  return {
    // `answer`: what was answered before, or null.
    start(answer, canGoBack) {
      judgement = { choice: answer?.choice ?? null, confidence: answer?.confidence ?? null };
      sent = { content: null, identity: null };
      reason.value = answer?.reason ?? "";
      goBack.disabled = !canGoBack;
      show();
    },
    busy(is) { form.toggleAttribute("inert", is); },
  };
}
