"""The best layouts of a training run on a number of devices: all that can be."""

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.deployment import GROUPS
from jaxroof.jobs import Scenario
from jaxroof.jobs.train import PARTNERS, TRAIN
from jaxroof.model import has_experts
from sweeps.ask.cases import Case
from sweeps.ask.training import Layouts, layouts
from sweeps.data.labels import number
from sweeps.run.evaluate import evaluate, gathered
from sweeps.run.points import Points, answers

METRICS = (
    *("iteration_time", "mfu", "training_memory", "bubble_share", "communication_exposed", "communication_hidden"),
    *("training_tokens_per_second", "training_tokens_per_second_per_device", "fits", "legal", "feasible"),
)
"""What is known of every layout."""


MOST_DEVICES = 1 << 20
"""Devices at most whose layouts are searched."""

MEMORY = ("weights", "gradients", "optimizer", "activations", "buffers")
"""What a device's memory holds, each a metric that ends in _memory."""


def time_parts(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Parts of an iteration's time in s, by what they are; passes without the messages that they wait for."""
    times = metrics["micro_batches"]
    # Passes include the messages that they wait for, except those of data parallelism, and recomputation.
    waits = sum(metrics[f"{kind}_exposed"] for kind in PARTNERS if kind != "dp")
    passes = metrics["micro_batch_forward_time"] + metrics["micro_batch_backward_time"]
    parts = {
        f"kernels of {number(times)} micro-batches": times * passes - waits - metrics["recompute_time"],
        "recomputation": metrics["recompute_time"],
        "messages that kernels wait for": metrics["communication_exposed"],
        "bubble": metrics["bubble_time"],
        "update": metrics["optimizer_time"],
    }
    # The iteration's time beyond all parts is what the limit of electrical power costs.
    return parts | {"limit of electrical power": metrics["iteration_time"] - sum(parts.values())}


@dataclasses.dataclass(frozen=True)
class RankedLayouts:
    """Layouts and what they are worth, best first."""

    layouts: Layouts
    metrics: dict[str, np.ndarray]  # of every layout, in the order of `layouts`
    order: np.ndarray  # places of feasible layouts, fastest first
    seconds: float  # of evaluating all

    def rows(self, top: int) -> list[dict[str, Any]]:
        """The best layouts in numbers and words, with their metrics."""
        return [
            self.layouts.row(place) | {name: values[place].item() for name, values in self.metrics.items()}
            for place in self.order[:top].tolist()
        ]


def search(case: Case, devices: int) -> RankedLayouts:
    """Every layout of the case's model and workload on `devices` devices, the fastest that fits first.

    Args:
      case: of job "train"; its own degrees, micro-batch, ZeRO stage, recomputation and schedule do not count.

    Raises:
      ValueError: one line, where no layout can be.
    """
    # All layouts get one structure, so that they differ in numbers alone and are evaluated as columns.
    scenario, work = searched(case.scenario), case.scenario.workload
    tried = layouts(scenario.model, devices, int(work.global_batch), int(work.seq))
    if not len(tried):
        raise ValueError(
            f"devices = {devices}: no layout divides layers, tokens and a global batch of {work.global_batch:g}"
        )
    points = Points(np.arange(len(tried)), [tried.paths(has_experts(scenario.model))])
    begun = time.perf_counter()
    metrics = gathered(evaluate(answers(TRAIN, METRICS), scenario, [points]), len(tried))
    seconds = time.perf_counter() - begun
    # A stable order: of equally fast layouts the first one tried stays first.
    order = np.argsort(metrics["iteration_time"], kind="stable")
    return RankedLayouts(tried, metrics, order[metrics["feasible"][order]], seconds)


def searched(scenario: Scenario) -> Scenario:
    """`scenario` with a number for every degree that layouts set: degrees that are None are structure."""
    spread = dataclasses.replace(scenario.deployment, pp=1.0, cp=1.0, stages=None)
    if has_experts(scenario.model):
        ones: dict[str, Any] = dict.fromkeys(("ep", GROUPS), 1.0)
        spread = dataclasses.replace(spread, **ones)
    return dataclasses.replace(scenario, deployment=spread)
