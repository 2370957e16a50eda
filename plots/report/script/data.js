// The data of the page, as its script works with them: a row for each trial.
const unpackedText = async (text) => {
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
};

const rowsOf = ({ num, same, columns }) =>
  Array.from({ length: num }, (_, at) => {
    const row = { ...same };
    for (const [name, values] of Object.entries(columns)) row[name] = values[at];
    return row;
  });

let data = null;
let positions = new Map(); // key of a trial -> its number
let idDigits = 4; // that tell all trials of the page apart

const take = (packed) => {
  const axes = rowsOf(packed.axes);
  const trials = rowsOf(packed.trials).map((trial, at) => ({ ...trial, at, axes: axes[at] }));
  data = { ...packed, trials };
  positions = new Map(trials.map((trial) => [trial.key, trial.at]));
  const ids = new Set(trials.map((trial) => trial.trial_id));
  idDigits = 4;
  while (new Set([...ids].map((id) => id.slice(0, idDigits))).size < ids.size) idDigits += 1;
};

const shortId = (trial) => trial.trial_id.slice(0, idDigits);
const nameOf = (trial) => visible(`${trial.model}, ${trial.strategy} on ${trial.width}`);
const differs = (of) => new Set(data.trials.map(of)).size > 1;
