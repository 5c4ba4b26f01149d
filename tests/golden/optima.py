"""Optima: one objective, two, limits on metrics and leaves, lists beside ranges, and what cannot be kept."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.golden.answers import Question, command, dataset, folder

STEP = {
    "job": "step",
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "workload": {"decode": 32, "context": 1024},
    "deployment": {"tp": [1, 3, 2]},
    "axes": {
        "hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "16TB/s"},
        "hardware.memory.hbm.capacity": {"from": "10GB", "to": "200GB"},
        "hardware.cores.count": {"from": 64, "to": 200},
    },
}

REQUEST = {
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "workload": {"batch": 16, "isl": 1024, "osl": 256},
    "deployment": {"tp": [1, 2]},
    "axes": {
        "hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "8TB/s"},
        "hardware.matrix.bf16": {"from": "200TFLOP/s", "to": "4PFLOP/s"},
    },
}

SERVED = {
    "job": "serve",
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "workload": {"rate": 5.0, "requests": 60, "isl": 512, "osl": 64},
    "deployment": {"tp": [1, 2]},
    "axes": {
        "hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "8TB/s"},
        "policy.token_budget": {"from": 512, "to": 4096},
    },
}

COST = "owning_usd_per_million_tokens"

DESIGNS: dict[str, tuple[Mapping[str, Any], str]] = {
    "slowest memory": (STEP, "--minimize hardware.memory.hbm.bandwidth --max step_time=6ms"),
    "slowest memory, tighter": (STEP, "--minimize hardware.memory.hbm.bandwidth --max step_time=5ms"),
    "fewest cores": (STEP, "--minimize hardware.cores.count --max step_time=8ms"),
    "fastest step": (STEP, "--minimize step_time --max hardware.memory.hbm.bandwidth=8TB/s"),
    "smallest memory": (STEP, "--minimize hardware.memory.hbm.capacity --max step_time=8ms --seed 3"),
    "bandwidth against time": (STEP, "--minimize hardware.memory.hbm.bandwidth,step_time"),
    "impossible": (STEP, "--minimize step_time --max step_time=1us"),
    "unknown": (STEP, "--minimize step_tim"),
    "cheapest tokens": (REQUEST, f"--minimize {COST} --max ttft=1s --max tpot=8ms"),
    "cheapest tokens, slower": (REQUEST, f"--minimize {COST} --max ttft=1s --max tpot=20ms"),
    "smallest die": (REQUEST, "--minimize die_area --max tpot=8ms"),
    "most tokens per joule": (REQUEST, "--maximize tokens_per_joule --max tpot=10ms"),
    "served, slowest memory": (SERVED, "--minimize hardware.memory.hbm.bandwidth --max tpot_p99=8ms"),
    "throughput in a power limit": (REQUEST, "--maximize tokens_per_second --max power=500W"),
}


def questions() -> Iterator[tuple[str, Question]]:
    """Every design, with few starts and steps, and the file of one."""
    for name, (source, words) in DESIGNS.items():
        yield name, lambda source=source, words=words: optimum(source, words)
    yield "file of a front", front


def optimum(source: Mapping[str, Any], words: str, more: str = "") -> dict:
    """What `jaxroof optimize` finds for a specification and flags."""
    with folder() as place:
        (place / "design.toml").write_text(toml(source))
        return command(f"optimize design.toml {words} --starts 16 --steps 40 --grid 1000 {more}")


def front() -> dict:
    """The designs of two objectives, as the file has them."""
    import xarray as xr

    with folder() as place:
        (place / "design.toml").write_text(toml(STEP))
        words = "--minimize hardware.memory.hbm.bandwidth,step_time --starts 16 --steps 40 --grid 1000 -o front.nc"
        said = command(f"optimize design.toml {words}")
        if "status" in said:
            return said
        with xr.open_dataset("front.nc") as found:
            return dataset(found)


def toml(table: Mapping[str, Any]) -> str:
    """A specification as TOML: tables of tables are written inline."""
    plain = [f"{key} = {_inline(value)}" for key, value in table.items() if not isinstance(value, Mapping)]
    tables = [
        "\n".join([f"[{key}]", *(f"{json.dumps(name)} = {_inline(part)}" for name, part in value.items())])
        for key, value in table.items()
        if isinstance(value, Mapping)
    ]
    return "\n".join([*plain, *tables]) + "\n"


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_inline(part)}" for key, part in value.items()) + " }"
    return json.dumps(value)
