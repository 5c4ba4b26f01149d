"""Gated short convolution in place of attention: its struct, matrices, ops and state."""

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.linear import Matrices, Matrix, projection
from jaxroof.layers.protocol import MixerKind
from jaxroof.model import WeightFormat
from jaxroof.op import Ops
from jaxroof.struct import Scalar, struct


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
    ops["convolution"] = elementwise(tokens, 3.0 * channels, channels, activation, flops, count)
    sequences = 0.0 if batch.prefill is None else batch.prefill.sequences
    sequences = sequences if batch.decode is None else sequences + batch.decode.sequences
    window = (mixer.taps - 1.0) * channels
    ops["convolution_state"] = elementwise(sequences, window, window, activation, 0.0, count, kernels=0.0)
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
