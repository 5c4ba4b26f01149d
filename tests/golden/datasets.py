"""Datasets: names, dimensions, labels, units, long names and attributes of grids, samples, folders and queries."""

import contextlib
import io
from collections.abc import Iterator

from tests.golden.answers import Question, called, command, dataset, folder, swept
from tests.golden.optima import toml

GRID = {
    "hardware": ["H100-SXM", "H200-SXM", "MI300X"],
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "workload": {"batch": [1, 8, 64], "isl": 1024, "osl": 256},
    "deployment": {"tp": [1, 2, 4]},
}

ONE = {**GRID, "hardware": "H100-SXM"}

LEAVES = {
    "hardware.matrix.bf16": {"from": "250 TFLOP/s", "to": "4 PFLOP/s", "n": 5, "scale": "log"},
    "hardware.memory.hbm.bandwidth": {"from": "1 TB/s", "to": "16 TB/s", "n": 4},
    "hardware.memory.hbm.capacity": ["16 GiB", "80 GiB", "141 GB"],
    "hardware.cores.count": [33, 132],
}

WHOLE = [{"tp": 8}, {"tp": 4, "pp": 2, "overlap": "gemm"}, {"tp": 2, "dp": 4}, {"tp": 3}]

REFUSED = {
    "unknown key": {"hardwares": "H100-SXM"},
    "unknown axis": {"axes": {"hardware.memory.hbm.bandwith": ["1TB/s", "2TB/s"]}},
    "no unit": {"axes": {"hardware.memory.hbm.bandwidth": ["1", "2"]}},
    "empty axis": {"workload": {"batch": [], "isl": 10, "osl": 10}},
    "twice": {"workload": {"batch": [1, 1], "isl": 10, "osl": 10}},
    "no n": {"axes": {"hardware.cores.count": {"from": 1, "to": 10}}},
    "effectless": {"set": {"deployment.reserved_cores": 0.1}},
    "unknown job": {"job": "guess"},
    "unknown variable": {"output": {"variables": ["tpto"]}},
    "illegal": {"deployment": {"tp": [1, 3]}, "output": {"illegal": "refuse"}},
    "folder's": {"output": {"keep": "pareto"}},
    "two units": {"axes": {"hardware.memory.hbm.capacity": ["16 GiB", "1 TB/s"]}},
}


def questions() -> Iterator[tuple[str, Question]]:
    """Grids and samples, objects and leaves as axes, whole deployments, a folder of shards, queries, refusals."""
    import sweeps

    yield "grid", lambda: swept(**GRID)
    yield "grid of leaves", lambda: swept(**{**ONE, "deployment": {"tp": 2}}, axes=LEAVES)
    yield "float32", lambda: called(sweeps.sweep, **GRID)
    yield "breakdown", lambda: swept(**{**GRID, "output": {"breakdown": True}})
    for method in ("sobol", "latin_hypercube", "random"):
        yield f"sample, {method}", lambda method=method: sampled(method)
    yield "step", lambda: swept(**{**ONE, "job": "step", "workload": {"decode": [1, 64], "context": [100, 3000]}})
    yield "linear and log", lambda: swept(**ONE, axes={"hardware.memory.l2.capacity": sweeps.log("8MB", "64MB", 4)})
    yield "one point", lambda: swept(**{**ONE, "deployment": {}, "workload": {"isl": 9, "osl": 9}})
    yield "deployments", lambda: swept(**{**ONE, "deployment": {}}, deployments=WHOLE)
    yield "models as an axis", lambda: swept(**{**ONE, "model": ["Llama-3.1-8B", "Qwen3-30B-A3B"]})
    yield "weights as an axis", lambda: swept(**{**ONE, "weights": ["bf16", "int8"]})
    yield "folder and query", folder_and_query
    for name, keys in REFUSED.items():
        yield f"refused: {name}", lambda keys=keys: swept(**{**ONE, **keys})


def sampled(method: str) -> dict:
    """A sample over deployments, workloads and leaves."""
    axes = {path: {"from": part["from"], "to": part["to"]} for path, part in LEAVES.items() if isinstance(part, dict)}
    return swept(**ONE, mode="sample", axes=axes, sample={"points": 256, "method": method, "seed": 11})


def folder_and_query() -> dict:
    """A sweep into shards, kept points, its status, and the best of it."""
    from sweeps.cli import main

    source = {**ONE, "axes": LEAVES, "output": {"dtype": "float64"}}
    with folder() as place, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        (place / "spec.toml").write_text(toml(source))
        statuses = {
            "shards": main("sweep spec.toml -o all/ --shard-points 200 --progress quiet".split()),
            "kept": main(
                "sweep spec.toml -o front/ --keep pareto=tpot:tokens_per_second,top=5:ttft --progress quiet".split()
            ),
            "merged": main("merge all/ -o merged.nc".split()),
        }
        words = ["query", "all/", "--where", "tpot < 10 ms and feasible", "--sort", "tokens_per_second", "--top", "7"]
        found = {f"query{name}": value for name, value in command(words).items()}
        import xarray as xr

        for name in ("merged.nc",):
            with xr.open_dataset(name) as data:
                found |= {f"merged/{key}": value for key, value in dataset(data).items()}
        import sweeps

        found |= {f"front/{key}": value for key, value in dataset(sweeps.open("front/")).items()}
        return found | statuses
