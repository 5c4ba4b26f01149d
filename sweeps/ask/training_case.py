"""The case of one iteration of training, from words of flags or of Python."""

from collections.abc import Mapping
from typing import Any

from sweeps.ask.cases import Case, case
from sweeps.ask.leaves import leaf_number
from sweeps.ask.training import require_converted, schedule_settings, settings, stored_weights

DEGREES = ("dp", "tp", "pp", "cp", "ep")
"""Degrees as training frameworks count them."""


def training_case(
    hardware: str,
    model: str,
    workload: Mapping[str, Any],
    *,
    deployment: Mapping[str, Any] | None = None,
    weights: str | None = None,
    precision: str | None = None,
    check: bool = True,
    **words: Any,
) -> Case:
    """Everything that one iteration depends on.

    Args:
      hardware, model: catalogue names or files.
      workload: numbers of the training, beside `schedule`, such as "interleaved:4", and `lora`.
      deployment: degrees as training frameworks count them, and other settings of the deployment.
      weights: what frozen weights are stored in, with `lora`.
      precision: of linear layers; None: bf16.
      check: as of `case`.
      **words: of `sweeps.ask.words.CaseWords`.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    work = {name: value for name, value in workload.items() if value is not None}
    # The frozen weights of a LoRA training may be stored in fewer bits than they are computed with.
    stored = stored_weights(weights, precision, work.get("lora"))
    # One word may set both the schedule and the number of its chunks.
    if isinstance(work.get("schedule"), str):
        work |= schedule_settings(work.pop("schedule"))
    if isinstance(work.get("offload"), str):
        if work["offload"] != "optimizer":
            raise ValueError(f"offload = {work['offload']!r} must be optimizer")
        work["offload"] = 1.0
    given = {name: value for name, value in (deployment or {}).items() if value is not None}
    degrees = {name: int(leaf_number(f"deployment.{name}", given.pop(name))) for name in DEGREES if name in given}
    spread = settings(degrees) | given
    named = {"weights": stored, "workload": work, "deployment": spread, "check": check}
    made = case("train", hardware, model, **(words | named))
    # Frozen weights must be converted to 16 bits: products in 8 bits or fewer have no gradient.
    if weights is not None:
        require_converted(weights, made.scenario.model)
    return made
