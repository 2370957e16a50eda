// Puts the parts together: shows the view that the address asks for, and takes newer data in place of what it shows.

/** Everything that depends on data or address, anew. */
const show = () => {
  for (const node of findAll(".needs-script")) if (!["no-match", "table-choice", "charts", "heat"].includes(node.id)) node.hidden = false;
  root.dataset.view = view;
  for (const link of findAll("nav a")) {
    if (link.getAttribute("href") === `#${isOfTrials() ? "trials" : view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  offerChoices();
  refresh();
  if (isOfTrials()) showTrials();
};

/** What depends on filters. */
const refresh = () => {
  filter();
  chooseTable();
  chooseColumns();
  listTrials();
  showCompared();
  return drawAll();
};

const goTo = (hash) => {
  if (!follow(hash)) return;
  show();
  window.scrollTo(0, 0);
  if (isOfTrials()) find("#trial-page h2").focus({ preventScroll: true });
};

const copy = async (button) => {
  const code = find("code.command", button.parentElement);
  let copied = true;
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    window.getSelection().selectAllChildren(code); // as on pages from a file in some browsers: what is selected can be copied
    copied = document.execCommand("copy");
  }
  button.textContent = copied ? "Copied" : "Press Ctrl-C";
  say(copied ? "The command is copied." : "The command is selected.");
};

// ---- light and dark

const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches);
const nameTheme = () => {
  find("#theme").textContent = isDark() ? "Light" : "Dark";
};
const turnTheme = () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
};

// ---- newer data

const replaceParts = (html) => {
  for (const [name, text] of Object.entries(html)) {
    const part = find(`#part-${name}`);
    if (parts.get(name) === text) continue;
    parts.set(name, text);
    const open = findAll("details[open]", part).map((details) => details.id);
    part.innerHTML = text; // the template escaped all that others wrote, and the page's policy runs no script that came so
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  }
};

const parts = new Map(); // name -> HTML that it was last replaced by

const update = async (newer) => {
  await ready;
  const open = findAll("#trial-page details[open]").length;
  take(newer);
  replaceParts(newer.html);
  show();
  if (open) find("#trial-page details")?.setAttribute("open", "");
  await drawing;
};

// ---- what the reader does

const ON_CLICK = [
  ["article.table button.sort", (button) => sortTable(button.closest("th"))],
  ["#trial-list button.sort", sortList],
  ["button.line", toggleLine],
  ["button.copy", copy],
  ["#theme", turnTheme],
];

document.addEventListener("click", (event) => {
  for (const [selector, act] of ON_CLICK) {
    const target = event.target.closest(selector);
    if (target) act(target);
  }
  const link = event.target.closest('a[href^="#"]');
  if (link && !event.ctrlKey && !event.metaKey && parsed(link.getAttribute("href"))) {
    event.preventDefault();
    goTo(link.getAttribute("href"));
  }
});

const askTable = (select) => {
  ask({ table: select.value });
  chooseTable();
  drawAll();
};

const askFilters = (event) => {
  if (event?.target.id === "table") {
    askTable(event.target);
    return;
  }
  ask({ find: find("#filter-text").value, ...Object.fromEntries(Object.keys(CHOICES).map((name) => [name, find(`#filter-${name}`).value])) });
  find("#trial-box").scrollTop = 0;
  refresh();
};

const ON_CHANGE = [
  ["#quantity", () => drawAll()],
  ["#heat select", () => drawAll()],
  ["input.compare", chooseToCompare],
  [
    "#columns input",
    () => {
      ask({ columns: findAll("#columns input:checked").map((box) => box.value).join(",") });
      const asked = params.get("columns")?.split(",") ?? [];
      chosenColumns = columns.filter((column) => asked.includes(column.name));
      listTrials();
    },
  ],
];

document.addEventListener("change", (event) => {
  for (const [selector, act] of ON_CHANGE) if (event.target.matches(selector)) act(event.target);
});
find("#filters").addEventListener("input", askFilters);
find("#filters").addEventListener("submit", (event) => event.preventDefault());
find("#filters").addEventListener("reset", () => {
  ask(Object.fromEntries(KEPT.map((name) => [name, ""])));
  offerChoices();
  find("#filter-text").value = "";
  setTimeout(() => askFilters()); // once the browser has emptied the fields
});
find("#heat").addEventListener("toggle", () => drawAll());
find("#trial-box").addEventListener("scroll", () => showRows());
window.addEventListener("resize", () => showRows());
window.addEventListener("beforeprint", () => showRows(true));
window.addEventListener("afterprint", () => showRows());
window.addEventListener("popstate", () => {
  if (takeAddress(location.hash)) show();
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);

nameTheme();
for (const container of findAll(".chart")) widths.observe(container);
const ready = unpackedText(find("#data").textContent).then((text) => {
  take(JSON.parse(text));
  takeAddress(location.hash);
  show();
  return drawing;
});
window.scalemark = { update, views, ready, data: () => data };
