// One dialogue as markup: clones of the page's templates, filled. Text is only ever set as text, never as markup.

// Colour and round of colours of every variant, as the table of results shows them.
const markOf = new Map([...document.querySelectorAll("[data-table='results'] tbody th")].map((cell) => [cell.dataset.value, cell.querySelector(".swatch")]));

function marked(element, variant) {
  const mark = markOf.get(variant);
  if (!mark) return;
  element.style.setProperty("--colour", mark.style.getPropertyValue("--colour"));
  element.dataset.round = mark.dataset.round;
}

const sparkPoints = (emotions) => emotions
  .map((emotion, turn) => `${(turn * 96 / Math.max(1, emotions.length - 1)).toFixed(1)},${(36 * (1 - emotion / 100)).toFixed(1)}`)
  .join(" ");

function filled(templateId, values) {
  const node = document.getElementById(templateId).content.firstElementChild.cloneNode(true);
  const each = (name, action) => [node, ...node.querySelectorAll(`[data-${name}]`)].forEach((element) => {
    if (element.hasAttribute(`data-${name}`)) action(element, values[element.getAttribute(`data-${name}`)]);
  });
  each("slot", (element, value) => { element.textContent = value ?? ""; });
  each("if", (element, value) => { element.hidden = value === null; });
  each("tone-of", (element, value) => { element.dataset.tone = value; });
  each("colour-of", (element, value) => marked(element, value));
  each("level-of", (element, value) => { element.style.setProperty("--level", value || 0); });
  each("spark-of", (element, value) => { element.setAttribute("points", sparkPoints(value)); });
  each("list", (element, items) => { element.replaceChildren(...items.map((item) => filled(element.dataset.list, item))); });
  return node;
}
