"""Notes beside a function's answer: precision of float32 products, sizes of fusion, limits of the constants."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import hwspaces
from hwspaces.quantities.units import formatted
from jaxroof.efficiency import Efficiency
from jaxroof.numerics.arrays import eager
from jaxroof.op import Kernel

if TYPE_CHECKING:
    from workloads.traced.function import Traced

ENVIRONMENT = "JAX_DEFAULT_MATMUL_PRECISION"
"""Variable that JAX reads the precision of products from where code says none."""

ALIKE = 1e-3
"""Share by which kernels or bytes differ that is worth a note."""


def fusion_notes(traced: "Traced", over: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Sizes that fusion was decided at, and what it would be at the smallest and at the largest ones of a grid.

    Args:
      over: values of symbols. None where they are those that fusion was decided at.
    """
    # Without a graph fusion cannot be decided again; one kernel per op does not depend on sizes at all.
    if traced.decided is None or traced.policy == "eager":
        return ()
    # Both corners of the grid, all sizes at their least and all at their most.
    text, same = "", []
    for end in ({name: float(least(values)) for name, values in over.items()} for least in (min, max)):
        at = traced.sizes | end
        if at == traced.sizes:
            continue
        # Kernels and bytes at this corner: with the fusion that is priced, and with the one of these sizes.
        (kernels, moved), (others, others_moved) = (_amounts(one, at) for one in (traced, traced.decided(end)))
        if abs(others / kernels - 1.0) > ALIKE or abs(others_moved / moved - 1.0) > ALIKE:
            share = f"{abs(100 * (others_moved / moved - 1.0)):.1f} % {'more' if others_moved > moved else 'fewer'}"
            counts = f"{others:,.0f} kernels instead of {kernels:,.0f}"
            text += f"; at {_sizes_text(at)} it would be {counts}, {share} bytes"
        else:
            same.append(_sizes_text(at))
    text += f"; the same at {' and at '.join(dict.fromkeys(same))}" if same else ""
    return (f"fusion is decided at {_sizes_text(traced.sizes)}{text}",) if text else ()


def _amounts(traced: "Traced", sizes: Mapping[str, float]) -> tuple[float, float]:
    """Kernels and B of one run."""
    with eager():
        ops = traced.ops(sizes).values()
        # Collectives move no bytes of memory here, and neither do kernels whose bytes are unknown.
        moved = sum(float(op.count * op.bytes) for op in ops if isinstance(op, Kernel) and op.bytes is not None)
        return sum(float(op.count * op.kernels) for op in ops), moved


def _sizes_text(sizes: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:,.0f}" for name, value in sizes.items())


def efficiency_notes(traced: "Traced", constants: Efficiency) -> tuple[str, ...]:
    """What these constants know of convolutions, and of a host that launches kernels."""
    notes = []
    if traced.convolves and constants.convolution is None:
        notes.append(
            "these constants are of an engine without convolutions, which are priced as products of their sizes: "
            "pytorch, tensorrt, tflite, tflite-gpu, ncnn and edge-tpu have kernels for them"
        )
    if constants.host.kernel_time is not None:
        launch = formatted(constants.host.kernel_time, "s")
        notes.append(f"the host launches every kernel, {launch} each, ahead of the device")
    return tuple(notes)


def precision_notes(traced: "Traced", devices: Sequence[hwspaces.HardwareEntry]) -> tuple[str, ...]:
    """For each precision that products of float32 ask for, what they run in on each accelerator.

    One accelerator: with the peak, and with that of the most accurate precision beside it.
    """
    from workloads.traced.products import HIGHEST

    notes = []
    for name, precision in traced.asked_products():
        text = f"{name} products (precision {precision}) run {_runs(name, precision, devices)}"
        # What the same products would run in at the precision that XLA calls highest.
        if precision != HIGHEST and len(devices) == 1:
            text += f"; {ENVIRONMENT}=highest: {_runs(name, HIGHEST, devices)}"
        notes.append(text)
    return tuple(notes)


def _runs(name: str, asked: str, devices: Sequence[hwspaces.HardwareEntry]) -> str:
    """Precision, passes and, of one accelerator, peak: "as tf32 at 495 TFLOP/s on H100-SXM"."""
    from workloads.traced.products import products_of

    devices_by_text: dict[str, list[str]] = {}
    for device in devices:
        matrix = device.hardware.matrix
        precision, passes = products_of(name, asked, tuple(matrix))
        text = f"as {precision}" if passes == 1.0 else f"in {passes:g} passes of {precision}"
        # Several passes over the matrix units share their peak.
        peak = f" at {formatted(float(matrix[precision]) / passes, 'FLOP/s')}" if precision in matrix else ""
        # Peaks differ between accelerators, so that several are grouped by precision and passes alone.
        devices_by_text.setdefault(text + (peak if len(devices) == 1 else ""), []).append(device.name)
    return ", ".join(f"{text} on {' and '.join(names)}" for text, names in devices_by_text.items())
