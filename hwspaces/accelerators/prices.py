"""Servers that accelerators are sold and rented in: how many of them one has, and devices that whole servers charge."""

import csv
import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hwspaces.accelerators.technology_tables import common, table
from hwspaces.quantities.units import TEXT_UNITS

SERVERS_FILE = Path(__file__).parents[1] / "servers.csv"
"""Accelerators that come several to a board, a tray or a host, each with its source. Cards, workstations, boards and
phones, whose servers hold any number of them, are not in it."""

MOST_DEVICES = 100_000
"""Devices of a server at most."""


@functools.cache
def servers() -> Mapping[str, int]:
    """Devices of one server by the accelerator's name."""
    with SERVERS_FILE.open(encoding="utf-8", newline="") as file:
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
    # Replicas of one server share its devices evenly, those that none of them uses included.
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
    # The slack keeps a whole number, which rounding puts a little above itself, from taking one more server.
    return np.asarray(server * np.ceil(np.asarray(charged, float) * replicas / server - 1e-9))


# Market prices of accelerators: the rows of `prices.csv`, and the one figure that stands for several of them.


FILE = Path(__file__).parents[1] / "prices.csv"

TERMS = {
    "on_demand": "on demand",
    "reserved_1y": "reserved for 1 year",
    "reserved_3y": "reserved for 3 years",
    "spot": "spot",
}
"""Terms of renting, and what they are called. Rows of the term `purchase` hold USD per device."""

SELLERS = {
    "neocloud": "neocloud",
    "china": "seller in China",
    "hyperscaler": "hyperscaler's list",
    "marketplace": "marketplace",
    "estimate": "estimate",
}
"""Kinds of sellers, the preferred one first. They are never mixed: the same device costs others twice as much or half.

Neoclouds come first: most sellers of most accelerators are of this kind. A hyperscaler's list is what few pay. At a
marketplace a device can be taken away, and its host is unknown.
"""


BOUGHT = "bought"
"""In place of a kind of seller: nobody rents the device out, and its price as new is spread over its life."""


class Offer(NamedTuple):
    """One row of the prices file."""

    accelerator: str  # canonical name
    terms: str  # a key of TERMS, or "purchase"
    usd: float  # per device and hour; of a purchase, per device
    seller: str
    kind: str  # a key of SELLERS; of a purchase, "new", "used" or "rack" (a device's part of a whole rack)
    region: str
    date: str  # ISO 8601, as exact as it is known: 2026-10-01, 2026-10, 2026
    source: str
    note: str


@dataclasses.dataclass(frozen=True)
class Price:
    """Price of renting one accelerator, and what kind of price it is."""

    usd_per_hour: float
    kind: str  # in words: "on demand, neocloud, median of 8", "estimate", "given in FILE", "bought new for 75 USD, ..."
    date: str | None  # ISO 8601, of the newest row that it is from
    source: str
    seller: str = "own"  # a key of SELLERS, BOUGHT, or a price of the user's own

    @property
    def estimate(self) -> bool:
        """Whether it is computed: nobody sells at this price, as far as is known."""
        return self.seller in ("estimate", BOUGHT)

    @property
    def text(self) -> str:
        """It in words: "3.99 USD/h (on demand, neocloud, median of 8, 2026-10-10)"."""
        return f"{self.usd_per_hour:.3g} USD/h ({self.kind}{f', {self.date}' if self.date else ''})"

    def record(self) -> dict[str, str | float | bool | None]:
        """It for machines."""
        words = {"kind": self.kind, "date": self.date, "source": self.source, "seller": self.seller}
        return {"price_usd_per_hour": self.usd_per_hour} | {f"price_{name}": value for name, value in words.items()}


@functools.cache
def offers() -> dict[str, tuple[Offer, ...]]:
    """Every row of the prices file, by the accelerator's canonical name."""
    rows_by_name: dict[str, list[Offer]] = {}
    with open(FILE, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            cells: dict[str, Any] = {**row, "usd": float(row["usd"])}  # the other columns are text
            offer = Offer(**cells)
            rows_by_name.setdefault(offer.accelerator, []).append(offer)
    return {name: tuple(rows) for name, rows in rows_by_name.items()}


@functools.cache
def market_price(name: str, terms: str = "on_demand") -> Price | None:
    """What an accelerator of the catalogue costs per hour; None where no row says so.

    Args:
      name: its canonical name.
      terms: a key of TERMS. What nobody rents out on demand, and is sold, has its price as new over its life.
    """
    rows = offers().get(name, ())
    # A device that is only sold has a price per hour as well, as long as nobody asks for other terms.
    rented = summarised([offer for offer in rows if offer.terms == terms])
    return _bought(rows) if rented is None and terms == "on_demand" else rented


def _bought(rows: Sequence[Offer]) -> Price | None:
    """The price as new over the life of a device in the cost model, in every hour of it, without electricity."""
    new = [offer for offer in rows if (offer.terms, offer.kind) == ("purchase", "new")]
    if not new:
        return None
    # Purchases age like offers do: the newest quarter alone counts.
    counted = newest(new)
    usd = _median([offer.usd for offer in counted])
    # Life in s, a constant of the cost model.
    life = table("cost", "usual", common(), "hwspaces/catalogue")[0]["life"]
    return Price(
        usd_per_hour=usd / (life / 3600.0),
        kind=f"bought new for {usd:,.0f} USD, over {life / TEXT_UNITS['s']['year']:g} years",
        date=max(offer.date for offer in counted),
        source=_cited(counted),
        seller=BOUGHT,
    )


def summarised(rows: Sequence[Offer]) -> Price | None:
    """The median of the rows that count, of one accelerator and one term.

    Rows of the first kind in SELLERS that has any count, and of these the ones of the newest quarter. The kind goes
    before the date: in 2026 one seller's prices rose by half in eight months, while kinds differ by factors.
    """
    # The first kind, in order of preference, that has a row decides: kinds are never mixed.
    for kind, words in SELLERS.items():
        own = [offer for offer in rows if offer.kind == kind]
        if own:
            counted = newest(own)
            # A median says of how many rows it is, a single row whose it is.
            many = f", median of {len(counted)}" if len(counted) > 1 else f", {counted[0].seller}"
            return Price(
                usd_per_hour=_median([offer.usd for offer in counted]),
                kind=words if kind == "estimate" else f"{TERMS[counted[0].terms]}, {words}{many}",
                date=max(offer.date for offer in counted),
                source=_cited(counted),
                seller=kind,
            )
    return None


def newest(rows: Sequence[Offer]) -> list[Offer]:
    """The rows of the newest quarter among them."""
    # Quarters are texts that sort by time.
    last = max(quarter(offer.date) for offer in rows)
    return [offer for offer in rows if quarter(offer.date) == last]


def quarter(date: str) -> str:
    """Quarter of a date: "2026-10-04" is in "2026-Q4". A year alone comes before all of its quarters."""
    return f"{date[:4]}-Q{(int(date[5:7]) + 2) // 3}" if len(date) > 4 else date


def _median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two; the standard library's takes longer to import than the file to read."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else 0.5 * (ordered[half - 1] + ordered[half])


def _cited(rows: Iterable[Offer]) -> str:
    """Sellers with their prices, then where those were read and what is to know about them."""
    rows = list(rows)
    sources = "; ".join(dict.fromkeys(offer.source for offer in rows))
    # A single row has room for its note; several show the spread of prices by seller.
    if len(rows) == 1:
        return f"{sources}: {rows[0].note}" if rows[0].note else sources
    return f"{', '.join(f'{offer.seller} {offer.usd:g}' for offer in rows)}: {sources}"
