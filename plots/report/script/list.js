// The list of trials: chosen columns, any order, and only those rows made that are to be seen.
const LINE_PX = 36; // as in page.css
const MORE = 15; // rows above and below those in sight

const FIRST_COLUMNS = [
  { name: "machine", text: (trial) => data.environments[trial.environment].machine },
  { name: "model", text: (trial) => trial.model },
  { name: "strategy", text: (trial) => trial.strategy },
  { name: "num_gpus", title: () => data.devices, text: (trial) => trial.width, value: (trial) => trial.num_gpus, isUsual: () => true },
  { name: "batch_size", title: () => "batch", text: (trial) => String(trial.batch_size ?? ""), value: (trial) => trial.batch_size },
];
const LAST_COLUMNS = [
  { name: "outcome", text: ended },
  { name: "throughput", title: () => `${data.unit} [95 % CI]`, text: withInterval, value: (trial) => trial.throughput, isUsual: () => true },
  { name: "speed_up", title: () => "speed-up", text: (trial) => times(trial.speed_up), value: (trial) => trial.speed_up },
  { name: "efficiency", text: (trial) => percent(trial.efficiency), value: (trial) => trial.efficiency },
  { name: "mfu", title: () => "MFU", text: utilization, value: (trial) => trial.mfu, isUsual: () => data.trials.some((trial) => trial.mfu !== null) },
  { name: "processes", text: (trial) => String(trial.repeats.length), value: (trial) => trial.repeats.length },
  { name: "verdict", text: (trial) => trial.verdict, isUsual: () => false },
  { name: "doubts", text: (trial) => trial.badges.join(", "), isUsual: () => data.trials.some((trial) => trial.badges.length) },
];

const axisColumn = (axis) => {
  const valueOf = (trial) => trial.axes[axis] ?? null;
  const isNumber = data.trials.every((trial) => valueOf(trial) === null || typeof valueOf(trial) === "number");
  return { name: axis, text: (trial) => String(valueOf(trial) ?? ""), value: isNumber ? valueOf : null, isUsual: () => data.differing.includes(axis) };
};

let columns = []; // all that there are
let chosenColumns = [];
let order = []; // numbers of the trials in the list
let range = ""; // of the rows that are made

const titleOf = (column) => (column.title ? column.title() : column.name);

const chooseColumns = () => {
  const names = new Set(data.trials.flatMap((trial) => Object.keys(trial.axes)));
  columns = [...FIRST_COLUMNS, ...[...names].map(axisColumn), ...LAST_COLUMNS];
  const asked = params.get("columns")?.split(",");
  const isUsual = (column) => (column.isUsual ? column.isUsual() : differs(column.text));
  chosenColumns = columns.filter((column) => (asked ? asked.includes(column.name) : isUsual(column)));
  find("#columns div").replaceChildren(
    ...columns.map((column) => {
      const box = make("input", { type: "checkbox", value: column.name });
      box.checked = chosenColumns.includes(column);
      return make("label", {}, box, ` ${visible(titleOf(column))}`);
    }),
  );
};

const sorting = () => {
  const asked = params.get("sort") ?? "";
  const name = asked.replace(/^-/, "");
  const column = columns.find((one) => one.name === name);
  return { column, direction: !column ? "none" : { true: "descending", false: "ascending" }[asked.startsWith("-")] };
};

const listTrials = () => {
  const { column: by, direction } = sorting();
  find("#trial-list thead tr").replaceChildren(
    make("th", { scope: "col" }, "trial"),
    ...chosenColumns.map((column) =>
      make(
        "th",
        { scope: "col", class: column.value ? "value" : null, "aria-sort": column === by ? direction : null },
        make("button", { type: "button", class: "sort", "data-column": column.name }, visible(titleOf(column))),
      ),
    ),
  );
  order = data.trials.map((trial) => trial.at).filter((at) => fits[at]);
  if (by) {
    const sign = direction === "ascending" ? 1 : -1;
    const cells = data.trials.map((trial) => ({ value: by.value ? by.value(trial) : null, text: by.text(trial) }));
    order.sort((one, other) => orderOf(cells[one], cells[other], Boolean(by.value), sign) || one - other);
  }
  find("#trial-list").setAttribute("aria-rowcount", order.length + 1);
  range = "";
  showRows();
};

const rowOf = (at, index) => {
  const trial = data.trials[at];
  const box = make("input", { type: "checkbox", class: "compare", value: trial.key, "aria-label": `Compare ${shortId(trial)}` });
  box.checked = compareKeys.includes(trial.key);
  const link = make("a", { href: linkTo(trial) }, make("code", {}, shortId(trial)));
  const row = make("tr", { id: `row-${at}`, "aria-rowindex": index + 2 }, make("th", { scope: "row" }, box, " ", link));
  for (const column of chosenColumns) {
    const cell = make("td", { class: column.value ? "value" : null });
    if (column.name === "doubts") cell.append(...trial.badges.flatMap((one) => [badge(one), " "]));
    else cell.append(visible(column.text(trial)));
    row.append(cell);
  }
  return row;
};

const gap = (num) => (num > 0 ? [make("tr", { class: "gap", style: `height: ${num * LINE_PX}px` })] : []);

const showRows = (isAll = false) => {
  const box = find("#trial-box");
  const room = Math.ceil((box.clientHeight || 600) / LINE_PX);
  const first = isAll ? 0 : Math.max(0, Math.min(Math.floor(box.scrollTop / LINE_PX), order.length - room) - MORE);
  const last = isAll ? order.length : Math.min(order.length, first + room + 2 * MORE);
  if (range === `${first} ${last}`) return;
  range = `${first} ${last}`;
  const focused = document.activeElement;
  const row = focused?.closest("#trial-list tbody tr")?.id;
  const what = focused?.tagName.toLowerCase();
  const rows = order.slice(first, last).map((at, index) => rowOf(at, first + index));
  find("#trial-list tbody").replaceChildren(...gap(first), ...rows, ...gap(order.length - last));
  if (row) find(`#${row} ${what}`)?.focus({ preventScroll: true });
};

const sortList = (button) => {
  const column = columns.find((one) => one.name === button.dataset.column);
  const before = sorting();
  const direction = NEXT[column.value ? "value" : "text"][column === before.column ? before.direction : "none"];
  ask({ sort: { none: "", ascending: column.name, descending: `-${column.name}` }[direction] });
  find("#trial-box").scrollTop = 0;
  listTrials();
  find(`#trial-list button[data-column="${CSS.escape(column.name)}"]`).focus({ preventScroll: true });
  tellOrder(titleOf(column), direction);
};

// ---- two to compare

let compareKeys = [];

const chooseToCompare = (box) => {
  compareKeys = compareKeys.filter((key) => key !== box.value);
  if (box.checked) compareKeys = [...compareKeys, box.value].slice(-2);
  for (const other of findAll("input.compare")) other.checked = compareKeys.includes(other.value);
  showCompared();
};

const showCompared = () => {
  const ids = compareKeys.filter((key) => positions.has(key)).map((key) => shortId(data.trials[positions.get(key)]));
  const note = find("#compared");
  if (ids.length === 2) note.replaceChildren(make("a", { href: linkToCompare(compareKeys) }, `Compare ${ids.join(" with ")}`));
  else note.textContent = ids.length ? `Choose another one to compare ${ids[0]} with.` : "Choose two to compare them; a click on a heading sorts.";
};
