"""What reads results and sources does work in proportion to them: lines of ours that run are counted, no time."""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from benchmarks import made_up_results
from scalemark.host.launch import Launch
from scalemark.host.program_software import code_of
from tests.app import run_app
from tests.conftest import PROJECT

SMALL, GROWTH = 100, 4  # trials, of 1 repeat each; how many times as many the other database has
NUM_STEPS = 20
GRID = [axes for axes in made_up_results.ARTICLE if axes[0] == "vgg16"]  # one table
MOST = 1.2  # times the growth: sorting takes n log n, a search in each cell of a table n * n

COMMANDS = {
    "list": ("list",),
    "table": ("table",),
    "a table of one axis": ("table", "--rows", "strategy,seed", "--columns", "num_gpus"),
    "tidy": ("table", "--format", "tidy"),
    "scaling": ("scaling",),
    "compare": ("compare", "num_gpus=4", "num_gpus=8"),
    "advise": ("advise",),
    "explain": ("explain",),
    "guard": ("guard",),
    "report": ("report", "--out", "report.html"),
}
TIERS = {"advise": "integration", "explain": "integration", "report": "slow"}  # take seconds
OURS = tuple(
    f"{PROJECT / room}/" for room in ("analysis", "command", "plots", "scalemark", "store")
)


def tiered(name: str) -> object:
    marks = [getattr(pytest.mark, TIERS[name])] if name in TIERS else []
    return pytest.param(name, marks=marks)


class Counter:
    """Counts lines of ours as they run; the next round of a loop on one line counts, too."""

    def __init__(self) -> None:
        self.num_lines = 0

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> "Counter | None":
        if event == "line":
            self.num_lines += 1
        return self if frame.f_code.co_filename.startswith(OURS) else None


def num_lines(work: Callable[[], Any]) -> int:
    counter, before = Counter(), sys.gettrace()
    sys.settrace(counter)
    try:
        work()
    finally:
        sys.settrace(before)
    return counter.num_lines


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    """One with some trials and one with more of the same kinds, of further seeds."""
    folder = tmp_path_factory.mktemp("work")
    paths = []
    for num_trials in (SMALL, SMALL * GROWTH):
        path = folder / f"{num_trials}.db"
        made_up_results.write(path, num_trials, NUM_STEPS, grid=GRID, num_repeats=1)
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("name", [tiered(name) for name in COMMANDS])
def test_work_grows_with_the_results(name, databases, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    command, *options = COMMANDS[name]

    def run(database: str) -> None:
        ended = run_app(capsys, monkeypatch, command, "--db", database, *options)
        assert ended.exit_code == 0, ended.stderr

    nums = []
    for database in (databases[0], *databases):  # first what is loaded and kept
        nums.append(num_lines(partial(run, database)))
    _, small, large = nums
    assert 1 < large < MOST * GROWTH * small, large / small


def test_work_grows_with_the_sources_of_a_program(tmp_path):
    """A bug: a folder was searched anew for each source that imports of it, which took minutes."""
    nums = []
    for num in (SMALL, SMALL * GROWTH):
        program, library = tmp_path / f"{num}", tmp_path / f"lib{num}"
        (library / "shared").mkdir(parents=True)
        program.mkdir()
        for n in range(num):
            own = f"import sys\nsys.path.insert(0, '../lib{num}')\nfrom shared import part{n}\n"
            (program / f"of_{n}.py").write_text(own)
            (library / "shared" / f"part{n}.py").write_text(f"from shared import part{n + 1}\n")
        launch = Launch(["of_0.py"], program)
        describe = partial(code_of, launch, [])
        nums.append(num_lines(describe))
        before = describe()
        (library / "shared" / f"part{num - 1}.py").write_text("changed = True\n")
        assert describe() != before
    small, large = nums
    assert 1 < large < MOST * GROWTH * small, large / small
