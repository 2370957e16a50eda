"""What numbers depend on is distinguished; placement and secrets are not part of it."""

import re
import subprocess

import pytest

from scalemark.host import software
from tests.filled import ENVIRONMENT, SOFTWARE_KEY


def test_the_placement_and_terraforms_secrets_are_left_out():
    inherited = {
        "TF_VAR_password": "secret",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "HOME": "/",
        "NCCL_DEBUG": "INFO",
        "CUDA_VISIBLE_DEVICES": "1",
        "LD_PRELOAD": "x.so",
    }
    assert software.result_changing(inherited) == {
        "LD_PRELOAD": "x.so",
        "NCCL_DEBUG": "INFO",
        "TF_ENABLE_ONEDNN_OPTS": "0",
    }


def test_another_variable_makes_other_software():
    assert software.key(software.describe({})) == software.key(
        software.describe({"CUDA_VISIBLE_DEVICES": "0"})
    )
    assert software.key(software.describe({})) != software.key(
        software.describe({"OMP_NUM_THREADS": "1"})
    )


def test_tensorflow_is_among_the_packages():
    assert software.describe()["packages"]["tensorflow"].startswith("2.")


@pytest.mark.parametrize(
    "name",
    [
        "TF_API_TOKEN",
        "XLA_Secret",
        "NCCL_PASSWORD",
        "CUDA_PASSWD",
        "TF_CREDENTIALS",
        "TF_API_KEY",
        "TF_ACCESS_KEY_ID",
        "OMP_AUTH",
        "NCCL_SIGNING_KEY",
        "TF_KEY",
        "TF_MY_PASS",
        "TF_PRIVATE",
        "CUDA_COOKIE",
        "XLA_PWD",
        "NCCL_SIG",
    ],
)
def test_a_variable_whose_name_tells_of_a_secret_is_left_out(name):
    assert software.result_changing({name: "x", "OMP_NUM_THREADS": "2"}) == {"OMP_NUM_THREADS": "2"}


def test_a_password_in_the_address_that_a_variable_holds_is_masked():
    assert software.result_changing({"LD_PRELOAD": "http://me:hidden@proxy:80"}) == {
        "LD_PRELOAD": "http://***@proxy:80"
    }


def test_the_value_of_a_variable_that_is_not_known_is_not_reported():
    reported = software.result_changing({"TF_MY_URL": "hidden", "NCCL_NEW": "1"})
    assert list(reported) == ["NCCL_NEW", "TF_MY_URL"]
    assert all(re.fullmatch(r"\*\*\* [0-9a-f]{8}", value) for value in reported.values())


def test_another_value_of_an_unknown_variable_makes_other_software():
    keys = {
        software.key(software.describe({"NCCL_FASTRAK_NUM_FLOWS": value}))
        for value in ("1", "2", "2", "\udcff")
    }
    assert len(keys) == 3


def test_a_password_in_an_unknown_variable_does_not_go_into_its_digest():
    one, other = (
        software.result_changing({"NCCL_NEW": f"http://me:{password}@proxy"})
        for password in ("one", "two")
    )
    assert one == other


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_IB_HCA",
        "NCCL_MAX_NCHANNELS",
        "NCCL_BUFFSIZE",
        "MKL_DYNAMIC",
        "KMP_AFFINITY",
    ],
)
def test_what_tunes_a_library_is_recorded_by_value(name):
    assert software.result_changing({name: "1"}) == {name: "1"}


def test_a_signature_in_an_address_that_a_variable_holds_is_masked():
    inherited = {"CUDA_CACHE_PATH": "https://x.example.org/cache?sv=1&sig=hidden"}
    assert software.result_changing(inherited) == {
        "CUDA_CACHE_PATH": "https://x.example.org/cache?sv=1&sig=***"
    }


def test_what_is_reported_for_people_makes_no_other_software():
    assert (
        software.key(
            ENVIRONMENT | {"driver": "550.54.15", "cuda": "12.5", "cudnn": "9", "diff": "0" * 16}
        )
        == SOFTWARE_KEY
    )


def test_the_driver_is_what_the_kernel_has_loaded(tmp_path):
    tells = tmp_path / "version"
    assert software.driver((str(tells),)) == ""
    tells.write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
    )
    assert software.driver((str(tmp_path / "none"), str(tells))) == "550.54.15"
    tells.write_text("570.133.20\n")
    assert software.driver((str(tells),)) == "570.133.20"


@pytest.fixture
def checkout(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=me", "-c", "user.email=me@here"]
        subprocess.run(
            ["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True
        )

    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "known.py").write_text("x = 1\n")
    (tmp_path / ".gitignore").write_text("*.log\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    return tmp_path


def test_a_clean_checkout_and_none_have_no_diff(checkout, tmp_path_factory):
    (checkout / "store" / "ignored.log").write_text("x")
    (checkout / "notes.txt").write_text("no source of ours")
    clean = software.own_checkout(checkout)
    assert (clean["diff"], len(clean["commit"])) == ("", 40)
    assert software.own_checkout(tmp_path_factory.mktemp("none")) == {"commit": "", "diff": ""}


def test_what_is_installed_inside_somebody_elses_checkout_is_not_of_it(checkout):
    assert software.own_checkout(checkout / "store") == {"commit": "", "diff": ""}


def test_each_change_has_a_digest_of_its_own(checkout):
    seen = [""]

    def changed() -> None:
        assert len(seen[-1]) in (0, 16)
        seen.append(software.own_checkout(checkout)["diff"])

    (checkout / "store" / "known.py").write_text("x = 2\n")
    changed()
    assert software.own_checkout(checkout)["commit"].endswith("+dirty")
    (checkout / "store" / "new.py").write_text("y = 1\n")
    changed()
    (checkout / "store" / "new.py").write_text("y = 2\n")
    changed()
    (checkout / "store" / "new.py").rename(checkout / "store" / "other.py")
    changed()
    (checkout / "store" / "large.bin").write_bytes(b"0" * 2**21)
    changed()
    assert len(set(seen)) == 6
    assert software.own_checkout(checkout)["diff"] == seen[-1]


def test_a_checkout_of_which_git_tells_nothing_is_unknown(tmp_path):
    (tmp_path / ".git").write_text("gitdir: /nowhere")
    assert software.own_checkout(tmp_path) == {"commit": "", "diff": software.UNKNOWN_DIFF}
