"use strict";
const all = (query, within = document) => [...within.querySelectorAll(query)];
const list = document.getElementById("list");

const show = () => {
  const wanted = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const isSection = wanted && wanted.matches(".view, .trial");
  const shown = isSection ? wanted : document.getElementById("results");
  for (const section of all(".view, .trial")) section.classList.toggle("shown", section === shown);
  const tab = shown.matches(".trial") ? "#trials" : `#${shown.id}`;
  for (const link of all("nav a")) {
    if (link.getAttribute("href") === tab) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  scrollTo(0, 0);
};

const valueOf = (row, place) => {
  const text = row.cells[place].textContent.trim();
  const number = parseFloat(text);
  return Number.isNaN(number) ? text : number;
};

const compare = (one, other) => {
  if (typeof one === typeof other) return one < other ? -1 : Number(one > other);
  return typeof one === "number" ? -1 : 1;
};

const sortBy = (heading) => {
  const table = heading.closest("table");
  const down = heading.getAttribute("aria-sort") !== "descending";
  for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row, heading.cellIndex), row]);
  rows.sort(([one], [other]) => {
    if (typeof one !== typeof other) return compare(one, other); // texts stay below numbers
    return down ? compare(other, one) : compare(one, other);
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
};

const addSorting = (table) => {
  for (const heading of all("thead th", table)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    button.addEventListener("click", () => sortBy(heading));
    heading.replaceChildren(button);
  }
};

const sweep = document.getElementById("sweep");
const isOther = (part) => Boolean(sweep && sweep.value && !part.dataset.s.split(" ").includes(sweep.value));

// shows what one sweep asked for; the answer and the charts are of all
const showSweep = () => {
  for (const part of all(".of-all")) part.hidden = sweep.value !== "";
  for (const table of all("#results table")) {
    for (const cell of all("td[data-s]", table)) cell.classList.toggle("other", isOther(cell));
    const rows = [...table.tBodies[0].rows];
    for (const row of rows) row.hidden = sweep.value !== "" && !row.querySelector("td[data-s]:not(.other)");
    table.parentElement.hidden = rows.every((row) => row.hidden);
  }
  filter();
};

const asCsv = (table) => {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const guarded = (text) => (/^[=+@-]/.test(text) ? `'${text}` : text);
  const rows = all("tr", table).filter((row) => !row.hidden);
  return rows.map((row) => [...row.cells].map((cell) => cell.matches(".other") ? "" : quoted(guarded(cell.textContent.trim()))).join(",")).join("\n");
};

const addCopying = (table) => {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy as CSV";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(asCsv(table));
    button.textContent = "Copied";
  });
  table.parentElement.after(button);
};

const filter = () => {
  const words = document.getElementById("filter").value.toLowerCase().split(" ").filter(Boolean);
  let num = 0;
  for (const row of list.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = isOther(row) || !words.every((word) => text.includes(word));
    num += Number(!row.hidden);
  }
  document.getElementById("count").textContent = num < list.tBodies[0].rows.length ? `${num} of ${list.tBodies[0].rows.length}` : "";
};

const isNumber = (cell) => /^\d/.test(cell.textContent);

// of numbers down or across, of which a phone shows the first
const putLargestFirst = (table) => {
  if (isNumber(table.querySelector("thead th:not(.head)"))) {
    for (const row of table.rows) row.append(...all("td, thead th:not(.head)", row).reverse());
  } else if (isNumber(table.tBodies[0].rows[0].cells[0])) {
    table.tBodies[0].append(...[...table.tBodies[0].rows].reverse());
  }
};

document.documentElement.classList.add("scripted");
if (matchMedia("(max-width: 40rem)").matches) all("#results table").forEach(putLargestFirst);
for (const part of all(".needs-script")) part.hidden = false;
for (const table of all("table")) {
  addSorting(table);
  addCopying(table);
}
document.getElementById("filter").addEventListener("input", filter);
if (sweep) sweep.addEventListener("change", showSweep);
addEventListener("hashchange", show);
show();
