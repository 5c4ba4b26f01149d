"""Latencies of two pools in closed form beside simulations of all their replicas; rows of pools that say one thing."""

import json
import math

import numpy as np
import pytest

import sweeps
from jaxroof.steady.latencies import ttft_share
from jaxroof.steady.queue import prompt_queue, prompt_steps
from sweeps.run.answer import answer
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.run import simulation
from sweeps.studies.compare.pools import no_decoding, together
from tests.commands import printed
from tests.pool_commands import pool_command

PLACE = ("H100-SXM", "Llama-3.1-8B")
ISL, OSL, REQUESTS = 512, 17, 1000

MEAN, TAIL, TOKEN = 1.25, 1.5, 1.1
"""Factors within which closed form and simulation are: of mean TTFT, of its median and p99, and of mean TPOT. TPOT is
longer where outputs are short: the first token comes within a step, and the next one a whole step after its end."""


def closed(prefills: int, decodes: int, prompts: int, batch: float, rate: float) -> dict[str, float]:
    """What `jaxroof disaggregate` says of replicas of one device."""
    work = {"isl": ISL, "osl": OSL, "batch": math.ceil(batch), "prompts": prompts, "rate": rate}
    case = sweeps.case("disaggregated", *PLACE, workload=work, deployment={"dp": decodes}, prefill={"dp": prefills})
    return answer(case).metrics


def simulated(prefills: int, decodes: int, budget: int, rate: float) -> dict[str, float]:
    """What `jaxroof serve --prefill` says of them."""
    load = {"isl": str(ISL), "osl": str(OSL), "rate": rate, "requests": REQUESTS}
    policy = {"prefix_caching": 0, "token_budget": budget, "max_sequences": 64}
    pools = {"deployment": {"dp": decodes}, "prefill": {"dp": prefills}}
    return simulation(serve_spec(hardware=PLACE[0], model=PLACE[1], policy=policy, **load, **pools)).metrics


@pytest.mark.parametrize("use", [0.3, 0.6, 0.85])
@pytest.mark.parametrize(("prefills", "decodes", "prompts"), [(1, 3, 1), (2, 2, 4), (3, 1, 4)])
def test_closed_form_and_simulation_agree(cache, prefills, decodes, prompts, use):
    """Of four replicas, by two programs: of steps of one prompt and of four."""
    top = closed(prefills, decodes, prompts, 32.0, 1.0)
    rate = use * min(top["prefill_rate"], top["decode_rate"])
    batch = rate / decodes * (OSL - 1) * top["tpot"]
    batch = rate / decodes * (OSL - 1) * closed(prefills, decodes, prompts, max(batch, 1.0), rate)["tpot"]
    found = closed(prefills, decodes, prompts, max(batch, 1.0), rate)
    run = simulated(prefills, decodes, prompts * ISL, rate)
    assert run["ttft_mean"] / MEAN <= found["ttft"] <= run["ttft_mean"] * MEAN
    assert run["tpot_mean"] / TOKEN <= found["tpot"] <= run["tpot_mean"] * TOKEN
    # the distribution that limits are looked for in: a wait of prompts, and a constant beside it
    whole = prompts * prefills / found["prefill_rate"]
    host = 9.23e-3
    first = found["ttft"] - found["prefill_wait"] - found["decode_wait"] - found["transfer_exposed"] - host
    queue = prompt_queue(np.full(1, rate / prefills), prompt_steps(first, whole, float(prompts)), 1.0, float(prefills))
    state = together(queue, no_decoding(np.full(1, rate)), found["ttft"] - float(queue.ttft[0]), first)
    for name, share in (("ttft_p50", 0.5), ("ttft_p99", 0.99)):
        assert ttft_share(state, TAIL * run[name])[0] >= share
        assert run[name] <= TAIL * (host + first) or ttft_share(state, run[name] / TAIL)[0] <= share


def test_a_row_of_pools_says_one_thing(cache, capsys, tmp_path):
    """A row's figures are those of `serve` of it; `emit` tells them, and `disaggregate` agrees within the factors."""
    found = tmp_path / "found.json"
    words = {"isl": ISL, "osl": OSL, "hardware": [PLACE[0]], "devices": [1, 2], "simulate": 1, "requests": REQUESTS}
    record = sweeps.compare(PLACE[1], "ttft_mean=50ms,tpot_p99=9ms", policy="token_budget=2048", **words).record()
    (row,) = [row for row in record["rows"] if row["prefill"] is not None]
    assert row["simulated"] and row["rank"] == 1
    found.write_text(json.dumps(record))
    served = json.loads(printed(capsys, "serve", str(found), "--json"))["metrics"]
    for name in ("ttft_mean", "ttft_p99", "tpot_mean", "tpot_p99", "usd_per_million_tokens", "batch_mean"):
        assert row[name] == pytest.approx(served[name], rel=1e-6), name
    assert row["prefill"]["decode_batch"] == math.ceil(served["batch_mean"])
    flags = printed(capsys, "emit", "vllm", str(found))
    for words in (f"{row['load']:.3g} requests/s to both pools", f"TTFT mean {row['ttft_mean'] * 1e3:.3g} ms"):
        assert words in flags
    job = json.loads(printed(capsys, *pool_command(row).split()[1:], "--json"))["metrics"]
    assert row["ttft_mean"] / MEAN <= job["ttft"] <= row["ttft_mean"] * MEAN
    assert row["tpot_mean"] / TOKEN <= job["tpot"] <= row["tpot_mean"] * TOKEN
    assert job["usd_per_million_tokens"] == pytest.approx(row["usd_per_million_tokens"], rel=0.03)
