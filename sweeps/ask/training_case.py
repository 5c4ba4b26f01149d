"""A training workload from a user's settings: numbers and adapters."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from hwspaces.quantities.units import nearest
from jaxroof.deployment import ADAPTED
from jaxroof.training.training import LoRA, Training
from sweeps.ask.deployments import adapter_settings

ADAPTER_NUMBERS = ("lora.rank", "lora.dropout")
"""Numbers of adapters that a user may give by their path."""


def training_workload(given: Mapping[str, Any], parsed: Callable[[str, Any], float], encoder: bool) -> Training:
    """The workload that a user describes.

    Args:
      given: by field, as a user writes them; None: not given. `lora` is "rank=16,target=q,v", or a table of rank and
        targets; `lora.rank` and `lora.dropout` replace its numbers.
      parsed: the number of a leaf's path and of what a user writes for it, in SI units.
      encoder: whether the model attends to an encoder's output, which training does not know.

    Raises:
      ValueError: one line that names the field, its value and what is allowed.
    """
    known = [field.name for field in dataclasses.fields(Training)]
    for name in given:
        if name not in (*known, *ADAPTER_NUMBERS):
            raise ValueError(f"workload.{name} is not a number of a training run{nearest(name, known)}")
    lora = given.get("lora")
    values: dict[str, Any] = {
        name: parsed(f"workload.{name}", value)
        for name, value in given.items()
        if value is not None and not name.startswith("lora")
    }
    missing = [f"workload.{name}" for name in ("global_batch", "seq") if name not in values]
    if missing:
        raise ValueError(f"a training run needs {' and '.join(missing)}")
    if encoder:
        raise ValueError("training of models that attend to an encoder's output is not modelled")
    if values.get("offload", 0.0) > 0.0 and values.get("host_bandwidth") is None:
        raise ValueError(
            "workload.offload streams optimiser states over the link to the host, whose bandwidth the catalogue does "
            "not have: give workload.host_bandwidth, such as 55GB/s"
        )
    if lora is None:
        lone = next((name for name in ADAPTER_NUMBERS if name in given), None)
        if lone is not None:
            raise ValueError(f"workload.{lone} is of adapters that are not there: give workload.lora")
        return Training(**values)
    lora = adapters(lora)
    numbers: dict[str, Any] = {
        path.removeprefix("lora."): parsed(f"workload.{path}", given[path])
        for path in ADAPTER_NUMBERS
        if given.get(path) is not None
    }
    return Training(**values, lora=dataclasses.replace(lora, **numbers))


def adapters(text: Any) -> LoRA:
    """LoRA of "rank=16,target=q,v", or of a table; ValueError of one line for another."""
    if isinstance(text, LoRA):
        return text
    found = adapter_settings(text) or {}
    targets = tuple(found.get("targets") or ())
    for target in targets:
        if target not in ADAPTED:
            raise ValueError(f"workload.lora: there is no target {target!r}{nearest(target, ADAPTED)}")
    try:
        number = float(found.get("rank"))
    except (TypeError, ValueError):
        number = 0.0
    whole, once = number >= 1.0 and number % 1.0 == 0.0, len(set(targets)) == len(targets)
    if set(found) != {"rank", "targets"} or not (whole and targets and once):
        raise ValueError(f"workload.lora = {text!r} must be like rank=16,target=q,v, targets of {', '.join(ADAPTED)}")
    return LoRA(rank=number, targets=targets)
