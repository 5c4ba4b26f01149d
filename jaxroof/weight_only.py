"""Weight-only execution: a model on hardware whose matrix units lack a precision that its weights are stored in."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from jaxroof.hardware import Hardware
from jaxroof.layers.linear import LOW_PRECISIONS
from jaxroof.model import Model, WeightFormat


def as_run(model: Model, hardware: Hardware) -> Model:
    """The model as the hardware runs it: formats whose precision it lacks are multiplied in their `fallback`.

    Weights stay stored as they are, and the kernel converts them as it reads them; activations stay at 16 bits. A
    format without a fallback, or whose fallback the hardware lacks too, is left as it is: pricing it raises
    `ValueError`. Structure alone decides, so that it costs nothing under a trace; a model without such formats is
    returned itself.

    Source: Frantar et al., arXiv:2408.11743 (Marlin); vLLM and SGLang run FP8 and NVFP4 checkpoints by it on devices
    without these units: vllm-project/vllm#5975, sgl-project/sglang#19652.
    """
    precisions = frozenset(hardware.matrix)
    return _changed(model, lambda weights: _as_run(weights, precisions))


def converted_precisions(model: Model, hardware: Hardware) -> tuple[tuple[str, str], ...]:
    """Pairs of a precision that the hardware lacks and the one that stands in for it, in `model`; sorted."""
    pairs = {(one.compute, _as_run(one, frozenset(hardware.matrix)).compute) for one in formats_of(model)}
    return tuple(sorted(pair for pair in pairs if pair[0] != pair[1]))


def without_fallbacks(model: Model) -> Model:
    """The model with formats that need their precision: weights that are trained are not converted by a kernel."""
    return _changed(model, lambda weights: dataclasses.replace(weights, fallback=None) if weights.fallback else weights)


def formats_of(tree: Any) -> Iterator[WeightFormat]:
    """Every weight format in structs and tuples of them."""
    if isinstance(tree, WeightFormat):
        yield tree
    elif isinstance(tree, tuple):
        for item in tree:
            yield from formats_of(item)
    elif dataclasses.is_dataclass(tree):
        for field in dataclasses.fields(tree):
            yield from formats_of(getattr(tree, field.name))


def _as_run(weights: WeightFormat, precisions: frozenset[str]) -> WeightFormat:
    if weights.compute in precisions or weights.fallback not in precisions:
        return weights
    low = weights.compute in LOW_PRECISIONS
    return WeightFormat(
        bytes=weights.bytes,
        compute=str(weights.fallback),
        dequantised=weights.dequantised or low,
    )


def _changed(tree: Any, change: Callable[[WeightFormat], WeightFormat]) -> Any:
    """`tree` with every format in it changed; itself where none is."""
    if isinstance(tree, WeightFormat):
        return change(tree)
    if isinstance(tree, tuple):
        items = [_changed(item, change) for item in tree]
        return tree if all(new is old for new, old in zip(items, tree, strict=True)) else tuple(items)
    if not dataclasses.is_dataclass(tree) or isinstance(tree, type):
        return tree
    changed = {}
    for field in dataclasses.fields(tree):
        old = getattr(tree, field.name)
        new = _changed(old, change)
        if new is not old:
            changed[field.name] = new
    return dataclasses.replace(tree, **changed) if changed else tree
