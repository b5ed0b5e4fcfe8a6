// Single dialogues under the pointer: the nearest one at the turn pointed at, its persona and its way; a press opens it in the browser.

async function startPointing(multiples) {
  const store = await storeReady;
  const open = await browserReady;
  const [left, top, width, height, turns] = multiples.dataset.frame.split(" ").map(Number);
  const said = multiples.parentElement.querySelector(".pointed-at");
  const emotionsOf = (row) => row[store.at.emotions];

  for (const figure of multiples.querySelectorAll("[data-variant]")) {
    const svg = figure.querySelector("svg");
    const group = svg.querySelector(".pointed");
    const mine = store.dialogues.filter((row) => store.of(row, "variant") === figure.dataset.variant && row[store.at.error] === null);
    let nearest = null;

    svg.addEventListener("pointermove", (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const turn = Math.min(turns, Math.max(0, Math.round((point.x - left) / width * turns)));
      const emotion = 100 * (1 - (point.y - top) / height);
      const at = (emotions) => emotions[Math.min(turn, emotions.length - 1)]; // who has ended stays where it ended
      const away = (row) => Math.abs(at(emotionsOf(row)) - emotion);
      nearest = mine.reduce((best, row) => (best === null || away(row) < away(best) ? row : best), null);
      if (nearest) draw(nearest);
    });
    svg.addEventListener("pointerleave", () => { group.replaceChildren(); said.textContent = ""; });
    svg.addEventListener("click", () => nearest && open?.(nearest));

    function draw(row) {
      const points = emotionsOf(row).map((emotion, turn) => [left + turn * width / turns, top + height * (1 - emotion / 100)]);
      const make = (name, attributes) => {
        const node = document.createElementNS("http://www.w3.org/2000/svg", name);
        for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
        return node;
      };
      const [x, y] = points.at(-1);
      group.replaceChildren(make("polyline", { points: points.join(" ") }), make("circle", { cx: x, cy: y, r: 3 }));
      said.textContent = `${figure.dataset.variant} with ${store.of(row, "persona")}: ${emotionsOf(row)[0]} → ${store.of(row, "final")}, ${store.of(row, "ending")}`;
    }
  }
}

for (const multiples of document.querySelectorAll("[data-frame]")) startPointing(multiples);
