"""Cost of a micro-batch at few nodes and lines between them: what the steps of a steady state are priced from."""

import dataclasses
from collections.abc import Sequence

from jaxroof.batch import Batch, Encode, prompts_and_decoding
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.model import Model
from jaxroof.numerics.arrays import is_traced, jnp
from jaxroof.numerics.struct import Array, Scalar, given
from jaxroof.prices.tables import OpKinds, Parts
from jaxroof.step.forward import Rows

ROWS = (
    *(2.0**octave for octave in range(6)),
    *(2.0 ** (6.0 + 0.25 * quarter) for quarter in range(24)),
    *(2.0**octave for octave in range(12, 18)),
)
"""Rows of a step's GEMMs: closest where a GEMM goes from reading weights to computing."""

SEQUENCES = tuple(2.0**octave for octave in range(13))
"""Sequences that decode, or that sample a token."""


class Lines:
    """A table over nodes, shape [..., nodes, quantities], linear between them and level beyond."""

    def __init__(self, nodes: Sequence[float], table: Array):
        # A table of one node stands for a constant.
        table = jnp.broadcast_to(table, (*table.shape[:-2], len(nodes), table.shape[-1]))
        ends = jnp.asarray(nodes, dtype=float)
        self._below, self._widths = ends[:-1], ends[1:] - ends[:-1]
        self._first = table[..., :1, :]
        widths = self._widths.reshape((1,) * (table.ndim - 2) + (-1, 1))
        self._slopes = (table[..., 1:, :] - table[..., :-1, :]) / widths

    def at(self, values: Array) -> Array:
        """At values of shape [..., n], shape [..., n, quantities].

        value = first + sum over intervals of slope x the part of the interval below the value: no look-up, so that it
        has a derivative and can be compiled everywhere.
        """
        below, widths = (part.reshape((1,) * values.ndim + (-1,)) for part in (self._below, self._widths))
        # Clipping each interval covers it in part: the sum telescopes to the line at the value.
        covered = jnp.clip(values[..., None] - below, 0.0, widths)
        return self._first + covered @ self._slopes


@dataclasses.dataclass(frozen=True, eq=False)
class StepCosts:
    """Costs of the parts of a micro-batch: those that depend on one number alone as lines, the others op by op.

    GEMMs are priced at nodes of their rows, and what depends on the number of sequences at `SEQUENCES`, each once.
    """

    parts: Parts
    rows: Lines
    decode: Lines  # of attention
    logits: Lines
    host: Lines  # s
    split: Lines | None  # of the rows of one context-parallel device; None: there is one device
    encoder: Lines | None  # without the host; None: it has no work
    encode: Encode | None  # of every request

    def cost(self, batch: Batch, rows: Scalar) -> tuple[Array, Array]:
        """Cost of a micro-batch and s of its host: a `jaxroof.prices.prices.MicroBatch`; numbers of shape [..., n]."""
        (prompt, decoding), step_rows = prompts_and_decoding(batch), self.parts.rows(batch, rows)
        # Zero sequences would be priced at the first node, 1: they are left out.
        some = jnp.asarray(decoding.sequences) > 0
        spent = self.rows.at(rows)
        if self.split is not None:
            spent = spent + self.split.at(step_rows.each)
        spent = spent + jnp.where(some[..., None], self.decode.at(decoding.sequences), 0.0)
        # Less than one sampled row: of several micro-batches some have none, and pay nothing.
        spent = spent + self.logits.at(batch.logits) * jnp.minimum(batch.logits, 1.0)[..., None]
        if self.encoder is not None and batch.encode is not None:
            requests = batch.encode.tokens / given(self.encode, "encoder's work of a request").tokens
            spent = spent + self.encoder.at(requests) * jnp.minimum(requests, 1.0)[..., None]
        spent = spent + self._prompts(batch, step_rows)
        if self.parts.has("all"):
            lengths = prompt.sequences, prompt.tokens, prompt.past
            context = decoding.sequences, decoding.context
            spent = spent + self.parts.sums(
                "all", prompt=lengths, decoding=context, logits=batch.logits, rows=step_rows
            )
        return spent, self.host.at(batch.logits)[..., 0]

    def _prompts(self, batch: Batch, rows: Rows) -> Array | float:
        """Cost of the ops that depend on prompts; 0 where there are none, whose ops would divide by zero."""
        prompt, _ = prompts_and_decoding(batch)
        work = jnp.asarray(prompt.tokens) > 0
        # On NumPy a batch without prompts skips their ops; in a trace it cannot know.
        if not self.parts.has("prompt") or not (is_traced() or work.any()):
            return 0.0
        numbers = (prompt.sequences, 1.0), (prompt.tokens, 1.0), (prompt.past, 0.0)
        lengths = tuple(jnp.where(work, length, least) for length, least in numbers)
        return jnp.where(work[..., None], self.parts.sums("prompt", prompt=lengths, rows=rows), 0.0)


def step_costs(
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    efficiency: Efficiency,
    context: Scalar,
    encode: Encode | None = None,
    rows: Sequence[float] | Array = ROWS,
    kinds: list[OpKinds] | None = None,
) -> StepCosts:
    """Costs of micro-batches whose decoding sequences attend to `context` tokens each.

    Args:
      hardware, deployment, efficiency: structs of numbers, or of columns of shape [..., 1].
      encode: of every request; None: the encoder has no work.
      rows: nodes of the rows of a step's GEMMs.
      kinds: as `Parts` takes them.
    """
    parts = Parts(hardware, model, deployment, efficiency, kinds)
    sequences, nodes = jnp.asarray(SEQUENCES), Rows(jnp.asarray(rows))
    # Each op is priced at the nodes of what it depends on alone: a few dozen evaluations for all batches of a search.
    return StepCosts(
        parts=parts,
        rows=Lines(rows, parts.sums("rows", rows=nodes)),
        decode=Lines(SEQUENCES, parts.sums("decode", decoding=(sequences, sequences * context))),
        logits=Lines(SEQUENCES, parts.sums("logits", logits=sequences)),
        host=Lines(SEQUENCES, parts.host(sequences)),
        split=Lines(rows, parts.sums("split", rows=nodes)) if parts.has("split") else None,
        encoder=None if encode is None else Lines(SEQUENCES, parts.encoder(sequences, encode)),
        encode=encode,
    )
