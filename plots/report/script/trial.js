// The page of one trial, and of two side by side.
const fact = (name, ...content) => make("div", {}, make("dt", {}, name), make("dd", {}, ...content));
const copyable = (text) => [make("code", { class: "command" }, visible(text)), " ", make("button", { type: "button", class: "copy" }, "Copy")];
const heading = (trial) => make("h2", { tabindex: "-1" }, nameOf(trial), ...trial.badges.flatMap((one) => [" ", badge(one)]));

const showTrial = () => {
  const trial = data.trials[positions.get(trialKey)];
  const page = find("#trial-page");
  if (!trial) {
    page.replaceChildren(make("h2", { tabindex: "-1" }, "No such trial"), make("p", {}, "It is not on this page; ", make("a", { href: "#trials" }, "the list"), " has those that are."));
    return [];
  }
  const facts = make("dl", { class: "facts" });
  const add = (name, ...content) => facts.append(fact(name, ...content));
  if (trial.throughput !== null) add("throughput", make("strong", {}, `${withInterval(trial)} ${trial.unit}`));
  if (trial.speed_up !== null) add("speed-up", `${times(trial.speed_up)} of ${visible(trial.baseline)}, an efficiency of ${percent(trial.efficiency)}`);
  if (trial.mfu !== null) add("MFU", utilization(trial));
  if (trial.repeats.length) add("processes", `${trial.repeats.length}: ${trial.repeats.map(number).join(", ")} ${trial.unit}`);
  add("outcome", ended(trial));
  if (trial.verdict) add("verdict", trial.verdict);
  for (const reason of trial.reasons) add("against it", visible(reason));
  const timing = trial.timed_by ? data.trials[positions.get(trial.timed_by)] : trial;
  const where = timing === trial ? [] : [" Timed in ", make("a", { href: linkTo(timing) }, shortId(timing)), "."];
  for (const sentence of timing.replicas) add("replicas", visible(sentence), ...where);
  for (const { attempt, outcome, message, log } of data.failures.filter((one) => one.trial === trial.at)) {
    add(`attempt ${attempt}`, `${spoken(outcome)}; log: `, make("code", {}, visible(log)), make("pre", { tabindex: "0" }, visible(message || "(no message)")));
  }
  if (trial.source) add("source", visible(trial.source));
  add("environment", visible(data.environments[trial.environment].notes.join("; ")));
  add("trial", make("code", {}, trial.trial_id));
  if (trial.command) add("run it again", ...copyable(trial.command));
  const best = data.trials
    .filter((one) => one.model === trial.model && one.environment === trial.environment && one.throughput !== null && one !== trial)
    .reduce((one, other) => (one === null || other.throughput > one.throughput ? other : one), null);
  const link = best && make("a", { href: linkToCompare([trial.key, best.key]) }, `Compare with ${nameOf(best)}, ${number(best.throughput)} ${best.unit}`);
  const axes = Object.entries(trial.axes).map(([axis, value]) => fact(visible(axis), visible(value)));
  const all = make("details", {}, make("summary", {}, "All axes"), make("dl", { class: "facts axes" }, ...axes));
  page.replaceChildren(heading(trial), facts, ...(link ? [make("p", {}, link)] : []), all);
  return [trial];
};

const COMPARED = [
  ["throughput", (trial) => `${withInterval(trial)} ${trial.throughput === null ? "" : trial.unit}`],
  ["speed-up", (trial) => times(trial.speed_up)],
  ["efficiency", (trial) => percent(trial.efficiency)],
  ["processes", (trial) => String(trial.repeats.length)],
  ["doubts", (trial) => trial.badges.join(", ")],
  ["outcome", ended],
  ["model", (trial) => trial.model],
  ["strategy", (trial) => trial.strategy],
  ["devices", (trial) => trial.width],
  ["batch_size", (trial) => String(trial.batch_size ?? "")],
  ["environment", (trial) => data.environments[trial.environment].notes.join("; ")],
];

const showTwo = () => {
  const found = (params.get("of") ?? "").split(",").map((key) => data.trials[positions.get(key)]);
  const [one, other] = found;
  const page = find("#trial-page");
  if (found.length !== 2 || !one || !other) {
    page.replaceChildren(make("h2", { tabindex: "-1" }, "Comparison"), make("p", {}, "Choose two trials in ", make("a", { href: "#trials" }, "the list"), "."));
    return [];
  }
  const names = [...new Set([...Object.keys(one.axes), ...Object.keys(other.axes)])];
  const axes = names.map((axis) => [axis, (trial) => String(trial.axes[axis] ?? "")]);
  const rows = [...COMPARED, ...axes].filter(([name, text]) => name === "throughput" || text(one) !== text(other));
  const cells = (text) => found.map((trial) => make("td", {}, visible(text(trial))));
  const heads = found.map((trial) => make("th", { scope: "col" }, make("a", { href: linkTo(trial) }, shortId(trial))));
  const body = rows.map(([name, text]) => make("tr", {}, make("th", { scope: "row" }, visible(name)), ...cells(text)));
  const comparable = one.throughput !== null && other.throughput !== null && one.unit === other.unit && one.environment === other.environment;
  const said = comparable ? `${shortId(one)} has ${times(one.throughput / other.throughput)} the throughput of ${shortId(other)}. ` : "";
  page.replaceChildren(
    make("h2", { tabindex: "-1" }, `${nameOf(one)}, beside ${nameOf(other)}`),
    make("p", {}, `${said}What is not named is the same in both.`),
    make(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "What differs" },
      make("table", {}, make("caption", { class: "unseen" }, "What differs"), make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "what"), ...heads)), make("tbody", {}, ...body)),
    ),
  );
  return found;
};

let ofTrials = []; // those of the view

const showTrials = () => {
  ofTrials = view === "compare" ? showTwo() : showTrial();
  const steps = shownSteps();
  find("#steps").hidden = !steps.length;
  find("#steps-none").textContent = steps.length || !ofTrials.length ? "" : whyNoSteps();
  find("#steps-table tbody").replaceChildren(
    ...steps.map((one) => {
      const counting = countingMs(one);
      const values = counting.length ? [0, 0.5, 0.9, 1].map((share) => number(quantile(counting, share))) : ["", "", "", ""];
      const cells = [one.attempt, one.num_warm_up, counting.length, ...values].map((cell) => make("td", {}, String(cell)));
      return make("tr", {}, make("th", { scope: "row" }, one.name), ...cells);
    }),
  );
};

const whyNoSteps = () =>
  data.num_without_steps ? `${counted(data.num_without_steps, "trial")} of this page have no room for their steps here: the command plots charts draws them.` : "No steps are stored.";

/** The attempts of the trials on show, with a name for each. */
const shownSteps = () => {
  const isOne = ofTrials.length === 1;
  return data.steps.filter((one) => ofTrials.some((trial) => trial.at === one.trial)).map((one) => ({ ...one, name: `${isOne ? "" : `${shortId(data.trials[one.trial])}, `}repeat ${one.repeat}` }));
};

/** Times of the calls that count: not of the first measured one, which begins with idle devices. */
const countingMs = (steps) => steps.ms.slice(steps.ms.length - steps.num_counted);

const drawSteps = async () => {
  const steps = shownSteps();
  if (!steps.length) return;
  const spec = baseOf("steps");
  const points = steps.flatMap((one) =>
    one.ms.map((ms, at) => ({ number: at, ms, phase: at < one.num_warm_up ? "warm-up" : "measured", repeat: one.name, attempt: one.attempt })),
  );
  const medians = ofTrials
    .map((trial) => steps.filter((one) => one.trial === trial.at).flatMap(countingMs))
    .filter((counting) => counting.length)
    .map((counting) => ({ median: quantile(counting, 0.5) }));
  spec.datasets = { points, medians };
  const names = [...new Set(steps.map((one) => one.name))];
  const { stroke, fill } = spec.layer[0].encoding;
  stroke.scale = fill.scale = { domain: names, range: names.map((_, at) => `var(--s${at % 7})`) };
  const of = ofTrials.map(nameOf).join(" and of ");
  const said = medians.map(({ median }) => `${number(median)} ms`).join(" and ");
  await draw(find("#steps-chart"), spec, `Time of each step of ${of}${said ? `: the median is ${said}` : ""}.`);
};
