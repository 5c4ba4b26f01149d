"""Market prices of accelerators: the rows of `prices.csv`, and the one figure that stands for several of them."""

import csv
import dataclasses
import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from hwspaces.technology_tables import common, table
from hwspaces.units import TEXT_UNITS

FILE = Path(__file__).with_name("prices.csv")

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
    found: dict[str, list[Offer]] = {}
    with open(FILE, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            offer = Offer(**{**row, "usd": float(row["usd"])})  # type: ignore[arg-type]  # the other columns are text
            found.setdefault(offer.accelerator, []).append(offer)
    return {name: tuple(rows) for name, rows in found.items()}


@functools.cache
def market_price(name: str, terms: str = "on_demand") -> Price | None:
    """What an accelerator of the catalogue costs per hour; None where no row says so.

    Args:
      name: its canonical name.
      terms: a key of TERMS. What nobody rents out on demand, and is sold, has its price as new over its life.
    """
    rows = offers().get(name, ())
    rented = summarised([offer for offer in rows if offer.terms == terms])
    return _bought(rows) if rented is None and terms == "on_demand" else rented


def _bought(rows: Sequence[Offer]) -> Price | None:
    """The price as new over the life of a device in the cost model, in every hour of it, without electricity."""
    new = [offer for offer in rows if (offer.terms, offer.kind) == ("purchase", "new")]
    if not new:
        return None
    counted = newest(new)
    usd = _median([offer.usd for offer in counted])
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
    for kind, words in SELLERS.items():
        own = [offer for offer in rows if offer.kind == kind]
        if own:
            counted = newest(own)
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
    if len(rows) == 1:
        return f"{sources}: {rows[0].note}" if rows[0].note else sources
    return f"{', '.join(f'{offer.seller} {offer.usd:g}' for offer in rows)}: {sources}"
