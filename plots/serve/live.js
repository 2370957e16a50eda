// Keeps a page that shows results up to date, and lets one that waits for them wait. `settings` is set before.

const line = document.getElementById("live");
const back = document.createElement("a");
back.href = "/";
back.textContent = "All sweeps";
line.before(back);

let mark = settings.mark; // of the results on show; null while there are none
let etag = "";
let shown = "";

const tell = (text, state) => {
  line.dataset.state = state;
  line.className = state === "live" ? "faint" : "loud"; // of the report
  if (line.textContent !== text) line.textContent = text; // said once by screen readers
};

const show = async (now) => {
  if (now.problem) {
    shown = mark === null ? now.problem : `Not up to date: ${now.problem}`;
    return tell(shown, "problem");
  }
  if (mark === null) return location.reload();
  if (now.mark !== mark) {
    await window.scalemark.update(now.report);
    mark = now.mark;
  }
  shown = ["Live.", ...now.sweeps].join(" ");
  tell(shown, "live");
};

const look = async () => {
  let answer;
  try {
    answer = await fetch("data.json", { cache: "no-store", headers: etag ? { "If-None-Match": etag } : {} });
    if (answer.status !== 304 && !answer.ok) throw new Error(await answer.text());
    if (answer.status === 304) return;
    const now = await answer.json();
    etag = answer.headers.get("ETag");
    await show(now);
  } catch (error) {
    etag = "";
    const what = answer ? `the newest results cannot be shown (${error.message.trim()})` : "the server has ended, or cannot be reached";
    tell(`Not live: ${what}.`, "gone");
  }
};

const isSeen = () =>
  document.hidden ? new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true })) : null;

const keepLooking = async () => {
  for (;;) {
    await isSeen();
    await look();
    await new Promise((resolve) => setTimeout(resolve, settings.every_ms));
  }
};

keepLooking();
