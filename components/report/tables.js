"use strict";
// Tables that sort by their headings. A heading is a button, so the keyboard works; aria-sort says the order.

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const isText = column === 0 || head.classList.contains("text");
    const first = isText ? "ascending" : "descending"; // the best first, names from A
    const order = head.getAttribute("aria-sort") === first ? (isText ? "descending" : "ascending") : first;
    heads.forEach((other) => other.hasAttribute("aria-sort") && other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const key = (row) => row.cells[column].dataset.value;
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === ""); // not measured: always last
      return sign * (isText ? x.localeCompare(y) : Number(x) - Number(y));
    };
    for (const body of table.tBodies) body.append(...[...body.rows].sort(compare));
  }));
}
