"""A user's script that names every entry point, which type checkers read under strict rules; it is never run."""

from typing import assert_type

import jax
import matplotlib.figure
import numpy as np
import xarray as xr

import sweeps
from sweeps.entries.cases import CaseResult
from sweeps.entries.comparisons import CompareResult

WORK = {"batch": np.int64(8), "isl": 1024, "osl": 256}


def softmax(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x @ x.T)


def shown(found: sweeps.Result) -> None:
    """What every answer has."""
    print(found.table().shape)
    assert_type(found.dataset, xr.Dataset)
    assert_type(found.plot(), matplotlib.figure.Figure)
    found.report("page.html", title="an answer")
    print(found, found.text(), found.record()["model"])


request = sweeps.request("H100-SXM", "Llama-3.1-8B", workload=WORK, deployment={"tp": 2}, set={"hardware.tdp": 700})
assert_type(request, CaseResult)
print(float(request.metrics["tpot"]), request.case.hardware.name, request.ops())
shown(request)
shown(sweeps.step(hardware="H100-SXM", model="Llama-3.1-8B", workload={"decode": 64, "context": 2048}))
shown(sweeps.train("H100-SXM", "Llama-2-70B", workload={"global_batch": 64, "seq": 4096}, deployment={"dp": 8}))
shown(sweeps.price(softmax, np.ones((64, 64)), hardware=["H100-SXM"], over={"b": range(4)}))
shown(sweeps.serve("H100-SXM", "Llama-3.1-8B", rate=np.float32(8), isl=1024, osl="lognormal:mean=9,sigma=1", seed=1))
compared = sweeps.compare("Llama-3.1-8B", "ttft=1s", isl=2048, osl=256, hardware=["L40S"], devices=np.arange(1, 4))
assert_type(compared, CompareResult)
print([row.layout for row in compared.best_layouts])
shown(compared)
shown(sweeps.compare_static("Llama-3.1-8B", 1024, 256, hardware=["L40S"], batch=range(1, 9)))
shown(sweeps.capacity("Llama-3.1-8B", ["H100-SXM", "L40S"], "ttft=1s", isl=512, osl=64, rates=[1.0, 8.0]))
shown(sweeps.service_capacity("Llama-3.1-8B", "H100-SXM", "ttft=1s", isl=512, osl=64, router="least_requests"))
shown(sweeps.sensitivity(hardware="H100-SXM", model="Llama-3.1-8B", workload=WORK, metrics=["tpot"]))
shown(sweeps.optimize("cheapest", optimize={"minimize": "tpot"}, constraints={"ttft": {"max": "1s"}}))
shown(sweeps.collective("H100-SXM", 8, size=["1MiB", 2**21]))
shown(sweeps.fleet("fleet", budget="2MUSD/year"))

data = sweeps.sweep(hardware=["H100-SXM", "L40S"], model="Llama-3.1-8B", workload={"batch": np.arange(1, 9)})
assert_type(data, xr.Dataset)
print(data.jaxroof.best("tpot", where="ttft < 1 s", n=3), data.jaxroof.pareto("tpot", "tokens_per_second_per_device"))
print(data.jaxroof.sensitivity("tpot"), data.jaxroof.plot(), sweeps.query(data, sort="tpot").rows)
