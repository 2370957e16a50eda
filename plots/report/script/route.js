// What is on show stands in the address, behind the #: the view, filters, sorting, columns.
const VIEWS = ["results", "trials", "trial", "compare", "failures", "provenance"];
const KEPT = ["find", "model", "strategy", "outcome"]; // filters go along to every view

let view = "results";
let trialKey = ""; // of the view of one
let params = new URLSearchParams();

/** The view and what is asked of it; null of an address that is none of ours, or was damaged on its way. */
const parsed = (hash) => {
  const [name, query] = hash.replace(/^#/, "").split("?");
  const asked = new URLSearchParams(query ?? "");
  let words;
  try {
    words = decodeURIComponent(name);
  } catch {
    return null;
  }
  if (words.startsWith("t-")) return { view: "trial", key: words.slice(2), asked };
  return VIEWS.includes(words || "results") && words !== "trial" ? { view: words || "results", key: "", asked } : null;
};

const linkTo = (trial) => `#t-${encodeURIComponent(trial.key)}`;
const linkToCompare = (keys) => `#compare?${new URLSearchParams({ of: keys.join(",") })}`;
const isOfTrials = () => view === "trial" || view === "compare";

const address = () => {
  const name = view === "trial" ? linkTo({ key: trialKey }) : `#${view}`;
  return params.size ? `${name}?${params}` : name;
};

const takeAddress = (hash) => {
  const found = parsed(hash);
  if (found) ({ view, key: trialKey, asked: params } = found);
  return Boolean(found);
};

/** Follow a link of the page, with the filters that hold now. */
const follow = (hash) => {
  const filters = KEPT.filter((name) => params.has(name)).map((name) => [name, params.get(name)]);
  if (!takeAddress(hash)) return false;
  for (const [name, value] of filters) if (!params.has(name)) params.set(name, value);
  history.pushState(null, "", address());
  return true;
};

/** Change what is asked of the view; nothing where a value is empty. */
const ask = (changes) => {
  for (const [name, value] of Object.entries(changes)) {
    if (value) params.set(name, value);
    else params.delete(name);
  }
  history.replaceState(null, "", address());
};
