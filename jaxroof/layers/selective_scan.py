"""Selective scan (Mamba): a state per channel with a decay of its own, its struct, matrices, ops and state."""

from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.deployment import Deployment, tokens_per_sequence
from jaxroof.layers.collective import all_reduce
from jaxroof.layers.linear import Matrices, Matrix, launched, projection
from jaxroof.layers.linear_attention import convolution_ops
from jaxroof.layers.protocol import MixerKind
from jaxroof.model import WeightFormat
from jaxroof.numerics.struct import Scalar, struct
from jaxroof.op import Kernel, Ops


@struct
class SelectiveScan:
    """Mamba's layer: every channel keeps `state` numbers, which decay and are written by what the token selects.

    in: token -> channels and their gate; x: channels -> time step of rank `rank`, B and C; dt: rank -> channels;
    h = exp(dt A) h + dt B x, y = C h + D x. Channels are split over tp, which sums what the token selects.

    Source: Gu & Dao, arXiv:2312.00752 (Mamba), section 3 and algorithm 2.
    """

    channels: Scalar
    state: Scalar  # numbers per channel
    rank: Scalar  # of the projection to time steps
    taps: Scalar  # tokens in the short convolution
    input: WeightFormat
    selection: WeightFormat  # of the projections from channels to what is selected, and on to time steps
    output: WeightFormat

    @property
    def heads(self) -> Scalar:
        """What tensor-parallel devices split: channels."""
        return self.channels


SCAN_FLOPS = 7.0
"""Vector FLOP per state element and token: dt A, dt B x (2), decay and add (2), C h and its sum (2)."""


def selective_scan_matrices(mixer: SelectiveScan, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device."""
    channels = mixer.channels / deployment.tp
    return {
        "in_proj": Matrix(hidden, 2.0 * channels, mixer.input, reads_norm=True),
        # x_proj reads split channels: its results are partial sums, hence the small all-reduce before dt_proj.
        "x_proj": Matrix(channels, mixer.rank + 2.0 * mixer.state, mixer.selection),
        "dt_proj": Matrix(mixer.rank, channels, mixer.selection),
        "out_proj": Matrix(channels, hidden, mixer.output, to_residual=True),
    }


def selective_scan_ops(
    mixer: SelectiveScan, hidden: Scalar, deployment: Deployment, batch: Batch, tokens: Scalar, count: Scalar
) -> Ops:
    """Ops of one layer in the order they run. Shapes (); `tokens` counts prefill and decode together."""
    activation, channels = deployment.activation_bytes, mixer.channels / deployment.tp
    matrices = selective_scan_matrices(mixer, hidden, deployment)
    ops = projection("in_proj", tokens, matrices["in_proj"], activation, count)
    ops |= convolution_ops(channels, mixer.taps, deployment, batch, count)
    ops |= projection("x_proj", tokens, matrices["x_proj"], activation, count)
    ops |= all_reduce("selection", tokens, mixer.rank + 2.0 * mixer.state, deployment, count)
    ops |= projection("dt_proj", tokens, matrices["dt_proj"], activation, count)
    if batch.prefill is not None:
        # The same recurrence in prompts and decoding: the decay depends on the token, so there is no form as a
        # convolution or a matrix product.
        ops["prefill_scan"] = prefill_scan(mixer, deployment, batch.prefill, count)
    if batch.decode is not None:
        ops["decode_scan"] = decode_scan(mixer, deployment, batch.decode, count)
    return ops | projection("out_proj", tokens, matrices["out_proj"], activation, count)


def prefill_scan(mixer: SelectiveScan, deployment: Deployment, prefill: Prefill, count: Scalar) -> Kernel:
    """The scan over prompts as one kernel without matrix products; states stay in registers from token to token.

    Source: Gu & Dao, arXiv:2312.00752, section 3.3.2: inputs are read once, and outputs and last states written.
    """
    # Hardware-aware scan: states stay in registers, and only the first and last pass memory.
    states = 2.0 * prefill.sequences * _state_elements(mixer, deployment) * deployment.state_bytes
    return _scan("prefill_attention", "prefill", mixer, deployment, prefill.tokens, states, count)


def decode_scan(mixer: SelectiveScan, deployment: Deployment, decode: Decode, count: Scalar) -> Kernel:
    """One token per sequence: its state is read, changed and written, after each token that is verified."""
    new = tokens_per_sequence(deployment)
    tokens = decode.sequences * new
    states = (1.0 + new) * decode.sequences * _state_elements(mixer, deployment) * deployment.state_bytes
    return _scan("decode_attention", "decode", mixer, deployment, tokens, states, count)


def _scan(
    kind: str, phase: str, mixer: SelectiveScan, deployment: Deployment, tokens: Scalar, states: Scalar, count: Scalar
) -> Kernel:
    """One kernel over `tokens` tokens that moves `states` B of states."""
    elements, channels = _state_elements(mixer, deployment), mixer.channels / deployment.tp
    rows = 4.0 * channels + 2.0 * mixer.state  # channels, time steps, gates, outputs; B and C
    return Kernel(
        kind=kind,
        count=count,
        kernels=launched(tokens),
        phase=phase,
        vector_flops=tokens * SCAN_FLOPS * elements,
        exps=tokens * (elements + 2.0 * channels),  # decays; the time step's softplus and the gate's sigmoid
        bytes=states + tokens * rows * deployment.activation_bytes,
    )


def _state_elements(mixer: SelectiveScan, deployment: Deployment) -> Scalar:
    return mixer.channels / deployment.tp * mixer.state


def selective_scan_state(mixer: SelectiveScan, deployment: Deployment) -> Scalar:
    """B of one sequence's state in one layer on one device, and of the inputs that its convolution looks back on."""
    window = (mixer.taps - 1.0) * mixer.channels / deployment.tp * deployment.activation_bytes
    return _state_elements(mixer, deployment) * deployment.state_bytes + window


def selective_scan_width(mixer: SelectiveScan, deployment: Deployment) -> Scalar:
    """Elements per token between the matrices of a layer on one device."""
    return 4.0 * mixer.channels / deployment.tp + mixer.rank + 2.0 * mixer.state


SELECTIVE_SCAN = MixerKind(
    matrices=selective_scan_matrices,
    ops=selective_scan_ops,
    width=selective_scan_width,
    fixed_bytes=selective_scan_state,
    recurrent=True,
)
"""What the cost model asks of selective scans."""
