"""Loaders of questions: specifications of sweeps, of simulated serving, of optimisations and of fleets."""

import dataclasses
import pathlib
from typing import Any

from tests.fuzz.documents import Toml
from tests.fuzz.sensible import require_sensible
from tests.fuzz.target import Target, in_file

BASE = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "efficiency": "derated"}
GRID: dict[str, Any] = {
    **BASE,
    "weights": ["bf16", "fp8"],
    "kv": "fp8",
    "communication": "bf16",
    "workload": {"batch": [1, 16], "isl": 2048, "osl": 256, "cached": 0},
    "deployment": {"tp": [1, 2], "pp": 1},
    "axes": {
        "hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "8 TB/s", "n": 4, "scale": "log"},
        "hardware.memory.hbm.capacity": ["48 GiB", "80 GiB"],
    },
    "set": {"hardware.matrix.bf16": "500TFLOP/s"},
    "output": {
        "illegal": "mask",
        "variables": ["tpot", "ttft"],
        "dtype": "float32",
        "keep": ["top=10:tpot"],
        "digits": 3,
    },
}
STEP: dict[str, Any] = {
    **BASE,
    "job": "step",
    "mode": "sample",
    "sample": {"points": 16, "method": "sobol", "seed": 1},
    "hardware": ["H100-SXM", "B200"],
    "workload": {"decode": 8, "context": {"from": 1024, "to": 8192}},
    "deployments": [{"tp": 1}, {"tp": 2, "pp": 2}],
    "output": {"illegal": "mask"},
}
SERVE: dict[str, Any] = {
    **BASE,
    "job": "serve",
    "engine": "vllm",
    "workload": {"rate": [2.0, 4.0], "isl": "lognormal:mean=512,sigma=0.5", "osl": "uniform:16..64", "requests": 20},
    "deployment": {"tp": [1, 2]},
    "policy": {"max_sequences": 64},
    "slo": {"ttft": "500ms", "tpot": "40ms"},
}
OPTIMISE: dict[str, Any] = {
    **BASE,
    "workload": {"batch": 16, "isl": 1024, "osl": 256},
    "deployment": {"tp": [1, 2, 4]},
    "axes": {"hardware.memory.hbm.bandwidth": {"from": "2TB/s", "to": "8TB/s"}},
    "optimize": {"minimize": "tpot", "starts": 8, "steps": 3, "grid": 100, "seed": 0},
    "constraints": {"ttft": {"max": "500ms"}, "power": {"max": "1kW"}},
}
FLEET: dict[str, Any] = {
    "headroom": 0.2,
    "budget": "2MUSD/year",
    "power_limit": "500kW",
    "accelerators": {"H100-SXM": {"owned": 16, "machine": 8}, "H200-SXM": {"available": 24, "price": "2USD/h"}},
    "classes": {
        "chat": {"model": "Llama-3.1-8B", "isl": 512, "osl": "uniform:16..64", "slo": "ttft=1s", "day": [1.5] * 24},
        "code": {
            "model": "Llama-3.1-8B",
            "isl": "lognormal:mean=512,sigma=0.5",
            "osl": 64,
            "slo": "ttft=1s,tpot=40ms",
            "value": 2,
            "day": {"mean": 8, "peak_hour": 14, "peak_to_mean": 1.9},
        },
    },
}


def targets() -> list[Target]:
    """What reads questions."""
    from sweeps.ask.spec import KEYS

    words = (
        *KEYS,
        "from",
        "to",
        "n",
        "scale",
        "points",
        "hardware.memory.hbm.bandwidth",
        "deployment.tp",
        "model.hidden",
    )
    chat = [(pathlib.Path(__import__("sweeps").__file__).parent / "specs" / "chat.toml").read_bytes()]
    own = [
        path.read_bytes() for path in sorted(pathlib.Path(__import__("sweeps").__file__).parent.glob("specs/*.toml"))
    ]
    sweeps = [Toml.text(GRID), Toml.text(STEP), Toml.text(SERVE), own[-1]]
    optimise = [Toml.text(OPTIMISE), own[0]]
    return [
        Target("spec", in_file("own.toml", _spec), lambda: sweeps, Toml, words),
        Target("question", in_file("own.toml", _question), lambda: sweeps[:2], Toml, words),
        Target("serve", in_file("own.toml", _question), lambda: sweeps[2:3], Toml, (*words, "rate", "trace", "seed")),
        Target("design", in_file("own.toml", _design), lambda: optimise, Toml, (*words, "optimize", "minimize", "max")),
        Target(
            "classes", in_file("chat.toml", _classes), lambda: chat, Toml, ("share", "isl", "osl", "prefixes", "slo")
        ),
        Target(
            "problem", in_file("own.toml", _problem), lambda: optimise[:1], Toml, (*words, "optimize", "min", "max")
        ),
        Target("traffic", in_file("own.toml", _traffic), lambda: [Toml.text(FLEET)], Toml, ("rate", "kv", "weights")),
    ]


def _classes(path: str) -> None:
    from sweeps.run.simulated.classes import target_of
    from workloads.streams.classes import classes_of, mixed

    found = classes_of(path)
    target_of("ttft=1s", 0.95, found)
    require_sensible([one.share for one in found])
    stream = mixed("poisson:1", found, requests=60)
    require_sensible([*stream.isl, *stream.osl, *stream.shared])


def _spec(path: str) -> Any:
    from sweeps.ask.spec import read

    found = read(path)
    found.text()
    require_sensible([found.points, found.seed], beyond=1e30)
    return found


def _traffic(path: str) -> None:
    from sweeps.studies.fleet.question import question

    found = question(path)
    require_sensible([rate for one in found.classes for rate in one.load], beyond=1e30)


def _question(path: str) -> None:
    from sweeps.run.asked import asked
    from sweeps.run.simulated.plan import planned

    found = dataclasses.replace(_spec(path), illegal="mask")
    question = planned(found)[0] if found.job == "serve" else asked(found)
    for axis in question.axes:
        for label in axis.coordinates:
            require_sensible(label.values)


def _design(path: str) -> None:
    from sweeps.studies.optimize.spec import read

    found = read(path)
    require_sensible([dataclasses.asdict(limit)["limit"] for limit in found.constraints])
    require_sensible(dataclasses.asdict(found.search), beyond=1e30)


def _problem(path: str) -> None:
    from sweeps.studies.optimize.spec import problem

    made = problem(path)
    for variable in made.variables:
        require_sensible([variable.low, variable.high])
