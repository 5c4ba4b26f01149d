"""Constants of every engine's kernels and host, and deployments of checkpoints as engines start them."""

import dataclasses

import hwspaces
import workloads
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from sweeps.ask.cases import model_deployment, require_precisions
from sweeps.ask.engines import ENGINES
from sweeps.measure.validate.serving.launches import Layout


def engine_efficiencies(name: str | None = None) -> dict[str, Efficiency]:
    """Engine -> the constants of its kernels and its host: those called `name`, else its own."""
    if name is None:
        return {engine: hwspaces.efficiency(hwspaces.engine(engine).efficiency).efficiency for engine in ENGINES}
    return dict.fromkeys(ENGINES, hwspaces.efficiency(name).efficiency)  # one object: its kernels are priced together


def started(
    device: hwspaces.HardwareEntry, entry: workloads.ModelEntry, engine: str, spread: Layout, kv: str | None = None
) -> Deployment:
    """The deployment of a checkpoint by an engine with its own settings; ValueError where the device lacks a precision.

    Args:
      engine: "vllm", "vllm@0.12".
      kv: precision of the cache; None: the engine's or the checkpoint's.
    """
    degrees = {"pp": spread.pp, "attention_dp": spread.groups, "ep": spread.ep}
    deployment = dataclasses.replace(
        model_deployment(entry, kv, engine=hwspaces.engine(engine)),
        tp=spread.tp,
        **{name: None if value == 1.0 else value for name, value in degrees.items()},
    )
    require_precisions(device, entry, deployment)
    return deployment
