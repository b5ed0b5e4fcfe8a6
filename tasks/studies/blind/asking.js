"use strict";
// How the page asks its server. An answer that fails throws an Error whose message a person can read.

export async function ask(path, body) {
  let response;
  try {
    response = await fetch(path, body === undefined ? {} : {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error("The server does not answer. What was saved is safe, and what you see here is not lost: try again in a moment.");
  }
  if (response.ok) return response.json();
  const text = await response.text();
  let said = text;
  try { said = JSON.parse(text).error; } catch { /* it was a plain line */ }
  throw new Error(`${said || `The server could not do that (${response.status})`}`);
}

// 32 hexadecimal digits; crypto.randomUUID is missing where the page is not on this machine.
export function newIdentity() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// An element with classes and text; text is only ever set as text, never as markup.
export function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) { made.textContent = text; made.dir = "auto"; }
  return made;
}

// Runs one action at a time: what comes while one is under way, like a second click, is dropped.
export function oneAtATime(action, onError, onBusy = () => {}) {
  let busy = false;
  return async (...given) => {
    if (busy) return;
    busy = true;
    onBusy(true);
    try {
      onError(null);
      await action(...given);
    } catch (error) {
      onError(error);
    } finally {
      busy = false;
      onBusy(false);
    }
  };
}
