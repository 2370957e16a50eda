"""`advise` and `explain` of 100 trials fit one screen of 80 columns, and are about the newest sweep."""

import json
import math
import re
from dataclasses import replace

import pytest

from analysis.badges import MEANINGS, ORIGINS
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome, Verdict
from scalemark.records.trial import STRATEGY_AXES, STRATEGY_COLUMNS
from tests.analysis.commands.command import advised
from tests.analysis.gpu_box import GPU_BOX, NCCL, PS, around, curve, fill_gpus, on_gpus, repeated
from tests.app import run_app
from tests.conftest import PROJECT
from tests.filled import fill
from tests.programs import fill_programs, program
from tests.specs import small

MODELS = ("resnet50", "vgg16", "alexnet", "inception3", "resnet152")
SIMULATED = {
    "engine": "simulated",
    "device_kind": DeviceKind.SIMULATED_GPU,
    "image_px": 224,
    "num_classes": 1001,
}


def hundred(**changes):
    """Trials of 5 models, 5 strategies and 4 numbers of GPUs, each with a number of its own."""
    found = []
    for place, model in enumerate(MODELS):
        for loss, strategy in enumerate(STRATEGY_COLUMNS):
            axes = dict(zip(STRATEGY_AXES, strategy, strict=True))
            for num_gpus in (1, 2, 4, 8):
                spec = replace(on_gpus(num_gpus, model=model, **axes), **changes)
                efficiency = 1 - (0.02 + 0.03 * loss) * math.log2(num_gpus)
                found.append((spec, 100.0 * (place + 1) * num_gpus * efficiency))
    return found


def shown(ended) -> list[str]:
    """Rows of a terminal of 80 columns."""
    assert ended.exit_code == 0, ended.stderr
    rows = []
    for line in ended.stdout.splitlines():
        rows += [line[start : start + 80] for start in range(0, max(1, len(line)), 80)]
    return rows


def commands(ended) -> list[str]:
    return re.findall(r"python (?:sweep\.py|-m) [^;`\n]*", ended.stdout)


@pytest.mark.parametrize("origin", ["measured", "simulated"])
def test_a_hundred_trials_fit_one_screen(analysis, origin):
    if origin == "measured":
        fill_gpus(hundred())
    else:
        fill("results.db", hundred(**SIMULATED))
    advice, explained = analysis("advise"), analysis("explain")
    assert len(shown(advice)) <= 25, advice.stdout
    assert len(shown(explained)) <= 40, explained.stdout
    for ended in (advice, explained):
        assert ended.stdout.startswith(f"Newest sweep: first ({origin})")
        assert all(len(command) < 80 for command in commands(ended))
    assert len(advice.stdout.split()) <= 120
    lines = [line for line in explained.stdout.splitlines() if "single run" in line]
    assert [line.partition(":")[0] for line in lines[-1:]] == ["single run"], "below the table"
    assert len(lines) <= 2, "and in the headline"


@pytest.mark.parametrize("cores_taken", [1.9, 0.0])
def test_a_doubt_that_the_headline_says_of_all_is_in_no_row(analysis, cores_taken):
    numbers = [(small(num_gpus=num), 100.0 * num) for num in (1, 2)]
    taken = [{"cores_taken_by_others": cores} for cores in (cores_taken, 1.9)]
    fill("results.db", numbers, details=taken)
    said = analysis("advise").stdout
    assert "One run each on a busy machine: repeat before deciding." in said
    assert ("machine busy" in said) is (cores_taken == 0)


def test_advice_on_one_model_fits_one_screen(analysis, snapshot):
    fill_gpus([*curve([100.0, 190.0, 340.0, 400.0], **PS), *curve([98.0, 190, 380, 750], **NCCL)])
    ended = analysis("advise")
    assert len(shown(ended)) <= 25
    assert ended.stdout == snapshot


def test_the_newest_sweep_is_taken_with_what_others_know_of_its_work(analysis):
    fill_gpus([*curve([100.0, 190.0], **PS), *around(on_gpus(1, image_px=64), 50.0)])
    fill_gpus(curve([98.0, 195.0], **NCCL), name="second")
    (found,) = advised(analysis("advise", "--json"))
    assert found["work"]["image_px"] == 32
    assert found["pick"]["strategy"] == "replicated_nccl"
    assert "ps_cpu" in analysis("advise").stdout
    said = "Newest sweep: second (measured), with trials of other sweeps."
    assert analysis("advise").stdout.splitlines()[0] == said
    assert analysis("advise", "--all").stdout.splitlines()[0] == said


def test_a_sweep_without_a_number_is_passed_over(analysis):
    fill_gpus(curve([100.0, 190.0], **PS))
    fill_gpus([(on_gpus(4, **PS), None)], name="failed")
    assert analysis("advise").stdout.startswith(
        "Newest sweep: first (measured), but for 1 newer one without a number."
    )


@pytest.mark.parametrize("origin", ["measured", "simulated"])
def test_failures_alone_are_counted_and_the_first_is_shown(
    analysis, snapshot, capsys, monkeypatch, origin
):
    changes = SIMULATED if origin == "simulated" else {}
    of_memory = {"outcome": Outcome.OUT_OF_MEMORY}
    failed = [(replace(on_gpus(num, **PS), **changes), None) for num in (1, 2, 4)]
    fill(
        "results.db",
        failed,
        machine=None if changes else GPU_BOX,
        details=[of_memory, of_memory, {"outcome": Outcome.TIMED_OUT}],
    )
    advice, explained = analysis("advise"), analysis("explain")
    assert (advice.exit_code, explained.exit_code) == (0, 2)
    assert advice.stdout + explained.stderr == snapshot
    (attempt,) = re.findall(r"scalemark show (\d+)\n", advice.stdout)
    shown_first = run_app(capsys, monkeypatch, "show", attempt)
    assert "it broke" in shown_first.stdout


def test_measured_and_simulated_sweeps_are_not_mixed(analysis):
    fill_gpus(curve([100.0, 190.0], **PS))
    fill(
        "results.db",
        [(replace(spec, **SIMULATED), 9e9) for spec, _ in curve([1.0], **PS)],
        name="b",
    )
    assert "(simulated)" in analysis("advise").stdout.splitlines()[0]
    assert "190" not in analysis("advise").stdout
    assert "190" in analysis("advise", "--sweep", "first").stdout


def test_shards_are_compared_with_a_replica_of_any_variable_update(analysis):
    sharded = {"variable_update": "sharded", "local_parameter_device": "gpu", "all_reduce": "none"}
    cell = {"model": "resnet18_cifar"}
    on_one = [(on_gpus(1, **cell), 100.0), (on_gpus(1, **cell, **PS), 60.0)]
    measured = [*on_one, (on_gpus(4, **cell, **sharded), 320.0)]
    fill_gpus([row for one in measured for row in around(*one)])
    (found,) = json.loads(analysis("explain", "--json", "variable_update=sharded").stdout)
    assert found["steps"]["efficiency"] == pytest.approx(0.8, abs=0.01)


def fp16_beside_fp32(**changes):
    """Of two models, each with two strategies and precisions on 8 GPUs, one also alone."""
    fp16 = {"precision": "fp16", "loss_scale": "dynamic"}
    found = []
    for model in MODELS[:2]:
        for way, throughput in ((PS, 400.0), (NCCL, 750.0)):
            found += around(on_gpus(8, model=model, **way, **changes), throughput)
            found += around(on_gpus(8, model=model, **way, **fp16, **changes), 1.2 * throughput)
    return [*found, *around(on_gpus(1, model=MODELS[0], **NCCL), 100.0)]


def test_each_of_several_models_has_a_row(analysis, snapshot):
    fill_gpus(fp16_beside_fp32())
    ended = analysis("advise")
    assert len(shown(ended)) <= 25
    assert ended.stdout == snapshot


def test_of_several_models_those_with_a_tie_are_named(analysis):
    resnet50, vgg16 = MODELS[:2]
    trials = [*around(on_gpus(8, model=resnet50, **PS), 400.0)]
    trials += around(on_gpus(8, model=resnet50, **NCCL), 750.0)
    trials += around(on_gpus(8, model=vgg16, **PS), 749.0)
    fill_gpus([*trials, *around(on_gpus(8, model=vgg16, **NCCL), 750.0)])
    assert "Others may be as fast for vgg16." in " ".join(analysis("advise").stdout.split())


def test_explained_trials_are_told_apart_and_the_best_is_gone_on_with(analysis, snapshot):
    fill_gpus(fp16_beside_fp32())
    assert analysis("explain").stdout == snapshot


def test_what_is_held_back_goes_before_a_healthy_trial(analysis):
    """A bug: the next step was about the fastest, which was healthy."""
    vgg16, apart = {"model": "vgg16"}, {"variable_update": "independent"}
    fill_gpus(
        [
            *around(on_gpus(1, **vgg16, **apart), 100.0),
            *around(on_gpus(8, **vgg16, **apart), 795.0),
            *around(on_gpus(8, **vgg16, **NCCL), 780.0),
            *around(on_gpus(8, **vgg16, **PS), 500.0),
        ]
    )
    said = analysis("explain").stdout
    assert "2 trials: 1 communication-bound, 1 healthy." in said
    assert said.partition("Next: ")[2].startswith("vgg16, ps_cpu on 8 GPUs")


def test_of_trials_that_nothing_explains_the_first_says_why(analysis):
    """Three causes that take less than 10 % each, of two trials."""
    vgg16, apart = {"model": "vgg16"}, {"variable_update": "independent"}
    fill_gpus(
        [
            *around(on_gpus(1, **vgg16, **apart), 100.0),
            *around(on_gpus(8, **vgg16, **apart), 755.0),
            *around(on_gpus(8, **vgg16, **NCCL), 700.0),
            *around(on_gpus(8, **vgg16, **PS), 695.0),
        ]
    )
    said = analysis("explain").stdout
    assert "2 trials: 2 unclear." in said
    assert (
        "ps_cpu on 8 GPUs, batch_size 2, fp32: cannot tell what holds it back. It reaches" in said
    )


@pytest.mark.parametrize("command", ["advise", "explain"])
def test_a_suspect_single_run_is_measured_again_first(analysis, command):
    suspect = {"verdict": Verdict.SUSPECT}
    fill(
        "results.db",
        [(on_gpus(1, **PS), 100.0), (on_gpus(8, **PS), 400.0)],
        machine=GPU_BOX,
        details=[{}, suspect],
    )
    trial = on_gpus(8, **PS).trial_id[:8]
    step = analysis(command).stdout.partition("Next: ")[2]
    assert "again, for it is one suspect run:" in step
    assert f"scalemark sweep from={trial} sweep.repeats=3 sweep.rerun=true\n" in step


def scattered(middle: float, between: float) -> list[float]:
    """Five repeats, each so far from the next."""
    return [middle * math.exp(between * place) for place in range(-2, 3)]


@pytest.mark.parametrize("between", [0.07, 0.2])
def test_an_unclear_answer_has_a_next_step(analysis, snapshot, between):
    """A bug: there was none, where no number of repeats that is worth it would tell."""
    choices = [(program(8, 0), 100.0), (program(8, 2), 94.5)]
    rows = [repeated(spec, *scattered(middle, between)) for spec, middle in choices]
    fill_programs([row for of_one in rows for row in of_one])
    assert analysis("advise").stdout == snapshot


def test_the_command_after_a_suggestion_answers_again(analysis):
    fill_gpus([*curve([100.0, 190.0], **PS), *curve([98.0, 180.0], **NCCL)])
    ended = analysis("explain")
    (then,) = re.findall(r"^then: scalemark (.*)$", ended.stdout, re.MULTILINE)
    command, best, changed = then.split()
    assert (command, best) == ("compare", on_gpus(2, **PS).trial_id[:8])
    batch = int(re.search(r"batch_size=(\d+)", ended.stdout)[1])
    more = on_gpus(2, **PS, batch_size=batch)
    assert more.trial_id.startswith(changed)
    fill_gpus(around(more, 230.0), name="second")
    assert "is 1.21x" in analysis(*then.split()).stdout
    assert f"batch_size {batch}" in analysis("advise").stdout.splitlines()[1]


@pytest.mark.parametrize("command", [("advise",), ("explain",)])
@pytest.mark.parametrize(
    "filled",
    [
        [*fp16_beside_fp32(), (on_gpus(8, model="alexnet", **PS), 9.0)],
        [(on_gpus(1, **PS), 9.0), (on_gpus(2, **PS), 9.0)],
    ],
)
def test_the_foot_explains_the_badges_on_screen_and_no_others(
    analysis, monkeypatch, command, filled
):
    monkeypatch.setenv("COLUMNS", "2000")  # or badges of two words, and the foot, are folded
    fill_gpus(filled)
    *screen, foot, rest = analysis(*command).stdout.splitlines()
    assert rest.startswith(("--all", "--json"))
    found = {badge for badge, meaning in MEANINGS.items() if f"{badge}: {meaning}" in foot}
    assert found or len(filled) == 2  # where the headline says it of all
    text = " ".join(screen)
    assert {badge for badge in found if not re.search(rf"\b{badge}\b", text, re.I)} == set()
    said = {badge for badge in MEANINGS if re.search(rf"[(,] ?{badge}[,)]|  {badge}\b", text)}
    assert said - found == set()


def test_a_piped_table_keeps_80_columns_unless_told_otherwise(analysis, monkeypatch):
    fill_gpus(
        around(
            on_gpus(8, **PS, gradient_repacking=8, compact_gradients=True, staged_vars=True), 8.0
        )
        + curve([100.0, 190.0], **NCCL)
    )
    table = analysis("advise").stdout.split("\n\n")[1]
    assert max(map(len, table.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "200")
    wide = analysis("advise").stdout.split("\n\n")[1]
    assert 80 < max(map(len, wide.splitlines())) <= 200


def test_published_figures_have_no_intervals_in_their_headings(analysis):
    for filters in (["--source", "10723", "model=vgg16"], []):
        ended = analysis("advise", "--origin", "published", *filters)
        assert "images/s" in ended.stdout
        assert "95 %" not in ended.stdout


def test_every_badge_is_in_the_glossary():
    glossary = (PROJECT / "docs" / "numbers.md").read_text()
    assert len(MEANINGS) <= 6
    for badge, meaning in (MEANINGS | ORIGINS).items():
        assert f"| {badge} | {meaning} |" in glossary


def test_a_single_run_on_cpu_devices_has_its_badges(analysis):
    fill("results.db", [(small(num_gpus=1), 100.0), (small(num_gpus=2), 110.0)])
    ended = analysis("advise")
    assert "One run each: repeat before deciding." in ended.stdout
    assert f"CPU devices: {ORIGINS['CPU devices']}" in ended.stdout


def test_work_of_which_all_replicas_train_apart_is_a_row_without_advice(analysis):
    """A bug: IndexError, as at the end of every sweep with experiment=explain."""
    apart = around(on_gpus(4, variable_update="independent"), 900.0)
    fill_gpus([*around(on_gpus(4, model="vgg16", **PS), 450.0), *apart])
    reported = analysis("advise", "num_gpus=4").stdout.splitlines()
    assert reported[0].startswith("Fastest: ps_cpu on 4 GPUs for vgg16.")
    (row,) = (line for line in reported if line.startswith("trivial"))
    assert row.split(maxsplit=1)[1].startswith("replicas train apart")


def test_where_all_replicas_train_apart_it_does_not_say_that_no_number_is_there(analysis):
    for_itself = {"variable_update": "independent"}
    fill_gpus([(on_gpus(4, model=model, **for_itself), 900.0) for model in ("trivial", "vgg16")])
    headline = analysis("advise", "num_gpus=4").stdout.splitlines()[0]
    assert headline == "No advice: in every trial the replicas trained independently."


def test_every_explained_cell_is_counted_and_the_ideal_is_named(analysis):
    """A bug: of three verdicts the third was in no count, and nothing said lost of what."""
    fill_gpus(fp16_beside_fp32())
    said = analysis("explain").stdout
    assert "8 trials: 4 communication-bound, 1 healthy, 3 unclear." in said
    assert "of 8 times replicated_nccl on 1 GPU." in said


def test_explained_cpu_devices_are_no_gpus(analysis):
    trials = [
        *around(small(num_gpus=4), 200.0),
        *around(small(num_gpus=2, all_reduce="pscpu"), 180.0),
    ]
    fill("results.db", trials)
    columns = analysis("explain").stdout.splitlines()
    assert any(re.match("model +choice, on N CPU devices +lost", line) for line in columns)


@pytest.mark.parametrize(
    "command", [("scaling",), ("compare", "strategy=ps_cpu", "strategy=replicated_nccl")]
)
def test_commands_about_all_sweeps_say_so(analysis, command):
    fill_gpus(curve([100.0, 190.0], **PS))
    assert "of all sweeps" not in analysis("scaling").stderr
    fill_gpus(curve([98.0, 180.0], **NCCL), name="second")
    said = "of all sweeps; --sweep second has the newest alone"
    assert said in analysis(*command).stderr
    assert said not in analysis("scaling", "--sweep", "first").stderr
    assert said not in analysis("scaling", "num_gpus<=2").stderr
