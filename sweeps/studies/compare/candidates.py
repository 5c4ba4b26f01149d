"""Deployments that a comparison tries: accelerators under layouts and settings, with the room for requests."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import hwspaces
import workloads
from jaxroof.batch import Policy
from jaxroof.deployment import Deployment, request_groups
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.memory.capacity import kv_capacity_tokens, weight_bytes
from jaxroof.memory.legality import legal
from jaxroof.model import Model, has_experts
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.tree import mapped, structure
from sweeps.ask.alike import alike
from sweeps.ask.cases import cache_precision
from sweeps.ask.layouts import Layout
from sweeps.ask.layouts import layouts as layouts_on
from sweeps.ask.precisions import lacking_cache


@dataclasses.dataclass(frozen=True, eq=False)
class Setting:
    """One choice of what is tried beside accelerator and layout."""

    text: str  # what differs from the other choices: "kv fp8, token_budget 2,048"
    kv: str | None  # precision of the KV cache that is asked for
    deployment: Mapping[str, Any]  # settings of the deployment beside the layout, as a user writes them
    changes: Mapping[str, Any]  # of the engine's policy, as a user writes them
    policy: Policy


@dataclasses.dataclass(frozen=True, eq=False)
class Options:
    """Everything that is combined."""

    model: workloads.ModelEntry
    efficiency: Efficiency
    devices: Sequence[hwspaces.HardwareEntry]
    layouts: Sequence[Layout]
    settings: Sequence[Setting]
    deployments: Sequence[Sequence[Deployment]]  # by setting, then layout
    precisions: frozenset[str]  # that matrices are multiplied in
    servers: Sequence[int]  # devices of one server, by accelerator

    def hardware(self, device: int) -> Hardware:
        """Figures of an accelerator, of one structure with as many others as can be."""
        return alike(self.devices[device].hardware, self.precisions)


def accelerators(
    names: Iterable[str] | None, numbers: Mapping[str, Any], prices: str | None
) -> tuple[dict[str, hwspaces.HardwareEntry], dict[str, str]]:
    """Accelerators by the name that each was asked for, at their prices and with the figures of theirs that are set.

    Of the whole catalogue, those that a figure cannot be set of are left out.

    Args:
      names: None: all of the catalogue that are rented out.
      numbers: by dotted path; those of other structs are left alone.
      prices: as of `hwspaces.priced`.

    Returns:
      Accelerators, and reasons by the names of those that are left out.

    Raises:
      ValueError: one line, for a figure that cannot be set of an accelerator that is named, or of none.
    """
    own = {path: value for path, value in numbers.items() if path.startswith("hardware.")}
    devices, left_out = {}, {}
    for name in dict.fromkeys(hwspaces.rented_names() if names is None else names):
        device = hwspaces.priced(hwspaces.hardware(name), prices)
        try:
            # Set figures go last, so that a price that is set replaces the one of `prices`.
            devices[name] = hwspaces.overridden(device, own) if own else device
        except ValueError as refused:
            if names is not None:
                raise
            left_out[name] = str(refused).replace(f" on {device.name}", "")
    if left_out and not devices:
        raise ValueError(next(iter(left_out.values())))
    return devices, left_out


def layouts_of(counts: Iterable[int], model: Model) -> list[Layout]:
    """Layouts of one replica on so many devices each."""
    return [layout for count in counts for layout in layouts_on(count, has_experts(model))]


@dataclasses.dataclass(frozen=True, eq=False)
class MemoryRoom:
    """Bounds of every deployment, arrays of shape [settings, devices, layouts]."""

    legal: np.ndarray
    weights: np.ndarray  # B per device
    tokens: np.ndarray  # of KV cache of a replica, all attention groups together
    group_tokens: np.ndarray  # of one attention group: what one sequence can have


@dataclasses.dataclass(frozen=True, eq=False)
class CandidateColumns:
    """Deployments of one structure as columns: leaves of shape [deployments, 1]."""

    settings: tuple[int, ...]  # settings with the same deployments, which differ in policy only
    device: np.ndarray  # shape [deployments]
    layout: np.ndarray
    hardware: Hardware
    deployment: Deployment


def room(options: Options) -> MemoryRoom:
    """Bounds of every deployment."""
    shape = (len(options.settings), len(options.devices), len(options.layouts))
    bounds = {name: np.zeros(shape) for name in ("weights", "tokens", "group_tokens")}
    allowed = np.zeros(shape, bool)
    # One evaluation for all deployments of one structure: leaves broadcast to [devices, layouts].
    for settings, devices, hardware, layouts, deployment in by_structure(options):
        where = np.ix_(settings, devices, layouts)
        place = hardware, options.model.model, deployment
        with eager():
            allowed[where] = legal(*place)
            tokens = kv_capacity_tokens(*place)
            bounds["weights"][where] = weight_bytes(*place[1:])
            bounds["group_tokens"][where] = tokens
            # Every attention group has a cache of its own, for its own requests.
            bounds["tokens"][where] = tokens * request_groups(place[2])
    # No kernel reads a cache whose precision the accelerator's matrix units lack.
    for setting, device in np.ndindex(shape[:2]):
        cache = cache_precision(options.model, options.settings[setting].kv)
        if lacking_cache(options.devices[device].hardware, cache):
            allowed[setting, device] = False
    return MemoryRoom(legal=allowed, **bounds)


def columns(options: Options, wanted: np.ndarray, width: int) -> Iterator[CandidateColumns]:
    """Wanted deployments, those of one structure and setting together, at most `width` at once.

    Args:
      wanted: shape [settings, devices, layouts].
    """
    for settings, devices, hardware, layouts, deployment in _groups(options):
        # One price serves all settings of the group, so a deployment is priced where any of them wants it.
        any_of_them = wanted[np.ix_(settings, devices, layouts)].any(axis=0)
        first, second = np.nonzero(any_of_them)
        for low in range(0, len(first), width):
            rows, others = first[low : low + width], second[low : low + width]
            yield CandidateColumns(
                settings=settings,
                device=np.asarray(devices)[rows],
                layout=np.asarray(layouts)[others],
                hardware=_column(mapped(lambda leaf, rows=rows: leaf[rows], hardware), (-1, 1)),
                deployment=_column(mapped(lambda leaf, others=others: leaf[others], deployment), (-1, 1)),
            )


def _groups(options: Options) -> Iterator[tuple[tuple[int, ...], list[int], Hardware, list[int], Deployment]]:
    """Settings, and accelerators and layouts of one structure each, their leaves as arrays of shape [number]."""
    hardware = [options.hardware(device) for device in range(len(options.devices))]
    # Settings that differ in the policy alone have the same deployments, and the same costs of steps.
    alike_settings: dict[Any, list[int]] = {}
    for setting, choice in enumerate(options.settings):
        alike_settings.setdefault((choice.kv, *sorted(choice.deployment.items())), []).append(setting)
    for settings in map(tuple, alike_settings.values()):
        deployments = options.deployments[settings[0]]
        for devices in _of_one_structure(hardware):
            for layouts in _of_one_structure(deployments):
                yield (
                    settings,
                    devices,
                    _stacked([hardware[i] for i in devices]),
                    layouts,
                    _stacked([deployments[i] for i in layouts]),
                )


def by_structure(options: Options) -> Iterator[tuple[tuple[int, ...], list[int], Hardware, list[int], Deployment]]:
    """Settings, and accelerators and layouts of one structure each: leaves of shape [devices, 1] and [1, layouts]."""
    for settings, devices, hardware, layouts, deployment in _groups(options):
        yield settings, devices, _column(hardware, (-1, 1)), layouts, _column(deployment, (1, -1))


def _of_one_structure(trees: Sequence[Any]) -> list[list[int]]:
    kinds: dict[Any, list[int]] = {}
    for i, tree in enumerate(trees):
        kinds.setdefault(structure(tree), []).append(i)
    return list(kinds.values())


def _stacked(trees: Sequence[Any]) -> Any:
    # Trees of one structure become one tree whose leaves are arrays, shape [trees].
    return mapped(lambda *leaves: np.array(leaves, float), trees[0], *trees[1:])


def _column(tree: Any, shape: tuple[int, ...]) -> Any:
    return mapped(lambda leaf: leaf.reshape(shape), tree)
