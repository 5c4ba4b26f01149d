"""Tables of the prices of one engine's steps, computed on NumPy, or wherever JAX is tracing."""

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable
from typing import Any

from jaxroof.batch import Batch, Decode, Encode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.energy.energy import core_energies, other_energies, power_known
from jaxroof.hardware import Hardware
from jaxroof.layers.block import PREFIX
from jaxroof.model import Model
from jaxroof.numerics.arrays import is_traced, jax, jnp, stacked
from jaxroof.numerics.derivatives import example, output_dependence
from jaxroof.numerics.struct import Array, Scalar, static, struct
from jaxroof.numerics.tree import mapped, structure
from jaxroof.op import Ops
from jaxroof.step.forward import Rows, as_run, split_rows
from jaxroof.step.overlap import HIDDEN, overlapped_ops
from jaxroof.step.placed import placed_ops
from jaxroof.step.step import HOST, times_of

ROWS, DECODE, CONTEXT, LOGITS = 128, 16, 4, 16
"""Nodes per octave of tables over GEMM rows, decoding sequences, their mean context, and sampled rows or requests whose
images are encoded. Powers of two: every whole number up to twice as many is a node."""

MOST_DRAFTED = 16
"""Drafted tokens per sequence and step that the tables of rows have room for."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """The largest step that prices are made for: structure of the tables."""

    rows: int  # tokens of one step
    sequences: int  # that decode in one step
    context: int  # tokens of one sequence


@struct
class StepPrices:
    """Times of the parts of one micro-batch's step over `octaves`; linear between nodes, exact on them.

    The axis before the last has the values at both ends of an interval, or at all corners of a cell, so that one read
    fetches all. The last is over quantities: time in s; energy in J where the hardware's is known, that of the
    cores' voltage and that of memory and links. Tables of many lanes have a leading axis for them.
    """

    rows: Array  # shape [octaves(rows, ROWS) - 1, 2, quantities]
    decode: Array  # shape [octaves(context, CONTEXT) - 1, octaves(sequences, DECODE) - 1, 4, quantities]
    logits: Array  # the host's time comes last, shape [octaves(sequences, LOGITS) - 1, 2, quantities + 1]
    encoder: Array | None = None  # over requests, shape [octaves(sequences, LOGITS) - 1, 2, quantities]; None: it rests
    split: Array | None = None  # as `rows`, over those of one context-parallel device; None: there is one device
    others: "tuple[StepPrices, ...] | None" = None  # of steps with `lengths` drafts; None: all draft the deployment's
    lengths: tuple[float, ...] = static(default=())  # increasing


Terms = list[dict[str, Scalar]]
"""Time in s of every op of a micro-batch's step by name, and of the host; then, where known, energy in J: that of the
cores' voltage, and that of memory and links."""

OpKinds = dict[str, frozenset[str]]
"""Names of the ops that depend on all rows, on those of a context-parallel device, on decoding or logits alone, on
prompts and rows, and on anything else."""

ONE = Rows(1.0)

_KINDS: dict[Hashable, list[OpKinds]] = {}  # by structure of a place


class Parts:
    """A micro-batch's step in one place, whose ops are summed kind by kind.

    Args:
      hardware, model, deployment, efficiency: structs of scalars; inside `jaxroof.numerics.arrays.eager` also of
      columns,
        shape [lanes, 1, 1].
      kinds: of a place of the same structure, where they are known already.

    Raises:
      ValueError: one line, for a model that does not generate, which a scheduler cannot price.
    """

    def __init__(
        self,
        hardware: Hardware,
        model: Model,
        deployment: Deployment,
        efficiency: Efficiency,
        kinds: list[OpKinds] | None = None,
    ):
        if not model.generates:
            raise ValueError("a model that does not generate tokens has no decode steps to schedule")
        self._place = hardware, as_run(model, hardware), deployment, efficiency
        self._known = kinds

    @functools.cached_property
    def kinds(self) -> list[OpKinds]:
        """Of every quantity, found by running the model once on marked numbers: no list to maintain by hand.

        Places of one structure have the same, whatever their numbers.
        """
        if self._known:
            return self._known
        kind = structure(self._place)
        if kind not in _KINDS:
            _KINDS[kind] = [_kinds(marks) for marks in output_dependence(_terms, *_probe(self._place))]
        return _KINDS[kind]

    @functools.cached_property
    def _apart(self) -> bool:
        """Whether ops of other kinds are left out: what overlap hides takes the times of all."""
        return not any(HIDDEN in names for of in self.kinds for names in of.values())

    @property
    def lanes(self) -> tuple[int, ...]:
        """Shape of the columns, without their two dimensions of nodes."""
        return jnp.shape(self._place[0].memory.hbm.bandwidth)[:-2]

    def rows(self, batch: Batch, rows: Scalar) -> Rows:
        """Rows of a step of `batch` whose GEMMs have so many on all devices."""
        return split_rows(rows, batch, self._place[2])

    def has(self, kind: str) -> bool:
        """Whether anything is of this kind."""
        return any(of[kind] for of in self.kinds)

    def sums(
        self,
        kind: str,
        prompt: tuple[Any, ...] = (1.0, 1.0, 0.0),
        decoding: tuple[Any, ...] = (1.0, 1.0),
        logits: Scalar = 1.0,
        rows: Rows = ONE,
    ) -> Array:
        """Sums of all quantities over the ops of one kind, shape [quantities].

        Args:
          prompt: sequences, tokens, past.
          decoding: sequences, context.
          logits: rows with logits.
          rows: of the GEMMs.
        """
        names = [of[kind] for of in self.kinds]
        # Ops of other kinds are left out before they are priced, which is most of the work.
        quantities = _terms(self._place, prompt, decoding, logits, rows, names if self._apart else None)
        return stacked([_sum(terms, wanted) for terms, wanted in zip(quantities, names, strict=True)])

    def encoder(self, requests: Scalar, encode: Encode) -> Array:
        """Sums of all quantities over the encoder's ops for requests of `encode` each, shape [quantities]."""
        quantities = _encoder_terms(self._place, requests, encode)
        return stacked([_sum(terms, terms.keys() - {HOST}) for terms in quantities])

    def host(self, logits: Scalar) -> Array:
        """Time in s of the host, shape [1]."""
        none: list[frozenset[str]] = [frozenset() for _ in self.kinds]
        return _sum(_terms(self._place, (1.0, 1.0, 0.0), (1.0, 1.0), logits, ONE, none)[0], {HOST})[..., None]


def price_tables(parts: Parts, deployment: Deployment, limits: Limits, encode: Encode | None = None) -> StepPrices:
    """Sums of what depends on one thing alone, at all nodes of it; everything else is 1 token or sequence.

    Inside `jaxroof.numerics.arrays.eager` the numbers of `parts` may be columns, shape [lanes, 1, 1]: every table then
    has a leading axis of lanes.

    Args:
      encode: of every request; None: the encoder has no work.
    """
    # Drafted tokens are rows too: room for the most that tables are made for.
    most_rows = limits.rows + (0 if deployment.drafts is None else MOST_DRAFTED * limits.sequences)
    sampled, one = octaves(limits.sequences, LOGITS), jnp.ones(1)

    def table(function: Callable[[Scalar, Scalar], Array], first: Array, second: Array = one) -> Array:
        """Of shape [quantities] at all pairs of nodes, shape [..., first, second, quantities]."""
        # In a trace all nodes are one batched program; on NumPy they are columns of one array.
        if is_traced():
            return jax.vmap(lambda n: jax.vmap(lambda m: function(n, m))(second))(first)
        values = function(first[:, None], second[None, :])
        return jnp.broadcast_to(values, (*parts.lanes, len(first), len(second), values.shape[-1]))

    def of_rows(kind: str) -> Array:
        """Of GEMMs, collectives and norms, which are functions of the rows alone."""
        nodes = table(lambda n, _: parts.sums(kind, rows=Rows(n)), octaves(most_rows, ROWS))
        return _intervals(nodes[..., 0, :])

    # Decode attention: sequences times mean context.
    decode = table(
        lambda context, n: parts.sums("decode", decoding=(n, n * context)),
        octaves(limits.context, CONTEXT),  # changes slowly: what is read of a place lies side by side
        octaves(limits.sequences, DECODE),
    )
    logits = [table(lambda n, _: parts.sums("logits", logits=n), sampled), table(lambda n, _: parts.host(n), sampled)]
    images = None
    if encode is not None:
        images = _intervals(table(lambda n, _: parts.encoder(n, encode), sampled)[..., 0, :])
    return StepPrices(
        rows=of_rows("rows"),
        decode=_cells(decode),
        logits=_intervals(jnp.concatenate(logits, axis=-1)[..., 0, :]),
        encoder=images,
        split=of_rows("split") if parts.has("split") else None,
    )


def octaves(most: int, per_octave: int) -> Array:
    """1 and up to `most`, evenly spaced between powers of two, shape [nodes]."""
    # Nodes 1, 1 + 1/n, ... in every octave: relative resolution is the same at all sizes.
    places = (divmod(place, per_octave) for place in range(max(int(most) - 1, 1).bit_length() * per_octave + 1))
    return jnp.asarray([math.ldexp(1.0 + place / per_octave, octave) for octave, place in places], dtype=float)


def _terms(
    place: tuple[Any, ...],
    prompt: tuple[Any, ...],
    decoding: tuple[Any, ...],
    logits: Scalar,
    rows: Rows,
    names: list[frozenset[str]] | None = None,
) -> Terms:
    """Of a micro-batch's step in a place: hardware, model, deployment, efficiency.

    Args:
      names: of the ops that are wanted of every quantity; None: of all.
    """
    hardware, model, deployment, _ = place
    batch = Batch(
        prefill=Prefill(sequences=prompt[0], tokens=prompt[1], past=prompt[2]),
        decode=Decode(sequences=decoding[0], context=decoding[1]),
        logits=logits,
    )
    ops = placed_ops(overlapped_ops(model, deployment, batch, rows), hardware, model, deployment, batch)
    return _priced(place, batch, ops, names)


def _encoder_terms(place: tuple[Any, ...], requests: Scalar, encode: Encode) -> Terms:
    """Of the encoder's ops alone, in a step that prefills and does nothing else."""
    hardware, model, deployment, _ = place
    batch = Batch(
        prefill=Prefill(sequences=requests, tokens=requests, past=0.0),
        decode=None,
        logits=0.0,
        encode=mapped(lambda each: requests * each, encode),
    )
    ops = placed_ops(overlapped_ops(model, deployment, batch), hardware, model, deployment, batch)
    return _priced(place, batch, {name: op for name, op in ops.items() if PREFIX in op.layer})


def _priced(place: tuple[Any, ...], batch: Batch, ops: Ops, names: list[frozenset[str]] | None = None) -> Terms:
    """All quantities of ops of a step."""
    hardware, _, deployment, efficiency = place

    def wanted(quantity: int) -> Ops:
        return ops if names is None else {name: op for name, op in ops.items() if name in names[quantity]}

    quantities = [times_of(wanted(0), hardware, deployment, batch, efficiency)]
    if power_known(hardware):
        quantities += [core_energies(wanted(1), hardware), other_energies(wanted(2), hardware)]
    return quantities


def _intervals(values: Array) -> Array:
    """Values on nodes, shape [..., nodes, quantities], as pairs, shape [..., nodes - 1, 2, quantities]."""
    return jnp.stack([values[..., :-1, :], values[..., 1:, :]], axis=-2)


def _cells(values: Array) -> Array:
    """Values on a grid as corners of cells, shape [..., rows - 1, columns - 1, 4, quantities]: rows alternate first."""
    upper, lower = values[..., :-1, :, :], values[..., 1:, :, :]
    corners = [upper[..., :-1, :], lower[..., :-1, :], upper[..., 1:, :], lower[..., 1:, :]]
    return jnp.stack(corners, axis=-2)


def _probe(place: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Arguments of any size for `_terms`, and what each of their leaves is called; those of `place` have no name."""
    mark = {name: frozenset((name,)) for name in ("prompt", "decode", "logits", "rows", "split")}
    values = (2.0, 64.0, 16.0), (2.0, 64.0), 3.0
    marks = (mark["prompt"],) * 3, (mark["decode"],) * 2, mark["logits"]
    if place[2].cp is None:
        rows, names = Rows(66.0), Rows(mark["rows"])
    else:
        rows, names = Rows(66.0, 34.0), Rows(mark["rows"], mark["split"])
    return (example(place), *values, rows), (mapped(lambda _: frozenset(), place), *marks, names)


def _kinds(marks: dict[str, frozenset[str]]) -> OpKinds:
    """Names of the ops by what they depend on, as `OpKinds` has them."""
    kinds: dict[str, set[str]] = {kind: set() for kind in ("rows", "split", "decode", "logits", "prompt", "all")}
    for name, mark in marks.items():
        if name == HOST:
            continue
        alone = next((kind for kind in ("rows", "split", "decode", "logits") if mark <= {kind}), None)
        kinds[alone or ("prompt" if mark <= {"prompt", "rows", "split"} else "all")].add(name)
    return {kind: frozenset(names) for kind, names in kinds.items()}


def _sum(terms: dict[str, Scalar], names: frozenset[str] | set[str]) -> Array:
    """Sum of the named terms, shape ()."""
    return jnp.asarray(sum((term for name, term in terms.items() if name in names), start=0.0), dtype=float)
