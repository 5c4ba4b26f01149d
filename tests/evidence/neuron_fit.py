"""Refits the fixed time of collectives over NeuronLink: `python -m tests.evidence.neuron_fit --data DIR`.

Nobody publishes collectives of Neuron devices alone. TPOT of static batches on 12 and 16 chips has two all-reduces per
layer, which take most of it, so that it says their fixed time: one for all protocols, as their sizes are too alike to
tell protocols apart.
"""

import argparse
import dataclasses
import sys
from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize_scalar

import hwspaces
from hwspaces.accelerators.link_technology import PROTOCOLS
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.jobs.request import request_cost
from jaxroof.numerics.arrays import eager
from sweeps.measure.validate.relative_errors import errors, grouped
from tests.evidence.harness import EFFICIENCY, command, data
from tests.evidence.other_devices import StaticBatch, static_batches

BOUNDS = (1e-6, 500e-6)
"""s, of the fixed time."""

TOLERANCE = 1e-7
"""s, of the search for it."""

UNUSED = ("shot", "switch", "dispatch")
"""Protocols that no torus has."""


def with_fixed_time(hardware: Hardware, seconds: float) -> Hardware:
    """The device with this fixed time in every protocol that its scale-up link uses."""
    link = hardware.links.scale_up
    used = {name: getattr(link.transport, name) for name in PROTOCOLS if name not in UNUSED}
    changed = {name: dataclasses.replace(protocol, fixed_time=seconds) for name, protocol in used.items()}
    link = dataclasses.replace(link, transport=dataclasses.replace(link.transport, **changed))
    return dataclasses.replace(hardware, links=dataclasses.replace(hardware.links, scale_up=link))


def ratios(rows: Sequence[StaticBatch], efficiency: Efficiency, seconds: float) -> np.ndarray:
    """TPOT predicted over measured, shape [rows]."""
    out = []
    with eager():
        for row in rows:
            hardware = with_fixed_time(hwspaces.hardware(row.device).hardware, seconds)
            cost = request_cost(hardware, row.entry.model, row.deployment, row.requests, efficiency)
            out.append(float(cost.tpot) / row.measured["tpot"])
    return np.array(out)


def fit(rows: Sequence[StaticBatch], efficiency: Efficiency) -> float:
    """The fixed time in s with the least mean |ln(predicted / measured)|."""

    def loss(seconds: float) -> float:
        return float(np.mean(np.abs(np.log(ratios(rows, efficiency, seconds)))))

    return float(minimize_scalar(loss, bounds=BOUNDS, method="bounded", options={"xatol": TOLERANCE}).x)


@command(data("folder with serving2/"), EFFICIENCY)
def main(options: argparse.Namespace) -> None:
    """Fit, print with each device left out and from all rows; returns the exit status."""
    efficiency = hwspaces.efficiency(options.efficiency).efficiency
    rows = list(static_batches(options.data))
    for device, out in grouped(rows, lambda row: row.device).items():
        seen = [row for row in rows if row.device != device]
        seconds = fit(seen, efficiency)
        print(f"# {device} left out: {1e6 * seconds:.1f} us; {_said(out, efficiency, seconds)}, left out")
    seconds = fit(rows, efficiency)
    print(f"# all: {_said(rows, efficiency, seconds)}, fitted")
    print("[link.NeuronLink]")
    for name in PROTOCOLS:
        if name not in UNUSED:
            print(f"{name} = {{ fixed_time_us = {1e6 * seconds:.3g} }}")


def _said(rows: Sequence[StaticBatch], efficiency: Efficiency, seconds: float) -> str:
    found = ratios(rows, efficiency, seconds)
    each = errors(found, np.ones(len(found)))
    return f"TPOT of {len(rows)} rows: median {each.median:.1%}, MAPE {each.mape:.1%}, signed {each.signed:+.1%}"


if __name__ == "__main__":
    sys.exit(main())
