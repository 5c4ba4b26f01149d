"""Layers with a state in place of a cache: chunked over a prompt, one recurrence per decoded token."""

import dataclasses
from collections.abc import Iterator

from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.deployment import Deployment, tokens_per_sequence
from jaxroof.deployment.rule import Rule, heads_rule
from jaxroof.layers.attention import NORM_FLOPS
from jaxroof.layers.linear import OPERAND_BYTES, Matrices, Matrix, elementwise, launched, projection
from jaxroof.layers.protocol import MixerKind
from jaxroof.layers.sight import mean_length
from jaxroof.model import WeightFormat
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Scalar, static, struct
from jaxroof.op import Kernel, Ops, StateShape, WindowShape


@struct
class LinearAttention:
    """A layer with a state in place of a cache: gated delta net, Kimi delta attention, Mamba-2, lightning attention.

    Every head keeps a state of key_dim x value_dim numbers. Mamba-2's names: heads are `nheads`, key heads its groups,
    key_dim is `d_state`, value_dim is `headdim`; its C, B and x are queries, keys and values.

    Source: Yang, Kautz & Hatamizadeh, arXiv:2412.06464 (gated delta networks); Dao & Gu, arXiv:2405.21060 (Mamba-2);
    Kimi Team, arXiv:2510.26692 (Kimi delta attention); Qin et al., arXiv:2401.04658 (lightning attention).
    """

    heads: Scalar  # of values: states
    key_heads: Scalar  # of queries and keys, shared by heads / key_heads heads each
    key_dim: Scalar
    value_dim: Scalar
    gates: Scalar  # further outputs of the input projection per head: output gate, decay, write strength
    gate_rank: Scalar | None  # rank of two more gates of heads x value_dim that are low-rank projections; None: none
    convolution: Scalar | None  # tokens in the short convolution over queries, keys and values; None: none
    rule: str = static()  # "delta": what a key recalls is replaced; "decay": keys and values are added
    channelwise: bool = static(default=False)  # every element of a key has a decay of its own, not every head
    input: WeightFormat
    output: WeightFormat


CHUNK = 64.0
"""Tokens that a prompt kernel works on as one block; as flash-linear-attention's kernels do."""

STATE_FLOPS = {"delta": 7.0, "decay": 5.0}
"""Vector FLOP per state element and decoded token: decay, recall and correct (delta), write, read."""


def linear_attention_matrices(attention: LinearAttention, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device; heads are split over tp, low-rank gates' first halves are not."""
    heads, key_heads = attention.heads / deployment.tp, key_heads_per_device(attention, deployment)
    values = heads * attention.value_dim
    # Queries and keys have one vector per key head, values and gates one per value head.
    outputs = 2.0 * key_heads * attention.key_dim + values + heads * attention.gates
    matrices = {"in_proj": Matrix(hidden, outputs, attention.input, reads_norm=True)}
    # Gates of low rank: one shared down projection per gate, on every device, and up projections split by heads.
    if attention.gate_rank is not None:
        matrices["gate_down_proj"] = Matrix(hidden, 2.0 * attention.gate_rank, attention.input, reads_norm=True)
        matrices["gate_up_proj"] = Matrix(attention.gate_rank, values, attention.input, 2.0)
    return matrices | {"out_proj": Matrix(values, hidden, attention.output, to_residual=True)}


def linear_attention_ops(
    attention: LinearAttention, hidden: Scalar, deployment: Deployment, batch: Batch, tokens: Scalar, count: Scalar
) -> Ops:
    """Ops of one layer in the order they run. Shapes (); `tokens` counts prefill and decode together."""
    activation, values = deployment.activation_bytes, attention.heads / deployment.tp * attention.value_dim
    matrices = linear_attention_matrices(attention, hidden, deployment)
    ops = projection("in_proj", tokens, matrices["in_proj"], activation, count)
    if attention.gate_rank is not None:
        ops |= projection("gate_down_proj", tokens, matrices["gate_down_proj"], activation, count)
        # Two gates, each with its own matrix: a grouped product of twice the rows.
        ops |= projection("gate_up_proj", 2.0 * tokens, matrices["gate_up_proj"], activation, count)
    if attention.convolution is not None:
        channels = convolved_channels(attention, deployment)
        ops |= convolution_ops(channels, attention.convolution, deployment, batch, count)
    # Prompts run in chunks as matrix products, decoding as a recurrence: two kernels of the same layer.
    if batch.prefill is not None:
        ops["prefill_linear_attention"] = chunked_prefill(attention, deployment, batch.prefill, count)
    if batch.decode is not None:
        ops["decode_linear_attention"] = recurrent_decode(attention, deployment, batch.decode, count)
    ops["gated_norm"] = elementwise(
        tokens,
        reads=2.0 * values,
        writes=values,
        element_bytes=activation,
        flops=(NORM_FLOPS + 2.0) * values,
        count=count,
        exps=values,
    )
    return ops | projection("out_proj", tokens, matrices["out_proj"], activation, count)


def chunked_prefill(attention: LinearAttention, deployment: Deployment, prefill: Prefill, count: Scalar) -> Kernel:
    """A prompt in chunks of c tokens: attention within a chunk, a state of key_dim x value_dim from chunk to chunk.

    One fused kernel that keeps the state in registers, as FlashInfer's does.

    Matrix FLOP per token and head, of causal products one half:
    decay: c (d_k + d_v) within, 4 d_k d_v to and from the state;
    delta: besides c (2 d_k + d_v) + c^2 / 3 for keys against keys, their triangular inverse and what it multiplies,
    and 2 d_k d_v to correct by what the state recalls.

    Source: Yang, Wang, Zhang, Shen & Kim, arXiv:2406.06484, section 3 (chunked delta rule); Dao & Gu,
    arXiv:2405.21060, section 6 (chunked decay).
    """
    heads, compute = attention.heads / deployment.tp, deployment.attention_compute
    keys, values = attention.key_dim, attention.value_dim
    # Within a chunk: masked products of queries with keys (c d_k) and scores with values (c d_v), half of 2 c each as
    # causal. Across: the chunk's keys and values into the state, and its queries times the state.
    within, across = CHUNK * (keys + values), 4.0 * keys * values
    # Delta rule in WY form: keys against keys, a triangular inverse of c x c, and its products with keys and values.
    if attention.rule == "delta":
        within = within + CHUNK * (2.0 * keys + values) + CHUNK * CHUNK / 3.0
        across = across + 2.0 * keys * values
    # One state per sequence, read at the start and written at the end: linear in the length, where attention is
    # quadratic.
    states = prefill.sequences * heads * keys * values * deployment.state_bytes
    rows = 2.0 * key_heads_per_device(attention, deployment) * keys + 2.0 * heads * values
    return Kernel(
        kind="prefill_attention",
        precision=compute,
        count=count,
        kernels=launched(prefill.tokens),
        phase="prefill",
        matrix_flops=prefill.tokens * heads * (within + across),
        operand_bytes=OPERAND_BYTES[compute],
        vector_flops=prefill.tokens * heads * 3.0 * CHUNK,
        exps=prefill.tokens * heads * CHUNK,
        bytes=2.0 * states + prefill.tokens * rows * deployment.activation_bytes,
        shape=_states(
            attention, deployment, prefill.sequences, mean_length(prefill.tokens, prefill.sequences), 2.0, CHUNK
        ),
    )


def recurrent_decode(attention: LinearAttention, deployment: Deployment, decode: Decode, count: Scalar) -> Kernel:
    """One token per sequence: its state is read, changed and written.

    Where drafted tokens are verified together, the state is read once and written after each of them, for the engine
    goes on from the last one that is accepted (vLLM and SGLang: a state per drafted token).
    """
    new = tokens_per_sequence(deployment)
    tokens = decode.sequences * new
    heads = attention.heads / deployment.tp
    elements = heads * attention.key_dim * attention.value_dim
    rows = 2.0 * key_heads_per_device(attention, deployment) * attention.key_dim + 2.0 * heads * attention.value_dim
    # Every token writes the whole state: bytes do not grow with the context, but do with heads x d_k x d_v.
    passes = 1.0 + new
    states = passes * decode.sequences * elements * deployment.state_bytes
    return Kernel(
        kind="decode_attention",
        count=count,
        kernels=launched(tokens),
        phase="decode",
        # A matrix-vector update has no reuse: vector units, bound by memory.
        vector_flops=tokens * STATE_FLOPS[attention.rule] * elements,
        exps=tokens * (heads * attention.key_dim if attention.channelwise else heads),
        bytes=states + tokens * rows * deployment.activation_bytes,
        shape=_states(attention, deployment, decode.sequences, new, passes, 1.0),
    )


def _states(
    attention: LinearAttention,
    deployment: Deployment,
    sequences: Scalar,
    tokens: Scalar,
    passes: Scalar,
    chunk: float,
) -> StateShape:
    """States of one device, and the new tokens of each sequence."""
    return StateShape(
        sequences=sequences,
        tokens=tokens,
        states=attention.heads / deployment.tp,
        key_width=attention.key_dim,
        value_width=attention.value_dim,
        state_bytes=deployment.state_bytes,
        row_bytes=deployment.activation_bytes,
        passes=passes,
        chunk=chunk,
        channelwise=attention.channelwise,
    )


# The short causal convolution before a recurrence: of prompts, and of decoding tokens.


def convolution_ops(channels: Scalar, taps: Scalar, deployment: Deployment, batch: Batch, count: Scalar) -> Ops:
    """Short causal convolutions of a batch, each with its SiLU: engines have one kernel for prompts and one for decode.

    Both read and write the tokens of every sequence that the next ones look back on; decode does so after each token
    that it verifies, as with states.

    Source: Dao, causal_conv1d (causal_conv1d_fn, causal_conv1d_update).
    """
    ops: Ops = {}
    if batch.prefill is not None:
        part, new = batch.prefill, mean_length(batch.prefill.tokens, batch.prefill.sequences)
        shape = WindowShape(sequences=part.sequences, tokens=new, channels=channels)
        ops["prefill_convolution"] = _convolution(shape, taps, 2.0, deployment, count)
    if batch.decode is not None:
        new = tokens_per_sequence(deployment)
        shape = WindowShape(sequences=batch.decode.sequences, tokens=new, channels=channels, update=True)
        ops["decode_convolution"] = _convolution(shape, taps, 1.0 + new, deployment, count)
    return ops


def _convolution(shape: WindowShape, taps: Scalar, passes: Scalar, deployment: Deployment, count: Scalar) -> Kernel:
    """One kernel: every token's channels in and out, and a window of `taps` - 1 tokens `passes` times."""
    tokens = shape.sequences * shape.tokens
    kernel = elementwise(
        tokens,
        reads=shape.channels,
        writes=shape.channels,
        element_bytes=deployment.activation_bytes,
        flops=2.0 * taps * shape.channels,
        count=count,
        exps=shape.channels,
    )
    window = shape.sequences * (taps - 1.0) * shape.channels * deployment.activation_bytes
    phase = "decode" if shape.update else "prefill"
    return dataclasses.replace(kernel, bytes=kernel.bytes + passes * window, shape=shape, phase=phase)


def convolved_channels(attention: LinearAttention, deployment: Deployment) -> Scalar:
    """Channels of the short convolution on one device: queries, keys and values."""
    keys = 2.0 * key_heads_per_device(attention, deployment) * attention.key_dim
    return keys + attention.heads / deployment.tp * attention.value_dim


def key_heads_per_device(attention: LinearAttention, deployment: Deployment) -> Scalar:
    """Key heads that one device holds: key_heads / tp, and never less than one, which is then a replica."""
    return maximum(attention.key_heads / deployment.tp, 1.0)


def state_bytes(attention: LinearAttention, deployment: Deployment) -> Scalar:
    """B of one sequence's state in one layer on one device, and of the inputs that its convolution looks back on."""
    state = attention.heads / deployment.tp * attention.key_dim * attention.value_dim * deployment.state_bytes
    if attention.convolution is None:
        return state
    # A causal convolution of t taps needs the t - 1 inputs before.
    window = (attention.convolution - 1.0) * convolved_channels(attention, deployment)
    return state + window * deployment.activation_bytes


def linear_attention_width(attention: LinearAttention, deployment: Deployment) -> Scalar:
    """Elements per token between the matrices of a layer on one device: queries, keys, values, gates and outputs."""
    keys = 2.0 * attention.key_heads * attention.key_dim
    return (keys + attention.heads * (attention.gates + 2.0 * attention.value_dim)) / deployment.tp


def linear_attention_rules(attention: LinearAttention, deployment: Deployment) -> Iterator[Rule]:
    """What a layer asks of a deployment."""
    yield heads_rule(deployment.tp, attention.key_heads, "key")
    # A recurrence is serial along the sequence: the device with the next part of a prompt would wait for the state.
    if deployment.cp is not None:
        yield (
            jnp.asarray(deployment.cp <= 1.0),
            lambda: f"cp = {deployment.cp:g} splits prompts, but the states of linear attention run through them",
        )


LINEAR_ATTENTION = MixerKind(
    matrices=linear_attention_matrices,
    ops=linear_attention_ops,
    width=linear_attention_width,
    fixed_bytes=state_bytes,
    recurrent=True,
    rules=linear_attention_rules,
)
"""What the cost model asks of layers with a state."""


# Gated short convolution in place of attention: its struct, matrices, ops and state.


@struct
class ShortConvolution:
    """A convolution over the last tokens of each channel, between two gates that the same projection makes.

    y = out(c * convolution(b * x)) with b, c, x = in(token). Channels are split over tp.

    Source: Liquid AI, LFM2 Technical Report, arXiv:2511.23404, section 2 (gated short convolution blocks).
    """

    channels: Scalar
    taps: Scalar  # tokens that the convolution sees, the newest among them
    input: WeightFormat
    output: WeightFormat

    @property
    def heads(self) -> Scalar:
        """What tensor-parallel devices split: channels."""
        return self.channels


GATE_FLOPS = 2.0
"""Vector FLOP per channel of the two gates."""


def short_convolution_matrices(mixer: ShortConvolution, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device."""
    channels = mixer.channels / deployment.tp
    return {
        "in_proj": Matrix(hidden, 3.0 * channels, mixer.input, reads_norm=True),
        "out_proj": Matrix(channels, hidden, mixer.output, to_residual=True),
    }


def short_convolution_ops(
    mixer: ShortConvolution, hidden: Scalar, deployment: Deployment, batch: Batch, tokens: Scalar, count: Scalar
) -> Ops:
    """Ops of one layer in the order they run. Shapes (); `tokens` counts prefill and decode together.

    One kernel gates, convolves and gates again; of every sequence it reads and writes the tokens that it looks back on.
    """
    activation, channels = deployment.activation_bytes, mixer.channels / deployment.tp
    matrices = short_convolution_matrices(mixer, hidden, deployment)
    ops = projection("in_proj", tokens, matrices["in_proj"], activation, count)
    flops = (2.0 * mixer.taps + GATE_FLOPS) * channels
    ops["convolution"] = elementwise(
        tokens, reads=3.0 * channels, writes=channels, element_bytes=activation, flops=flops, count=count
    )
    sequences = 0.0 if batch.prefill is None else batch.prefill.sequences
    sequences = sequences if batch.decode is None else sequences + batch.decode.sequences
    # State of the short convolution: its last taps - 1 inputs per sequence, read and written by the same kernel (no
    # launch of its own).
    window = (mixer.taps - 1.0) * channels
    ops["convolution_state"] = elementwise(
        sequences, reads=window, writes=window, element_bytes=activation, flops=0.0, count=count, kernels=0.0
    )
    return ops | projection("out_proj", tokens, matrices["out_proj"], activation, count)


def short_convolution_state(mixer: ShortConvolution, deployment: Deployment) -> Scalar:
    """B of one sequence's state in one layer on one device: the tokens that its convolution looks back on."""
    return (mixer.taps - 1.0) * mixer.channels / deployment.tp * deployment.activation_bytes


def short_convolution_width(mixer: ShortConvolution, deployment: Deployment) -> Scalar:
    """Elements per token between the matrices of a layer on one device."""
    return 4.0 * mixer.channels / deployment.tp


SHORT_CONVOLUTION = MixerKind(
    matrices=short_convolution_matrices,
    ops=short_convolution_ops,
    width=short_convolution_width,
    fixed_bytes=short_convolution_state,
    recurrent=True,
)
"""What the cost model asks of gated short convolutions."""
