"""Servers that accelerators are sold and rented in: how many of them one has, and devices that whole servers charge."""

import csv
import functools
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("servers.csv")
"""Accelerators that come several to a board, a tray or a host, each with its source. Cards, workstations, boards and
phones, whose servers hold any number of them, are not in it."""

MOST_DEVICES = 100_000
"""Devices of a server at most."""


@functools.cache
def servers() -> Mapping[str, int]:
    """Devices of one server by the accelerator's name."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return {row["accelerator"]: int(row["devices"]) for row in csv.DictReader(file)}


def server_devices(name: str, node: int | None = None) -> int:
    """Devices of one server of an accelerator; 1 where they are sold one by one, or nothing is known.

    Args:
      name: of the accelerator.
      node: devices of one server, in place of those that are known.

    Raises:
      ValueError: one line, for a server of no whole number of devices.
    """
    if node is None:
        return servers().get(name, 1)
    if node not in range(1, MOST_DEVICES + 1):
        raise ValueError(f"node = {node} must be a whole number from 1 to {MOST_DEVICES:,}, devices of one server")
    return int(node)


def charged_devices(used: float | np.ndarray, server: float | np.ndarray) -> np.ndarray:
    """Devices that a replica is charged for where whole servers are rented, which may be a fraction.

    Replicas smaller than a server share it, as many as fit whole: each is charged its part. A larger one has servers of
    its own.

    Args:
      used: devices of the replica.
      server: devices of a server.
    """
    used, server = np.asarray(used, float), np.asarray(server, float)
    fit = np.maximum(np.floor(server / used), 1.0)
    return np.where(used <= server, server / fit, server * np.ceil(used / server))


def servers_text(used: int, server: int) -> str:
    """How replicas of `used` devices fill servers of `server` devices, and what each is charged for, in words."""
    charged = float(charged_devices(used, server))
    words, paid = (f"{of:.4g} device{'s' * (of != 1)}" for of in (used, charged))
    if used > server:
        return f"a replica of {words} takes {math.ceil(used / server)} servers of {server}: charged {paid}"
    if (fit := server // used) == 1:
        return f"a replica of {words} takes a server of {server}: charged {paid}"
    return f"{fit} replicas of {words} share a server of {server}: each is charged {paid}"


def rented_devices(charged: float | np.ndarray, replicas: float | np.ndarray, server: float | np.ndarray) -> np.ndarray:
    """Devices of the whole servers that so many replicas take together.

    Args:
      charged: of one replica, as of `charged_devices`.
      replicas: how many.
      server: devices of a server.
    """
    return np.asarray(server * np.ceil(np.asarray(charged, float) * replicas / server - 1e-9))
