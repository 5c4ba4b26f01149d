"""Hosts of accelerators: bandwidth of a device's link to the host's memory and of the SSDs, speed of the processor."""

import csv
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

HOSTS_FILE = Path(__file__).parents[1] / "hosts.csv"
"""Accelerators whose servers are known or assumed, each figure with its source. A row is of the server that
`servers.csv` counts the devices of; of one with a card where that does not list it."""


class Host(NamedTuple):
    """Paths of data to an accelerator that do not begin in its own memory, per direction; what launches its work."""

    host_bandwidth: float  # B/s, peak of one device's link to the host's memory, or of its share of that memory
    host_source: str
    ssd_bandwidth: float  # B/s, sequential reads of all SSDs of a server
    ssd_source: str
    cpu: str  # "" where it is of the kind that launch times were measured on, or not known
    launch_speed: float  # at which it launches work, against the Xeon processors of H100's and B200's servers
    launch_source: str


@functools.cache
def hosts() -> Mapping[str, Host]:
    """Hosts by the accelerator's name."""
    with HOSTS_FILE.open(encoding="utf-8", newline="") as file:
        return {
            row["accelerator"]: Host(
                float(row["host_GBps"]) * 1e9,
                row["host_source"],
                float(row["ssd_GBps"]) * 1e9,
                row["ssd_source"],
                row["cpu"],
                float(row["launch_speed"] or 1.0),
                row["launch_source"],
            )
            for row in csv.DictReader(file)
        }
