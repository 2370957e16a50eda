// How numbers and words are written, as in all of scalemark, and how elements are made.
const root = document.documentElement;
const find = (selector, within = document) => within.querySelector(selector);
const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];

const visible = (text) =>
  String(text).replace(/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, (one) => (one === "\n" ? one : `\\u{${one.codePointAt(0).toString(16)}}`));

/** Three digits, or one behind the point below 100, as analysis/text/numbers.py has them. */
const decimals = (size) => {
  if (size >= 99.95) return 0;
  if (size >= 9.995) return 1;
  return size > 0 && size < 0.1 ? Math.min(2 - Math.floor(Math.log10(size)), 6) : 2;
};
/** Of huge numbers not every digit, as scalemark/text/decimals.py. */
const fixed = (value, places) =>
  Math.abs(value) >= 1e15 ? value.toExponential(3).replace(/\.?0+e/, "e") : value.toFixed(places);
const number = (value) => (value === null ? "" : fixed(value, decimals(Math.abs(value))));
const withInterval = ({ throughput, low, high }) => {
  if (throughput === null || low === null || high === null) return number(throughput);
  const places = decimals(throughput);
  return `${number(throughput)} [${fixed(low, places)}, ${fixed(high, places)}]`;
};
const times = (value) => (value === null ? "" : `${fixed(value, 2)}x`);
const percent = (value) => (value === null ? "" : `${Math.round(100 * value)}%`);
const spoken = (outcome) => outcome.replaceAll("_", " ");
const inThousands = (count) => count.toLocaleString("en");
const counted = (count, what) => `${inThousands(count)} ${what}${count === 1 ? "" : "s"}`;

/** Also where other repeats brought a number. */
const ended = ({ outcome, repeats, failed }) =>
  repeats.length && failed.length
    ? `${spoken(outcome)}, but ${failed.length} of ${repeats.length + failed.length} repeats: ${[...new Set(failed)].map(spoken).join(", ")}`
    : spoken(outcome);

/** Nothing where there is no number that it could be of. */
const utilization = ({ mfu, throughput }) => {
  if (throughput === null) return "";
  return mfu === null ? "unknown" : `${Number((100 * mfu).toPrecision(3))} %`;
};

const compared = (one, other) => one.localeCompare(other, "en", { numeric: true });

const quantile = (values, share) => {
  const ordered = [...values].sort((one, other) => one - other);
  const at = (ordered.length - 1) * share;
  const below = ordered[Math.floor(at)];
  return below + (ordered[Math.ceil(at)] - below) * (at % 1);
};

const make = (name, attributes = {}, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
};

const badge = (text) => make("span", { class: "badge" }, text);

const say = (text) => {
  find("#said").textContent = text;
};
