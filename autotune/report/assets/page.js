"use strict";

// Charts: drawn as SVG, so that the page's own style sheet colours their text in light, dark and print.
(function drawCharts() {
  const specs = JSON.parse(document.getElementById("chart-specs").textContent);
  for (const [name, spec] of Object.entries(specs)) {
    const place = document.getElementById("chart-" + name);
    // "ast": expressions are interpreted, so that the page needs no right to evaluate text as code.
    window.vegaEmbed(place, spec, { renderer: "svg", actions: false, ast: true });
  }
})();

// The trials table: sorting by a click or key on a header, filtering by text, state and front.
(function trialsTable() {
  const table = document.getElementById("trials-table");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const text = document.getElementById("filter-text");
  const state = document.getElementById("filter-state");
  const front = document.getElementById("filter-front");
  const count = document.getElementById("filter-count");
  const haystacks = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  function filter() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits =
        words.every((word) => haystacks.get(row).includes(word)) &&
        (!state.value || row.dataset.state === state.value) &&
        (!front.checked || row.dataset.front === "1");
      row.hidden = !fits;
      if (fits) shown += 1;
    }
    count.textContent = shown + " of " + rows.length + " trials";
  }

  // A value that was not measured comes last, whichever way the table is sorted.
  function compare(a, b, numeric, sign) {
    if (a === "" || b === "") return a === b ? 0 : a === "" ? 1 : -1;
    return sign * (numeric ? Number(a) - Number(b) : a.localeCompare(b));
  }

  function sort(header) {
    const column = header.cellIndex;
    const down = header.getAttribute("aria-sort") === "ascending";
    const numeric = header.classList.contains("number");
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    const keyed = rows.map((row) => [row.cells[column].dataset.value, row]);
    keyed.sort((a, b) => compare(a[0], b[0], numeric, down ? -1 : 1));
    body.append(...keyed.map((pair) => pair[1]));
  }

  for (const header of table.tHead.rows[0].cells) {
    header.querySelector("button").addEventListener("click", () => sort(header));
  }
  text.addEventListener("input", filter);
  state.addEventListener("change", filter);
  front.addEventListener("change", filter);
  filter();
})();

// Copy buttons. A page from file:// may lack the clipboard: then the text is selected, ready for the keyboard.
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.of);
    const selection = window.getSelection();
    selection.selectAllChildren(source);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Selected: press Ctrl-C";
    }
  });
}
