"""Specifications of the distribution answer to their names from any folder; files of the user go before."""

import pytest

import sweeps
from sweeps.ask.spaces import FOLDER, names, specification
from sweeps.ask.spec import content
from sweeps.cli import main
from sweeps.studies.fleet.question import question
from workloads.streams.classes import classes_of


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_specification_is_found_by_its_name():
    assert set(names()) >= {"billion", "chat", "cheapest", "demo", "fleet"}
    assert all(specification(name).parent == FOLDER and content(name) for name in names())
    assert question("fleet").classes == question(FOLDER / "fleet.toml").classes
    assert [one.name for one in classes_of(str(specification("chat")))] == ["chat", "summaries"]


def test_a_file_goes_before_and_a_folder_does_not(elsewhere):
    (elsewhere / "demo").mkdir()  # as `-o demo/` makes it
    assert specification("demo") == FOLDER / "demo.toml"
    (elsewhere / "cheapest").write_text("", encoding="utf-8")
    assert str(specification("cheapest")) == "cheapest"


@pytest.mark.parametrize(
    "words",
    [
        ["sweep", "speculation.toml", "-o", "out.nc"],
        ["fleet", "specs/fleet.toml"],
        ["optimize", "sweeps/specs/cheapest.toml"],
        ["serve", "--model", "Llama-3.1-8B", "--hardware", "H100-SXM", "--rate", "1", "--traffic", "chat.toml"],
    ],
    ids=lambda words: words[0],
)
def test_a_missing_file_is_refused_with_the_name(words, capsys, elsewhere):
    given = next(word for word in words if word.endswith(".toml"))
    assert main(words) == 2
    said = capsys.readouterr()
    stem = given.rpartition("/")[2].removesuffix(".toml")
    assert f"{given}: no such file; the one of the distribution is named {stem} (" in said.err
    assert said.err.count("\n") == 1 and said.out == "" and not list(elsewhere.iterdir())


def test_an_unknown_name_is_refused_with_all_of_them():
    with pytest.raises(
        ValueError,
        match=r"^demos: no such file; did you mean demo\? those of the distribution are named billion, chat, ",
    ):
        sweeps.sweep_to_folder("out", "demos")


def test_a_sweep_by_its_name(capsys, elsewhere):
    assert main(["sweep", "speculation", "-o", "out.nc", "-v"]) == 0
    assert (elsewhere / "out.nc").exists()
