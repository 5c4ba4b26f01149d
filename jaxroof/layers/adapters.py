"""Low-rank adapters in a step that serves many of them: two thin grouped products per adapted matrix."""

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.layers.choices import distinct_experts
from jaxroof.layers.linear import Matrix, projection
from jaxroof.layers.protocol import Sizes
from jaxroof.layers.registry import feed_forward_kind, mixer_kind
from jaxroof.model import Block, Model, WeightFormat
from jaxroof.numerics.struct import Scalar, given
from jaxroof.op import Ops, with_role

ADAPTER_BYTES = 2.0
"""B per weight of an adapter, which stays at 16 bits beside narrower weights; Dettmers et al., arXiv:2305.14314."""

Pair = tuple[Matrix, Matrix]
"""A, into the rank, and B, out of it, of all adapters of one matrix."""


def adapter_matrices(block: Block, hidden: Scalar, deployment: Deployment) -> dict[str, Pair]:
    """The adapters of one layer on one device by target; targets that the layer does not have are left out.

    Where the adapted matrix is split by its outputs B is, and where by its inputs A is; the other is on every device.

    Source: Sheng et al., arXiv:2311.03285 (S-LoRA), section 5.
    """
    adapters, mixer, feedforward = given(deployment.adapters, "adapters"), block.attention, block.feedforward
    # Column-parallel matrices split their outputs and row-parallel ones their inputs: sizes of one device say which
    # half of an adapter is split with them.
    sizes: Sizes = {}
    if mixer is not None:
        sizes |= mixer_kind(mixer).adapted(mixer, hidden, deployment)
    if feedforward is not None:
        sizes |= feed_forward_kind(feedforward).adapted(feedforward, hidden, deployment)
    weights = WeightFormat(bytes=ADAPTER_BYTES, compute=deployment.attention_compute)
    return {
        target: (
            Matrix(inputs, adapters.rank, weights, adapters.loaded),
            Matrix(adapters.rank, outputs, weights, adapters.loaded),
        )
        for target, (inputs, outputs) in sizes.items()
        if target in adapters.targets
    }


def adapter_ops(block: Block, hidden: Scalar, deployment: Deployment, local: Batch, tokens: Scalar) -> Ops:
    """Grouped products of one layer's adapters: every sequence has one of those loaded, without preference.

    The sum with the adapted matrix's result rides in the second product.

    Args:
      local: of the device's attention group.
      tokens: of the group on this device.
    """
    if deployment.adapters is None:
        return {}
    # Each sequence draws one adapter: the expected number of different ones is that of experts with top-1 routing.
    touched = distinct_experts(deployment.adapters.loaded, 1.0, _sequences(local))
    ops: Ops = {}
    for target, (down, up) in adapter_matrices(block, hidden, deployment).items():
        # Rows of all sequences in one grouped product per half, with as many weight matrices as adapters are in use
        # (S-LoRA's batched gather matrix product).
        for name, matrix in ((f"adapter_{target}_a", down), (f"adapter_{target}_b", up)):
            ops |= projection(name, tokens, matrix, deployment.activation_bytes, block.count, "experts", touched)
    return with_role(ops, "adapter")


def _sequences(local: Batch) -> Scalar:
    parts = (part.sequences for part in (local.prefill, local.decode) if part is not None)
    return sum(parts, start=0.0)


def adapter_elements(model: Model, deployment: Deployment) -> Scalar:
    """Weights of all loaded adapters on one device, shape (): rank (inputs + outputs) of every adapted matrix; 0
    without adapters.
    """
    if deployment.adapters is None:
        return 0.0
    return sum(
        block.count * (down.elements + up.elements)
        for block in model.blocks
        for down, up in adapter_matrices(block, model.hidden, deployment).values()
    )
