"""Result of a fit of one class of kernels: constants, and errors on devices that were left out."""

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxroof.efficiency.timing import NINETY_PERCENT, SHORT
from sweeps.measure.kernel_data.group import KernelGroup
from sweeps.measure.validate.relative_errors import Errors, errors
from tests.evidence.learned_kernels.blocks import left_out_sites

FOLDERS = ("kernels", "kernels3")
"""Folders of tables of kernels, of older and of newer releases; one that is not there is passed over."""

SITES = 7
"""One site of so many is left out of every fit."""

ARCHITECTURES = {
    "a100_sxm": "Ampere",
    "l40s": "Ada and RTX Blackwell",
    "rtx_pro_6000_server": "Ada and RTX Blackwell",
    "h100_sxm": "Hopper",
    "h200_sxm": "Hopper",
    "b200_sxm": "Blackwell",
}
"""Device of the measured tables -> the architecture that is left out together with it."""


class Source(NamedTuple):
    """A kernel of one release on one device."""

    device: str
    kernel: str  # the engine's name of it
    version: str  # of the engine
    precision: str  # as the table says it


def sources(groups: Iterable[KernelGroup]) -> tuple[Source, ...]:
    """Those of some groups of rows, in order."""
    return tuple(sorted({_source(group) for group in groups}))


def _source(group: KernelGroup) -> Source:
    return Source(group.device, group.kernel, group.version, group.precision)


@dataclasses.dataclass(frozen=True)
class KernelFit:
    """Constants of one class of kernels of one engine."""

    path: str  # where they belong: a kind and a class of `jaxroof.efficiency.kernels.Kernels`, "linear.wide"
    kernel: Any  # the struct of constants, its spread included
    engine: str
    sources: tuple[Source, ...]  # that were fitted, in order
    rows: int
    errors: Errors  # of the rows that were fitted
    held_out: dict[str, tuple[Errors, Errors]]  # device -> errors over all rows and over long ones, without its
    # architecture in the fit
    blind: dict[str, Any]  # device -> the struct of constants that was fitted without its architecture
    moved: tuple[str, ...] = ()  # names of the constants that were fitted; the others are those of `like`
    like: str | None = None  # path of the class whose constants it has but for those that were fitted

    @property
    def devices(self) -> list[str]:
        """Those that were fitted."""
        return sorted({one.device for one in self.sources})

    @property
    def kernels(self) -> list[str]:
        """The engine's names of the kernels that were fitted."""
        return sorted({one.kernel for one in self.sources})

    @property
    def versions(self) -> list[str]:
        """Of the engine, that were fitted."""
        return sorted({one.version for one in self.sources})

    def covers(self, group: KernelGroup) -> bool:
        """Whether it was fitted to the kernel of some rows, on their device, in their release and precision."""
        return _source(group) in self.sources


def all_rows(load: Callable[[Path], list[KernelGroup]], data: Path) -> list[KernelGroup]:
    """Rows of one kind of kernel in all folders of measured data; tables that a folder lacks are passed over.

    Raises:
      ValueError: one line, where no folder has them.
    """
    found, missing = list[KernelGroup](), ""
    for name in FOLDERS:
        try:
            found += load(data / name)
        except ValueError as error:
            if not str(error).endswith("no such file"):
                raise
            missing = missing or str(error)
    if not found and missing:
        raise ValueError(missing)
    return found


def released(version: str) -> bool:
    """Whether it is a version of an engine and no state of its source."""
    return version[:1].isdigit()


SITE_COLUMNS = {"GEMM": ("n", "k"), "experts": ("hidden_size", "inter_size", "num_experts")}
"""Family -> the columns of a site, which is a layer; a site of other families is all numbers of a row."""


def unseen_sites(group: KernelGroup) -> np.ndarray:
    """Mask of the rows of a group whose site no fit sees that leaves sites out, shape [rows]."""
    sizes = [group.columns[name] for name in SITE_COLUMNS.get(group.family, ())]
    return held_sites(*sizes) if sizes else left_out_sites(group)


def held_sites(*sizes: np.ndarray) -> np.ndarray:
    """Rows whose site, the sizes of a layer, no fit sees: a fixed hash, shape [rows]."""
    mixed = np.zeros(len(sizes[0]), np.uint64)
    for size in sizes:
        # Knuth's multiplicative hash, one size after the other.
        mixed = (mixed ^ size.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(33)) % np.uint64(SITES) == 0


def errors_by_length(predicted: np.ndarray, measured: np.ndarray) -> tuple[Errors, Errors]:
    """Errors over all rows, and over those that take `SHORT` and more; arrays of s, shape [rows]."""
    long = measured >= SHORT
    return errors(predicted, measured), errors(predicted[long], measured[long])


def deviation(logs: np.ndarray) -> float:
    """Standard deviation of the normal distribution that has as much as 90 % of these absolute log errors within."""
    return float(np.quantile(logs, 0.9) / NINETY_PERCENT)
