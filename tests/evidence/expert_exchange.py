"""Published times of expert kernels, predicted and fitted: `python -m tests.evidence.expert_exchange`.

The low-latency kernels' constants of hwspaces/technology/links.toml are fitted to half of the groups and judged on the
other half. Of kernels that forward tokens inside of nodes nothing is fitted: NCCL's constants for an all-to-all predict
them.
"""

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import hwspaces
from jaxroof.collectives import collective_time
from jaxroof.efficiency import LinkEfficiency
from jaxroof.hardware import Links
from jaxroof.op import Collective, Fanout, copies, distinct_devices
from sweeps.run.precision import precision
from tests.evidence.harness import command
from tests.evidence.least_squares import fitted
from tests.evidence.parameters import Parameter

HIDDEN, EXPERTS, TOP_K, NODE = 7168.0, 256.0, 8.0, 8.0
"""Elements of a token, experts, those that it is sent to, and devices of a node in all of the tables."""

FP8, BF16 = 1.0 + 4.0 / 128.0, 2.0
"""B per element: with a scale of 4 B per 128 elements there, and plain ones back."""

FORWARDED = "deepseek-ai/DeepEP, docs/legacy.md: normal kernels, 4096 tokens"
FORWARDED_LATER = "deepseek-ai/DeepEP, README.md: V2, 8192 tokens"
LOW_LATENCY = "deepseek-ai/DeepEP, docs/legacy.md: low-latency kernels, 128 tokens"


@dataclasses.dataclass(frozen=True)
class Published:
    """One entry of a table."""

    source: str
    device: str  # of the catalogue
    operation: str  # "dispatch" or "combine"
    devices: float
    tokens: float  # of one device
    seconds: float | None = None
    bandwidth: float | None = None  # B/s, with what stays on the device or in its node
    groups: float | None = None  # a node each, of which the router reaches at most four

    @property
    def token_bytes(self) -> float:
        """B of one token."""
        return HIDDEN * (FP8 if self.operation == "dispatch" else BF16)

    @property
    def fanout(self) -> Fanout:
        """Who needs a token."""
        reached = None if self.groups is None else min(self.groups, 4.0)
        return Fanout(holders=self.devices, experts=EXPERTS, choices=TOP_K, groups=self.groups, reached=reached)

    @property
    def measured(self) -> float:
        """Time in s; of bandwidths that of all copies to nodes, or to devices in one node."""
        if self.seconds is not None:
            return self.seconds
        parts = self.devices / NODE if self.devices > NODE else self.devices
        return self.tokens * self.token_bytes * float(copies(self.fanout, parts)) / self.bandwidth

    @property
    def op(self) -> Collective:
        """The collective that the table has timed."""
        low_latency = self.seconds is not None
        sent = TOP_K if low_latency else float(distinct_devices(self.devices, EXPERTS, TOP_K))
        return Collective(
            count=1.0,
            kernels=1.0,
            operation=self.operation if low_latency else "all_to_all",
            message_bytes=self.tokens * sent * self.token_bytes,
            participants=self.devices,
            fanout=None if low_latency else self.fanout,
        )


def _bandwidths(source: str, device: str, tokens: float, *entries: tuple[float, float, float]) -> list[Published]:
    """Rows of devices and GB/s of dispatch and combine."""
    limited = source == FORWARDED
    return [
        Published(
            source,
            device,
            operation,
            devices,
            tokens,
            bandwidth=rate * 1e9,
            groups=devices / NODE if limited and devices > NODE else None,
        )
        for devices, *rates in entries
        for operation, rate in zip(("dispatch", "combine"), rates, strict=True)
    ]


TABLES = [
    *_bandwidths(FORWARDED, "H800-SXM", 4096.0, (8, 153, 158), (16, 43, 43), (32, 58, 57), (64, 51, 50)),
    *_bandwidths(FORWARDED_LATER, "H100-SXM", 8192.0, (16, 90, 81), (32, 61, 61)),
    *_bandwidths(FORWARDED_LATER, "B200-SXM", 8192.0, (8, 726, 740), (16, 90, 91)),
    *(
        Published(LOW_LATENCY, "H800-SXM", operation, devices, 128.0, seconds=microseconds * 1e-6)
        for operation, row in (
            ("dispatch", {8: 77, 16: 118, 32: 155, 64: 173, 128: 192, 256: 194}),
            ("combine", {8: 114, 16: 195, 32: 273, 64: 314, 128: 369, 256: 360}),
        )
        for devices, microseconds in row.items()
    ),
]
"""All published entries. V2's table names architectures alone: their usual products are taken."""

FITTED = (8, 32, 128)
"""Devices of the low-latency rows that are fitted; the others judge."""

PARAMETERS = [
    Parameter("fixed_time", 4e-5, 1.5, 1e-6, 1e-3, "weak prior: tens of microseconds"),
    Parameter("scale_up.share", 0.8, 1.5, 0.05, 1.0, "weak prior"),
    Parameter("scale_out.share", 0.8, 1.5, 0.05, 1.0, "weak prior"),
]
"""Constants of low-latency kernels: the fixed time is the kernel's and so common to the links."""


def predicted(row: Published, values: dict[str, Any] | None = None) -> Any:
    """Time in s of one entry, with the catalogue's constants or with others of low-latency kernels."""
    links = hwspaces.hardware(row.device).hardware.links
    return collective_time(links if values is None else _replaced(links, values), row.op, LinkEfficiency(losses=1.0))


def _replaced(links: Links, values: dict[str, Any]) -> Links:
    changed = {}
    for tier in ("scale_up", "scale_out"):
        link = getattr(links, tier)
        protocol = dataclasses.replace(
            link.transport.dispatch, fixed_time=values["fixed_time"], share=values[f"{tier}.share"]
        )
        changed[tier] = dataclasses.replace(link, transport=dataclasses.replace(link.transport, dispatch=protocol))
    return dataclasses.replace(links, **changed)


def fit(rows: Sequence[Published]) -> dict[str, float]:
    """Constants of low-latency kernels that minimise log ratios over `rows`."""
    import jax.numpy as jnp

    with precision("float64"):
        return fitted(
            lambda values: jnp.stack([predicted(row, values) for row in rows]),
            [row.measured for row in rows],
            [0.05] * len(rows),
            PARAMETERS,
        )


@command()
def main(options: argparse.Namespace) -> None:
    """Print every entry with its prediction, and refitted constants; returns the exit status."""
    for row in TABLES:
        time, part = float(predicted(row)), "fitted" if row.source == LOW_LATENCY and row.devices in FITTED else "other"
        print(
            f"{row.source[-40:]:42}{row.device:10}{row.operation:9}{row.devices:5g} devices  {part:7}"
            f"{row.measured * 1e6:8.0f} us  predicted {time * 1e6:8.0f} us  {100 * (time / row.measured - 1):+6.1f} %"
        )
    low = [row for row in TABLES if row.source == LOW_LATENCY]
    half, whole = fit([row for row in low if row.devices in FITTED]), fit(low)
    print("# of all low-latency rows", {path: f"{value:.4g}" for path, value in whole.items()})
    time, up, out = half["fixed_time"] * 1e6, half["scale_up.share"], half["scale_out.share"]
    print(f"[link.NVLink]\ndispatch = {{ fixed_time_us = {time:.3g}, share = {up:.3g} }}")
    print(f"[link.network]\ndispatch = {{ share = {out:.3g} }}")


if __name__ == "__main__":
    sys.exit(main())
