// Keeps the list of sweeps up to date. `every_ms` is set before.

const line = document.getElementById("live");
const parser = new DOMParser();

const look = async () => {
  try {
    const answer = await fetch("/", { cache: "no-cache" });
    if (!answer.ok) throw new Error(await answer.text());
    const main = parser.parseFromString(await answer.text(), "text/html").getElementById("main");
    const old = document.getElementById("main");
    line.textContent = "";
    if (main.innerHTML === old.innerHTML) return;
    const chosen = document.activeElement?.getAttribute("href");
    old.replaceWith(main);
    if (chosen) [...main.querySelectorAll("a")].find((link) => link.getAttribute("href") === chosen)?.focus();
  } catch {
    line.textContent = "Not live: the server has ended, or cannot be reached.";
  }
};

const isSeen = () =>
  document.hidden ? new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true })) : null;

for (;;) {
  await new Promise((resolve) => setTimeout(resolve, every_ms));
  await isSeen();
  await look();
}
