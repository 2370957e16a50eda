"""The README's promises, the layering, and what may be imported where."""

import re
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import PROJECT
from tests.ran import ran

README = (PROJECT / "README.md").read_text()


def commands() -> list[str]:
    """The two lines to paste: the first two shell blocks of the README."""
    return [block.strip() for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)][:2]


def test_the_readme_begins_with_two_commands_of_one_line_each():
    main, test = commands()
    assert "\n" not in main + test
    assert main.endswith("sweep.py -m model=resnet50,vgg16 num_gpus=1,2,4,8")
    assert test.endswith("pytest")
    assert main.startswith("python3 install.py && ")
    assert test.startswith("python3 install.py --dev && ")


def test_ci_runs_exactly_the_readmes_commands():
    lines = [line.strip() for line in (PROJECT / ".ci" / "run").read_text().splitlines()]
    for command in commands():
        assert command in lines


@pytest.mark.integration
@pytest.mark.parametrize(
    "module",
    [
        "store",
        "store.commands.read",
        "sweeper.sweep",
        "plots.commands",
        "plots.drawing",
        "analysis.results",
        "conf.resolve",
    ],
)
def test_tensorflow_is_never_imported_outside_the_trainer(module):
    script = f"import {module}, sys; print(*sys.modules)"
    loaded = ran([sys.executable, "-c", script], cwd=PROJECT).stdout.split()
    assert module in loaded
    assert not {"tensorflow", "keras", "trainer"}.intersection(loaded)


@pytest.mark.integration
@pytest.mark.parametrize(
    "arguments",
    [
        ["sweep.py", "--help"],
        ["sweep.py", "sweep.dry_run=true"],
        ["-m", "scalemark", "list", "--help"],
        ["-m", "scalemark", "table", "--help"],
    ],
)
def test_help_and_plans_need_no_tensorflow(arguments):
    """A folder that shadows TensorFlow with an error proves it for the whole command."""
    program = [
        str(PROJECT / argument) if argument == "sweep.py" else argument for argument in arguments
    ]
    Path("tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')")
    ended = ran([sys.executable, *program], env={"PYTHONPATH": ".", "PATH": ""})
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("module", "large"),
    [
        ("scalemark.records", {"sqlalchemy", "pandas", "rich", "hydra"}),
        ("sweep", {"numpy", "pandas", "scipy", "sqlalchemy"}),
    ],
)
def test_words_and_plans_of_measurements_need_no_large_library(module, large):
    script = f"import sys, {module}; print(*sys.modules)"
    loaded = ran([sys.executable, "-c", script], cwd=PROJECT).stdout.split()
    assert module in loaded
    assert not large.intersection(loaded)


def test_the_constraints_pin_every_package_with_hashes_and_name_no_index():
    for name in ("constraints.txt", "constraints-dev.txt", "constraints-cuda.txt"):
        text = (PROJECT / name).read_text()
        assert "://" not in text
        assert "index-url" not in text
        pinned = re.findall(r"^([a-z0-9-]+)==\S+.*\\\n +--hash=sha256:", text, re.MULTILINE)
        assert len(pinned) == len(re.findall(r"^[a-z]", text, re.MULTILINE)) > 50


def test_every_yaml_of_conf_can_be_read():
    for path in (PROJECT / "conf").rglob("*.yaml"):
        assert yaml.safe_load(path.read_text()) is not None, path


MADE_WITH_THE_SITE = {"index.md", "reference.md"}  # by docs/generate.py


def test_the_site_leads_to_every_page():
    _, nav = (PROJECT / "mkdocs.yml").read_text().split("nav:\n")
    committed = {path.name for path in (PROJECT / "docs").glob("*.md")}
    assert set(re.findall(r"[a-z_]+\.md", nav)) == committed | MADE_WITH_THE_SITE
    assert len(committed) < 12


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_what_a_page_points_to_is_there(page):
    path = PROJECT / page
    for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / link).exists(), link


def test_each_term_stands_in_the_glossary_once():
    _, glossary = (PROJECT / "docs" / "numbers.md").read_text().split("## Glossary")
    terms_alone, _ = glossary.split("## Badges")
    rows = terms_alone.splitlines()
    terms = [row.split("|")[1].strip() for row in rows if row.startswith("| ")]
    defined = [term for term in terms if term != "term"]
    assert len(set(defined)) == len(defined) > 20
