"""Wrong command lines, beside those of `tests/test_sweep.py`: each is refused with what to do, and changes nothing."""

import shlex
import sys
from io import StringIO
from pathlib import Path

import pytest

from scalemark.__main__ import main
from scalemark.cli.commands import COMMANDS, DB
from scalemark.readers.__main__ import main as read
from tests.app import run_app
from tests.filled import fill
from tests.specs import small

pytestmark = pytest.mark.integration

LINES = [name for name, command in COMMANDS.items() if not command.reads_arguments]
LINES += [f"db {name}" for name in DB]

WRONG = {
    # command line: what its refusal has to say
    **{f"{command} --no-such-option": "no such option: --no-such-option" for command in LINES},
    **{f"{command} --helpp": "--help" for command in LINES},
    **{
        f"{command} --db": "option '--db' requires an argument"
        for command in LINES
        if command != "probe"
    },
    "scalemark lst": "did you mean scalemark list?",
    "list first": "as model=resnet50, num_gpus>=4 or sweep=first",
    "show fir": "(the newest: first)",
    "list --db empty.db": "empty.db: an empty file, no database of scalemark",
    "db import /": "/: a folder; name its files",
    "explain --trial ffff": "--trial ffff: no such trial in what was chosen",
    "explain --trial ffff --sweep frist": "frist: no such sweep",
    "scaling model=trivia": "did you mean model=trivial?",
    "scaling num_gpus=16": "num_gpus is 1, 2 there",
    "scaling precision=fp9": "precision is fp32 there",
    "scaling --origin simulated": "show them with --origin measured",
    "table --origin simulated": "show them with --origin measured",
    "table strategy=nccl": "strategy is",
    "table --sweep frist": "no such sweep",
    "chart model=nope": "model is trivial there",
    "db quary": "did you mean query?",
    "scalemark quary": "did you mean scalemark db query?",
    "db remove": "no command 'remove'; choose one of query",
    "list modle=vgg16": "did you mean model?",
    "list num_gpu=2": "did you mean num_gpus?",
    "list num_gpus=two": "num_gpus is a whole number",
    "list model": "wanted",
    "list --swep first": "Possible options",
    "list --sweep": "requires an argument",
    "list --sweep frist": "no such sweep",
    "list --format cvs": "'--format': 'cvs' is not one of",
    "list --format": "requires an argument",
    "list --sort modle": "did you mean model?",
    "list --columns modle": "did you mean model?",
    "list --limit -1": "'--limit': -1; wanted 0 or more",
    "list --limit two": "two; wanted a whole number",
    "list --origin publishd": "is not one of",
    "list --origin published": "scalemark table --origin published` has the others",
    "list --json=yes": "does not take a value",
    "list --db none.db": "run a sweep first",
    "list --db /": "a folder; a database is a file",
    "list --db mysql://u@h/d": "no such kind of database",
    "show": "missing argument",
    "show 99": "no attempt",
    "show frist": "(the newest: ",
    "show zz": "wanted the number",
    "db query": "missing argument",
    "db query SELEC": "syntax error",
    "db query 'SELECT colour FROM attempts'": "no such column",
    "db query 'DELETE FROM attempts'": "SELECT",
    "db mark 1": "wanted tags, or --delete, or --restore",
    "db mark 99 --tag good": "no attempt",
    "db mark 1 2 --tag good": "wanted one attempt, trial or sweep",
    "db mark 1 --tag": "requires an argument",
    "db mark --delete": "missing argument",
    "db mark 99 --delete": "no attempt",
    "db mark 1 --restore --delete": "wanted tags, or",
    "db import --remove": "missing argument",
    "db import": "missing argument",
    "db import none.csv": "none.csv",
    "db merge": "missing argument",
    "db merge none.db": "none.db",
    "db rebuild": "missing argument",
    "db rebuild nowhere": "nowhere",
    "db check --db none.db": "none.db",
    "scalemark advice": "did you mean scalemark advise?",
    "advise --origin mesured": "is not one of",
    "advise --origin simulated": "--origin measured",
    "advise --origin published --sweep first": "leave out one of the two",
    "advise --source tf-benchmarks-2017": "add --origin published",
    "advise --sweep frist": "no such sweep",
    "advise modle=vgg16": "did you mean model?",
    "advise model=vgg17": "no attempt is like",
    "explain --trial zz": "no such trial",
    "compare": "missing argument",
    "compare strategy=ps_cpu": "missing argument",
    "compare modle=a model=b": "did you mean model?",
    "predict --to num_gpu=8": "as --to num_gpus=8,16",
    "predict --to num_gpus": "wanted",
    "scaling --baseline worst": "is not one of",
    "scaling --origin published --source nowhere": "no such source",
    "scalemark tables": "did you mean scalemark table?",
    "scalemark merge b.db": "it is scalemark db merge",
    "table --format xml": "no such format",
    "table --json --format csv": "give either",
    "table --show spede": "speed-up",
    "table --rows modle": "modle",
    "table --columns modle": "modle",
    "table --baseline worst": "is not one of",
    "chart --format gif": "is not one of",
    "chart --chart scalin": "did you mean scaling?",
    "chart --sweep frist": "no such sweep",
    "report --out /none/r.html": "/none",
    "report --sweep frist": "no such sweep",
    "scalemark stauts": "did you mean scalemark status?",
    "status --sweep frist": "no such sweep",
    "status --db none.db": "run a sweep first",
    "scalemark": "which command?",
    "scalemark store": "no command",
    "scalemark swep": "did you mean scalemark sweep?",
    "scalemark explane": "did you mean scalemark explain?",
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


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_line_is_refused_with_what_to_do(line, capsys, monkeypatch):
    fill("results.db", [(small(num_gpus=1), 100.0), (small(num_gpus=2), 150.0)])
    Path("empty.db").touch()
    before = contents()
    monkeypatch.setenv("COLUMNS", "300")  # or messages are folded
    monkeypatch.setattr(sys, "stdin", StringIO())  # nobody is there to ask
    name, *arguments = shlex.split(line)
    try:
        if name == "scalemark":
            exit_code = main(arguments)
        elif name == "read":
            exit_code = read(arguments)
        else:
            ended = run_app(capsys, monkeypatch, name, *arguments)
            exit_code = ended.exit_code
            print(ended.stderr, file=sys.stderr)
    except SystemExit as ending:
        exit_code = int(ending.code or 0)
    said = capsys.readouterr().err
    assert WRONG[line] in said
    assert "Traceback" not in said
    assert exit_code == 2
    assert contents() == before
