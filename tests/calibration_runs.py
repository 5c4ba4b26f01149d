"""Runs of a server whose overheads are known, for tests that calibrate to them."""

import dataclasses
import json
from pathlib import Path

import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.jobs.serve import Service
from sweeps.ask.cases import case
from sweeps.run.precision import precision
from sweeps.run.simulated.policies import chosen_policy
from sweeps.serving.calibration.simulator import CONSTANTS, Simulator
from workloads.streams.stream import Stream, traffic
from workloads.streams.streams import generated

REQUESTS = 200
LENGTHS = ("lognormal:mean=512,sigma=0.6", "lognormal:mean=128,sigma=0.6")
TRUE = {"step_time": 3e-3, "sequence_time": 60e-6, "request_time": 20e-3}
"""s; three to five times the default's."""

FLAGS = ("--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "--policy", "hidden_host=0")
"""All of the host's time is visible, so that a run tells each overhead."""


def stream(arrivals: str = "stages:1x20,30x8") -> Stream:
    """Few sequences at a time, then many, so that a run tells what is per step from what is per sequence."""
    return generated(arrivals, *LENGTHS, requests=REQUESTS, seed=1)


def serving(of: Stream) -> Scenario:
    """What `FLAGS` describe, in an open loop."""
    one = case("request", "H100-SXM", "Llama-3.1-8B", workload={"isl": 512.0, "osl": 128.0}).scenario
    return dataclasses.replace(
        one, workload=Service(traffic=traffic(of), policy=chosen_policy("vllm", {"hidden_host": "0"}))
    )


def latencies(of: Stream, overheads: dict[str, float] = TRUE) -> dict[str, np.ndarray]:
    """Simulated latencies of a server with these overheads, s."""
    with precision("float64"):
        return Simulator(serving(of)).latencies(np.log([overheads[name] for name in CONSTANTS])).values


def report(path: Path, of: Stream, found: dict[str, np.ndarray], noise: float = 0.05, seed: int = 0) -> str:
    """A GuideLLM report of such a server, its latencies off by a few percent each; the path as text."""
    rng = np.random.default_rng(seed)
    ttft = found["ttft"] * np.exp(noise * rng.normal(size=len(of)))
    gaps = np.nan_to_num(found["tpot"]) * np.exp(0.5 * noise * rng.normal(size=len(of)))
    e2e = ttft + gaps * (of.osl - 1.0)
    requests = [
        {
            "prompt_tokens": int(isl),
            "output_tokens": int(osl),
            "request_start_time": 1000.0 + float(arrival),
            "request_latency": float(last),
            "time_to_first_token_ms": 1e3 * float(first),
            "inter_token_latency_ms": None,
        }
        for arrival, isl, osl, first, last in zip(of.arrival, of.isl, of.osl, ttft, e2e, strict=True)
    ]
    run = {"config": {"strategy": {"type_": "poisson", "rate": 8.0}}, "requests": {"successful": requests}}
    path.write_text(json.dumps({"metadata": {}, "benchmarks": [run]}))
    return str(path)
