"""Predicted times of collectives against measured ones, by device, library, collective, group and message size."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hwspaces.engines.collectives import OwnCollectives
from jaxroof.collectives import collective_time
from jaxroof.efficiency import ExpertExchange, LinkEfficiency
from jaxroof.fanout import Fanout
from jaxroof.hardware import Links, Transport
from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from jaxroof.numerics.struct import Scalar, given, struct
from jaxroof.op import Collective as CollectiveOp
from sweeps.measure.validate.collective_rows import (
    ANY,
    COPY_SHARE,
    EAGER,
    EAGER_COPIES,
    LIKE_NCCL,
    MeasuredCollective,
    collectives,
    launch_time,
    own_collectives,
)
from sweeps.measure.validate.measured_csv import LeftOut, require_some
from sweeps.measure.validate.relative_errors import error_summary, grouped, stack

BANDS = ((2.0**16, "< 64 KiB"), (2.0**20, "64 KiB to 1 MiB"), (2.0**26, "1 to 64 MiB"), (float("inf"), ">= 64 MiB"))
"""Upper end in B and name of each band of message sizes."""


@struct
class _Case:
    """What a prediction needs of a row, as numbers."""

    links: Links
    participants: Scalar
    message_bytes: Scalar
    shot_limit: Scalar  # B
    copy_time: Scalar  # s
    launch_time: Scalar  # s
    eager_byte_time: Scalar  # s per B of the message
    slowdown: Scalar  # of kernels with an engine's own settings against those with the best ones
    fanout: Fanout | None  # of tokens that nodes may forward
    kernels: ExpertExchange | None  # that move them


@dataclasses.dataclass(frozen=True)
class ScoredCollective:
    """A row with its prediction."""

    row: MeasuredCollective
    predicted: float  # s


@dataclasses.dataclass(frozen=True)
class CollectiveErrors:
    """Every row of the files, scored or left out."""

    scored: tuple[ScoredCollective, ...]
    left_out: tuple[LeftOut, ...]

    def errors(self, *keys: str) -> dict[tuple[str, ...], dict[str, float]]:
        """Per group of rows that agree in `keys` of `GROUPS`: rows, mape, median_ape, signed_median."""
        groups = grouped(self.scored, lambda scored: tuple(GROUPS[key](scored.row) for key in keys))
        return {group: summary(part) for group, part in sorted(groups.items(), key=lambda item: _order(item[0]))}


def summary(scored: Sequence[ScoredCollective]) -> dict[str, float]:
    """rows, mape, median_ape and signed_median of predicted / measured - 1."""
    return error_summary([each.predicted for each in scored], [each.row.seconds for each in scored])


def collective_errors(path: str | Path, losses: float = 1.0) -> CollectiveErrors:
    """Predictions for every collective of a CSV file or a folder of them; rows without a finite one are left out.

    Args:
      path: a file of one of the forms of `collective_rows`, or a folder.
      losses: share of the links' measured losses that applies.

    Raises:
      ValueError: one line, as `collective_rows.collectives`.
    """
    rows, left_out = collectives(path)
    # No device's link is replaced: predictions are those of the catalogue.
    predicted = np.asarray(times(rows)(lambda device: None, losses))
    pairs = list(zip(rows, predicted, strict=True))
    left_out += [
        LeftOut(row.line, "", f"the predicted time, {time:g} s, is not finite", row.file)
        for row, time in pairs
        if not np.isfinite(time)
    ]
    scored = tuple(ScoredCollective(row, float(time)) for row, time in pairs if np.isfinite(time))
    require_some(path, scored, left_out)
    return CollectiveErrors(scored, tuple(left_out))


def times(rows: Sequence[MeasuredCollective]) -> Callable[[Callable[[str], Transport | None], Scalar], jax.Array]:
    """A function from transports and losses to the times in s of all `rows`, shape [rows].

    Its first argument gives the latency and transport of a device's scale-up link in place of the catalogue's, or
    None to leave it. Rows of one device, collective and set of algorithms are evaluated together.
    """

    def alike(position: int) -> tuple[Any, ...]:
        row = rows[position]
        exchange = row.exchange
        parts = () if exchange is None else (exchange.fanout, exchange.kernels)
        return row.device, row.kind, row.algorithms, jax.tree.structure((row.links, parts))

    # Rows of one structure become one stack, priced by one compiled function.
    groups = grouped(range(len(rows)), alike)
    stacks = [(*key[:3], stack([_case(rows[i]) for i in positions])) for key, positions in groups.items()]
    # Inverts the grouping: results in the order of the rows.
    order = np.argsort(np.concatenate(list(groups.values())))

    def predicted(replacement: Callable[[str], Any], losses: Scalar) -> jax.Array:
        times = (_group_times(*group, cases, replacement(device), losses) for device, *group, cases in stacks)
        return jnp.concatenate(list(times))[order]

    return predicted


@functools.partial(jax.jit, static_argnums=(0, 1))
def _group_times(kind: str, algorithms: tuple[str, ...], cases: _Case, changed: Any, losses: Scalar) -> jax.Array:
    return jax.vmap(lambda case: _case_time(kind, algorithms, case, changed, losses))(cases)


def _case_time(kind: str, algorithms: tuple[str, ...], case: _Case, changed: Any, losses: Scalar) -> jax.Array:
    """Time in s of one row: the collective and the family's copies, or the host's launch where that takes longer.

    time = max(launch_time, collective + copies of the family) + copies of an eager run

    Args:
      changed: fields of the scale-up link to replace, or None.
    """
    scale_up = dataclasses.replace(given(case.links.scale_up, "scale-up link"), **(changed or {}))
    # Up to which message an engine's own kernels run is the engine's choice, not the link's.
    if scale_up.transport is not None:
        transport = dataclasses.replace(scale_up.transport, shot_limit=case.shot_limit)
        scale_up = dataclasses.replace(scale_up, transport=transport)
    links = dataclasses.replace(case.links, scale_up=scale_up)
    message, members = case.message_bytes, case.participants
    efficiency = LinkEfficiency(losses=losses, exchange=case.kernels)
    if kind == ANY:
        ops = (CollectiveOp(operation=name, count=1.0, kernels=1.0, message_bytes=message, participants=members)
               for name in FOUR)  # fmt: skip
        return jnp.median(jnp.stack([collective_time(links, op, efficiency, algorithms) for op in ops]))
    op = CollectiveOp(
        operation=kind, count=1.0, kernels=1.0, message_bytes=message, participants=members, fanout=case.fanout
    )
    # Kernels of the engine itself; the library's algorithms choose among themselves.
    own = tuple(name for name in algorithms if name in ("one_shot", "two_shot"))
    kernel = collective_time(links, op, efficiency, tuple(name for name in algorithms if name not in own))
    if own and kind == "all_reduce":
        # Copies into and out of symmetric memory are made only where the switch reduces.
        copies = case.copy_time * scale_up.reduces
        kernel = jnp.minimum(kernel, copies + collective_time(links, op, efficiency, own))
    return jnp.maximum(case.launch_time, kernel * case.slowdown) + case.eager_byte_time * case.message_bytes


FOUR = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
"""Collectives that a row of kind `ANY` is the median of."""


def _case(row: MeasuredCollective) -> _Case:
    # Launches and copies of the message are part of the time only where the host runs each collective by itself.
    eager = row.mode == EAGER
    family = OwnCollectives() if row.exchange is not None else own_collectives(row.family, row.version)
    return _Case(
        links=row.links,
        participants=row.participants,
        message_bytes=row.message_bytes,
        shot_limit=family.largest,
        copy_time=family.copy_time,
        launch_time=launch_time(row),
        slowdown=1.0 if row.exchange is None else 1.0 / row.exchange.tuned,
        eager_byte_time=EAGER_COPIES / (COPY_SHARE * row.memory_bandwidth) if eager else 0.0,
        fanout=None if row.exchange is None else row.exchange.fanout,
        kernels=None if row.exchange is None else row.exchange.kernels,
    )


def band(message_bytes: float) -> str:
    """Name of the band of sizes that a message falls into."""
    # The last band is open, so that every message has one.
    return next(name for end, name in BANDS if message_bytes < end)


def family_name(row: MeasuredCollective) -> str:
    """Library or engine, with the mode where there is more than one: "vllm eager"."""
    return row.family if row.mode == "stream" else f"{row.family} {row.mode}"


def kind_name(row: MeasuredCollective) -> str:
    """Which of the stated families of collectives a row belongs to: "all_reduce", "custom all_reduce", ..."""
    if row.exchange is not None:
        return f"{row.exchange.mode} {'combine' if row.exchange.back else 'dispatch'}"
    return row.kind if row.family in LIKE_NCCL else f"custom {row.kind}"


GROUPS: Mapping[str, Callable[[MeasuredCollective], str]] = {
    "device": lambda row: row.device,
    "family": family_name,
    "collective": kind_name,
    "devices": lambda row: f"{row.participants:g}" + (" across nodes" if row.crosses else ""),
    "size": lambda row: band(row.message_bytes),
}
"""What rows are grouped by -> the group of a row."""


def _order(group: tuple[str, ...]) -> tuple[Any, ...]:
    names = [name for _, name in BANDS]
    # Bands sort by size, other groups by name.
    return tuple((names.index(key), key) if key in names else (0, key) for key in group)
