"""Share of every prompt in the prefix cache, and adapters, in the questions where they have a meaning."""

import json

import numpy as np
import pytest

from sweeps.entries.comparisons import compare
from sweeps.run.simulated.load import load
from sweeps.run.simulated.spec import ServeSpec
from tests.commands import printed, refused

FLAGS = ("--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "--efficiency", "derated", "--isl", 1000, "--osl", 20)
KEYS = {"hardware": ["H100-SXM"], "devices": [1], "efficiency": "derated", "simulate": 0, "isl": 1000, "osl": 20}


def test_a_share_of_every_prompt_is_found():
    asked = {"rate": 1, "isl": "lognormal:mean=500,sigma=1", "osl": 9, "requests": 50, "hit_rate": 0.6}
    stream = load(ServeSpec(hardware="-", model="-", **asked)).stream
    np.testing.assert_array_equal(stream.shared, np.floor(0.6 * stream.isl))
    assert set(stream.group) == {0} and "60 % of every prompt" in stream.notes[-1]


def test_verbs_agree_on_what_is_computed(capsys):
    found = json.loads(printed(capsys, "request", *FLAGS, "--hit-rate", 0.6, "--json"))
    cached = json.loads(printed(capsys, "request", *FLAGS, "--cached", 600, "--json"))
    assert found["metrics"] == cached["metrics"]
    words = ("--requests", 40, "--rate", 1, "--policy", "block_size=1", "--json")
    served = json.loads(printed(capsys, "serve", *FLAGS, *words, "--hit-rate", 0.6, progress=True))["metrics"]
    assert served["cached_share"] == pytest.approx(0.6 * 39 / 40)  # the first request fills the cache
    assert served["ttft_p50"] == pytest.approx(found["metrics"]["ttft"], rel=0.1)  # one at a time, mostly


def test_a_comparison_has_both():
    plain = compare("Llama-3.1-8B", "ttft=1s", **KEYS).rows[0]
    found = compare("Llama-3.1-8B", "ttft=1s", **KEYS, hit_rate=0.6).rows[0]
    assert found.metrics["load"] > 1.5 * plain.metrics["load"] and found.spec["hit_rate"] == "0.6"
    settings = {"deployment.adapters": "rank=64,loaded=32"}
    slower = compare("Llama-3.1-8B", "ttft=1s", **KEYS, set=settings).rows[0]
    assert slower.metrics["load"] < plain.metrics["load"] and slower.spec["overrides"] == settings


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("serve", "--rate", 1, "--hit-rate", "0.6", "--policy", "prefix_caching=0"), "without a prefix cache"),
        (("serve", "--rate", 1, "--hit-rate", "0.6", "--prefixes", "groups=1,tokens=9"), "say themselves what"),
        (("serve", "--rate", 1, "--hit-rate", "1"), "must be above 0 and below 1"),
        (("request", "--hit-rate", "0.6", "--cached", 5), "--hit-rate and --cached say the same"),
        (("compare", "--static", "--hit-rate", "0.6"), "--hit-rate cannot be given with --static"),
        (("compare", "--static", "--adapters", "rank=8"), "--adapters cannot be given with --static"),
        (("compare", "--static", "--node", "8"), "--node cannot be given with --static"),
        (("compare", "--slo", "ttft=1s", "--adapters", "rang=8"), "rang"),
    ],
)
def test_what_has_no_meaning_is_refused(capsys, words, said):
    verb, *more = words
    assert said in refused(capsys, verb, *FLAGS, *more)
