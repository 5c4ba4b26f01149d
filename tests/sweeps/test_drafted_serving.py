"""`serve` with drafted tokens: acceptance by position, engines that draft up to a number of sequences, and files."""

import itertools
import json

import numpy as np
import pytest

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
