"""`serve` with drafted tokens: acceptance by position, engines that draft up to a number of sequences, and files."""

import itertools
import json
import re

import numpy as np
import pytest

from sweeps.ask.acceptances import acceptance
from sweeps.cli import main
from sweeps.run.simulated.policies import chosen_policy, number_along, policy_record, policy_text
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving import files
from sweeps.serving.run import simulation

pytestmark = [pytest.mark.xdist_group("files"), pytest.mark.usefixtures("standard_promotion")]

PLACE = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "rate": 20, "isl": 200, "osl": 40, "requests": 32}
DRAFTING = {**PLACE, "draft": "Llama-3.2-1B", "deployment": {"drafts": 3}}


def test_acceptance_by_position():
    found = chosen_policy("vllm", {"acceptance": "0.8,0.7,0"})
    assert found.acceptance == (0.8, 0.7, 0.0)
    assert "acceptance 0.8, 0.7, 0" in policy_text(found)
    assert json.loads(json.dumps(policy_record(found)))["acceptance"] == [0.8, 0.7, 0.0]
    assert len(chosen_policy("vllm", {"acceptance": "beta:0.7,5"}).acceptance) > 3
    with pytest.raises(ValueError, match="policy.acceptance = '1' must be from 0 to below 1"):
        chosen_policy("vllm", {"acceptance": "0.8,1"})
    with pytest.raises(ValueError, match="policy.acceptance = '0.8,0.7' cannot be on an axis"):
        number_along("acceptance", "0.8,0.7")


def test_drafts_that_are_right_save_steps():
    """At no acceptance as many decode steps as tokens; 3 right drafts of 39 tokens leave 10."""
    tokens = {}
    for chance in (0.0, "0.99999,0.99999,0.99999"):
        found = simulation(serve_spec(**DRAFTING, policy={"acceptance": chance}))
        data = files.dataset(found)
        decoded = data.steps.values * data.decoding.values
        tokens[chance] = np.sum(decoded)
        assert np.sum(decoded + data.right_drafts.values) == 32 * 39
    assert list(tokens.values()) == [32 * 39, 32 * 10]


def test_an_engine_that_drafts_for_nobody_takes_the_steps_of_one_without_drafts():
    """The draft model still works on prompts, so that first tokens come later; batches are small and seldom full."""
    without = simulation(serve_spec(**(PLACE | {"rate": 1})))
    never = simulation(serve_spec(**(DRAFTING | {"rate": 1}), policy={"acceptance": 0.7, "draft_limit": 0}))
    always = simulation(serve_spec(**(DRAFTING | {"rate": 1}), policy={"acceptance": 0.7}))
    # 1 %: prompts that come between
    assert never.metrics["tpot_p50"] == pytest.approx(without.metrics["tpot_p50"], rel=0.01)
    assert always.metrics["tpot_p50"] < 0.9 * without.metrics["tpot_p50"]


def test_acceptance_is_given_once(capsys):
    words = itertools.chain.from_iterable((f"--{name}", str(value)) for name, value in PLACE.items())
    assert main(["serve", *words, "--drafts", "2", "--acceptance", "0.5", "--policy", "acceptance=0.5"]) == 2
    assert "--acceptance and --policy acceptance are the same: give one" in capsys.readouterr().err


ROWS = [(k, n, c, 0.9 / (k + (n > 1) + (c > 1000))) for k in (1, 2) for n in (1, 64) for c in (1000, 32000)]
COLUMNS = "position,sequences,context,acceptance"


@pytest.fixture
def table(tmp_path):
    """A table of two positions, batches and contexts in all three forms."""
    named = [dict(zip(COLUMNS.split(","), row, strict=True)) for row in ROWS]
    texts = {
        "csv": "\n".join([COLUMNS, *(",".join(map(str, row)) for row in ROWS)]),
        "json": json.dumps({"acceptance": named}),
        "toml": "\n".join(
            line for row in named for line in ("[[acceptance]]", *(f"{name} = {value}" for name, value in row.items()))
        ),
    }
    for kind, text in texts.items():
        (tmp_path / f"table.{kind}").write_text(text)
    return tmp_path


def test_a_table_is_the_same_in_every_form(table):
    found = [acceptance(str(table / f"table.{kind}"), "policy.acceptance") for kind in ("csv", "json", "toml")]
    assert found[0] == found[1] == found[2] and found[0].sequences == (1.0, 64.0)
    assert found[0].right[1][0] == (0.9 / 2, 0.9 / 3)
    policy = chosen_policy("vllm", {"acceptance": str(table / "table.csv")})
    assert "acceptance 0.225 to 0.9 over 2 positions, 1 to 64 sequences, 1000 to 32000 tokens" in policy_text(policy)
    assert json.loads(json.dumps(policy_record(policy)))["acceptance"]["contexts"] == [1000.0, 32000.0]
    with pytest.raises(ValueError, match="cannot be on an axis"):
        number_along("acceptance", str(table / "table.csv"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("position,sequences,contex,acceptance\n1,1,1,0.9", "row 1: contex is no column of it; did you mean context"),
        ("position,sequences\n1,1", "row 1: column acceptance is missing; it has position, sequences"),
        (f"{COLUMNS}\n1,1,1,high", "row 1: policy.acceptance = 'high' is not a number"),
        (f"{COLUMNS}\n1,1,1,1.5", "row 1: policy.acceptance = '1.5' must be from 0 to below 1"),
        (f"{COLUMNS}\n1.5,1,1,0.5", "row 1: position = '1.5' must be a whole number"),
        (f"{COLUMNS}\n1,0,1,0.5", "row 1: sequences = '0' must be a positive finite number"),
        (f"{COLUMNS}\n1,1,1,0.5\n1,1,1,0.4", "row 2: position 1 at 1 sequences and 1 tokens of context is there twice"),
        (f"{COLUMNS}\n1,1,1,0.5\n1,8,2,0.4", "there is no row for position 1 at 1 sequences and 2 tokens of context"),
        (f"{COLUMNS}\n1,1,1", "row 1: it has 3 values; there are 4 columns"),
        ("", "there are no rows in it"),
    ],
)
def test_what_is_wrong_with_a_table(tmp_path, text, message):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(ValueError, match=f"bad.csv: .*{re.escape(message)}|bad.csv: {re.escape(message)}"):
        acceptance(str(tmp_path / "bad.csv"), "policy.acceptance")


def test_files_that_are_no_tables(tmp_path):
    (tmp_path / "table.txt").write_text("0.5")
    with pytest.raises(ValueError, match=r"a table of acceptance is a file that ends in .csv, .toml, .json"):
        acceptance(str(tmp_path / "table.txt"), "policy.acceptance")
    with pytest.raises(ValueError, match="nothing.csv: no such file"):
        acceptance(str(tmp_path / "nothing.csv"), "policy.acceptance")
    (tmp_path / "keys.toml").write_text("x = 1")
    with pytest.raises(ValueError, match="keys.toml: x is not known: a table of acceptance is a list below acceptance"):
        acceptance(str(tmp_path / "keys.toml"), "policy.acceptance")


def test_a_table_of_one_batch_and_context_is_acceptance_by_position(tmp_path):
    (tmp_path / "one.csv").write_text("position,acceptance\n1,0.8\n2,0.6\n3,0.3")
    table, plain = (
        simulation(serve_spec(**DRAFTING, policy={"acceptance": each}))
        for each in (str(tmp_path / "one.csv"), "0.8,0.6,0.3")
    )
    np.testing.assert_allclose(table.served.finish, plain.served.finish, rtol=1e-12)


def test_lengths_of_one_number_are_drafts_up_to_a_limit():
    lengths, limit = (
        simulation(serve_spec(**DRAFTING, policy={"acceptance": 0.7} | each))
        for each in ({"draft_lengths": "1:3,5:0"}, {"draft_limit": 4})
    )
    np.testing.assert_allclose(lengths.served.finish, limit.served.finish, rtol=1e-12)
    assert "draft_lengths 1:3,5:0" in policy_text(lengths.policy)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ("1-3", "policy.draft_lengths = '1-3' must be SEQUENCES:TOKENS,.. in whole numbers, such as 1:5,16:3,64:0"),
        ("2:3,8:0", "policy.draft_lengths = '2:3,8:0': sequences must begin at 1 and increase"),
        ("1:3,8:2,4:0", "policy.draft_lengths = '1:3,8:2,4:0': sequences must begin at 1 and increase"),
        ("1:5", "policy.draft_lengths = '1:5' drafts 5 tokens: more than deployment.drafts = 3"),
    ],
)
def test_lengths_that_cannot_be(lengths, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        simulation(serve_spec(**DRAFTING, policy={"acceptance": 0.7, "draft_lengths": lengths}))


def test_look_ups_that_find_nothing_cost_the_host_alone():
    """No model drafts: with a free look-up all is as without drafts; found, tokens come together."""
    free = {"drafts": 3, "drafter": "ngram", "lookup_time": 0}
    plain = simulation(serve_spec(**PLACE))
    never, always = (
        simulation(serve_spec(**PLACE, deployment=free | {"match": match}, policy={"acceptance": 0.8}))
        for match in (0, 1)
    )
    # 1e-4: tables of prices are made for more rows
    np.testing.assert_allclose(never.served.finish, plain.served.finish, rtol=1e-4)
    assert always.metrics["tpot_p50"] < 0.6 * plain.metrics["tpot_p50"]
    slow = simulation(
        serve_spec(**PLACE, deployment=free | {"match": 0, "lookup_time": "1ms"}, policy={"acceptance": 0.8})
    )
    assert slow.metrics["tpot_p50"] > plain.metrics["tpot_p50"]
    with pytest.raises(ValueError, match="drafts nothing where deployment.drafter = ngram"):
        serve_spec(**PLACE, draft="Llama-3.2-1B", deployment=free).case()
