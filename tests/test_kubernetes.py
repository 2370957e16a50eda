"""The manifest in docs/kubernetes is what Kubernetes takes, and the page names its pods."""

from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.conftest import PROJECT

FILE = PROJECT / "docs" / "kubernetes" / "workers.yaml"


def manifest() -> dict[str, Any]:
    return yaml.safe_load(FILE.read_text())


@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
def test_the_manifest_is_of_the_schema(version):
    kubernetes_validate.validate(manifest(), version, strict=True)


def test_a_wrong_word_would_be_found():
    wrong = manifest()
    wrong["spec"]["replica"] = 2
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(wrong, "1.29", strict=True)


def test_the_page_names_the_pods_that_it_makes():
    made = manifest()
    pods = [f"{made['metadata']['name']}-{number}" for number in range(made["spec"]["replicas"])]
    assert f"launcher.hosts=[{','.join(pods)}]" in (PROJECT / "docs" / "hosts.md").read_text()
