"""200 wrong command lines, with those of `tests/test_sweep.py`: each is refused with what to do, and changes nothing."""

import shlex
import sys
from io import StringIO
from pathlib import Path

import pytest

from analysis.__main__ import app as analysis
from plots.__main__ import app as plots
from scalemark.__main__ import main
from scalemark.readers.__main__ import main as read
from store.__main__ import app as store
from sweeper.__main__ import app as sweeper
from tests.app import run_app
from tests.filled import fill
from tests.specs import small
from tests.test_sweep import WRONG as OF_SWEEPS

pytestmark = pytest.mark.integration

APPS = {"store": store, "analysis": analysis, "plots": plots, "sweeper": sweeper}
COMMANDS = [f"{name} {command}" for name, app in APPS.items() for command in app.commands]

WRONG = {
    # command line: what its refusal has to say
    **{f"{command} --no-such-option": "No such option: --no-such-option" for command in COMMANDS},
    **{f"{command} --helpp": "--help" for command in COMMANDS},
    **{
        f"{command} --db": "Option '--db' requires an argument"
        for command in COMMANDS
        if command not in ("store reference", "sweeper probe")
    },
    "store lst": "Did you mean 'list'?",
    "store list first": "as model=resnet50, num_gpus>=4 or sweep=first",
    "store show fir": "the newest are first",
    "store list --db empty.db": "empty.db: an empty file, no database of scalemark",
    "store import /": "/: a folder; name its files",
    "analysis explain --trial ffff": "--trial ffff: no such trial in what was chosen",
    "analysis explain --trial ffff --sweep frist": "frist: no such sweep",
    "analysis scaling model=trivia": "did you mean model=trivial?",
    "analysis scaling num_gpus=16": "num_gpus is 1, 2 there",
    "analysis scaling precision=fp9": "precision is fp32 there",
    "analysis scaling --origin simulated": "show them with --origin measured",
    "plots tables --origin simulated": "show them with --origin measured",
    "plots tables strategy=nccl": "strategy is",
    "plots tables --sweep frist": "no such sweep",
    "plots charts model=nope": "model is trivial there",
    "store quary": "Did you mean 'query'?",
    "store remove": "No such command 'remove'",
    "store list modle=vgg16": "did you mean model?",
    "store list num_gpu=2": "did you mean num_gpus?",
    "store list num_gpus=two": "num_gpus is a whole number",
    "store list model": "wanted",
    "store list --swep first": "Possible options",
    "store list --sweep": "requires an argument",
    "store list --sweep frist": "no such sweep",
    "store list --format cvs": "'--format': 'cvs' is not one of",
    "store list --format": "requires an argument",
    "store list --sort modle": "did you mean model?",
    "store list --columns modle": "did you mean model?",
    "store list --limit -1": "'--limit': -1; wanted 0 or more",
    "store list --limit two": "two; wanted a whole number",
    "store list --origin published": "is not one of",
    "store list --json=yes": "does not take a value",
    "store list --db none.db": "run a sweep first",
    "store list --db /": "a folder; a database is a file",
    "store list --db mysql://u@h/d": "no such kind of database",
    "store show": "Missing argument",
    "store show 99": "no attempt",
    "store show frist": "the newest are",
    "store show zz": "wanted the number",
    "store query": "Missing argument",
    "store query SELEC": "syntax error",
    "store query 'SELECT colour FROM attempts'": "no such column",
    "store query 'DELETE FROM attempts'": "SELECT",
    "store query 'SELECT 1' --format xml": "is not one of",
    "store tag 1": "Missing argument",
    "store tag 99 good": "no attempt",
    "store note 1": "Missing argument",
    "store delete": "Missing argument",
    "store delete 1": "say so with --yes",
    "store delete 99 --yes": "no attempt",
    "store restore": "Missing argument",
    "store reference lst": "No such command",
    "store reference list modle=vgg16": "did you mean model?",
    "store reference remove": "Missing argument",
    "store import": "Missing argument",
    "store import none.csv": "none.csv",
    "store merge": "Missing argument",
    "store merge none.db": "none.db",
    "store rebuild": "Missing argument",
    "store rebuild nowhere": "nowhere",
    "store check --db none.db": "none.db",
    "analysis advice": "Did you mean 'advise'?",
    "analysis advise --goal cheap": "is not one of",
    "analysis advise --goal cost": "try --goal throughput",
    "analysis advise --goal deadline": "is not one of",
    "analysis advise --origin mesured": "is not one of",
    "analysis advise --origin simulated": "--origin measured",
    "analysis advise --origin published --sweep first": "leave out one of the two",
    "analysis advise --source tf-benchmarks-2017": "add --origin published",
    "analysis advise --sweep frist": "no such sweep",
    "analysis advise modle=vgg16": "did you mean model?",
    "analysis advise model=vgg17": "no attempt is like",
    "analysis explain --trial zz": "no such trial",
    "analysis compare": "Missing argument",
    "analysis compare strategy=ps_cpu": "Missing argument",
    "analysis compare modle=a model=b": "did you mean model?",
    "analysis predict --to num_gpu=8": "as --to num_gpus=8,16",
    "analysis predict --to num_gpus": "wanted",
    "analysis scaling --baseline worst": "is not one of",
    "analysis scaling --origin published --source nowhere": "no such source",
    "plots table": "Did you mean 'tables'?",
    "plots tables --format xml": "no such format",
    "plots tables --json --format csv": "give either",
    "plots tables --out t.xyz": "no format has this ending",
    "plots tables --show spede": "speed-up",
    "plots tables --rows modle": "modle",
    "plots tables --columns modle": "modle",
    "plots tables --baseline worst": "is not one of",
    "plots charts --theme drak": "is not one of",
    "plots charts --format gif": "wanted some of png,svg",
    "plots charts --chart scalin": "did you mean scaling?",
    "plots charts --sweep frist": "no such sweep",
    "plots report --out /none/r.html": "/none",
    "plots report --sweep frist": "no such sweep",
    "sweeper stauts": "Did you mean 'status'?",
    "sweeper status --sweep frist": "no such sweep",
    "sweeper status --db none.db": "run a sweep first",
    "sweeper probe --devices": "Option '--devices' requires an argument",
    "scalemark": "which command?",
    "scalemark stor": "did you mean store?",
    "scalemark swep": "did you mean sweep?",
    "scalemark analyse": "did you mean analysis?",
    "scalemark --sweep": "no command",
    "scalemark x": "choose one of",
    "read": "required: LOG",
    "read none.log": "none.log",
    "read --jsn none.log": "--jsn",
}


def contents() -> dict[str, bytes]:
    """What lies in the current folder, but for what SQLite keeps beside a database."""
    return {
        path.name: path.read_bytes()
        for path in Path().iterdir()
        if path.suffix not in (".db-shm", ".db-wal")
    }


def test_they_are_200():
    assert len(WRONG) + len(OF_SWEEPS) >= 200


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_line_is_refused_with_what_to_do(line, capsys, monkeypatch):
    fill("results.db", [(small(num_gpus=1), 100.0), (small(num_gpus=2), 150.0)])
    Path("empty.db").touch()
    before = contents()
    monkeypatch.setenv("COLUMNS", "300")  # or messages are folded
    monkeypatch.setattr(sys, "stdin", StringIO())  # nobody is there to ask
    name, *arguments = shlex.split(line)
    if name in APPS:
        ended = run_app(APPS[name], name, capsys, monkeypatch, *arguments)
        exit_code, said = ended.exit_code, ended.stderr
    else:
        try:
            exit_code = main(arguments) if name == "scalemark" else read(arguments)
        except SystemExit as ending:
            exit_code = int(ending.code or 0)
        said = capsys.readouterr().err
    assert WRONG[line] in said
    assert "Traceback" not in said
    assert exit_code == 2
    assert contents() == before
