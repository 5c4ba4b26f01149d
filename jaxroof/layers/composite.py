"""Two mixers side by side: both read one norm's output, and the sum of what they give is one layer's."""

from collections.abc import Callable, Iterator
from typing import Any

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.deployment.rule import Rule, heads_rule
from jaxroof.layers.attention import (
    Attention,
    adapted_sizes,
    attention_kept_tokens,
    attention_kv_bytes,
    attention_matrices,
    attention_ops,
    attention_rules,
    attention_width,
)
from jaxroof.layers.collective import all_reduce
from jaxroof.layers.feedforward import (
    FEED_FORWARD,
    feedforward_matrices,
    feedforward_ops,
    feedforward_rules,
    feedforward_width,
)
from jaxroof.layers.linear import Matrices, Matrix, elementwise, projection
from jaxroof.layers.protocol import MixerKind, Sizes
from jaxroof.model import FeedForward, Mixer, WeightFormat
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar, struct
from jaxroof.op import Ops


@struct
class SideBySide:
    """An attention layer with a cache and a layer with a state, run one after the other on the same input.

    Source: Falcon-LLM Team, arXiv:2507.22448 (Falcon-H1), section 2.
    """

    attention: Mixer
    recurrence: Mixer

    @property
    def heads(self) -> Scalar:
        """Heads of the attention, which tensor-parallel devices split."""
        return self.attention.heads


def side_by_side(kind_of: Callable[[Mixer], MixerKind]) -> MixerKind:
    """What the cost model asks of two mixers, of what it asks of each, which `kind_of` gives."""

    def parts(mixer: SideBySide) -> list[tuple[Mixer, MixerKind]]:
        return [(part, kind_of(part)) for part in (mixer.attention, mixer.recurrence)]

    def merged(name: str) -> Callable[..., dict[str, Any]]:
        def union(mixer: SideBySide, *arguments: Any) -> dict[str, Any]:
            combined: dict[str, Any] = {}
            # Names of the two parts' ops differ, so a union loses none.
            for part, kind in parts(mixer):
                combined |= getattr(kind, name)(part, *arguments)
            return combined

        return union

    def summed(name: str) -> Callable[[SideBySide, Deployment], Scalar]:
        def total(mixer: SideBySide, deployment: Deployment) -> Scalar:
            # A state has no bytes per token and attention no fixed bytes: parts without the function add nothing.
            each = [(part, getattr(kind, name)) for part, kind in parts(mixer)]
            return sum(value(part, deployment) for part, value in each if value is not None)

        return total

    def rules(mixer: SideBySide, deployment: Deployment) -> Iterator[Rule]:
        # That tp divides `heads`, the attention's, is asked of every mixer; the recurrence has a number of its own.
        yield heads_rule(deployment.tp, mixer.recurrence.heads, "state")
        for part, kind in parts(mixer):
            yield from kind.rules(part, deployment)

    return MixerKind(
        matrices=merged("matrices"),
        ops=merged("ops"),
        width=summed("width"),
        token_bytes=summed("token_bytes"),
        # Only the attention caches tokens; the recurrence keeps a state of fixed size.
        kept_tokens=lambda mixer, context: kind_of(mixer.attention).kept_tokens(mixer.attention, context),
        fixed_bytes=summed("fixed_bytes"),
        writes_scores=True,
        recurrent=True,
        rules=rules,
        adapted=merged("adapted"),
    )


# A transformer layer whose weights several places of a model use, with low-rank products of each place's own.


@struct
class SharedTransformer:
    """Attention and a feed-forward in front of a layer with a state, with one copy of weights for `uses` places.

    Attention reads the hidden state and the token's embedding side by side (`Attention.inputs` 2). Every place has
    matrices of its own: a product of low rank that adds to queries, keys and values, one that adds to the up
    projections, and a square projection of the result. They are on every tensor-parallel device but for the second half
    of a low-rank product, which is split as what it adds to.

    Source: Glorioso et al., arXiv:2411.15242 (Zamba2), section 2; transformers, modeling_zamba2.py.
    """

    attention: Attention
    feedforward: FeedForward
    uses: Scalar  # places that multiply with one copy of the shared weights
    attention_rank: Scalar | None  # of a place's own product for queries, keys and values; None: none
    feedforward_rank: Scalar | None  # of a place's own product for the up projections; None: none
    own: WeightFormat  # of the matrices that a place has for itself

    @property
    def heads(self) -> Scalar:
        """Heads of the attention, which tensor-parallel devices split."""
        return self.attention.heads


def _shared(mixer: SharedTransformer, matrices: Matrices) -> Matrices:
    # Shared weights are multiplied at every place but stored once: `uses` divides their bytes, not their FLOP.
    return {name: matrix._replace(uses=mixer.uses) for name, matrix in matrices.items()}


def shared_transformer_matrices(mixer: SharedTransformer, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one place on one device: those of the shared layer, and its own."""
    attention = attention_matrices(mixer.attention, hidden, deployment)
    feedforward = feedforward_matrices(mixer.feedforward, hidden, deployment)
    matrices = _shared(mixer, attention | feedforward)
    # LoRA-like: a place's own difference from the shared matrices.
    if mixer.attention_rank is not None:  # queries, keys and values have a first half each
        qkv = attention["qkv_proj"]
        matrices["qkv_low_down"] = Matrix(qkv.inputs, 3.0 * mixer.attention_rank, mixer.own, reads_norm=True)
        matrices["qkv_low_up"] = Matrix(mixer.attention_rank, qkv.outputs, mixer.own)
    if mixer.feedforward_rank is not None:
        outputs = feedforward["up_proj"].outputs
        matrices["up_low_down"] = Matrix(hidden, mixer.feedforward_rank, mixer.own, reads_norm=True)
        matrices["up_low_up"] = Matrix(mixer.feedforward_rank, outputs, mixer.own)
    return matrices | {"place_proj": Matrix(hidden, hidden, mixer.own, to_residual=True)}


def shared_transformer_ops(
    mixer: SharedTransformer, hidden: Scalar, deployment: Deployment, batch: Batch, tokens: Scalar, count: Scalar
) -> Ops:
    """Ops of one place in the order they run. Shapes (); `tokens` counts prefill and decode together.

    The sum over devices behind the feed-forward is the block's own.
    """
    activation = deployment.activation_bytes
    matrices = shared_transformer_matrices(mixer, hidden, deployment)

    def own(*names: str) -> Ops:
        ops: Ops = {}
        for name in names:
            if name in matrices:
                ops |= projection(name, tokens, matrices[name], activation, count)
        return ops

    # The hidden state and the embedding are copied side by side before the shared layer reads them.
    joined = matrices["qkv_proj"].inputs
    return {
        "concatenation": elementwise(
            tokens, reads=joined, writes=joined, element_bytes=activation, flops=0.0, count=count
        ),
        **own("qkv_low_down", "qkv_low_up"),
        **attention_ops(mixer.attention, hidden, deployment, batch, tokens, count),
        **all_reduce("shared_attention", tokens, hidden, deployment, count),
        **own("up_low_down", "up_low_up"),
        **feedforward_ops(mixer.feedforward, hidden, deployment, tokens, count),
        **own("place_proj"),
    }


def shared_transformer_rules(mixer: SharedTransformer, deployment: Deployment) -> Iterator[Rule]:
    """What a layer asks of a deployment: every place is where its weights are."""
    yield from attention_rules(mixer.attention, deployment)
    yield from feedforward_rules(mixer.feedforward, deployment)
    if deployment.pp is not None:
        yield (
            jnp.asarray(deployment.pp <= 1.0),
            lambda: f"pp = {deployment.pp:g} splits layers into stages, but layers in several of them share weights",
        )


def _adapted(mixer: SharedTransformer, hidden: Scalar, deployment: Deployment) -> Sizes:
    sizes = adapted_sizes(mixer.attention, hidden, deployment)
    return sizes | FEED_FORWARD.adapted(mixer.feedforward, hidden, deployment)


SHARED_TRANSFORMER = MixerKind(
    matrices=shared_transformer_matrices,
    ops=shared_transformer_ops,
    width=lambda mixer, deployment: (
        attention_width(mixer.attention, deployment) + feedforward_width(mixer.feedforward, 0.0, deployment)
    ),
    token_bytes=lambda mixer, deployment: attention_kv_bytes(mixer.attention, deployment),
    kept_tokens=lambda mixer, context: attention_kept_tokens(mixer.attention, context),
    writes_scores=True,
    rules=shared_transformer_rules,
    adapted=_adapted,
)
"""What the cost model asks of a shared transformer layer."""
