"""Published times of expert kernels, predicted: `python -m tests.evidence.expert_exchange`.

Nothing is fitted to them: constants are those that `tests.evidence.expert_tables` fits to measured tables of H100 and
H200. Published ones are of H800, whose NVLink has less than half of H100's bandwidth, and of 8 to 256 devices.
"""

import argparse
import dataclasses
import sys

import hwspaces
from jaxroof.collectives import collective_time
from jaxroof.efficiency import LinkEfficiency
from jaxroof.fanout import Fanout, copies, distinct_devices
from jaxroof.op import Collective
from sweeps.measure.validate.exchange_rows import shipped
from tests.evidence.harness import command

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
        return Fanout(
            holders=self.devices,
            experts=EXPERTS,
            choices=TOP_K,
            groups=self.groups,
            reached=reached,
            token_bytes=self.token_bytes,
            back=self.operation == "combine",
        )

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

CORES = 24.0
"""Cores that DeepEP's own tables of its normal kernels were measured with: tests/test_internode.py, num_sms."""


def predicted(row: Published) -> float:
    """Time in s of one entry with the shipped constants: of kernels that forward, transmission alone."""
    links = hwspaces.hardware(row.device).hardware.links
    kernels = dataclasses.replace(shipped(), cores=CORES, notify_time=0.0, peer_time=0.0)
    return float(collective_time(links, row.op, LinkEfficiency(losses=1.0, exchange=kernels)))


@command()
def main(options: argparse.Namespace) -> None:
    """Print every entry with its prediction; returns the exit status."""
    for row in TABLES:
        time = predicted(row)
        print(
            f"{row.source[-40:]:42}{row.device:10}{row.operation:9}{row.devices:5g} devices  "
            f"{row.measured * 1e6:8.0f} us  predicted {time * 1e6:8.0f} us  {100 * (time / row.measured - 1):+6.1f} %"
        )


if __name__ == "__main__":
    sys.exit(main())
