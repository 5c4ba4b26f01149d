"""Production inference by name: draft models, two pools, neighbours, caches and adapters in cases, sweeps and verbs."""

import json

import numpy as np
import pytest

from jaxroof.jobs.serve import Objective
from sweeps.ask.cases import case
from sweeps.ask.spec import spec
from sweeps.cli import main
from sweeps.run.answer import answer
from sweeps.run.sweep import sweep
from sweeps.show.speculation import speculation
from sweeps.show.splits import splits as split_picture
from sweeps.studies.splits import splits

pytestmark = pytest.mark.usefixtures("cache")

PLACE = {"hardware": "A100-SXM-80GB", "model": "Llama-2-7B"}
WORK = {"isl": 512, "osl": 129}
POOLS = {"job": "disaggregated", **PLACE, "efficiency": "datasheet", "workload": WORK}


def asked(job, workload=WORK, **given):
    return case(job, *PLACE.values(), workload=workload, efficiency="datasheet", **given)


def said(capsys) -> str:
    """The one line that a verb ended with."""
    text = capsys.readouterr()
    assert text.out == ""
    return text.err.strip()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--draft Llama-2-7B", "draft = 'Llama-2-7B' needs deployment.drafts: the tokens that it drafts per step"),
        ("--drafts 2", "Llama-2-7B on A100-SXM-80GB: drafts = 2, but the model has no multi-token-prediction head and"),
        ("--draft Llama-2-7B --drafts 3 --tree 2,2", "drafts = 3 exceeds the 2 depths of the tree"),
        ("--draft Llama-2-7B --tree 2,0", "deployment.tree.1 = '0' must be a positive"),
        ("--draft Llama-2-7B --drafts 2 --acceptance 0.5,1.5", "acceptance = '1.5' must be a probability: at most 1"),
        ("--draft Llama-2-7B --drafts 2 --acceptance beta:2,5", "acceptance = '2' must be a probability: at most 1"),
        ("--draft Llama-2-7B --drafts 2 --acceptance beta:0.5", "must be a probability, several by position"),
        ("--offloaded 0.5", "hardware.memory.host is unknown; give its bandwidth and capacity per device"),
        ("--offload-to tape", "deployment.offload_to = 'tape' must be host or storage"),
        ("--adapters rank=16,targets=q,gate", "adapters: 'gate' is not a matrix with adapters; known: q, k, v"),
        ("--adapters loaded=16", "needs a rank: rank=16,loaded=32,targets=q,v"),
        ("--delay soon", "workload.delay = 'soon'"),
        ("--weights w4a8", "A100-SXM-80GB has no fp8 figure"),
    ],
)
def test_requests_that_are_refused(words, sentence, capsys):
    flags = "--hardware A100-SXM-80GB --model Llama-2-7B --isl 100 --osl 10"
    assert main(["request", *flags.split(), *words.split()]) == 2
    line = said(capsys)
    assert sentence in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("verb", "words", "sentence"),
    [
        (
            "disaggregate",
            "--prefill tp=3",
            "80GB, prefill pool: tp = 3 does not divide the 32 attention heads",
        ),
        ("disaggregate", "--prefill speed=3", "there is no prefill.speed"),
        ("disaggregate", "--prefill hardware=abacus", "abacus"),
        (
            "disaggregate",
            "--model Whisper-large-v3",
            "Whisper-large-v3 attends to an encoder's output, which a disaggregated job does not price",
        ),
        ("disaggregate", "--slo ttft=1s", "--slo is for a search over splits: give --devices N too"),
        ("disaggregate", "--devices 1", "devices = 1 do not make a prefill replica of 1 and a decode replica of 1"),
        ("disaggregate", "--devices 4 -o splits.txt", "splits.txt must end in .nc, .png or .svg"),
        ("disaggregate", "--devices 4 --loads 2,1", "--loads = '2,1' must increase"),
        ("colocate", "", "neighbour.model is missing"),
        ("colocate", "--neighbour model=Llama-2-13B", "neighbour also needs isl and osl, tokens of its requests"),
        (
            "colocate",
            "--neighbour model=Llama-2-13B --neighbour isl=1 --neighbour osl=2 --neighbour tp=3",
            "Llama-2-7B on A100-SXM-80GB: neighbour: tp = 3 does not divide the 40 attention heads",
        ),
        ("colocate", "--sharing both --neighbour model=Llama-2-13B", "workload.sharing = 'both' must be time or space"),
        ("colocate", "--cores 1.2 --neighbour model=Llama-2-13B", "workload.cores = '1.2' must be above 0 and below 1"),
    ],
)
def test_pools_and_neighbours_that_are_refused(verb, words, sentence, capsys):
    model = "" if "--model" in words.split() else "--model Llama-2-7B"
    flags = f"--hardware A100-SXM-80GB {model} --isl 100 --osl 10"
    assert main([verb, *flags.split(), *words.split()]) == 2
    assert sentence in said(capsys)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"job": "request", "prefill": {"tp": 2}}, 'prefill is only read with job = "disaggregated"'),
        ({"job": "request", "neighbour": {}}, 'neighbour is only read with job = "colocated"'),
        ({"decode": {"hardware": "H100-SXM"}}, "decode.hardware = 'H100-SXM', and hardware = 'A100-SXM-80GB' besides"),
        ({"prefill": {"tp": [1, 2]}}, "prefill.tp = [1, 2] must be one value"),
        ({"draft": ["a", "b"]}, "draft is one model"),
    ],
)
def test_specifications_that_are_refused(given, sentence):
    with pytest.raises(ValueError, match=".*") as error:
        spec(POOLS | given)
    assert sentence in str(error.value)


def test_scenario_i5_3():
    """Llama-2-70B at INT4 with a float16 scale and zero per 128 weights, 4.25 bits: 36.4 GB and the 16-bit head.

    Streamed once at 2.039 TB/s: 18.1 ms on one A100; at fp16 its 138 GB do not fit.
    """
    place = "A100-SXM-80GB", "Llama-2-70B"
    one = case("request", *place, workload={"isl": 1, "osl": 2}, weights="int4", efficiency="datasheet")
    found = answer(one).metrics
    # 68.45 G linear weights at 4.25 bits; embedding and head of 0.52 GB each
    assert found["weight_bytes"] == pytest.approx(36.4e9 + 1.05e9, rel=2e-3)
    assert found["fits"]
    # 1 %: activations and a token of cache
    assert found["tpot"] == pytest.approx(18.1e-3, rel=0.01)


def test_a_grid_over_pools():
    """Two prefill pools and two decode batches: each step's time is computed over its own axis alone."""
    axes = {"prefill.deployment.dp": [1, 2], "workload.batch": [1, 16]}
    found = sweep(POOLS | {"prefill": {"hardware": "H100-SXM"}, "axes": axes})
    assert found["tpot"].dims == ("batch",)
    assert found["prefill_rate"].dims == ("deployment_dp",)
    assert found["prefill_rate"].attrs["units"] == "s-1"
    rates = found["prefill_rate"].values
    assert rates[1] == pytest.approx(2 * rates[0], rel=1e-5)
    assert found["bottleneck"].attrs["flag_meanings"] == "prefill decode transfer"
    assert bool(found["feasible"].all())


def test_the_best_split(tmp_path):
    """More load or longer prompts want more prefill; beyond what all can do there is none; the picture can be drawn."""
    one = asked("disaggregated")
    found = splits(one, 8, [1.0, 60.0, 1e5], Objective(ttft=1.0, tpot=0.05))
    assert found["split"].values.tolist() == [f"{n}:{8 - n}" for n in range(1, 8)]
    best = found["best_split"].values
    assert best[0] <= best[1]
    assert best[2] == -1
    use = found["split_use"].values
    # use is the load's: 60 times as much
    assert use[:, 1] == pytest.approx(60 * use[:, 0], rel=1e-6)
    kept = best[1]
    assert use[kept, 1] < 1
    assert found["ttft"].values[kept, 1] <= 1.0
    assert split_picture(found).axes


def test_a_neighbour_by_name(capsys):
    flags = "--hardware H100-SXM --model Llama-2-7B --isl 1 --osl 2 --efficiency datasheet --json"
    other = "--neighbour model=Llama-2-13B --neighbour isl=1 --neighbour osl=2"
    assert main(["colocate", *flags.split(), *other.split(), "-v"]) == 0
    found = json.loads(capsys.readouterr().out)["metrics"]
    # scenario I4.1: 3.94 and 7.67 ms in turns; 1 %: activations and some tokens
    assert found["tpot"] == pytest.approx(11.6e-3, rel=0.01)
    assert found["neighbour_tpot_alone"] == pytest.approx(7.67e-3, rel=0.01)


def test_speculation_in_a_sweep():
    """Faster the likelier drafts are right; with none right, drafting only costs; and the picture of it."""
    question = {
        "job": "request",
        **PLACE,
        "model": "Llama-2-13B",
        "draft": "Llama-2-7B",
        "efficiency": "datasheet",
        "workload": WORK,
        "axes": {"deployment.drafts": [0, 1, 4], "workload.acceptance": [0, 0.5, 0.9]},
        "output": {"variables": ["tpot"]},
    }
    found = sweep(question)
    tpot = found["tpot"].transpose("drafts", "acceptance").values
    assert (np.diff(tpot, axis=1)[1:] < 0).all()
    assert tpot[0] == pytest.approx(tpot[0, 0], rel=1e-5)
    assert tpot[2, 0] > tpot[1, 0] > tpot[0, 0]
    assert speculation(found).axes
