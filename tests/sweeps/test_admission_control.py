"""Requests that are rejected because their first token would come late: what a user says, and what comes out."""

import numpy as np
import pytest

import sweeps
from jaxroof.batch import STATUSES
from sweeps.cli import main

MODEL = {"hardware": "H100-SXM", "model": "Llama-3.1-8B"}
LOAD = {"rate": 300, "isl": "256..1024", "osl": "16..64", "requests": 300}

pytestmark = pytest.mark.xdist_group("simulated services")


def test_who_is_admitted_waits_less():
    all_of_them, some = (
        sweeps.serve(**MODEL, **LOAD, router="slo").dataset,
        sweeps.serve(**MODEL, **LOAD, admission="100ms").dataset,
    )
    rejected = some.status.values == STATUSES.index("rejected")
    assert 20 < rejected.sum() < 250 and float(some.rejected) == rejected.sum()
    assert float(some.ttft_p99) < 0.5 * float(all_of_them.ttft_p99)
    # Nothing is different until the first one is rejected.
    first = np.argmax(rejected)
    np.testing.assert_allclose(some.queueing[:first], all_of_them.queueing[:first], rtol=1e-9)
    # A limit that nobody reaches changes nothing.
    none = sweeps.serve(**MODEL, **LOAD, admission="1h").dataset
    np.testing.assert_allclose(none.ttft, all_of_them.ttft, rtol=1e-12)


def test_the_limits_of_classes(tmp_path):
    file = tmp_path / "classes.toml"
    shares = "share = 0.5\nisl = 512\nosl = 32\n"
    file.write_text(f"[quick]\n{shares}slo = 'ttft=50ms'\n[slow]\n{shares}slo = 'ttft=1h'\n")
    load = {"rate": 300, "requests": 300, "traffic": str(file)}
    found = sweeps.serve(**MODEL, **load, admission="slo").dataset
    rejected = found.status.values == STATUSES.index("rejected")
    assert rejected.any() and set(found.request_class.values[rejected]) == {0}


def test_the_answer_says_so(capsys):
    words = "--model Llama-3.1-8B --hardware H100-SXM --rate 300 --isl 512 --osl 16 --requests 200 --slo ttft=50ms"
    assert main(["serve", *words.split(), "--admission", "slo", "-v"]) == 0
    text = capsys.readouterr().out
    assert "admits  requests with an expected TTFT above 50 ms are rejected: " in text
    assert "rejected: the first token was expected too late" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"admission": "5"}, "admission = '5' has no unit"),
        ({"admission": "-1s"}, "admission = '-1s'"),
        ({"admission": ""}, "admission = ''"),
        ({"admission": "slo"}, "admission = 'slo' needs a limit on the time to first token"),
    ],
)
def test_what_cannot_be_is_one_line(words, said):
    with pytest.raises(ValueError, match=said.replace("'", ".")) as error:
        sweeps.serve(**MODEL, **LOAD, **words)
    assert "\n" not in str(error.value)
