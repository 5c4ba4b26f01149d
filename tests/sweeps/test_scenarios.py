"""The suite of scenarios: what there is, that hand-worked values are met, and what a wrong file or name is told."""

import json
import math

import pytest
import xarray as xr

from sweeps import sweep
from sweeps.ask.spec import spec
from sweeps.cli import main
from sweeps.studies import scenarios
from sweeps.studies.scenarios import rows as rows_of
from sweeps.studies.scenarios import suite

pytestmark = [pytest.mark.xdist_group("scenarios"), pytest.mark.usefixtures("cache")]

QUICK = ("T1.2", "T2.1", "T3.1", "I1.2", "I3.1", "I5.2")
"""Scenarios that compile in seconds; `jaxroof scenario run --all` has the rest."""


def test_all_28_are_there_and_are_specifications():
    names = scenarios.names()
    assert len(names) == 28
    assert names[0] == "T1.1" and names[-1] == "X4"
    for name in names:
        entry = scenarios.scenario(name)
        assert entry.title and entry.source and entry.checks, name
        for part in (entry.spec, *entry.parts.values()):
            spec(part)
        assert all(check.why for check in entry.checks if check.expected != 1.0), name


@pytest.fixture(scope="module")
def rows():
    return scenarios.run(QUICK, "half")


def test_with_the_hands_assumptions_the_values_are_the_hands(rows):
    assert {row.id for row in rows} == set(QUICK)
    assert {(row.id, row.what): row.status for row in rows if row.status not in ("agrees", "explained")} == {}
    assert all(row.value == row.assumed for row in rows)


def test_op_by_op_is_what_a_sweep_gives():
    entry = scenarios.scenario("T2.2")
    found = rows_of.answered(entry, "half")[""]
    swept = sweep({**entry.spec, "efficiency": "half"})
    assert {"iteration_time", "feasible"} <= set(found)
    for name in found:
        assert found[name].values == pytest.approx(swept[name].broadcast_like(found[name]).values, rel=2e-6), name


def test_a_value_that_is_off_differs(rows):
    row = next(row for row in rows if row.id == "I1.2")
    check = scenarios.scenario("I1.2").checks[0]
    assert row.ratio == pytest.approx(row.value / check.hand) and abs(row.ratio - 1.0) < check.tolerance
    wrong = suite.ScenarioEntry(
        **{
            **vars(scenarios.scenario("I1.2")),
            "checks": (suite.Check(**{**vars(check), "hand": 2.0 * check.hand}),),
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sweeps.studies.scenarios.rows.scenario", lambda name: wrong)
        (found,) = scenarios.run(["I1.2"], "half")
    assert found.status == "differs"


def test_the_rows_are_a_dataset(rows, tmp_path):
    table = scenarios.table(rows)
    table.to_netcdf(tmp_path / "rows.nc")
    with xr.open_dataset(tmp_path / "rows.nc") as opened:
        assert list(opened.id.values) == [row.id for row in rows]
        assert all(opened[name].attrs["long_name"] for name in opened.variables)


def test_the_command(capsys, tmp_path):
    assert main(["scenario", "list"]) == 0
    assert "Llama-2-70B with Llama-2-7B drafting" in capsys.readouterr().out
    out = tmp_path / "out.nc"
    assert main(["scenario", "run", "I3.1", "--efficiency", "half", "--json", "-o", str(out)]) == 0
    found = json.loads(capsys.readouterr().out.rpartition("\n\n")[0])
    assert found[0]["status"] == "agrees" and found[0]["hand"] == 111.6e3 and out.exists()
    assert main(["scenario", "run", "I3.1", "--efficiency", "half"]) == 0
    assert "2 agrees" in capsys.readouterr().out


WRONG = [
    (["run"], "give the scenarios to run"),
    (["run", "T1.1", "--all"], "give the scenarios to run"),
    (["run", "T9.9"], "there is no scenario 'T9.9'"),
    (["run", "I3.1", "-o", "x.csv"], "-o x.csv must end in .nc"),
    (["run", "I3.1", "--efficiency", "hlf"], "scenario I3.1: "),
]


@pytest.mark.parametrize(("words", "said"), WRONG)
def test_wrong_words_get_one_line(words, said, capsys):
    assert main(["scenario", *words]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_a_wrong_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "FILES", tmp_path)
    (tmp_path / "T8.8.toml").write_text('[scenario]\nid = "T8.8"\ntitel = "x"\n')
    with pytest.raises(ValueError, match="T8.8.toml: there is no scenario.titel; did you mean title"):
        scenarios.scenario("T8.8")


def test_a_refusal_that_is_not_one_is_told(monkeypatch):
    entry = scenarios.scenario("I3.1")
    wrong = suite.ScenarioEntry(
        **{**vars(entry), "refusals": (suite.Refusal({"model": "Llama-2-13B"}, "fp8"),), "checks": ()}
    )
    monkeypatch.setattr("sweeps.studies.scenarios.rows.scenario", lambda name: wrong)
    (found,) = scenarios.run(["I3.1"], "half")
    assert found.status == "not refused" and math.isnan(found.value)
