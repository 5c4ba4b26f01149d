"""One layer of a model: its mixer and its feed-forward, whatever their kinds, with norms and collectives around."""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from jaxroof.batch import Batch, Encode, Prefill
from jaxroof.deployment import Deployment, degree, tokens_per_sequence
from jaxroof.deployment.rule import Rule, heads_rule
from jaxroof.layers.attention import Attention, attention_matrices, fused_only, kv_heads_per_device
from jaxroof.layers.attention_kernels import fused_attention
from jaxroof.layers.collective import all_reduce
from jaxroof.layers.hyper_connections import stream_mix, stream_spread
from jaxroof.layers.linear import Matrices, Matrix, elementwise, norm, projection
from jaxroof.layers.registry import feed_forward_kind, mixer_kind
from jaxroof.layers.sight import mean_length
from jaxroof.model import Block, Encoder, Projection, WeightFormat
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.op import AttentionShape, Kernel, Ops, in_layer, with_role


def cross_attention_matrices(cross: Attention, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device; keys and values are projections of the encoder's output."""
    heads = cross.heads / deployment.tp
    # The same sizes as of self-attention, but keys and values multiply the encoder's output, in the prefill alone.
    keys = kv_heads_per_device(cross, deployment) * (cross.head_dim + cross.value_dim)
    output = attention_matrices(cross, hidden, deployment)["o_proj"]
    return {
        "cross_q_proj": Matrix(hidden, heads * cross.head_dim, cross.qkv, reads_norm=True),
        "cross_kv_proj": Matrix(hidden, keys, cross.qkv, reads_norm=True),  # the encoder's last norm
        "cross_o_proj": output,
    }


def cross_attention_ops(
    cross: Attention, hidden: Scalar, deployment: Deployment, batch: Batch, tokens: Scalar, count: Scalar
) -> Ops:
    """Ops of one cross-attention layer: every token sees all `batch.encoded` outputs of its sequence's encoder.

    Keys and values are projected in the step that encodes, and read from the cache in every step.
    """
    activation = deployment.activation_bytes
    matrices = cross_attention_matrices(cross, hidden, deployment)
    ops = projection("cross_q_proj", tokens, matrices["cross_q_proj"], activation, count)
    # The encoder's keys and values do not change while decoding: projected once, read in every step.
    if batch.encode is not None:
        outputs = batch.encode.sequences * batch.encoded
        ops |= projection("cross_kv_proj", outputs, matrices["cross_kv_proj"], activation, count)
    # Every query sees all encoder outputs: no mask, and pairs are a plain product.
    for name, part in (("prefill", batch.prefill), ("decode", batch.decode)):
        if part is None:
            continue
        if isinstance(part, Prefill):
            queries = mean_length(part.tokens, part.sequences) / degree(deployment.cp)
        else:
            queries = tokens_per_sequence(deployment)
        shape = AttentionShape(
            sequences=part.sequences,
            queries=queries,
            keys=batch.encoded,
            pairs=queries * batch.encoded,
            heads=cross.heads / deployment.tp,
            kv_heads=kv_heads_per_device(cross, deployment),
            key_width=cross.head_dim,
            value_width=cross.value_dim,
            kv_bytes=deployment.kv_bytes,
            causal=False,
        )
        kernel = fused_attention(f"{name}_attention", deployment, shape, count, role="cross_attention")
        ops[f"cross_{name}_attention"] = kernel
    return ops | projection("cross_o_proj", tokens, matrices["cross_o_proj"], activation, count)


def cross_attention_rules(cross: Attention, deployment: Deployment) -> Iterator[Rule]:
    """What a layer asks of a deployment."""
    yield from fused_only(cross, deployment)
    yield heads_rule(deployment.tp, cross.kv_heads, "KV")


def block_matrices(block: Block, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device, by the name of the op that multiplies with them."""
    matrices: Matrices = {}
    if block.attention is not None:
        matrices |= mixer_kind(block.attention).matrices(block.attention, hidden, deployment)
    if isinstance(block.cross, Attention):
        matrices |= cross_attention_matrices(block.cross, hidden, deployment)
    if block.feedforward is not None:
        matrices |= feed_forward_kind(block.feedforward).matrices(block.feedforward, hidden, deployment)
    return matrices


def block_ops(
    block: Block, hidden: Scalar, deployment: Deployment, batch: Batch, tokens: Scalar, group_tokens: Scalar
) -> Ops:
    """Ops of one layer of `block` in the order they run, each counted `block.count` times.

    Args:
      hidden: width of the residual stream.
      batch: of this device's attention group.
      tokens: of the group on this device.
      group_tokens: of all groups that share experts.
    """
    count = block.count
    # Sequence parallelism: between the two halves of an all-reduce each device has its share of the tokens, and norms
    # work on those alone.
    rows = tokens / deployment.tp if deployment.sequence_parallel else tokens
    around = _around(block, rows, hidden, deployment)
    ops: Ops = {}
    if block.attention is not None:
        mixer_ops = mixer_kind(block.attention).ops
        ops |= around.before("attention")
        ops |= with_role(mixer_ops(block.attention, hidden, deployment, batch, tokens, count), "mixer")
        # Parallel blocks (GPT-J, PaLM) add both outputs before one all-reduce: half of the messages.
        if not block.parallel:
            ops |= all_reduce("attention", tokens, hidden, deployment, count) | around.after("attention")
    if isinstance(block.cross, Attention):
        ops |= around.before("cross")
        ops |= with_role(cross_attention_ops(block.cross, hidden, deployment, batch, tokens, count), "mixer")
        ops |= all_reduce("cross", tokens, hidden, deployment, count) | around.after("cross")
    if block.feedforward is None:
        return ops
    if not block.parallel:
        ops |= around.before("feedforward")
    layer_ops = feed_forward_kind(block.feedforward).ops
    ops |= layer_ops(block.feedforward, hidden, deployment, tokens, group_tokens, count)
    return ops | all_reduce("feedforward", tokens, hidden, deployment, count) | around.after("feedforward")


class _Around(NamedTuple):
    """Kernels on the residual stream before and after each sublayer of a layer."""

    ending: str  # of the name of the one before
    first: Kernel
    last: Kernel | None

    def before(self, sublayer: str) -> Ops:
        return {f"{sublayer}_{self.ending}": self.first}

    def after(self, sublayer: str) -> Ops:
        return {} if self.last is None else {f"{sublayer}_spread": self.last}


def _around(block: Block, rows: Scalar, hidden: Scalar, deployment: Deployment) -> _Around:
    """A norm before each sublayer; of several residual streams their mixing before and what spreads over them after."""
    if block.streams is None:
        return _Around("norm", norm(rows, hidden, deployment.activation_bytes, block.count * block.norms), None)
    of = (block.streams, rows, hidden, deployment, block.count)
    return _Around("mix", stream_mix(*of), stream_spread(*of))


# Ops of an encoder in the step that prefills: embedding, blocks over its own tokens, projector.


PREFIX = "encoder."
"""The layer of an encoder's ops, which their names begin with."""


def encoder_deployment(encoder: Encoder, deployment: Deployment) -> tuple[Deployment, Array]:
    """Deployment of an encoder on the tp devices, and the share of its tokens that each of them works on, shape ().

    Blocks are split like the decoder's where tp divides their heads and widths. Where it does not, every device has
    the whole encoder and encodes 1 / tp of the images (vLLM's mm_encoder_tp_mode = "data"). Context-parallel devices
    encode all tokens each.
    """
    # Whether tp divides the encoder is data, as tp is swept: both layouts are priced by one formula with a switch.
    tp = deployment.tp
    split = jnp.asarray(True)
    for block in encoder.blocks:
        mixer, layer = block.attention, block.feedforward
        if mixer is None or layer is None:
            raise ValueError("a block of the encoder has no mixer, or no feed-forward")
        split = split & (jnp.mod(mixer.heads, tp) == 0.0) & (jnp.mod(layer.intermediate, tp) == 0.0)
    own = dataclasses.replace(deployment, tp=jnp.where(split, tp, 1.0), cp=None)
    # Data-parallel encoding: whole weights on each device, and 1 / tp of the images.
    return own, jnp.where(split, 1.0, 1.0 / tp)


def encoder_matrices(encoder: Encoder, deployment: Deployment) -> list[tuple[Matrices, float]]:
    """Weight matrices of the encoder on one device with how many layers have them; words' embedding left out."""
    deployment, _ = encoder_deployment(encoder, deployment)
    outer = {f"projector_{i}": Matrix(*_sizes(layer)) for i, layer in enumerate(encoder.projector)}
    if encoder.inputs is not None:
        outer["embedding"] = Matrix(encoder.inputs, encoder.hidden, encoder.embedding)
    blocks = [(block_matrices(block, encoder.hidden, deployment), block.count) for block in encoder.blocks]
    return [(outer, 1.0), *blocks]


def encoder_ops(encoder: Encoder, deployment: Deployment, encode: Encode) -> Ops:
    """Ops that turn `encode` into vectors for the decoder, in the order they run.

    Embedding and projector are whole on every device; `encoder_deployment` says how blocks are spread.
    """
    deployment, share = encoder_deployment(encoder, deployment)
    activation, tokens = deployment.activation_bytes, encode.tokens * share
    if encoder.inputs is None:
        ops: Ops = {
            "embedding": elementwise(
                tokens,
                reads=encoder.hidden,
                writes=encoder.hidden,
                element_bytes=activation,
                flops=encoder.hidden,
                count=1.0,
            )
        }
    else:
        matrix = Matrix(encoder.inputs, encoder.hidden, encoder.embedding)
        ops = projection("embedding", tokens, matrix, activation, 1.0)
    ops = with_role(ops, "embedding")
    # To its blocks an encoder's input is a prompt without a past and without sampling.
    batch = Batch(prefill=Prefill(sequences=encode.sequences * share, tokens=tokens, past=0.0), decode=None, logits=0.0)
    for index, block in enumerate(encoder.blocks):
        prefix = f"{index}." if len(encoder.blocks) > 1 else ""
        ops |= in_layer(block_ops(block, encoder.hidden, deployment, batch, tokens, tokens), prefix)
    ops["final_norm"] = norm(tokens, encoder.hidden, activation, 1.0)
    for index, layer in enumerate(encoder.projector):
        # Projectors merge patches first (2 x 2 in Qwen2-VL): fewer, wider tokens for the decoder.
        ops |= projection(f"projector_{index}", tokens / encoder.merged, Matrix(*_sizes(layer)), activation, 1.0)
    return in_layer(with_role(ops, "projector"), PREFIX)


def _sizes(layer: Projection) -> tuple[Scalar, Scalar, WeightFormat]:
    return layer.inputs, layer.outputs, layer.weights
