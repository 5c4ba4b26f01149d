"""Saved results of every kind, small ones, made by the verbs themselves."""

import contextlib
import io
import os

import numpy as np
import pytest
import xarray as xr

import sweeps
from sweeps.cli import main

CASE = "--hardware H100-SXM --model Llama-3.1-8B"

VERBS = {
    "step": f"step {CASE} --decode 8 --context 1000",
    "request": f"request {CASE} --isl 512 --osl 64 --batch 8",
    "train": f"train {CASE} --tp 2 --dp 4 --global-batch 8 --seq 1024",
    "layouts": "train --hardware H100-SXM --model Llama-3.1-8B --search --devices 8 --global-batch 8 "
    "--seq 1024 --top 8",
    "compare": "compare --model Llama-3.1-8B --isl 512 --osl 64 --slo ttft=1s,tpot=30ms --simulate 0 "
    "--hardware H100-SXM,H200-SXM,L40S",
    "static": "compare --static --model Llama-3.1-8B --isl 512 --osl 64 --slo ttft=1s,tpot=30ms "
    "--hardware H100-SXM,L40S",
    "price": "price forward:forward --args x=bf16[8,1024] --hardware H100-SXM",
    "prices": "price forward:forward --args x=bf16[b,1024] --over b=1,8 --hardware H100-SXM",
    "fleet": "fleet fleet",
    "share": "fleet fleet --budget 60USD/h --no-marginals",
    "sensitivity": f"sensitivity {CASE} --isl 512 --osl 64 --batch 8 --metric tpot,ttft",
    "pairs": f"sensitivity {CASE} --isl 512 --osl 64 --batch 8 --metric tpot --second-order",
    "layer": "map resnet50.conv2_3x3 --arch eyeriss_like --mappings 200",
    "network": "map alexnet --arch eyeriss_like --mappings 50",
    "split": f"disaggregate {CASE} --isl 512 --osl 64 --batch 8 --devices 4 --slo ttft=500ms,tpot=40ms",
    "collective": "collective --hardware H100-SXM --devices 8 --size 1KiB..64MiB",
    "message": "collective --hardware H100-SXM --devices 8 --size 1MiB",
    "scenarios": "scenario run T3.2 T3.1",
    "area": "validate area",
    "plausibility": "validate plausibility --hardware MI300X",
    "trace": "trace --rate 8 --isl 1024 --osl 256",
    "accelerator": "hardware H100-SXM",
    "accelerators": "hardware",
    "models": "models",
    "spaces": "space",
    "technologies": "hardware --technology",
    "query": "query grid.nc --top 5",
    "serve": f"serve {CASE} --rate 8 --isl 256 --osl 32 --requests 48 --slo ttft=300ms,tpot=40ms",
}
"""Kind -> the command whose JSON is reported."""

FILES = {"serve": "run", "sensitivity": "knobs", "split": "splits", "scenarios": "checks"}
"""Kind -> that of the netCDF file which the same command writes."""

CAPACITY = {
    "model": "Llama-3.1-8B",
    "load": "rate",
    "target": "TTFT <= 500 ms for 95 % of the requests",
    "rows": [
        {"rank": 1, "hardware": "H200-SXM", "devices": 1, "capacity": 29.0, "usd_per_million_tokens": 0.35},
        {"rank": 2, "hardware": "H100-SXM", "devices": 1, "capacity": 26.5, "usd_per_million_tokens": 0.33},
    ],
    "curve": {
        "rate": [2.0, 8.0, 32.0],
        "ttft_p99": {"H100-SXM": [0.06, 0.08, 1.7], "H200-SXM": [0.05, 0.07, 0.4]},
        "tpot_p50": {"H100-SXM": [0.007, 0.009, 0.06], "H200-SXM": [0.006, 0.007, 0.04]},
    },
    "notes": [],
}
"""A record of `capacity`, whose search takes longer than a test should."""


STEPS = {
    "file": "steps.csv",
    "hardware": "H100-SXM",
    "efficiency": "learned",
    "errors": {
        "model": {"Llama-2-70B": {"rows": 2, "mape": 0.15, "median_ape": 0.15, "signed_median": 0.05}},
        "batch": {"decoding": {"rows": 2, "mape": 0.15, "median_ape": 0.15, "signed_median": 0.05}},
    },
    "rows": [
        {"row": 2, "model": "Llama-2-70B", "tp": 4.0, "measured_s": 0.02, "predicted_s": 0.024},
        {"row": 3, "model": "Llama-2-70B", "tp": 4.0, "measured_s": 0.05, "predicted_s": 0.045},
    ],
    "left_out": [{"row": 4, "reason": "no such model"}, {"row": 5, "reason": "no such model"}],
}
"""A record of `validate steps` with rows of one model, that are 20 % too long and 10 % too short."""

KERNELS = {
    "path": "measured",
    "efficiency": "learned",
    "errors": {"rows": 30, "mape": 0.2, "median_ape": 0.1, "signed_median": 0.02, "coverage_90": 0.9},
    "groups": [
        {"family": "GEMM", "rows": 20, "mape": 0.1, "median_ape": 0.07, "signed_median": -0.03, "from_30_us": {}},
        {"family": "experts", "rows": 10, "mape": 0.3, "median_ape": 0.2, "signed_median": 0.15, "from_30_us": {}},
        {"family": "GEMM", "device": "A", "rows": 20, "mape": 0.1, "median_ape": 0.07, "signed_median": -0.03},
        {"family": "experts", "device": "A", "rows": 10, "mape": 0.3, "median_ape": 0.2, "signed_median": 0.15},
    ],
    "left_out": [{"reason": "no such kernel", "rows": 4}],
}
"""A record of `validate kernels`, which has errors by group alone."""


SPEC = {
    "hardware": ["H100-SXM", "H200-SXM"],
    "model": ["Llama-3.1-8B", "Llama-2-13B"],
    "deployment": {"tp": [1, 2]},
    "workload": {"batch": [1, 16, 64], "isl": 512, "osl": 64},
}
"""A sweep with a condition, the model, whose values have a front each."""


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """Kind -> the path of a saved result."""
    folder = tmp_path_factory.mktemp("results")
    paths = {}
    (folder / "forward.py").write_text("import jax.numpy as jnp\ndef forward(x):\n    return jnp.tanh(x) @ x.T\n")
    before = os.getcwd()
    os.chdir(folder)  # a function is found beside whoever asks
    grid().to_netcdf("grid.nc")
    for kind, command in VERBS.items():
        words = command.split()
        paths[kind] = folder / f"{kind}.json"
        if kind in FILES:
            name = FILES[kind]
            paths[name] = folder / f"{name}.nc"
            words += ["-o", str(paths[name])]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert main([*words, "--json"]) == 0
        paths[kind].write_text(said.getvalue(), encoding="utf-8")
    os.chdir(before)
    paths["kept"] = folder / "kept"
    kept = {"variables": ["tpot", "usd_per_million_tokens", "feasible"], "keep": ["pareto=tpot:usd_per_million_tokens"]}
    sweeps.sweep_to_folder(paths["kept"], SPEC | {"output": kept})
    paths["counts"] = folder / "counts"
    told = {"variables": ["tpot", "feasible"], "keep": ["histogram", "quantiles"]}
    sweeps.sweep_to_folder(paths["counts"], SPEC | {"output": told})
    paths["optimum"] = folder / "optimum.nc"
    optimum().to_netcdf(paths["optimum"])
    paths["sweep"] = folder / "grid.nc"
    return paths


def grid() -> xr.Dataset:
    """96 deployments and devices."""
    return sweeps.sweep(
        hardware="H100-SXM",
        model="Llama-3.1-8B",
        deployment={"tp": [1, 2]},
        workload={"batch": [1, 16, 64], "isl": 2048, "osl": 128},
        axes={
            "hardware.memory.hbm.bandwidth": sweeps.log("1TB/s", "8TB/s", 4),
            "hardware.memory.hbm.capacity": ["24GB", "48GB", "80GB"],
        },
        output={"variables": ["ttft", "tpot", "usd_per_million_tokens", "decode_bound", "feasible"]},
    )


def optimum() -> xr.Dataset:
    """Three designs as `optimize -o` writes them."""
    active = '[{"name": "ttft <= 500 ms", "kind": "constraint", "elasticity": -0.8}]'
    values = {"tpot": [0.008, 0.009, 0.012], "owning_usd_per_million_tokens": [0.12, 0.115, 0.11]}
    variables = {name: ("design", column) for name, column in values.items()}
    return xr.Dataset(
        {**variables, "feasible": ("design", [True] * 3), "constraint_excess": (("design", "constraint"), [[0.0]] * 3)},
        {"tp": ("design", [1.0, 2.0, 4.0]), "constraint": ["ttft <= 500 ms"]},
        {"title": "optimum of a request", "job": "request", "objectives": "minimise cost", "active": active},
    )


@pytest.fixture(scope="session")
def million() -> xr.Dataset:
    """A million made-up points over three axes, a smooth trade-off with noise."""
    rng = np.random.default_rng(0)
    dims = {"tp": 4, "batch": 250, "cores_count": 1000}
    cores, batch, tp = np.geomspace(1.0, 30.0, 1000), np.linspace(1.0, 2.0, 250), np.array([1.0, 2.0, 4.0, 8.0])
    speed = tp[:, None, None] * batch[:, None] * cores
    noise = rng.lognormal(0.0, 0.2, speed.shape)
    tpot, usd = 0.1 / speed * noise, 0.1 * speed**0.8 * rng.lognormal(0.0, 0.2, speed.shape)
    variables = {
        "tpot": (tuple(dims), tpot.astype(np.float32)),
        "usd_per_million_tokens": (tuple(dims), usd.astype(np.float32)),
        "decode_bound": (tuple(dims), rng.integers(0, 4, speed.shape, np.int8)),
        "feasible": (tuple(dims), rng.random(speed.shape) < 0.9),
    }
    coords = {name: (name, np.arange(1.0, size + 1), {"units": "1"}) for name, size in dims.items()}
    return xr.Dataset(variables, coords, {"title": "a million points", "job": "request"})
