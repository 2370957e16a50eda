"""The manifests in docs/kubernetes are what Kubernetes takes, and run commands that are ours."""

from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml

from sweeper.__main__ import app
from sweeper.planning.settings import check
from tests.conf.test_resolve import config
from tests.conftest import PROJECT

FOLDER = PROJECT / "docs" / "kubernetes"
OLDEST, NEWEST = "1.29", kubernetes_validate.latest_version()


def manifests(name: str) -> dict[str, dict[str, Any]]:
    """By their kinds."""
    return {
        manifest["kind"]: manifest for manifest in yaml.safe_load_all((FOLDER / name).read_text())
    }


AGENTS = manifests("agents.yaml")["Job"]["spec"]
SWEEP = manifests("sweep.yaml")["Job"]["spec"]


def container(job: dict[str, Any]) -> dict[str, Any]:
    (only,) = job["template"]["spec"]["containers"]
    return only


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_manifests_are_of_the_schema(path, version):
    found = manifests(path.name)
    assert found, "an empty file would pass"
    for manifest in found.values():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_wrong_word_would_be_found():
    manifest = manifests("agents.yaml")["Job"]
    manifest["spec"]["completionsMode"] = "Indexed"
    with pytest.raises(kubernetes_validate.ValidationError, match="completionsMode"):
        kubernetes_validate.validate(manifest, NEWEST, strict=True)


def agent_options(arguments: list[str]) -> dict[str, Any]:
    """As `python -m sweeper agent` reads them."""
    agent = typer.main.get_command(app.typer()).commands["agent"]  # type: ignore[attr-defined]  # a group
    return agent.make_context("agent", [*arguments]).params


def test_agents_are_reported_options_that_they_have(monkeypatch):
    (variable,) = container(AGENTS)["env"]
    monkeypatch.setenv(variable["name"], "postgresql://u@h/d")
    python, *run, command, first, name = container(AGENTS)["command"]
    assert (python, run, command) == ("python", ["-m", "sweeper"], "agent")
    options = agent_options([first, name])
    assert (options["sweep"], options["db"], options["hosts"]) == ("night", "postgresql://u@h/d", 1)
    with pytest.raises(Exception, match="No such option: --no-such-option"):
        agent_options([first, name, "--no-such-option"])


def test_the_sweep_is_one_that_its_agents_can_share(monkeypatch):
    monkeypatch.setenv("SCALEMARK_DB", "postgresql://u@h/d")
    *command, many, launcher = container(SWEEP)["command"][:4]
    assert (command, many, launcher) == (["python", "sweep.py"], "-m", "launcher=agents")
    overrides = [
        word for word in container(SWEEP)["command"][3:] if "," not in word
    ]  # those that are no axes of a grid
    asked = config(*overrides)
    check(asked)
    assert asked.sweep.name == container(AGENTS)["command"][-1]
    assert (
        asked.launcher.agents.gpus_per_host
        == container(AGENTS)["resources"]["limits"]["nvidia.com/gpu"]
    )
    (shared,) = (
        mount["mountPath"]
        for mount in container(AGENTS)["volumeMounts"]
        if mount["name"] == "shared"
    )
    assert asked.store.runs_dir.startswith(f"{shared}/")


def test_both_see_one_folder_and_one_database():
    claims = [
        [
            volume["persistentVolumeClaim"]
            for volume in job["template"]["spec"]["volumes"]
            if volume["name"] == "shared"
        ]
        for job in (SWEEP, AGENTS)
    ]
    claim = manifests("sweep.yaml")["PersistentVolumeClaim"]
    assert claims == [[{"claimName": claim["metadata"]["name"]}]] * 2
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert container(SWEEP)["env"] == container(AGENTS)["env"]
    assert container(SWEEP)["image"] == container(AGENTS)["image"]
