// The embedded dialogues: base64 of gzipped JSON in which every text stands once. Unpacked after the page has been drawn.

async function unpacked() {
  const packed = document.getElementById("store").textContent;
  const bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(packed) : Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const store = await new Response(stream).json();
  store.at = Object.fromEntries(store.dialogue.map((name, index) => [name, index]));
  store.text = (number) => (number === null ? null : store.texts[number]);
  store.of = (row, name) => store.text(row[store.at[name]]);
  return store;
}

// A row of numbers as an object of texts; `kind` is dialogue, turn or evidence.
function decoded(store, row, kind) {
  return Object.fromEntries(store[kind].map((name, index) => {
    if (name === "turns") return [name, row[index].map((turn) => decoded(store, turn, "turn"))];
    if (name === "evidence") return [name, row[index].map((reason) => decoded(store, reason, "evidence"))];
    return [name, name === "emotions" ? row[index] : store.text(row[index])];
  }));
}

const painted = new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
const storeReady = painted.then(unpacked);
