"""Every command of `scalemark`: its line of help, and the function that runs it.

Only names are here, so that `scalemark --help` imports none of the commands.
"""

from collections.abc import Mapping
from dataclasses import dataclass

USAGE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A word after `scalemark`, or after `scalemark db`."""

    about: str
    function: str  # "package.module:function"
    in_one_view: bool = False  # reads everything as of one moment
    reads_arguments: bool = False  # a main(program=...) that reads sys.argv itself


DB: Mapping[str, Command] = {
    "query": Command(about="Run a SELECT.", function="store.commands.read:query"),
    "check": Command(about="Check a database.", function="store.commands.read:check"),
    "merge": Command(
        about="Add the results of other databases.", function="store.commands.change:merge_"
    ),
    "import": Command(
        about="Add the tables of other programs.", function="store.commands.change:import_"
    ),
    "rebuild": Command(
        about="Make a lost database again out of run folders.",
        function="store.commands.change:rebuild",
    ),
    "mark": Command(
        about="Tag, annotate, delete or restore results.", function="store.commands.change:mark"
    ),
}
COMMANDS: Mapping[str, Command] = {
    "sweep": Command(
        about="Run a grid of trials, of our models or of your own program.",
        function="sweep:main",
        reads_arguments=True,
    ),
    "read": Command(
        about="Look at a log of your own program, and say how to read it.",
        function="scalemark.readers.__main__:main",
        reads_arguments=True,
    ),
    "list": Command(about="List attempts, the newest last.", function="store.commands.read:list_"),
    "show": Command(
        about="Show everything about an attempt, a trial or a sweep.",
        function="store.commands.read:show",
    ),
    "table": Command(
        about="Print tables of throughput and speed-up.",
        function="plots.commands:table",
        in_one_view=True,
    ),
    "chart": Command(
        about="Draw charts into files.", function="plots.commands:chart", in_one_view=True
    ),
    "report": Command(
        about="Write one HTML file: answer, tables, charts.",
        function="plots.commands:report",
        in_one_view=True,
    ),
    "advise": Command(
        about="Recommend a strategy, GPU count, batch size and precision.",
        function="analysis.commands.advise:advise",
        in_one_view=True,
    ),
    "compare": Command(
        about="Say which of two sides is faster, and how sure that is.",
        function="analysis.commands.compare:compare",
        in_one_view=True,
    ),
    "scaling": Command(
        about="Show from how many GPUs on another one is wasted.",
        function="analysis.commands.scaling:scaling",
        in_one_view=True,
    ),
    "explain": Command(
        about="Show where the time of a step goes, and what holds it back.",
        function="analysis.commands.explain:explain",
        in_one_view=True,
    ),
    "predict": Command(
        about="Predict how measured curves go on to more GPUs.",
        function="analysis.commands.predict:predict",
        in_one_view=True,
    ),
    "conclusions": Command(
        about="Judge claims of published articles by your results.",
        function="analysis.commands.conclusions:conclusions",
        in_one_view=True,
    ),
    "judge": Command(
        about="Judge whether a change makes a trial faster.",
        function="sweeper.early_stopping.command:judge",
    ),
    "guard": Command(
        about="Watch trials over nights: what became slower, since when, with what.",
        function="analysis.commands.guard:guard",
        in_one_view=True,
    ),
    "status": Command(
        about="Show how far sweeps are, and how to go on with one.",
        function="sweeper.live.status:status",
    ),
    "db": Command(
        about=f"Look after the results database: {', '.join(DB)}.",
        function="store.command_line:run_db",
        reads_arguments=True,
    ),
    "selfcheck": Command(
        about="Prove every mode of the trainer on this machine.",
        function="trainer.selfcheck:main",
        reads_arguments=True,
    ),
    "probe": Command(
        about="Measure what this machine's devices and links can do, before a sweep.",
        function="sweeper.probe:probe",
    ),
}
READ_AGAIN = Command(about="", function="sweeper.reading:read")
"""`scalemark read --sweep`, which reads the kept logs of a sweep again."""


def unknown(word: str) -> str:
    """Say where the command is that a word asks for, which is none of ours."""
    from scalemark.text.wording import did_you_mean

    places = {name: name for name in COMMANDS} | {name: f"db {name}" for name in DB}
    if word in places:
        return f"no command {word!r}: it is scalemark {places[word]}"
    near = did_you_mean(word, places)
    if near:
        name = near.removeprefix("did you mean ").rstrip("?")
        return f"no command {word[:100]!r}; did you mean scalemark {places[name]}?"
    return f"no command {word[:100]!r}; choose one of {', '.join(COMMANDS)}"
