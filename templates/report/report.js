"use strict";
for (const table of document.querySelectorAll("table.results")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  const key = (row, at) => {
    const cell = row.cells[at];
    if (at === 0) return cell.textContent.trim().toLowerCase();
    const value = parseFloat(cell.dataset.sort);
    return Number.isNaN(value) ? null : value;
  };
  const sort = (at) => {
    // A click sorts downwards, the next one upwards, the third restores the table's own order.
    const now = heads[at].getAttribute("aria-sort");
    const next = now === "none" ? (at === 0 ? "ascending" : "descending") : now === (at === 0 ? "ascending" : "descending") ? (at === 0 ? "descending" : "ascending") : "none";
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === at ? next : "none"));
    table.classList.toggle("sorted", next !== "none");
    if (next === "none") {
      original.forEach((row) => body.append(row));
    } else {
      const sign = next === "ascending" ? 1 : -1;
      const rows = original.filter((row) => !row.classList.contains("family"));
      rows.sort((a, b) => {
        const [x, y] = [key(a, at), key(b, at)];
        // Cells without a number stay at the end, whatever the direction.
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (x < y ? -1 : x > y ? 1 : 0);
      });
      rows.forEach((row) => body.append(row));
    }
    show(table);
  };
  heads.forEach((head, at) => {
    head.tabIndex = 0;
    head.setAttribute("aria-sort", "none");
    head.addEventListener("click", () => sort(at));
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        sort(at);
      }
    });
  });
}
function show(table) {
  const section = table.closest("section");
  const filter = section && document.querySelector(`fieldset[data-for="${section.id}"]`);
  const hidden = new Set(filter ? [...filter.querySelectorAll("input:not(:checked)")].map((box) => box.value) : []);
  for (const row of table.tBodies[0].rows) {
    row.hidden = hidden.has(row.dataset.family) || (table.classList.contains("sorted") && row.classList.contains("family"));
  }
}
for (const filter of document.querySelectorAll("fieldset.filter")) {
  filter.addEventListener("change", () => show(document.querySelector(`#${filter.dataset.for} table.results`)));
}
