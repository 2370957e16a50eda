"""What numbers depend on is told apart; placement and secrets are not part of it."""

from store import software


def test_the_placement_and_terraforms_secrets_are_left_out():
    inherited = {
        "TF_VAR_password": "secret",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "HOME": "/",
        "NCCL_DEBUG": "INFO",
        "CUDA_VISIBLE_DEVICES": "1",
        "LD_PRELOAD": "x.so",
    }
    assert software.result_changing(inherited) == {"LD_PRELOAD": "x.so", "NCCL_DEBUG": "INFO", "TF_ENABLE_ONEDNN_OPTS": "0"}


def test_another_variable_makes_other_software():
    assert software.key(software.describe({})) == software.key(software.describe({"CUDA_VISIBLE_DEVICES": "0"}))
    assert software.key(software.describe({})) != software.key(software.describe({"OMP_NUM_THREADS": "1"}))


def test_tensorflow_is_among_the_packages():
    assert software.describe()["packages"]["tensorflow"].startswith("2.")
