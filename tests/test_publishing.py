"""Metadata, distributions, recipe, paper and templates: they agree, and are well formed."""

import importlib.util
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import types
import zipfile
from pathlib import Path

import pytest

from jaxroof.version import VERSION

ROOT = Path(__file__).parents[1]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name):
    """A file of the repository; those of the host and of commits are not in a source distribution."""
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"{name} is left out of the source distribution")
    return path.read_text(encoding="utf-8")


def parsed(name):
    return pytest.importorskip("yaml", reason="the extra traces is not installed").safe_load(read(name))


def test_the_version_is_the_same_everywhere():
    citation, recipe = parsed("CITATION.cff"), parsed("conda/recipe.yaml")
    assert citation["version"] == recipe["context"]["version"] == VERSION
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)
    (date,) = re.findall(rf"^## \[{re.escape(VERSION)}\] - (\d{{4}}-\d\d-\d\d)$", read("CHANGELOG.md"), re.M)
    assert str(citation["date-released"]) == date


def test_the_changelog_has_its_form():
    titles = re.findall(r"^(##+) (.*)$", read("CHANGELOG.md"), re.M)
    versions = [title for level, title in titles if level == "##"]
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", title) for title in versions[1:])
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert {title for level, title in titles if level == "###"} <= kinds


def test_the_citation_has_what_a_reader_of_it_needs():
    citation = parsed("CITATION.cff")
    assert citation["cff-version"] == "1.2.0" and citation["authors"] == [{"name": "The jaxroof authors"}]
    assert {"message", "title", "version", "date-released", "license", "abstract"} <= set(citation)
    assert citation["license"] == PROJECT["license"]


def test_the_recipe_has_the_bounds_of_the_project():
    recipe = parsed("conda/recipe.yaml")
    bounds = {re.match(r"[\w-]+", line)[0]: line for line in PROJECT["dependencies"]}
    runs = dict(line.split(" ", 1) for line in recipe["requirements"]["run"])
    assert runs.pop("python") == ">=${{ python_min }}"
    assert f">={recipe['context']['python_min']}" == PROJECT["requires-python"]
    assert {name: f"{name}{bound}" for name, bound in runs.items()} == bounds
    (entry,) = recipe["build"]["python"]["entry_points"]
    assert entry == f"jaxroof = {PROJECT['scripts']['jaxroof']}" and recipe["build"]["noarch"] == "python"
    assert set(recipe["tests"][0]["python"]["imports"]) == {"jaxroof", "hwspaces", "workloads", "sweeps"}


def test_hooks_are_the_tools_of_the_project():
    (local,) = parsed(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    assert [hook["entry"].split()[0] for hook in local["hooks"]] == ["ruff", "ruff", "mypy"]
    assert all(hook["language"] == "system" for hook in local["hooks"])


@pytest.mark.parametrize("name", ["bug", "prediction", "new_entry"])
def test_forms_of_issues_are_well_formed(name):
    form = parsed(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert {"name", "description", "labels", "body"} == set(form)
    names = [field["id"] for field in form["body"]]
    assert len(names) == len(set(names))
    for field in form["body"]:
        assert field["type"] in ("input", "textarea", "dropdown", "checkboxes") and field["attributes"]["label"]


def test_every_reference_of_the_paper_is_there_and_used():
    paper, library = read("docs/paper.md"), read("docs/paper.bib")
    entries = re.findall(r"^@\w+\{(\w+),$", library, re.M)
    assert len(entries) == len(set(entries)) and set(re.findall(r"@(\w+)", paper)) == set(entries)
    assert library.count("{") == library.count("}")
    front = re.match(r"---\n(.*?)\n---\n", paper, re.S)[1]
    assert all(
        f"\n{key}:" in f"\n{front}" for key in ("title", "tags", "authors", "affiliations", "date", "bibliography")
    )
    titles = re.findall(r"^# (.*)$", paper, re.M)
    assert titles[:2] == ["Summary", "Statement of need"] and titles[-1] == "References"
    assert 600 < len(paper.split()) < 1750  # words of a paper in the journal's form


def test_every_claim_of_the_paper_has_a_command_and_a_page_with_its_figure():
    rows = re.findall(r"^\| (.*) \| (.*) \| `(.*)` \| \[.*\]\((.*)\) \|$", read("docs/paper.md"), re.M)
    assert len(rows) >= 10
    for _, _, command, page in rows:
        assert (ROOT / "docs" / page).exists()
        if named := re.match(r"python -m (tests[\w.]+)", command):
            assert importlib.util.find_spec(named[1]) is not None
        if named := re.search(r"tests/\S+\.py", command):
            assert (ROOT / named[0]).exists()


def test_distributions_are_whole(tmp_path):
    """The wheel is built from the source distribution, as an index's users build it."""
    for needed in ("build", "hatchling"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    built = subprocess.run(words, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (source,), (wheel,) = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")
    with tarfile.open(source) as archive:
        top = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    wanted = {
        "pyproject.toml",
        "hatch_build.py",
        "CITATION.cff",
        "SECURITY.md",
        "CHANGELOG.md",
        "LICENSE",
        "tests",
        "docs",
    }
    assert wanted <= top
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    assert {name.split("/")[0] for name in names} == {
        "jaxroof", "hwspaces", "workloads", "sweeps", f"jaxroof-{VERSION}.dist-info"
    }  # fmt: skip
    assert f"Version: {VERSION}" in metadata and "Author: The jaxroof authors" in metadata
    # The commit is known in a checkout, and in a source distribution of one.
    known = (ROOT / ".git").exists() or (ROOT / "COMMIT").exists()
    assert any(name.endswith("extra_metadata/commit.txt") for name in names) == known
    if importlib.util.find_spec("twine") is not None:
        subprocess.run(
            [sys.executable, "-m", "twine", "check", "--strict", source, wheel], check=True, capture_output=True
        )


def test_a_checkout_is_installed_where_there_is_no_git(monkeypatch):
    interface = "hatchling.builders.hooks.plugin.interface"
    for name in ("hatchling", "hatchling.builders", "hatchling.builders.hooks", "hatchling.builders.hooks.plugin"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, interface, types.SimpleNamespace(BuildHookInterface=object))
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))
    monkeypatch.setenv("PATH", "")
    assert hook["_commit"](ROOT) is None
