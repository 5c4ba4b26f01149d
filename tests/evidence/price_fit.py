"""Rental margin over the cost of owning, and estimated prices: `python -m tests.evidence.price_fit`."""

import argparse
import csv
import dataclasses
import functools
import math
import statistics
import sys
from collections.abc import Iterable, Mapping

import hwspaces
from hwspaces.accelerators.prices import Offer, market_price, newest, offers, quarter
from jaxroof.chip.cost import device_price, owning_rate
from tests.evidence.harness import command

REFERENCES = {
    "MI308X": "MI300X",
    "MI455X": "MI350X",
    "Ascend-950DT": "H800-SXM",
    "Ascend-950PR": "H800-SXM",
    "Trainium3": "Trainium2",
}
"""Accelerators without a known process or TDP -> the one that is nearest in vendor, or in market, and generation."""

OWN_USE = ("MTIA-300", "MTIA-400")
"""Accelerators of known process and TDP that their maker neither sells nor rents out."""

NEIGHBOURS = (
    *(("A100-SXM-80GB", "H100-SXM"), ("H100-SXM", "H200-SXM"), ("H200-SXM", "B200-SXM"), ("B200-SXM", "B300-SXM")),
    *(("MI300X", "MI325X"), ("MI325X", "MI350X"), ("A100-PCIe-80GB", "H100-PCIe"), ("B300-SXM", "GB300")),
)
"""Pairs of one vendor whose prices are both known, as far from each other as those of REFERENCES."""


@dataclasses.dataclass(frozen=True)
class Margin:
    """Ratios of market prices to a prediction: their geometric mean, and the standard deviation of their logarithms."""

    ratios: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Geometric mean."""
        return math.exp(statistics.mean(map(math.log, self.ratios.values())))

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithms; 0.2 is a factor of 1.2 up or down for two of three accelerators."""
        return statistics.stdev(map(math.log, self.ratios.values()))


FEWEST = 3
"""Accelerators that a vendor's own margin is of. Vendors differ: the price to buy in the cost model is a guess."""


def margin_of(name: str) -> tuple[str, Margin]:
    """Whose rental margin an accelerator gets: its vendor's where enough of those are sold, else everybody's."""
    vendor = hwspaces.hardware(name).vendor
    for sellers in (2, 1):
        own = rental_margin(sellers, vendor)
        if len(own.ratios) >= FEWEST:
            return vendor, own
    return "all", rental_margin()


@functools.cache
def rental_margin(sellers: int = 2, vendor: str | None = None) -> Margin:
    """Neoclouds' median on demand over the cost of owning at TDP, of accelerators that at least `sellers` of them sell.

    The cost of owning is that of every hour in use (`jaxroof.chip.cost.owning_rate`), of a device at its price as new.
    """
    ratios = {}
    for name, rows in neoclouds().items():
        if vendor not in (None, hwspaces.hardware(name).vendor):
            continue
        if len(rows) >= sellers and (owning := owning_per_hour(name)) is not None:
            ratios[name] = statistics.median(row.usd for row in rows) / owning
    return Margin(ratios)


def bandwidth_margin() -> Margin:
    """Price of the second of NEIGHBOURS over that of the first, times the ratio of their memory bandwidths."""
    market = neoclouds()
    ratios = {}
    for first, second in NEIGHBOURS:
        prices = [statistics.median(row.usd for row in market[name]) for name in (first, second)]
        ratios[second] = prices[1] / (prices[0] * _bandwidths(first, second))
    return Margin(ratios)


def neoclouds() -> dict[str, list[Offer]]:
    """Offers on demand of neoclouds in the file's newest quarter, by accelerator."""
    every = [row for rows in offers().values() for row in rows]
    last = quarter(max(row.date for row in every))
    found: dict[str, list[Offer]] = {}
    for row in every:
        if (row.terms, row.kind, quarter(row.date)) == ("on_demand", "neocloud", last):
            found.setdefault(row.accelerator, []).append(row)
    return found


def owning_per_hour(name: str) -> float | None:
    """USD per hour of use of owning a device at TDP; at the published price as new where there is one."""
    hardware = hwspaces.hardware(name).hardware
    if hardware.costs is None or hardware.power.tdp is None:
        return None
    published = _published(name)
    if published is not None:
        factor = published / float(device_price(hardware))
        costs = dataclasses.replace(hardware.costs, margin=hardware.costs.margin * factor)
        hardware = dataclasses.replace(hardware, costs=costs)
    return float(owning_rate(hardware, hardware.power.tdp)) * 3600.0


def estimates() -> list[Offer]:
    """A row for every accelerator that nobody offers on demand, and whose cost of owning or neighbour is known."""
    date = max(row.date for rows in neoclouds().values() for row in rows)
    unsold = [name for name in hwspaces.names() if not _sold(offers().get(name, ())) and name not in OWN_USE]
    return [_estimate(name, date) for name in unsold if name in REFERENCES or owning_per_hour(name) is not None]


def _sold(rows: Iterable[Offer]) -> bool:
    return any(row.terms == "on_demand" and row.kind != "estimate" for row in rows)


def _estimate(name: str, date: str) -> Offer:
    owning = owning_per_hour(name)
    if owning is not None:
        whose, fit = margin_of(name)
        margin = round(fit.mean, 2)
        usd = owning * margin
        source = (
            f"cost model: owning at TDP{_bought(name)} ({owning:.3g} USD/h) x rental margin of {whose} ({margin:g})"
        )
    else:
        reference = REFERENCES[name]
        price = market_price(reference).usd_per_hour
        usd = price * _bandwidths(reference, name)
        source = f"{reference} ({price:.3g} USD/h) x ratio of memory bandwidths ({_bandwidths(reference, name):.3g})"
    return Offer(name, "on_demand", float(f"{usd:.3g}"), "", "estimate", "", date, source, "")


def _published(name: str) -> float | None:
    """USD that a device costs as new, as far as that is published."""
    rows = [row for row in offers().get(name, ()) if (row.terms, row.kind) == ("purchase", "new")]
    return newest(rows)[0].usd if rows else None


def _bought(name: str) -> str:
    usd = _published(name)
    return "" if usd is None else f", bought for {usd:,.0f} USD"


def _bandwidths(first: str, second: str) -> float:
    """Memory bandwidth of the second accelerator over that of the first."""
    widths = [hwspaces.hardware(name).hardware.memory.hbm.bandwidth for name in (first, second)]
    return widths[1] / widths[0]


@command()
def main(options: argparse.Namespace) -> None:
    """Print the fits, what they are from, and the rows of the estimates; returns the exit status."""
    for title, margin in (
        ("price over owning, at least 2 sellers", rental_margin()),
        ("price over owning, every seller", rental_margin(1)),
        ("price over owning, AMD, every seller", rental_margin(1, "AMD")),
        ("price over owning, NVIDIA, at least 2 sellers", rental_margin(2, "NVIDIA")),
        ("price over a neighbour's x ratio of memory bandwidths", bandwidth_margin()),
    ):
        print(f"{title}: {margin.mean:.3f}, spread {margin.spread:.3f}, {len(margin.ratios)} accelerators")
        print("  " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in margin.ratios.items()))
    rows = csv.writer(sys.stdout, lineterminator="\n")
    for row in estimates():
        rows.writerow([f"{value:g}" if isinstance(value, float) else value for value in row])


if __name__ == "__main__":
    sys.exit(main())
