"""Every command of `scalemark`: its line of help, and the function that runs it.

Only names are here, so that `scalemark --help` imports none of the commands.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A word after `scalemark`, or after `scalemark db`."""

    about: str
    function: str  # "package.module:function"
    reads_arguments: bool = False  # a main(program=...) that reads sys.argv itself


DB: Mapping[str, Command] = {
    "query": Command("Run a SELECT.", "store.commands.read:query"),
    "check": Command("Check a database.", "store.commands.read:check"),
    "merge": Command("Add the results of other databases.", "store.commands.change:merge_"),
    "import": Command("Add the tables of other programs.", "store.commands.change:import_"),
    "rebuild": Command(
        "Make a lost database again out of run folders.", "store.commands.change:rebuild"
    ),
    "mark": Command("Tag, delete or restore results.", "store.commands.change:mark"),
}
COMMANDS: Mapping[str, Command] = {
    "sweep": Command(
        "Run a grid of trials, of our models or of your own program.",
        "sweep:main",
        reads_arguments=True,
    ),
    "read": Command(
        "Look at a log of your own program, and say how to read it.",
        "scalemark.readers.__main__:main",
        reads_arguments=True,
    ),
    "list": Command("List attempts, the newest last.", "store.commands.read:list_"),
    "show": Command(
        "Show everything about an attempt, a trial or a sweep.", "store.commands.read:show"
    ),
    "table": Command("Print tables of throughput and speed-up.", "plots.commands:table"),
    "chart": Command("Draw charts into files.", "plots.commands:chart"),
    "report": Command("Write one HTML file: answer, tables, charts.", "plots.commands:report"),
    "advise": Command(
        "Recommend a strategy, GPU count, batch size and precision.",
        "analysis.commands.advise:advise",
    ),
    "compare": Command(
        "Say which of two sides is faster, and how sure that is.",
        "analysis.commands.compare:compare",
    ),
    "scaling": Command(
        "Show where adding GPUs stops paying off.", "analysis.commands.scaling:scaling"
    ),
    "explain": Command(
        "Show where the time of a step goes, and what holds it back.",
        "analysis.commands.explain:explain",
    ),
    "predict": Command(
        "Predict how measured curves go on to more GPUs.", "analysis.commands.predict:predict"
    ),
    "conclusions": Command(
        "Judge claims of published articles by your results.",
        "analysis.commands.conclusions:conclusions",
    ),
    "judge": Command(
        "Judge whether a change makes a trial faster.", "sweeper.early_stopping.command:judge"
    ),
    "guard": Command(
        "Watch trials over nights: what got slower, since when, and which change came with it.",
        "analysis.commands.guard:guard",
    ),
    "status": Command(
        "Show how far sweeps are, and how to go on with one.", "sweeper.live.status:status"
    ),
    "db": Command(
        f"Look after the results database: {', '.join(DB)}.",
        "store.command_line:run_db",
        reads_arguments=True,
    ),
    "selfcheck": Command(
        "Prove every mode of the trainer on this machine.",
        "trainer.selfcheck:main",
        reads_arguments=True,
    ),
    "probe": Command(
        "Measure how fast this machine's devices multiply matrices.",
        "sweeper.probe:probe",
    ),
}
READ_AGAIN = Command("", "sweeper.reading:read")
"""`scalemark read --sweep`, which reads the kept logs of a sweep again."""


_CALLED_ELSEWHERE = {
    "run": "sweep",
    "plot": "chart",
    "export": "table --format tidy",
    "tag": "db mark",
    "delete": "db mark",
}
"""Names in other programs -> the command of ours."""


def unknown(word: str) -> str:
    """Say where the command is that a word asks for, which is none of ours."""
    from scalemark.text.wording import did_you_mean

    of_db = {name: f"db {name}" for name in DB}
    places = {name: name for name in COMMANDS} | of_db | _CALLED_ELSEWHERE
    if word in places:
        return f"no command {word!r}: it is scalemark {places[word]}"
    near = did_you_mean(word, places)
    if near:
        name = near.removeprefix("did you mean ").rstrip("?")
        return f"no command {word[:100]!r}; did you mean scalemark {places[name]}?"
    return f"no command {word[:100]!r}; choose one of {', '.join(COMMANDS)}"
