// Charts, drawn by Vega, which is unpacked when the first is needed.
const BAR_ROOM = 1.25; // the axis makes room for bars that reach so many times the value, as in pictures
const [ROW_PX, COLUMN_PX, LABELS_PX] = [34, 140, 220]; // of the heat map
const QUANTITY = { scaling: "throughput", speed_up: "speed_up", efficiency: "efficiency" };
const FORMAT = { scaling: ",.4~r", speed_up: ".3~r", efficiency: ".0%" };
const SAID = { scaling: number, speed_up: times, efficiency: percent };

const hidden = new Map(); // key of the table -> names of the lines that are not to be seen
const views = new Map(); // id of the container -> the Vega view in it
const drawn = new Map(); // id of the container -> what it was drawn from

let vega = null;
const loadVega = () => {
  vega ??= (async () => {
    const script = make("script");
    script.textContent = await unpackedText(find("#vega").textContent);
    document.head.append(script); // runs at once
  })();
  return vega;
};

const pointsOf = (chart) =>
  chart.trials.map((at, index) => ({ trial: data.trials[at], series: chart.series[index], row: chart.rows?.[index] })).filter(({ trial }) => fits[trial.at]);

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
  throughput_text: `${withInterval(trial)} ${trial.unit}`,
  repeats: trial.repeats.length,
  speed_up_text: trial.speed_up === null ? "no baseline" : `${times(trial.speed_up)} of ${visible(trial.baseline)}`,
  efficiency_text: percent(trial.efficiency),
  doubts: trial.badges.join(", ") || "none",
});

const baseOf = (name) => structuredClone({ ...data.specs.base, ...data.specs[name] });

const lineSpec = (chart, points) => {
  const spec = baseOf("lines");
  const [ideal, bars, line, marks] = spec.layer;
  line.encoding.y.field = marks.encoding.y.field = QUANTITY[chart.kind];
  spec.encoding.y.axis.format = FORMAT[chart.kind];
  if (chart.kind !== "scaling") spec.layer = [ideal, line, marks]; // a ratio's interval is not that of its number
  const names = [...new Set(chart.series)].sort();
  const styles = names.map((name) => data.styles[name]);
  const domain = names.map(visible);
  spec.encoding.x.title = chart.x;
  spec.encoding.y.title = chart.y;
  const counts = [...new Set(chart.trials.map((at) => data.trials[at].num_gpus))];
  spec.encoding.x.axis.values = counts;
  spec.encoding.x.scale.domain = [0, Math.max(...counts) * 1.04];
  if (!chart.ideal.length) spec.layer.shift(); // Vega complains of a line without points
  const barTop = (trial) => (chart.kind === "scaling" ? Math.min(trial.high ?? 0, BAR_ROOM * trial.throughput) : 0);
  const tops = chart.trials.map((at) => Math.max(data.trials[at][QUANTITY[chart.kind]], barTop(data.trials[at])));
  const top = 1.05 * Math.max(...tops, ...chart.ideal.map((point) => point.ideal));
  for (const layer of spec.layer) {
    const { y, color, strokeDash, shape } = layer.encoding;
    y.scale = { domain: [0, top] }; // that of all lines, so that it stays when some are hidden
    if (color) color.scale = { domain, range: styles.map((style) => style.color) };
    if (strokeDash) strokeDash.scale = { domain, range: styles.map((style) => style.dash) };
    if (shape) shape.scale = { domain, range: styles.map((style) => style.shape) };
  }
  spec.datasets = { points: points.map(hover), ideal: chart.ideal };
  return spec;
};

/** What a chart shows, in a sentence. */
const sentenceOf = (chart, points) => {
  const quantity = QUANTITY[chart.kind];
  const most = Math.max(...points.map(({ trial }) => trial.num_gpus));
  const best = points.filter(({ trial }) => trial.num_gpus === most).reduce((one, other) => (other.trial[quantity] > one.trial[quantity] ? other : one));
  const value = SAID[chart.kind](best.trial[quantity]);
  return visible(`${chart.y} against ${chart.x}, a line for each way: on ${most}, ${best.series} has the most, ${value}.`);
};

const draw = async (container, spec, said) => {
  const from = JSON.stringify(spec);
  container.setAttribute("aria-label", said);
  container.classList.remove("lacking");
  if (drawn.get(container.id) === from) return;
  drawn.set(container.id, from);
  await loadVega();
  if (drawn.get(container.id) !== from) return; // another one was asked for meanwhile
  views.get(container.id)?.finalize();
  const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true } };
  const { view: shown } = await window.vegaEmbed(container, { width: container.clientWidth, ...spec }, options);
  views.set(container.id, shown);
  find("svg", container).setAttribute("aria-hidden", "true"); // its sentence is the container's; marks have no names
};

const drawNothing = (container, why) => {
  views.get(container.id)?.finalize();
  views.delete(container.id);
  drawn.delete(container.id);
  container.classList.add("lacking");
  container.setAttribute("aria-label", why);
  container.textContent = why;
};

const drawChart = async () => {
  const chart = data.charts[`${table?.key}-${find("#quantity").value}`];
  find("#charts").hidden = !chart;
  if (!chart) return;
  showLines(chart);
  const quantity = QUANTITY[chart.kind];
  const absent = hidden.get(chart.section) ?? new Set();
  const known = pointsOf(chart).filter(({ trial }) => trial[quantity] !== null);
  if (!known.length) {
    const measured = chart.trials.some((at) => data.trials[at].throughput !== null);
    drawNothing(find("#chart"), measured ? "Not known: there is no baseline to compare with." : "Nothing completed: there is nothing to draw.");
    return;
  }
  const points = known.filter(({ series }) => !absent.has(series)).sort((one, other) => one.trial.num_gpus - other.trial.num_gpus);
  await draw(find("#chart"), lineSpec(chart, points), sentenceOf(chart, known));
};

/** The legend: buttons that show and hide lines. */
const showLines = (chart) => {
  const names = [...new Set(pointsOf(chart).map(({ series }) => series))].sort();
  const absent = hidden.get(chart.section);
  const focused = document.activeElement?.dataset?.series;
  find("#lines").replaceChildren(
    ...names.map((name) => {
      const { color, dash, shape } = data.styles[name];
      const button = make("button", { type: "button", class: "line", "aria-pressed": String(!absent?.has(name)), "data-series": name });
      const dashes = dash[1] ? dash.join(" ") : "none";
      button.innerHTML =
        `<svg width="34" height="12" aria-hidden="true"><line x1="1" y1="6" x2="33" y2="6" style="stroke:${color}" stroke-width="2" stroke-dasharray="${dashes}"/>` +
        `<path transform="translate(17 6)" d="${data.paths[shape]}" style="fill:${color}"/></svg>`; // of the page's own styles alone
      button.append(visible(name));
      return button;
    }),
    ...(chart.ideal.length ? [make("span", { class: "faint" }, make("span", { class: "dashed", "aria-hidden": "true" }), " ideal")] : []),
  );
  if (focused) findAll(".line").find((button) => button.dataset.series === focused)?.focus();
};

const toggleLine = (button) => {
  const absent = hidden.get(table.key) ?? new Set();
  if (!absent.delete(button.dataset.series)) absent.add(button.dataset.series);
  hidden.set(table.key, absent);
  return drawAll();
};

// ---- all tables side by side

const heatCharts = () => Object.values(data.charts).filter((chart) => chart.kind === "heat_map");

const drawHeat = async () => {
  const charts = heatCharts();
  find("#heat").hidden = data.tables.length < 2 || !charts.length;
  if (find("#heat").hidden || !find("#heat").open) return;
  const chosen = find("#heat-environment");
  if (chosen.options.length !== charts.length) {
    chosen.replaceChildren(...charts.map(({ environment }, at) => option(String(at), data.environments[environment].machine, chosen.value)));
    chosen.parentElement.hidden = charts.length < 2;
  }
  const chart = charts[Number(chosen.value)];
  const all = pointsOf(chart);
  if (!all.length) {
    drawNothing(find("#heat-chart"), "No trial matches these filters.");
    return;
  }
  const counts = [...new Set(all.map(({ trial }) => trial.num_gpus))].sort((one, other) => one - other).map(String);
  const count = find("#heat-count");
  const asked = counts.includes(count.value) ? count.value : counts.at(-1);
  count.replaceChildren(...counts.map((one) => option(one, one, asked)));
  const cells = all.filter(({ trial }) => trial.num_gpus === Number(asked));
  const best = new Map();
  for (const { trial, row } of cells) best.set(row, Math.max(best.get(row) ?? 0, trial.throughput ?? 0));
  const container = find("#heat-chart");
  const spec = baseOf("heat_map");
  spec.height = ROW_PX * best.size;
  spec.width = Math.min(container.clientWidth, LABELS_PX + COLUMN_PX * new Set(cells.map(({ series }) => series)).size);
  spec.datasets = {
    points: cells.map((cell) => {
      const { throughput, outcome } = cell.trial;
      const share = throughput === null ? null : throughput / best.get(cell.row);
      const text = throughput === null ? (data.symbols[outcome] ?? data.symbols.invalid) : number(throughput);
      return { ...hover(cell), share, share_text: percent(share), text };
    }),
  };
  await draw(container, spec, `Throughput of each strategy on ${asked} ${data.devices} as a share of the best of its table, for ${counted(best.size, "table")}.`);
};

const widths = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const shown = views.get(target.id);
    if (shown && target.clientWidth && target.id !== "heat-chart") shown.width(target.clientWidth).runAsync();
  }
});

let drawing = Promise.resolve();
let numWaiting = 0;

/** The charts of the view on show, one after the other. */
const drawAll = () => {
  root.dataset.charts = "drawing";
  numWaiting += 1;
  drawing = drawing.then(async () => {
    if (view === "results") await drawChart();
    if (view === "results") await drawHeat();
    if (isOfTrials()) await drawSteps();
    numWaiting -= 1;
    if (!numWaiting) root.dataset.charts = "drawn";
  });
  return drawing;
};
