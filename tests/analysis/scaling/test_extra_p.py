"""Extra-P's models stand beside our law: of Extra-P itself where it is in PATH, and of a program that answers as it does."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from analysis.scaling.extra_p import models
from analysis.selection import Selection, load
from store.errors import StoreError
from tests.analysis.commands.command import analysis as run
from tests.analysis.gpu_box import NCCL, PS, around, fill_gpus, on_gpus

COUNTS = (1, 2, 4, 6, 8)
# as Extra-P 4.2.5 prints a line per curve, and an empty one
ANSWERS = """\
#!/bin/sh
cp "$2" asked-$(ls asked-* 2>/dev/null | wc -l).jsonl
sed -n 's/.*"callpath": "\\([0-9]*\\)".*/\\1/p' "$2" | sort -u | while read callpath; do
  printf '%s\\t1.5457397996192053\\t49.143560060945205 + 268.474 * num_gpus^(2/3) * log2(num_gpus)^(1)\\n\\n' $callpath
done
"""


def fill(counts=COUNTS) -> None:
    """ps_cpu on these numbers of GPUs, replicated_nccl on three."""
    ps = [row for num in counts for row in around(on_gpus(num, **PS), 100.0 * num**0.8)]
    fill_gpus(
        [*ps, *(row for num in (1, 2, 4) for row in around(on_gpus(num, **NCCL), 98.0 * num))]
    )


def curves(*counts: tuple[int, ...]):
    fill()
    by_count = {
        one.num_gpus: one for one in load(Selection(db="results.db", filters=("strategy=ps_cpu",)))
    }
    return [[by_count[num] for num in of_curve] for of_curve in counts]


@pytest.fixture
def install(monkeypatch, tmp_path):
    def put(script: str) -> None:
        program = tmp_path / "bin" / "extrap"
        program.parent.mkdir()
        program.write_text(script)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    return put


def test_a_model_stands_beside_our_law(capsys, monkeypatch, install):
    analysis = partial(run, capsys, monkeypatch)
    install(ANSWERS)
    fill()
    ended = analysis("scaling", "--extra-p")
    (line,) = [one for one in ended.stdout.splitlines() if "Extra-P models" in one]
    assert line.startswith(
        "- Extra-P models ps_cpu: images/s = 49.14 + 268.5 * num_gpus^(2/3) * log2(num_gpus), which "
        "misses it by 1.5% on average (SMAPE); the Universal Scalability Law misses it by "
    )
    assert "without a model of Extra-P: 1 of 2 curves, on fewer than 5 numbers" in ended.stdout
    (found,) = json.loads(analysis("scaling", "--extra-p", "--json").stdout)
    of = {curve["strategy"]: curve["extra_p"] for curve in found["curves"]}
    assert of["replicated_nccl"] is None
    assert of["ps_cpu"]["smape_percent"] == 1.5457397996192053
    assert "Extra-P" not in analysis("scaling").stdout


def test_a_file_has_curves_on_the_same_numbers_of_gpus(install):
    install(ANSWERS)
    found = models(curves(COUNTS, COUNTS[:4], COUNTS))
    assert [one is None for one in found] == [False, True, False]
    (asked,) = Path().glob("asked-*.jsonl")
    lines = [json.loads(line) for line in asked.read_text().splitlines()]
    assert [line["params"]["num_gpus"] for line in lines] == [*COUNTS, *COUNTS]
    assert {line["callpath"] for line in lines} == {"0", "2"}
    assert {len(line["value"]) for line in lines} == {3}


def test_without_extra_p_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(StoreError, match=r"no program extrap in PATH .* pip install extrap"):
        models([])


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "#!/bin/sh\necho 'ERROR: broken' >&2; exit 3",
            "ended with 3 and 0 models of 1: ERROR: broken",
        ),
        ("#!/bin/sh\nexit 0", "ended with 0 and 0 models of 1: it said nothing"),
    ],
)
def test_a_program_that_fails_is_quoted(install, script, said):
    install(script)
    with pytest.raises(StoreError, match=said):
        models(curves(COUNTS))


@pytest.mark.skipif(shutil.which("extrap") is None, reason="Extra-P is not installed")
def test_extra_p_itself_finds_a_power():
    (found,) = models(curves(COUNTS))
    assert found is not None
    assert "num_gpus^(4/5)" in found.function
    assert found.smape_percent < 1
