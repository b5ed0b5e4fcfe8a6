// The embedded dialogues: base64 of gzipped JSON in which every text stands once (see dialogues.py). The index is unpacked after the page
// has been drawn, a chunk of dialogues when one of them is shown, all of them at the first search.

async function unpacked(element) {
  const packed = element.textContent;
  const bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(packed) : Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

async function openStore() {
  const store = await unpacked(document.getElementById("index"));
  const elements = [...document.querySelectorAll("script.chunk")];
  const chunks = elements.map(() => null);
  store.at = Object.fromEntries(store.dialogue.map((name, index) => [name, index]));
  store.of = (row, name) => store.texts[row[store.at[name]]] ?? null;
  store.chunk = (number) => (chunks[number] ??= unpacked(elements[number]));

  const place = new Map(); // of a row: its chunk, and its number there
  let next = 0;
  store.chunks.forEach((size, chunk) => {
    for (let number = 0; number < size; number += 1) place.set(store.dialogues[next++], { chunk, number });
  });

  // Whether each dialogue says the words, by row. Reads all chunks, one after the other, so that the page stays alive.
  store.saying = async (words, fields) => {
    const columns = fields.map((name) => store.turn.indexOf(name));
    const rows = new Set();
    const named = store.texts.map((text) => text.toLowerCase().includes(words));
    const found = [];
    for (let number = 0; number < chunks.length; number += 1) {
      const chunk = await store.chunk(number);
      chunk.lowered ??= chunk.texts.map((text) => text.toLowerCase());
      const hit = chunk.lowered.map((text) => text.includes(words));
      found.push(chunk.turns.map((turns) => turns.some((turn) => columns.some((column) => turn[column] !== null && hit[turn[column]]))));
    }
    for (const [row, { chunk, number }] of place) {
      if (found[chunk][number] || named[row[store.at.persona]] || named[row[store.at.dialogue_id]]) rows.add(row);
    }
    return rows;
  };

  // A row as an object of texts, with its turns.
  store.read = async (row) => {
    const { chunk, number } = place.get(row);
    const { texts, turns } = await store.chunk(chunk);
    const text = (index) => (index === null ? null : texts[index]);
    const part = (values, kind) => Object.fromEntries(store[kind].map((name, index) => (
      [name, name === "evidence" ? values[index].map((one) => part(one, "evidence")) : text(values[index])])));
    const known = Object.fromEntries(store.dialogue.map((name, index) => [name, name === "emotions" ? row[index] : store.of(row, name)]));
    return { ...known, turns: turns[number].map((turn) => part(turn, "turn")) };
  };
  return store;
}

const painted = new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
const storeReady = painted.then(openStore);
