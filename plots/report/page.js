// What the page does beyond being read: lists trials, sorts, filters, draws, and takes newer data in place of what it shows.
const BAR_ROOM = 1.25; // the axis makes room for bars that reach so many times the value, as in pictures
const root = document.documentElement;
const find = (selector, within = document) => within.querySelector(selector);
const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];

/** As the page holds it, trials take a line each, and commands are known from their words. */
const unpacked = (packed) => {
  const { fields, rows, words } = packed.trials;
  const trials = rows.map((row) => {
    const trial = Object.fromEntries(fields.map((field, at) => [field, row[at]]));
    return { ...trial, command: trial.command.map((word) => words[word]).join(" ") };
  });
  return { ...packed, trials };
};

let data = unpacked(JSON.parse(find("#data").textContent));

// ---- texts: as the page's template writes them

const visible = (text) =>
  String(text).replace(/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, (one) => (one === "\n" ? one : `\\u{${one.codePointAt(0).toString(16)}}`));

const number = (value) => {
  if (value === null) return "";
  return Math.abs(value) >= 1e4 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
};
const times = (value) => (value === null ? "" : `${value.toFixed(2)}x`);
const percent = (value) => (value === null ? "" : `${Math.round(100 * value)}%`);
/** Over processes; within the only one it says less, and is distinguished. */
const interval = (of) => {
  if (of.low === null || of.high === null) return "";
  return `${number(of.low)}..${number(of.high)}${of.repeats.length === 1 ? " within one" : ""}`;
};
const spoken = (outcome) => outcome.replaceAll("_", " ");
/** Also where other repeats brought a number. */
const ended = ({ outcome, repeats, failed }) =>
  repeats.length && failed.length
    ? `${spoken(outcome)}, but ${failed.length} of ${repeats.length + failed.length} repeats: ${[...new Set(failed)].map(spoken).join(", ")}`
    : spoken(outcome);

const make = (name, attributes = {}, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
};

const say = (text) => {
  find("#said").textContent = text;
};

// ---- the list of trials

const COLUMNS = [
  { title: "trial", text: (trial) => trial.trial_id.slice(0, 8) },
  { title: "machine", text: (trial) => data.environments[trial.environment], only: () => data.environments.length > 1 },
  { title: "model", text: (trial) => trial.model },
  { title: "strategy", text: (trial) => trial.strategy },
  { title: () => data.devices, text: (trial) => trial.width, value: (trial) => trial.num_gpus },
  { title: "batch", text: (trial) => String(trial.batch_size ?? ""), value: (trial) => trial.batch_size },
  { title: "setting", text: (trial) => trial.setting },
  { title: "outcome", text: ended },
  { title: () => data.unit, text: (trial) => number(trial.throughput), value: (trial) => trial.throughput },
  { title: "95 % interval", text: interval, value: (trial) => trial.low },
  { title: "speed-up", text: (trial) => times(trial.speed_up), value: (trial) => trial.speed_up },
  { title: "efficiency", text: (trial) => percent(trial.efficiency), value: (trial) => trial.efficiency },
  { title: "MFU", text: (trial) => (trial.mfu === null ? "unknown" : `${Number((100 * trial.mfu).toPrecision(3))} %`), value: (trial) => trial.mfu, only: () => data.trials.some((trial) => trial.mfu !== null) },
  { title: "processes", text: (trial) => String(trial.repeats.length), value: (trial) => trial.repeats.length },
  { title: "verdict", text: (trial) => trial.verdict },
];

const listTrials = () => {
  const columns = COLUMNS.filter((column) => !column.only || column.only());
  find("#trial-list thead tr").replaceChildren(
    ...columns.map((column) =>
      make(
        "th",
        { scope: "col", "aria-sort": "none", class: column.value ? "value" : null },
        make("button", { type: "button", class: "sort" }, typeof column.title === "string" ? column.title : column.title()),
      ),
    ),
  );
  const lines = data.trials.map((trial, index) => {
    const [first, ...others] = columns;
    const details = make("details", {}, make("summary", {}, make("code", {}, first.text(trial))));
    const line = make("tr", { id: `t-${trial.key}`, "data-trials": index }, make("th", { scope: "row" }, details));
    for (const column of others) {
      const value = column.value ? column.value(trial) : null;
      line.append(make("td", { class: column.value ? "value" : column.title, "data-value": value }, visible(column.text(trial))));
    }
    return line;
  });
  find("#trial-list tbody").replaceChildren(...lines);
};

const fact = (name, ...content) => make("div", {}, make("dt", {}, name), make("dd", {}, ...content));

/** The row of details below a line; null while the line is closed. */
const detailsBelow = (line) => (line.nextElementSibling?.matches("tr.trial-details") ? line.nextElementSibling : null);

/** The details of a line are made when somebody opens it, for there may be thousands: in a row of their own, below all its cells. */
const tell = (details) => {
  const line = details.closest("tr");
  if (detailsBelow(line)) return;
  const index = Number(line.dataset.trials);
  const trial = data.trials[index];
  const facts = make("dl", {}, fact("trial", make("code", {}, trial.trial_id)));
  if (trial.repeats.length) facts.append(fact(trial.unit, trial.repeats.map(number).join(", ")));
  if (trial.baseline) facts.append(fact("speed-up over", visible(trial.baseline)));
  for (const reason of trial.reasons) facts.append(fact("against it", visible(reason)));
  if (trial.source) facts.append(fact("source", visible(trial.source)));
  if (trial.command) {
    const command = make("code", { class: "command" }, visible(trial.command));
    facts.append(fact("again", command, " ", make("button", { type: "button", class: "copy" }, "Copy")));
  }
  if (data.steps.some((steps) => steps.trial === index)) {
    facts.append(fact("steps", make("button", { type: "button", class: "show-steps" }, "Show its steps")));
  }
  const cell = make("td", { colspan: line.cells.length }, make("div", {}, facts));
  line.after(make("tr", { class: "trial-details", "data-trials": index }, cell));
};

/** What an address is about; null of one that was damaged on its way. */
const idIn = (hash) => {
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return null;
  }
};

/** To the line that an address is about, opened, even when a filter hides it. */
const goTo = (hash) => {
  const line = hash.startsWith("#t-") ? document.getElementById(idIn(hash)) : null;
  if (!line) return;
  if (line.hidden) find("#filters").reset();
  filter();
  const details = find("details", line);
  details.open = true;
  tell(details);
  findAll("tr.chosen").forEach((other) => other.classList.remove("chosen"));
  line.classList.add("chosen");
  line.scrollIntoView({ block: "center" });
  find("summary", details).focus({ preventScroll: true });
};

const copy = async (button) => {
  const text = find("code.command", button.parentElement).textContent;
  let copied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const selection = window.getSelection(); // as on pages from a file in some browsers: what is selected can be copied
    selection.selectAllChildren(find("code.command", button.parentElement));
    copied = document.execCommand("copy");
  }
  button.textContent = copied ? "Copied" : "Press Ctrl-C";
  say(copied ? "The command is copied." : "The command is selected.");
};

// ---- sorting: of any table whose headings are buttons; the state outlives newer data

const sorted = new Map(); // key of the table -> column and direction
const NEXT = { none: "ascending", ascending: "descending", descending: "none" };

const compared = (one, other) => {
  const missing = (cell) => (cell.value === null && cell.text === "") || cell.isFailed;
  if (missing(one) !== missing(other)) return missing(one) ? 2 : -2; // last, whatever the direction
  if (one.value !== null && other.value !== null) return Math.sign(one.value - other.value);
  return Math.sign(one.text.localeCompare(other.text, "en", { numeric: true }));
};

const cellOf = (row, column, isValue) => {
  const cell = row.cells[column];
  const value = cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  return { value, text: (find("summary", cell) ?? cell).textContent.trim(), isFailed: isValue && value === null };
};

const applySort = (table) => {
  const { column, direction } = sorted.get(table.dataset.key) ?? { column: 0, direction: "none" };
  findAll("thead th", table).forEach((heading, index) => heading.setAttribute("aria-sort", index === column ? direction : "none"));
  const body = table.tBodies[0];
  const rows = [...body.rows].filter((row) => !row.matches("tr.trial-details"));
  rows.forEach((row, index) => (row.dataset.position ??= index)); // as they came
  if (direction === "none") {
    rows.sort((one, other) => one.dataset.position - other.dataset.position);
  } else {
    const isValue = table.tHead.rows[0].cells[column].classList.contains("value");
    const cells = new Map(rows.map((row) => [row, cellOf(row, column, isValue)]));
    const sign = direction === "ascending" ? 1 : -1;
    rows.sort((one, other) => {
      const order = compared(cells.get(one), cells.get(other));
      return Math.abs(order) === 2 ? order : sign * order || one.dataset.position - other.dataset.position;
    });
  }
  body.append(...rows.flatMap((row) => [row, detailsBelow(row)].filter(Boolean)));
};

const sortBy = (button) => {
  const heading = button.closest("th");
  const table = heading.closest("table");
  const direction = NEXT[heading.getAttribute("aria-sort")];
  sorted.set(table.dataset.key, { column: heading.cellIndex, direction });
  applySort(table);
  say(direction === "none" ? "In the first order." : `Sorted by ${button.textContent}, ${direction}.`);
};

// ---- filtering: tables, charts' sections and the list by the same question about a trial

const CHOICES = { model: (trial) => trial.model, strategy: (trial) => trial.strategy, outcome: (trial) => trial.outcome };

const offerChoices = () => {
  for (const [name, of] of Object.entries(CHOICES)) {
    const select = find(`#filter-${name}`);
    const chosen = select.value;
    const values = [...new Set(data.trials.map(of))].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
    select.replaceChildren(
      make("option", { value: "" }, "all"),
      ...values.map((value) => make("option", { value }, visible(spoken(value)))),
    );
    select.value = values.includes(chosen) ? chosen : "";
  }
};

let haystacks = [];
const prepareSearch = () => {
  haystacks = data.trials.map((trial) =>
    [
      ...[trial.trial_id, trial.model, trial.strategy, `${trial.width} ${data.devices}`, `batch_size ${trial.batch_size ?? ""}`, trial.setting],
      ...[ended(trial), trial.verdict, ...trial.reasons, data.environments[trial.environment], trial.source],
    ]
      .join("\n")
      .toLowerCase(),
  );
};

const filter = () => {
  const words = find("#filter-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = Object.entries(CHOICES).map(([name, of]) => [of, find(`#filter-${name}`).value]);
  const fits = data.trials.map(
    (trial, index) =>
      chosen.every(([of, value]) => !value || of(trial) === value) && words.every((word) => haystacks[index].includes(word)),
  );
  const num = fits.filter(Boolean).length;
  for (const node of findAll("[data-trials]")) {
    node.hidden = !node.dataset.trials.split(" ").some((index) => fits[Number(index)]);
  }
  find("#count").textContent = `${num} of ${data.trials.length} ${data.trials.length === 1 ? "trial" : "trials"}`;
};

// ---- charts

const MOST_AT_ONCE = 90; // charts; of more only those in sight are drawn
const hidden = new Map(); // section -> names of the lines that are not to be seen
const views = new Map(); // key of the chart -> its Vega view
const drawn = new Map(); // key of the chart -> the container that it was drawn in, and what it was drawn from

const quantityOf = (trial, kind) => trial[QUANTITY[kind]];

const pointsOf = (chart) =>
  chart.trials.map((index, at) => ({ trial: data.trials[index], series: chart.series[at], row: chart.rows?.[at] }));

const hover = ({ trial, series, row }) => ({
  series: visible(series),
  row: row === undefined ? null : visible(row),
  trial: trial.key,
  num_gpus: trial.num_gpus,
  throughput: trial.throughput,
  low: trial.low,
  high: trial.high,
  speed_up: trial.speed_up,
  efficiency: trial.efficiency,
  throughput_text: `${number(trial.throughput)} ${trial.unit}`,
  interval: !interval(trial) ? "not known" : trial.repeats.length > 1 ? `${interval(trial)} over processes` : `${interval(trial)} process`,
  repeats: trial.repeats.length,
  speed_up_text: trial.speed_up === null ? "no baseline" : `${times(trial.speed_up)} of ${visible(trial.baseline)}`,
  efficiency_text: percent(trial.efficiency),
  verdict: trial.verdict || "none",
});

const QUANTITY = { scaling: "throughput", speed_up: "speed_up", efficiency: "efficiency" };
const FORMAT = { scaling: ",.4~r", speed_up: ".3~r", efficiency: ".0%" };

const baseOf = (name) => structuredClone({ ...data.specs.base, ...data.specs[name] });

const linePoints = (chart) => {
  const absent = hidden.get(chart.section) ?? new Set();
  return pointsOf(chart)
    .filter(({ trial, series }) => quantityOf(trial, chart.kind) !== null && !absent.has(series))
    .map(hover)
    .sort((one, other) => one.num_gpus - other.num_gpus);
};

const lineSpec = (chart) => {
  const spec = baseOf("lines");
  const [ideal, bars, line, points] = spec.layer;
  line.encoding.y.field = points.encoding.y.field = QUANTITY[chart.kind];
  spec.encoding.y.axis.format = FORMAT[chart.kind];
  if (chart.kind !== "scaling") spec.layer = [ideal, line, points]; // a ratio's interval is not that of its number
  const names = [...new Set(chart.series)].sort();
  const styles = names.map((name) => data.styles[name]);
  const domain = names.map(visible);
  spec.encoding.x.title = chart.x;
  spec.encoding.y.title = chart.y;
  const counts = [...new Set(chart.trials.map((index) => data.trials[index].num_gpus))];
  spec.encoding.x.axis.values = counts;
  spec.encoding.x.scale.domain = [0, Math.max(...counts) * 1.04];
  if (!chart.ideal.length) spec.layer.shift(); // Vega complains of a line without points
  const barTop = (trial) => Math.min(trial.high ?? 0, BAR_ROOM * trial.throughput);
  const drawnOf = (trial) => [quantityOf(trial, chart.kind), ...(chart.kind === "scaling" ? [barTop(trial)] : [])];
  const tops = chart.trials.flatMap((index) => drawnOf(data.trials[index]));
  const top = 1.05 * Math.max(...tops, ...chart.ideal.map((point) => point.ideal));
  for (const layer of spec.layer) {
    const { y, color, strokeDash, shape } = layer.encoding;
    y.scale = { domain: [0, top] }; // that of all lines, so that it stays when some are hidden
    if (color) color.scale = { domain, range: styles.map((style) => style.color) };
    if (strokeDash) strokeDash.scale = { domain, range: styles.map((style) => style.dash) };
    if (shape) shape.scale = { domain, range: styles.map((style) => style.shape) };
  }
  spec.datasets = { points: linePoints(chart), ideal: chart.ideal };
  return spec;
};

const [ROW_PX, COLUMN_PX, LABELS_PX] = [34, 140, 220]; // of the heat map

const heatSpec = (chart, key) => {
  const spec = baseOf("heat_map");
  const select = find(`select[data-heat="${CSS.escape(key)}"]`);
  const counts = [...new Set(chart.trials.map((index) => data.trials[index].num_gpus))].sort((one, other) => one - other);
  if (!select.options.length) {
    select.append(...counts.map((count) => make("option", { value: count }, String(count))));
    select.value = String(counts.at(-1));
  }
  const cells = pointsOf(chart).filter(({ trial }) => trial.num_gpus === Number(select.value));
  const best = new Map();
  for (const { trial, row } of cells) best.set(row, Math.max(best.get(row) ?? 0, quantityOf(trial, "scaling") ?? 0));
  spec.height = ROW_PX * best.size;
  spec.width = Math.min(find(`.chart[data-chart="${CSS.escape(key)}"]`).clientWidth, LABELS_PX + COLUMN_PX * new Set(cells.map(({ series }) => series)).size);
  spec.datasets = {
    points: cells.map((cell) => {
      const throughput = quantityOf(cell.trial, "scaling");
      const share = throughput === null ? null : throughput / best.get(cell.row);
      const text = throughput !== null ? number(throughput) : data.symbols[cell.trial.outcome] ?? data.symbols.invalid;
      return { ...hover(cell), share, share_text: percent(share), text };
    }),
  };
  return spec;
};

const stepsSpec = () => {
  const spec = baseOf("steps");
  const chosen = data.steps.filter((steps) => data.trials[steps.trial].key === find("#steps-trial").value);
  const points = chosen.flatMap((steps) =>
    steps.ms.map((ms, at) => ({
      number: at,
      ms,
      phase: at < steps.num_warm_up ? "warm-up" : "measured",
      repeat: steps.repeat,
      attempt: steps.attempt,
    })),
  );
  const measured = chosen.flatMap(counted);
  spec.datasets = { points, medians: measured.length ? [{ median: quantile(measured, 0.5) }] : [] };
  const names = [...new Set(chosen.map((steps) => steps.repeat))];
  const range = names.map((_, index) => `var(--s${index % 7})`);
  const { stroke, fill } = spec.layer[0].encoding;
  stroke.scale = fill.scale = { domain: names, range };
  return spec;
};

/** Times of the calls that count: not of the first measured one, which begins with idle devices. */
const counted = (steps) => steps.ms.slice(steps.ms.length - steps.num_counted);

const quantile = (values, share) => {
  const ordered = [...values].sort((one, other) => one - other);
  const at = (ordered.length - 1) * share;
  const below = ordered[Math.floor(at)];
  return below + (ordered[Math.ceil(at)] - below) * (at % 1);
};

/** Why there is nothing to draw; empty where there is. */
const lack = (key) => {
  const chart = data.charts[key];
  const quantity = chart && QUANTITY[chart.kind];
  if (!quantity || chart.trials.some((index) => quantityOf(data.trials[index], chart.kind) !== null)) return "";
  const measured = chart.trials.some((index) => data.trials[index].throughput !== null);
  return measured ? "Not known: there is no baseline to compare with." : "Nothing completed: there is nothing to draw.";
};

const specOf = (key) => {
  if (key === "steps") return stepsSpec();
  const chart = data.charts[key];
  return chart.kind === "heat_map" ? heatSpec(chart, key) : lineSpec(chart);
};

/** One chart; nothing is done where it stands already, drawn from the same. */
const draw = async (container) => {
  const key = container.dataset.chart;
  if (!container.clientWidth || (key === "steps" && !data.steps.length)) return; // it is hidden; the observer comes back to it
  const lacking = lack(key);
  container.classList.toggle("lacking", Boolean(lacking));
  if (lacking) {
    views.get(key)?.finalize();
    views.delete(key);
    drawn.delete(key);
    container.textContent = lacking;
    return;
  }
  const spec = specOf(key);
  const from = JSON.stringify(spec);
  const before = drawn.get(key);
  if (before?.from === from && before.container === container) return;
  drawn.set(key, { container, from });
  views.get(key)?.finalize();
  const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true } };
  const { view } = await window.vegaEmbed(container, { width: container.clientWidth, ...spec }, options);
  views.set(key, view);
};

const widths = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const view = views.get(target.dataset.chart);
    if (view && drawn.get(target.dataset.chart).container === target && target.clientWidth) {
      const most = specOf(target.dataset.chart).width ?? Infinity;
      view.width(Math.min(target.clientWidth, most)).runAsync();
    }
  }
});

const nearby = new Set(); // containers in or near the window
const sights = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) nearby.add(target);
      else nearby.delete(target);
    }
    if (root.dataset.charts) drawAll();
  },
  { rootMargin: "800px" },
);

let wantsAll = false;
let drawing = Promise.resolve();
let numWaiting = 0;

/** Charts one after the other, with room for what the reader does in between: of many only those in sight, until all are asked for. */
const drawAll = () => {
  root.dataset.charts = "drawing";
  numWaiting += 1;
  drawing = drawing.then(async () => {
    const containers = findAll(".chart");
    const few = wantsAll || containers.length <= MOST_AT_ONCE;
    for (const container of containers) {
      widths.observe(container);
      sights.observe(container);
      if (!few && !nearby.has(container)) continue;
      await draw(container);
      await new Promise((resolve) => setTimeout(resolve));
    }
    find("#draw-all").hidden = few;
    numWaiting -= 1;
    if (!numWaiting) root.dataset.charts = "drawn";
  });
  return drawing;
};

const toggleLine = (button) => {
  const section = button.closest(".lines").dataset.section;
  const absent = hidden.get(section) ?? new Set();
  const name = button.dataset.series;
  if (!absent.delete(name)) absent.add(name);
  hidden.set(section, absent);
  showToggles();
  drawAll();
};

const showToggles = () => {
  for (const button of findAll(".line")) {
    const absent = hidden.get(button.closest(".lines").dataset.section);
    button.setAttribute("aria-pressed", String(!absent?.has(button.dataset.series)));
  }
};

// ---- steps of one trial

const offerSteps = () => {
  const select = find("#steps-trial");
  const chosen = select.value;
  const trials = [...new Set(data.steps.map((steps) => steps.trial))].map((index) => data.trials[index]);
  select.replaceChildren(
    ...trials.map((trial) =>
      make("option", { value: trial.key }, visible(`${trial.model}, ${trial.strategy} on ${trial.width} (${trial.setting})`)),
    ),
  );
  if (trials.some((trial) => trial.key === chosen)) select.value = chosen;
  find("#steps-none").hidden = trials.length > 0;
  find("#steps-shown").hidden = !trials.length;
  const absent = data.num_without_steps;
  find("#steps-note").textContent =
    "Hollow: warm-up; filled: measured; dashed: median of the measured, without the first of each process, which begins with idle devices." +
    (absent ? ` ${absent} more trials have too many steps for this page: the command plots charts draws them.` : "");
};

const showSteps = () => {
  const chosen = data.steps.filter((steps) => data.trials[steps.trial].key === find("#steps-trial").value);
  find("#steps-table tbody").replaceChildren(
    ...chosen.map((steps) => {
      const measured = counted(steps);
      const cells = measured.length ? [0, 0.5, 0.9, 1].map((share) => number(quantile(measured, share))) : ["", "", "", ""];
      const values = [steps.attempt, steps.num_warm_up, measured.length, ...cells];
      return make("tr", {}, make("th", { scope: "row" }, String(steps.repeat)), ...values.map((cell) => make("td", {}, String(cell))));
    }),
  );
  const option = find("#steps-trial").selectedOptions[0];
  find("#steps-chart").setAttribute("aria-label", `Time of each step of ${option?.textContent ?? "no trial"}. In numbers in the table below.`);
};

// ---- light and dark

const isDark = () =>
  root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
const nameTheme = () => {
  find("#theme").textContent = isDark() ? "Light" : "Dark";
};

// ---- newer data

const keepingOpen = (change) => {
  const open = findAll("#trial-list details[open]").map((details) => details.closest("tr").id);
  const boxes = findAll(".scroll").map((box) => [box.getAttribute("aria-labelledby") ?? box.getAttribute("aria-label"), box.scrollLeft]);
  const focused = document.activeElement?.closest("#trial-list tbody tr");
  const focus = (focused?.matches("tr.trial-details") ? focused.previousElementSibling : focused)?.id;
  change();
  for (const id of open) {
    const details = document.getElementById(id)?.querySelector("details");
    if (details) {
      details.open = true;
      tell(details);
    }
  }
  for (const box of findAll(".scroll")) {
    const name = box.getAttribute("aria-labelledby") ?? box.getAttribute("aria-label");
    box.scrollLeft = boxes.find(([known]) => known === name)?.[1] ?? 0;
  }
  if (focus) document.getElementById(focus)?.querySelector("summary")?.focus({ preventScroll: true });
};

/** What stands at the top of the window now, below the filters; the answer brings it back there. */
const holding = () => {
  const anchor = findAll("main section [id]").find((node) => node.getBoundingClientRect().top >= 0 && node.getClientRects().length);
  const before = anchor?.getBoundingClientRect().top;
  return () => {
    const kept = anchor && document.getElementById(anchor.id);
    if (kept) window.scrollBy(0, kept.getBoundingClientRect().top - before);
  };
};

const parts = new Map(); // name -> HTML that it was last replaced by

const replaceParts = (html) => {
  for (const [name, text] of Object.entries(html)) {
    if (parts.get(name) === text) continue;
    parts.set(name, text);
    const part = find(`#part-${name}`);
    const charts = new Map(findAll(".chart", part).map((chart) => [chart.dataset.chart, chart]));
    const choices = new Map(findAll("select[data-heat]", part).map((select) => [select.dataset.heat, select]));
    part.innerHTML = text; // the template escaped all that others wrote, and the page's policy runs no script that came so
    for (const chart of findAll(".chart", part)) {
      const before = charts.get(chart.dataset.chart);
      if (before) chart.replaceWith(before);
    }
    for (const select of findAll("select[data-heat]", part)) {
      const before = choices.get(select.dataset.heat);
      if (before) select.replaceWith(before);
    }
  }
};

const show = () => {
  for (const node of findAll(".needs-script")) node.hidden = false;
  offerChoices();
  prepareSearch();
  listTrials();
  offerSteps();
  showSteps();
  showToggles();
  for (const table of findAll("table.sortable")) if (sorted.has(table.dataset.key)) applySort(table);
  filter();
};

const update = async (packed) => {
  const newer = unpacked(packed);
  const hold = holding();
  root.style.overflowAnchor = "none"; // else the browser holds on, too
  const same = JSON.stringify(data.trials) === JSON.stringify(newer.trials);
  data = newer;
  keepingOpen(() => {
    replaceParts(newer.html);
    if (same) {
      for (const node of findAll(".needs-script")) node.hidden = false;
      showToggles();
      for (const table of findAll("table.sortable")) if (sorted.has(table.dataset.key)) applySort(table);
      filter();
    } else {
      show();
    }
  });
  hold();
  const at = window.scrollY;
  await drawAll();
  if (window.scrollY === at) hold(); // unless the reader has gone elsewhere meanwhile
  root.style.overflowAnchor = "";
};

// ---- what the reader does

const ON_CLICK = [
  ["button.sort", sortBy],
  ["button.line", toggleLine],
  ["button.copy", copy],
  [
    "button.show-steps",
    (button) => {
      find("#steps-trial").value = data.trials[Number(button.closest("tr").dataset.trials)].key;
      showSteps();
      draw(find("#steps-chart"));
      find("#steps").scrollIntoView();
      find("#steps-trial").focus({ preventScroll: true });
    },
  ],
  [
    "#draw-all",
    () => {
      wantsAll = true;
      drawAll();
    },
  ],
  [
    "#theme",
    () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      nameTheme();
    },
  ],
];

document.addEventListener("click", (event) => {
  for (const [selector, act] of ON_CLICK) {
    const target = event.target.closest(selector);
    if (target) act(target);
  }
  const link = event.target.closest('a[href^="#t-"]');
  if (link) {
    event.preventDefault();
    history.replaceState(null, "", link.getAttribute("href"));
    goTo(link.getAttribute("href"));
  }
});
const onToggle = ({ target }) => {
  if (!target.closest("#trial-list")) return;
  if (target.open) tell(target);
  else detailsBelow(target.closest("tr"))?.remove();
};
document.addEventListener("toggle", onToggle, true);
document.addEventListener("change", (event) => {
  if (event.target.matches("select[data-heat]")) draw(find(`.chart[data-chart="${CSS.escape(event.target.dataset.heat)}"]`));
  if (event.target.id === "steps-trial") {
    showSteps();
    draw(find("#steps-chart"));
  }
});
find("#filters").addEventListener("input", filter);
find("#filters").addEventListener("submit", (event) => event.preventDefault());
find("#filters").addEventListener("reset", () => setTimeout(filter)); // once the browser has emptied the fields
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);

root.classList.add("scripted");
nameTheme();
show();
window.scalemark = { update, views, ready: drawAll(), data: () => data };
goTo(location.hash);
