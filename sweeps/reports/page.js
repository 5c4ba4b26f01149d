"use strict";
// Charts from their specifications; tables that sort, widen, save as CSV and follow what is selected in a chart.

const every = (selector, inside = document) => [...inside.querySelectorAll(selector)];

// A cell's number in SI units, else its text.
const valueOf = (cell) => (cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.textContent);

function compare(a, b) {
  const numbers = typeof a === "number" && typeof b === "number";
  if (numbers) return a - b;
  // Cells without a number come last.
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a.localeCompare(b, undefined, { numeric: true });
}

function sortBy(table, head) {
  const place = [...head.parentNode.children].indexOf(head);
  const down = head.getAttribute("aria-sort") === "ascending";
  every("th", head.parentNode).forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [valueOf(row.cells[place]), row]);
  rows.sort((a, b) => {
    const order = compare(a[0], b[0]);
    const empty = (typeof a[0] === "number") !== (typeof b[0] === "number");
    return down && !empty ? -order : order;
  });
  body.append(...rows.map((pair) => pair[1]));
}

// Text of a cell in a CSV file; a spreadsheet must not take words of a file for a formula.
function quoted(value) {
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
  return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

function save(holder, name) {
  const heads = every("thead th", holder).map((head) => head.dataset.csv);
  const rows = every("tbody tr", holder).filter((row) => !row.hidden);
  const lines = [heads, ...rows.map((row) => [...row.cells].map((cell) => {
    const value = valueOf(cell);
    return value === "\u2013" ? "" : value;
  }))];
  const text = lines.map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function say(holder, selected) {
  const rows = every("tbody tr", holder);
  const shown = rows.filter((row) => !row.hidden).length;
  const all = rows.length.toLocaleString("en");
  const words = selected ? "selected" : "shown";
  holder.querySelector(".count").textContent =
    shown === rows.length && !selected ? `${all} rows` : `${shown.toLocaleString("en")} of ${all} rows ${words}`;
}

// Rows inside of an area, {x: [from, to], y: [from, to]}; null: what is shown while nothing is selected.
function select(holder, area) {
  const rows = every("tbody tr", holder);
  rows.forEach((row) => {
    if (area === null) {
      row.hidden = row.dataset.rest === "1";
      return;
    }
    row.hidden = !["x", "y"].every((side) => {
      if (!area[side]) return true;
      if (row.dataset[side] === "") return false;
      const at = Number(row.dataset[side]);
      return at >= area[side][0] && at <= area[side][1];
    });
  });
  say(holder, area !== null);
}

every(".table").forEach((holder) => {
  const table = holder.querySelector("table");
  // Rows that are hidden at first stay so when nothing is selected, wherever sorting puts them.
  every("tbody tr", holder).forEach((row) => { if (row.hidden) row.dataset.rest = "1"; });
  every("thead th", holder).forEach((head) =>
    head.querySelector("button").addEventListener("click", () => sortBy(table, head)));
  holder.querySelector("[data-save]").addEventListener("click", (event) => save(holder, event.target.dataset.save));
  const all = holder.querySelector("[data-all]");
  if (all) all.addEventListener("click", () => {
    all.setAttribute("aria-pressed", String(holder.classList.toggle("all")));
  });
  const rest = holder.querySelector("[data-rows]");
  if (rest) rest.addEventListener("click", () => {
    every("tbody tr", holder).forEach((row) => { row.hidden = false; row.dataset.rest = ""; });
    rest.remove();
    say(holder, false);
  });
  say(holder, false);
});

function sorted(range) {
  return range ? [Math.min(...range), Math.max(...range)] : null;
}

// A chart and a table: an area that a pointer drags, or that fields state, chooses rows.
function link(figure, view) {
  const holder = document.getElementById(figure.dataset.table);
  const fields = Object.fromEntries(every("[data-end]", figure).map((field) => [field.dataset.end, field]));
  let typing = false;
  const apply = (area) => select(holder, area.x || area.y ? area : null);
  view.addSignalListener("brush", (name, value) => {
    if (typing) return;
    const area = { x: sorted(value.x), y: sorted(value.y) };
    for (const side of ["x", "y"])
      for (const end of [0, 1])
        fields[side + end].value = area[side] ? Number(area[side][end].toPrecision(4)) : "";
    apply(area);
  });
  const draw = (area) => {
    for (const side of ["x", "y"]) {
      const scale = view.scale(side);
      const ends = scale.domain();
      const range = area.x || area.y ? area[side] || sorted(ends) : null;
      const inside = range && range.map((end) => Math.min(Math.max(end, Math.min(...ends)), Math.max(...ends)));
      // Fields are named as their axes: "brush_x" has the numbers, and "brush_x_1" the pixels.
      view.signal(`brush_${side}_1`, inside ? inside.map((end) => scale(end)) : []);
    }
    return view.runAsync();
  };
  const typed = () => {
    const area = {};
    for (const side of ["x", "y"]) {
      const ends = [0, 1].map((end) => fields[side + end].value);
      area[side] = ends.every((end) => end === "")
        ? null
        : [ends[0] === "" ? -Infinity : Number(ends[0]), ends[1] === "" ? Infinity : Number(ends[1])];
    }
    apply(area);
    typing = true;
    draw(area).finally(() => { typing = false; });
  };
  Object.values(fields).forEach((field) => field.addEventListener("input", typed));
  figure.querySelector("[data-clear]").addEventListener("click", () => {
    Object.values(fields).forEach((field) => { field.value = ""; });
    typed();
  });
}

every("figure.chart").forEach((figure) => {
  const spec = JSON.parse(figure.querySelector("script").textContent);
  const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false };
  vegaEmbed(figure.querySelector(".plot"), spec, options).then(
    ({ view }) => {
      if (figure.dataset.table) link(figure, view);
      figure.dataset.drawn = "1";
    },
    (error) => { figure.querySelector(".plot").textContent = "This chart cannot be drawn: " + error.message; },
  );
});
