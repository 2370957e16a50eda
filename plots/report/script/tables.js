// Filters, and the tables that stand in the page: which one is shown, and in which order.
const CHOICES = { model: (trial) => trial.model, strategy: (trial) => trial.strategy, outcome: (trial) => trial.outcome };
const NEXT = { value: { none: "descending", descending: "ascending", ascending: "none" }, text: { none: "ascending", ascending: "descending", descending: "none" } };

let fits = []; // of each trial whether the filters leave it
let haystacks = [];

const option = (value, text, chosen) => {
  const node = make("option", { value }, visible(text));
  node.selected = value === chosen;
  return node;
};

const offerChoices = () => {
  for (const [name, of] of Object.entries(CHOICES)) {
    const values = [...new Set(data.trials.map(of))].sort(compared);
    const asked = params.get(name) ?? "";
    if (asked && !values.includes(asked)) values.push(asked);
    const select = find(`#filter-${name}`);
    select.replaceChildren(option("", "all", asked), ...values.map((value) => option(value, name === "outcome" ? spoken(value) : value, asked)));
    select.parentElement.hidden = values.length < 2 && !asked;
  }
  const text = find("#filter-text");
  if (text !== document.activeElement) text.value = params.get("find") ?? "";
  haystacks = data.trials.map((trial) =>
    [
      ...[trial.trial_id, trial.model, trial.strategy, `${trial.width} ${data.devices}`, `batch_size ${trial.batch_size ?? ""}`],
      ...Object.entries(trial.axes).map(([axis, value]) => `${axis} ${value}`),
      ...[ended(trial), trial.verdict, ...trial.reasons, ...trial.badges, data.environments[trial.environment].machine, trial.source],
    ]
      .join("\n")
      .toLowerCase(),
  );
};

const filter = () => {
  const words = (params.get("find") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = Object.entries(CHOICES).filter(([name]) => params.get(name));
  fits = data.trials.map(
    (trial) => chosen.every(([name, of]) => of(trial) === params.get(name)) && words.every((word) => haystacks[trial.at].includes(word)),
  );
  const num = fits.filter(Boolean).length;
  find("#count").textContent = `${inThousands(num)} of ${counted(data.trials.length, "trial")}`;
  find("#no-match").hidden = num > 0;
  for (const row of findAll("#part-results [data-trials]")) {
    row.hidden = !row.dataset.trials.split(" ").some((at) => fits[Number(at)]);
  }
};

let table = null; // the one on show; null where filters leave none

const chooseTable = () => {
  const fitting = data.tables.filter(({ trials }) => trials.some((at) => fits[at]));
  const wanted = params.get("table") ?? data.chosen;
  table = fitting.find(({ key }) => key === wanted) ?? fitting[0] ?? null;
  const titled = ({ key, title, environment }) => {
    const machine = data.environments.length > 1 ? `, ${data.environments[environment].machine}` : "";
    return option(key, `${title}${machine}`, table?.key);
  };
  find("#table").replaceChildren(...fitting.map(titled));
  find("#table-choice").hidden = fitting.length < 2;
  find("#part-results").classList.toggle("titled", fitting.length > 1);
  for (const article of findAll("article.table")) article.classList.toggle("chosen", article.id === table?.key);
};

// ---- sorting

const cellOf = (row, column) => {
  const cell = row.cells[column];
  return { value: cell.dataset.value === undefined ? null : Number(cell.dataset.value), text: cell.textContent.trim() };
};

/** Order of two cells; what has no number is last, whatever the direction. */
const orderOf = (one, other, isValue, sign) => {
  if (!isValue) return sign * compared(one.text, other.text);
  if ((one.value === null) !== (other.value === null)) return one.value === null ? 1 : -1;
  return one.value === null ? 0 : sign * (one.value - other.value);
};

const sortTable = (heading) => {
  const isValue = heading.classList.contains("value");
  const direction = NEXT[isValue ? "value" : "text"][heading.getAttribute("aria-sort") ?? "none"];
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  if (direction !== "none") heading.setAttribute("aria-sort", direction);
  const body = heading.closest("table").tBodies[0];
  const rows = [...body.rows];
  rows.forEach((row, at) => (row.dataset.position ??= at)); // as they came
  const sign = direction === "ascending" ? 1 : -1;
  const first = (one, other) => one.dataset.position - other.dataset.position;
  const cells = new Map(rows.map((row) => [row, cellOf(row, heading.cellIndex)]));
  rows.sort((one, other) => (direction === "none" ? 0 : orderOf(cells.get(one), cells.get(other), isValue, sign)) || first(one, other));
  body.append(...rows);
  tellOrder(heading.textContent.trim(), direction);
};

const tellOrder = (title, direction) => say(direction === "none" ? "In the first order." : `Sorted by ${title}, ${direction}.`);
