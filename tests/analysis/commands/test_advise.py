"""`advise` answers the user's question from rows, says how sure it is, and what could change it."""

import json
import re
from dataclasses import replace

import pytest

from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome, Verdict
from simulator.costs.box import Hardware
from store.writer import Writer
from tests.analysis.commands.command import advised
from tests.analysis.gpu_box import GPU_BOX, NCCL, PS, around, curve, fill_gpus, on_gpus, repeated
from tests.filled import MACHINE, NOON, PLACEMENT, SIMULATED_MACHINE, begin, fill
from tests.over_hosts import OVER_TWO_MACHINES, spread
from tests.specs import small
from tests.tables import changing

TWO_STRATEGIES = [
    *curve([100.0, 190.0, 340.0, 400.0], **PS),
    *curve([98.0, 190.0, 380.0, 750.0], **NCCL),
]


def answer(analysis, *arguments):
    (found,) = advised(analysis("advise", "--json", "--origin", "measured", *arguments))
    return found


def test_the_fastest_is_advised_with_how_sure_that_is(analysis):
    fill_gpus(TWO_STRATEGIES)
    found = answer(analysis)
    assert (found["pick"]["strategy"], found["pick"]["num_gpus"]) == ("replicated_nccl", 8)
    assert found["certainty"] == "surely best"
    next_one = found["worse"][0]
    assert (next_one["strategy"], next_one["num_gpus"]) == ("ps_cpu", 8)
    assert 1 < next_one["low"] < next_one["ratio"] == pytest.approx(1.875, abs=1e-3)


def test_where_more_gpus_are_slower_fewer_are_advised(analysis):
    fill_gpus(curve([100.0, 190.0, 150.0, 90.0], **PS))
    assert answer(analysis)["pick"]["num_gpus"] == 2


def test_of_ties_the_fewest_gpus_are_taken_and_others_named(analysis):
    fill_gpus(
        [
            *repeated(on_gpus(4, **NCCL), 300.0, 310.0, 290.0),
            *repeated(on_gpus(8, **NCCL), 302.0, 313.0, 292.0),
            *around(on_gpus(2, **NCCL), 150.0),
        ]
    )
    found = answer(analysis)
    assert (found["pick"]["num_gpus"], found["top"]["num_gpus"]) == (4, 8)
    assert [one["num_gpus"] for one in found["tied"]] == [4]
    assert "ties with 1 other choice for the fastest" in analysis("advise").stdout


def test_what_a_race_put_out_is_reported_and_not_called_slower(analysis):
    fill_gpus(
        [
            *repeated(on_gpus(4, **NCCL), 300.0, 301.0, 299.0),
            *repeated(on_gpus(4, **PS), 290.0, 298.0),
        ]
    )
    writer = Writer("results.db")
    raced = begin(writer, {on_gpus(4, **PS): 3}, name="race", machine=GPU_BOX, rerun=True)
    reason = "race: 1.9 % behind replicated_nccl (which may be chance) after 2 repeats; the others would hardly make it lead"
    raced.skip([repeat.repeat_id for repeat in raced.open_repeats()], reason)
    raced.end(NOON, finished=True)
    writer.close()
    found = answer(analysis)
    assert (len(found["out"]), found["tied"], found["unclear"], found["worse"]) == (
        1,
        [],
        [],
        [],
    )
    assert found["certainty"] == "unsure"
    reported = analysis("advise", "--all", "--origin", "measured").stdout
    assert re.search(r"0\.98x .*tie", reported)
    assert "A race stopped others early" in reported
    assert separating(found)[0].keys() == {"replicated_nccl", "ps_cpu"}


def test_one_process_each_makes_no_answer_sure_and_asks_for_repeats(analysis):
    fill_gpus([(on_gpus(4, **NCCL), 300.0), (on_gpus(4, **PS), 290.0), (on_gpus(1, **NCCL), 80.0)])
    found = answer(analysis)
    assert found["certainty"] == "unsure"
    assert [one["strategy"] for one in found["unclear"]] == ["ps_cpu"]
    (todo,) = [one for one in found["next_trials"] if one["why"].startswith("repeat ")]
    assert todo["why"] == "repeat the best and ps_cpu on 4, 3.3% apart"
    assert [command.rpartition(" ")[2] for command in todo["commands"]] == [
        "sweep.repeats=3",
        "sweep.repeats=3",
    ]
    assert todo["num_attempts"] == 4
    assert todo["gpu_seconds"] == pytest.approx(4 * 4 * 9.5)


def test_a_single_run_farther_behind_makes_the_best_a_likely_one(analysis):
    repeats = [*around(on_gpus(4, **NCCL), 300.0), *around(on_gpus(4, **PS), 250.0)]
    fill_gpus([*repeats, (on_gpus(4), 260.0)])
    assert answer(analysis)["certainty"] == "likely best"
    assert "Some ran once" in analysis("advise").stdout


def test_a_single_run_at_a_quarter_is_not_to_be_repeated(analysis):
    """A bug: the best was likely, and the one at a quarter of it to be repeated."""
    far = (on_gpus(1, **NCCL), 80.0)
    fill_gpus([*around(on_gpus(4, **NCCL), 300.0), *around(on_gpus(4, **PS), 250.0), far])
    found = answer(analysis)
    assert found["certainty"] == "surely best"
    assert not [one for one in found["next_trials"] if one["why"].startswith("repeat ")]


def separating(found):
    """Strategy and repeats that are asked for, of each command, and how many attempts these are."""
    (todo,) = [one for one in found["next_trials"] if one["why"].startswith("repeat ")]
    ranked = [found[name] for name in ("tied", "unclear", "out", "worse")]
    judged = [found["top"], *(one for kind in ranked for one in kind)]
    strategies = {one["trial_id"][:8]: one["strategy"] for one in judged}
    reported = {}
    for command in todo["commands"]:
        trial, repeats = re.search(r"from=(\w+) sweep.repeats=(\d+)$", command).groups()
        reported[strategies[trial]] = repeats
    return reported, todo["num_attempts"]


def test_of_one_process_against_many_only_the_one_is_asked_for_again(analysis):
    many = repeated(on_gpus(4, **PS), 290.0, 291.0, 289.0, 290.5, 289.5)
    fill_gpus([(on_gpus(4, **NCCL), 300.0), *many])
    assert separating(answer(analysis)) == ({"replicated_nccl": "3"}, 2)


def test_several_unclear_trials_are_one_to_run_named_by_the_nearest(
    analysis,
):
    near, far = (
        repeated(on_gpus(4, **PS), 290.0, 291.0, 289.0),
        repeated(on_gpus(4), 280.0, 281.0, 279.0),
    )
    fill_gpus([(on_gpus(4, **NCCL), 300.0), *far, *near])
    found = answer(analysis)
    assert separating(found) == ({"replicated_nccl": "3"}, 2)
    whys = [one["why"] for one in found["next_trials"] if one["why"].startswith("repeat ")]
    assert whys == ["repeat the best, 3.3% ahead of ps_cpu on 4"]


def test_to_unlike_numbers_of_repeats_as_many_are_added(analysis):
    fill_gpus(
        [
            *repeated(on_gpus(4, **NCCL), 290.0, 310.0),
            *repeated(on_gpus(4, **PS), 270.0, 280.0, 285.0, 290.0, 300.0),
        ]
    )
    repeats, num_attempts = separating(answer(analysis))
    more = int(repeats["replicated_nccl"]) - 2
    assert more > 0
    assert (int(repeats["ps_cpu"]) - 5, num_attempts) == (more, 2 * more)


def test_repeats_asked_for_count_the_number_of_choices(analysis):
    def spread_out(spec, value, num):
        return repeated(
            spec,
            *(value * (1 + 0.03 * (2 * environment / (num - 1) - 1)) for environment in range(num)),
        )

    far_behind = [
        pair
        for num in (1, 2, 4)
        for way in (PS, NCCL, {})
        for pair in around(on_gpus(num, **way), 20.0 * num)
    ]
    for url, num in (("few.db", 3), ("enough.db", 5)):
        two = [
            *spread_out(on_gpus(8, **NCCL), 400.0, num),
            *spread_out(on_gpus(8, **PS), 375.0, num),
        ]
        fill(url, [*two, *far_behind], machine=GPU_BOX)
    few, enough = (answer(analysis, "--db", url) for url in ("few.db", "enough.db"))
    assert [one["strategy"] for one in few["unclear"]] == ["ps_cpu"]
    (todo,) = [one for one in few["next_trials"] if one["why"].startswith("repeat ")]
    assert [command.rpartition(" ")[2] for command in todo["commands"]] == [
        "sweep.repeats=5",
        "sweep.repeats=5",
    ]
    assert enough["unclear"] == []
    assert enough["worse"][0]["strategy"] == "ps_cpu"


def test_repeats_that_contradict_each_other_are_not_asked_for_again(analysis):
    fill_gpus(
        [
            *repeated(on_gpus(4, **NCCL), 300.0, 301.0, 302.0),
            *repeated(on_gpus(4, **PS), 270.0, 272.0, 305.0),
        ]
    )
    found = answer(analysis)
    assert [one["strategy"] for one in found["unclear"]] == ["ps_cpu"]
    assert [one for one in found["next_trials"] if one["why"].startswith("repeat ")] == []


def test_a_distance_is_that_of_compare(analysis):
    fill_gpus(
        [
            *repeated(on_gpus(4, **NCCL), 300.0, 301.0, 302.0),
            *repeated(on_gpus(4, **PS), 250.0, 252.0, 265.0),
        ]
    )
    (next_one,) = answer(analysis)["worse"]
    compared = json.loads(
        analysis("compare", "strategy=ps_cpu", "strategy=replicated_nccl", "--json").stdout
    )
    assert 1 / next_one["ratio"] == pytest.approx(
        compared["pairs"][0]["judgement"]["ratio"]["ratio"]
    )


def test_one_process_is_likely_the_best_where_the_next_is_far_behind(analysis):
    fill_gpus([(on_gpus(4, **NCCL), 300.0), (on_gpus(4, **PS), 150.0)])
    assert answer(analysis)["certainty"] == "likely best"


def test_missing_cells_are_asked_for_only_where_they_could_win(analysis):
    fill_gpus(
        [
            *curve([98.0, 190.0, 380.0, 750.0], **NCCL),
            *curve([100.0, 190.0, 340.0], **PS),
            *around(on_gpus(1, variable_update="parameter_server"), 50.0),
        ]
    )
    whys = [one["why"] for one in answer(analysis)["next_trials"]]
    assert "ps_cpu on 8 GPUs was not run, and might win" in whys
    assert not any(why.startswith("ps_gpu on ") for why in whys)


@pytest.mark.parametrize("cell", ["strategy=ps_cpu +seed=1 num_gpus=8", "num_gpus=8 model=vgg16"])
def test_cells_that_the_sweep_left_out_are_not_proposed(analysis, cell):
    fill_gpus([*curve([98.0, 190.0, 380.0, 750.0], **NCCL), *curve([100.0, 190.0, 340.0], **PS)])
    with changing("results.db") as connection:
        connection.exec_driver_sql(f"UPDATE left_out SET overrides = '{cell}'")
    whys = [one["why"] for one in answer(analysis)["next_trials"]]
    is_proposed = "ps_cpu on 8 GPUs was not run, and might win" in whys
    assert is_proposed == ("vgg16" in cell)


RESNET = {"model": "resnet50", "image_px": 224, "num_classes": 1001, "batch_size": 64}


def test_a_curve_is_carried_on_to_the_gpus_of_the_machine(analysis):
    fill_gpus(curve([220.0, 436.0, 852.0], **RESNET, **NCCL))
    (more,) = [
        one["why"]
        for one in answer(analysis)["next_trials"]
        if one["why"].startswith("the machine has 8 GPUs")
    ]
    assert more.endswith(": does it scale on?")


def test_next_trials_are_the_cheapest_first(analysis):
    fill_gpus(TWO_STRATEGIES[:-6])
    costs = [one["gpu_seconds"] for one in answer(analysis)["next_trials"]]
    assert costs == sorted(costs)
    assert len(costs) >= 3


def test_simulated_trials_cost_nothing(analysis):
    spec = replace(on_gpus(4), device_kind=DeviceKind.SIMULATED_GPU)
    fill("results.db", [(spec, 300.0)], machine=SIMULATED_MACHINE)
    costs = {one["gpu_seconds"] for one in answer(analysis, "--origin", "simulated")["next_trials"]}
    assert costs == {None}


def test_replicas_that_train_apart_are_never_advised(analysis):
    fill_gpus(
        [
            *around(on_gpus(4, variable_update="independent"), 900.0),
            *around(on_gpus(4, **PS), 450.0),
        ]
    )
    found = answer(analysis)
    assert found["pick"]["strategy"] == "ps_cpu"
    assert found["doubts"] == [
        "Left out: 1 with variable_update independent, whose replicas train a model each and not one together."
    ]
    said = "Left out: independent, whose replicas train a model each."
    assert said in analysis("advise").stdout  # a bug: --all alone said why the fastest was none
    fill_gpus(around(on_gpus(4, **NCCL), 950.0), name="second")
    assert said not in analysis("advise").stdout


def test_a_suspect_number_is_reported(analysis):
    fill_gpus([(on_gpus(4), 300.0)], details=[{"verdict": Verdict.SUSPECT}])
    assert answer(analysis)["doubts"] == [
        "The number of replicated_none on 4 GPUs, batch_size 2, fp32 is suspect: its verdict is suspect; see scalemark show 1."
    ]


@pytest.mark.parametrize("second", [(None, {"outcome": Outcome.INTERRUPTED}), (301.0, {})])
def test_a_doubt_names_the_attempt_that_has_it(analysis, second):
    """A bug: it was the newest of the trial, though that was interrupted, or is valid."""
    throughput, details = second
    suspect = {"verdict": Verdict.SUSPECT, "reasons": ("steps drifted",)}
    fill_gpus([(on_gpus(4), 300.0), (on_gpus(4), throughput)], details=[suspect, details])
    (doubt,) = answer(analysis)["doubts"]
    assert doubt.endswith("is suspect: steps drifted; see scalemark show 1.")
    assert "In doubt: scalemark show 1 says why" in analysis("scaling").stdout


def test_repeats_that_contradict_each_other_are_reported(analysis):
    fill_gpus([*repeated(on_gpus(4), 300.0, 301.0, 150.0), *around(on_gpus(2), 100.0)])
    (doubt,) = answer(analysis)["doubts"]
    assert doubt.startswith("Repeats of replicated_none on 4 GPUs, batch_size 2, fp32 contradict")
    assert f"- {doubt}\n" in analysis("advise", "--all").stdout


def test_one_trial_alone_is_no_choice_and_says_what_to_try(analysis):
    fill_gpus([(on_gpus(4), 300.0)])
    found = answer(analysis)
    assert found["certainty"] is None
    whys = [one["why"] for one in found["next_trials"]]
    assert "replicated_nccl was not tried at all" in whys
    assert "the machine has 8 GPUs: does it scale on?" in whys


def test_choices_that_differ_in_their_effort_alone_are_told_apart(analysis):
    fill_gpus([(on_gpus(4), 300.0), (on_gpus(4, min_warm_up_s=1.0), 297.0)])
    found = answer(analysis)
    whys = [one["why"] for one in found["next_trials"]]
    (why,) = (why for why in whys if why.startswith("repeat "))
    assert why == "repeat the best and replicated_none on 4, min_warm_up_s 1.0, 1.0% apart"


def test_two_machines_get_an_answer_each(analysis):
    fill_gpus(around(on_gpus(4), 300.0))
    other = replace(GPU_BOX, host="otherbox")
    fill("results.db", [(on_gpus(4), 500.0)], name="second", machine=other)
    ended = analysis("advise", "--all", "--origin", "measured")
    assert ended.stdout.count("Only one way was tried") == 2


def test_of_cpu_devices_nothing_is_said_of_gpus(analysis):
    fill(
        "results.db",
        [*repeated(small(num_gpus=1), 100.0, 101.0), *repeated(small(num_gpus=4), 120.0, 121.0)],
    )
    ended = analysis("advise", "--all", "--origin", "measured")
    assert "instead of" not in ended.stdout
    assert "GPU-hours" not in ended.stdout
    assert "nccl" not in ended.stdout


PROFILE = Hardware(
    name="testbox_8",
    gpu="Testla",
    num_gpus=8,
    memory_gib=16.0,
    compute_capability="7.0",
    tflops={"fp32": 10.0},
    memory_gb_per_s=500.0,
    pcie_gb_per_s=10.0,
    gpus_per_switch=1,
    host_memory_gb_per_s=100.0,
    host_sum_gb_per_s=20.0,
    num_cores=32,
    host_memory_gib=256.0,
)


def test_simulated_answers_say_so_and_never_mix_with_measured_ones(
    analysis,
):
    simulated = replace(MACHINE, host="testbox_8", hardware_profile=PROFILE.to_json())
    fill_gpus(around(on_gpus(4), 300.0))
    fill(
        "results.db",
        [
            (replace(one, device_kind=DeviceKind.SIMULATED_GPU), value)
            for one, value in TWO_STRATEGIES
        ],
        name="s",
        machine=simulated,
    )
    simulated_answer = answer(analysis, "--origin", "simulated")
    assert simulated_answer["question"]["environment"]["origin"] == "simulated"
    assert "no GPU was measured" in analysis("advise", "--all", "--origin", "simulated").stdout
    assert answer(analysis)["question"]["environment"]["origin"] == "measured"


def test_published_figures_bring_no_next_trials(analysis):
    fill("results.db", [])
    found = answer(
        analysis,
        "--origin",
        "published",
        "--source",
        "tf-benchmarks-2017/p100",
        "model=resnet50",
        "data=synthetic",
    )
    assert found["next_trials"] == []
    assert found["certainty"] is None


def test_figures_that_a_source_tells_apart_by_notes_alone_make_one_curve(analysis):
    fill("results.db", [])
    asked = ("--origin", "published", "--source", "Question", "data=synthetic")
    pick = answer(analysis, *asked)["pick"]
    assert (pick["strategy"], pick["num_gpus"]) == ("parameter_server?", 4)
    assert pick["throughput"] == 6750


def test_a_heading_says_where_a_source_does_not_tell_the_data(analysis):
    fill("results.db", [])
    headings = analysis(
        "advise", "--all", "--origin", "published", "--source", "Question"
    ).stdout.splitlines()
    assert "resnet18_cifar? (data not reported)" in headings
    assert "resnet18_cifar? (synthetic data)" in headings


def test_the_next_is_behind_by_its_share_of_the_best(analysis):
    fill("results.db", [])
    ended = analysis(
        "advise",
        "--all",
        "--origin",
        "published",
        "--source",
        "tf-benchmarks-2017/dgx",
        "model=alexnet",
        "data=synthetic",
    )
    assert re.search(r"replicated_nccl on 4 +\d+ +0.59x", ended.stdout)


def test_every_source_has_an_answer(analysis):
    fill("results.db", [])
    assert analysis("advise", "--all", "--origin", "published").exit_code == 0


def test_an_empty_database_says_what_to_do(analysis):
    fill("results.db", [])
    ended = analysis("advise", "--all", "--origin", "measured")
    assert ended.exit_code == 2
    assert "results.db: no attempt in it yet; run a sweep first" in ended.stderr


def over_hosts(way, *values):
    """GPUs, hosts and images/s; on machines of their own."""
    found = [
        pair
        for num, hosts, value in values
        for pair in around(spread(way, num, hosts, device_kind=DeviceKind.GPU), value)
    ]
    return found, [
        {"placement": OVER_TWO_MACHINES if spec.hosts > 1 else PLACEMENT} for spec, _ in found
    ]


def test_more_hosts_are_advised_where_they_are_faster(analysis):
    results, details = over_hosts(
        "distributed_ring", (1, 1, 100.0), (8, 1, 500.0), (8, 2, 600.0), (16, 2, 1100.0)
    )
    fill_gpus(results, details=details)
    for filters, width in (((), (16, 2)), (("num_gpus=8",), (8, 2))):
        pick = answer(analysis, *filters)["pick"]
        assert (pick["num_gpus"], pick["hosts"]) == width
    assert "processes of one machine" not in analysis("advise", "--all").stdout


def test_of_as_many_gpus_that_tie_those_on_fewest_hosts_are_taken(analysis):
    results, details = over_hosts("distributed_ring", (1, 1, 100.0), (8, 1, 600.0), (8, 2, 601.0))
    fill_gpus(results, details=details)
    found = answer(analysis)
    assert (found["pick"]["num_gpus"], found["pick"]["hosts"]) == (8, 1)
    assert found["top"]["hosts"] == 2


def test_only_distributed_strategies_are_asked_for_over_hosts(analysis):
    results, details = over_hosts("distributed_ring", (1, 1, 100.0), (8, 2, 600.0))
    more, of_more = over_hosts("replicated_none", (1, 1, 120.0), (4, 1, 470.0))
    fill_gpus([*results, *more], details=[*details, *of_more])
    reported = [one["commands"][0] for one in answer(analysis)["next_trials"]]
    assert any("strategy=distributed_ps" in one for one in reported)
    assert not any("strategy=replicated" in one for one in reported)


def test_hosts_that_are_processes_of_one_machine_are_reported(analysis):
    ways = [(spread("distributed_ring", 2, hosts), 100.0 * hosts) for hosts in (1, 2)]
    fill("results.db", [pair for way in ways for pair in around(*way)])
    shown = analysis("advise", "--all", "--origin", "measured").stdout
    assert "Over 2 hosts: processes of one machine" in shown


def test_tokens_and_images_are_two_questions_and_a_failure_is_in_both(analysis):
    fill("results.db", [(small(), 100.0), (small(batch_size=8), 150.0), (small(xla="on"), None)])
    with changing("results.db") as connection:
        connection.exec_driver_sql("UPDATE measurements SET item = 'tokens' WHERE attempt_id = 2")
    ended = analysis("advise", "--all", "--origin", "measured")
    assert re.search(r"100 images/s", ended.stdout)
    assert re.search(r"150 tokens/s", ended.stdout)
    found = advised(analysis("advise", "--all", "--origin", "measured", "--json"))
    assert len(found) == 2
