"""Hosts of one sweep are of one kind and have the same versions; else the plan is refused, with what differs."""

import pytest

from scalemark.host import software
from scalemark.host.variables import VARIABLES
from sweeper import SweepRefusedError
from sweeper.elsewhere import sent_variables
from sweeper.launchers import ssh
from sweeper.launchers.prefix import Launcher, _check_alike
from tests.conf.test_resolve import config
from tests.filled import MACHINE

CHANGES = "changes since the commit"
FACTS = {"commit": "0" * 40, CHANGES: "none", "kind of host": "A", "machine": "k"}
ANSWER = {
    "machine": MACHINE.to_json(),
    "devices": "cpu_device",
    "num_devices": 4,
    "software": {"python": "3", "kernel": "6", "packages": {"numpy": "2"}, "variables": {}},
    "facts": FACTS,
}


def test_variables_that_change_numbers_travel_and_those_of_the_host_do_not():
    sent = sent_variables(dict.fromkeys((f"{name}X" for name in VARIABLES), "1"))
    assert {f"{name}X" for name in VARIABLES} - set(sent) == {"LD_PRELOADX", "LD_LIBRARY_PATHX"}
    kept = ("TF_VAR_password", "TF_TOKEN_app", "TF_CLI_ARGS", "TORCH_API_KEY", "SCALEMARK_SECRET")
    kept += ("TOKENIZERS_API_KEY", "TORCH_BATCH_AUTH_TOKEN")  # beside numbers of tokens
    assert sent_variables(dict.fromkeys(kept, "1")) == sent_variables({})
    assert sent_variables({"CUDA_VISIBLE_DEVICES": "1", "PATH": "/bin"}) == sent_variables({})


@pytest.fixture
def launcher_of(monkeypatch):
    """launcher_of(answer, ...): one of hosts whose answers differ so from the usual one."""
    monkeypatch.setattr(software, "own_checkout", lambda: {"commit": FACTS["commit"], "diff": ""})

    def launcher_of(*answers: dict[str, dict[str, object]]) -> Launcher:
        answer_of = {}
        for host, answer in zip("abc", answers, strict=False):
            answer_of[host] = {name: ANSWER[name] | answer.get(name, {}) for name in answer}
            answer_of[host]["locks"] = host
        monkeypatch.setattr(Launcher, "_ask", lambda _, host, programs: ANSWER | answer_of[host])
        return Launcher(config("launcher=prefix", f"launcher.hosts=[{','.join(answer_of)}]"), "s")

    return launcher_of


def test_equal_hosts_are_slots_of_one_machine(launcher_of):
    launcher = launcher_of({}, {})
    assert launcher.machine == MACHINE
    assert (launcher.inventory.num_hosts, launcher.inventory.num_devices) == (2, 4)


OTHER_NUMPY = {"software": {"packages": {"numpy": "0.1"}}, "facts": {"kind of host": "B"}}
OTHER_CODE = {"software": {"program": {"code": "c", "files": ""}}}
UNKNOWN_CODE = {"software": {"program": {"code": "unknown-1", "files": ""}}}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([{}, OTHER_NUMPY], "a and b differ: kind of host A -> B, numpy 2 -> 0.1; results of"),
        ([{}, {}, OTHER_CODE], "a and c differ: code of the program"),
        ([{"facts": {"commit": "2" * 40}}], f"this host and a differ: commit {'0' * 40} -> 22"),
        ([{"facts": {CHANGES: "ab"}}], f"this host and a differ: {CHANGES} none -> ab"),
    ],
)
def test_what_differs_is_named(launcher_of, answers, said):
    with pytest.raises(SweepRefusedError, match=said):
        launcher_of(*answers)


def test_a_host_whose_version_of_this_project_says_less_differs():
    of_other = ANSWER | {"facts": {"commit": "2" * 40}}
    with pytest.raises(SweepRefusedError, match=f"commit 0+ -> 2+, {CHANGES} none -> unknown, "):
        _check_alike("a", ANSWER, "b", of_other)


def test_code_that_no_host_knows_does_not_differ(launcher_of):
    assert launcher_of(UNKNOWN_CODE, {}).inventory.num_hosts == 2


@pytest.mark.parametrize("word", ["{nope}", "{host.x}", "{host[x]}", "{"])
def test_words_that_a_command_cannot_have_are_refused(launcher_of, word):
    launcher = launcher_of({})
    launcher.config.launcher.prefix.command = f"ssh {word}"
    with pytest.raises(SweepRefusedError, match="wanted words with"):
        launcher.prefix("a", 0)


def test_options_of_a_user_win_over_our_own(launcher_of):
    """ssh keeps the first value that it is given."""
    launcher = launcher_of({})
    launcher.config.launcher.options = ["-oConnectTimeout=60"]
    words = ssh.Launcher.prefix(launcher, "a", 0)
    assert words.index("-oConnectTimeout=60") < words.index("-oConnectTimeout=10")


def test_more_gpus_than_a_host_has_are_refused(launcher_of, monkeypatch):
    monkeypatch.setattr(Launcher, "find_hosts", lambda _: (["a"], 8))
    with pytest.raises(SweepRefusedError, match=r"8 CPU devices on each host were asked for, .* 4"):
        launcher_of({})
