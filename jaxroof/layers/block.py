"""One layer of a model: its mixer and its feed-forward, whatever their kinds, with norms and collectives around."""

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.layers.collective import all_reduce
from jaxroof.layers.cross_attention import cross_attention_matrices, cross_attention_ops
from jaxroof.layers.elementwise import norm
from jaxroof.layers.linear import Matrices
from jaxroof.layers.registry import feed_forward_kind, mixer_kind
from jaxroof.model import Block
from jaxroof.op import Ops, with_role
from jaxroof.struct import Scalar


def block_matrices(block: Block, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device, by the name of the op that multiplies with them."""
    matrices: Matrices = {}
    if block.attention is not None:
        matrices |= mixer_kind(block.attention).matrices(block.attention, hidden, deployment)
    if block.cross is not None:
        matrices |= cross_attention_matrices(block.cross, hidden, deployment)  # type: ignore[arg-type]
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
    rows = tokens / deployment.tp if deployment.sequence_parallel else tokens
    layer_norm = norm(rows, hidden, deployment.activation_bytes, count * block.norms)
    ops: Ops = {}
    if block.attention is not None:
        mixer_ops = mixer_kind(block.attention).ops
        ops["attention_norm"] = layer_norm
        ops |= with_role(mixer_ops(block.attention, hidden, deployment, batch, tokens, count), "mixer")
        if not block.parallel:
            ops |= all_reduce("attention", tokens, hidden, deployment, count)
    if block.cross is not None:
        ops["cross_norm"] = layer_norm
        ops |= with_role(cross_attention_ops(block.cross, hidden, deployment, batch, tokens, count), "mixer")  # type: ignore[arg-type]
        ops |= all_reduce("cross", tokens, hidden, deployment, count)
    if block.feedforward is None:
        return ops
    if not block.parallel:
        ops["feedforward_norm"] = layer_norm
    layer_ops = feed_forward_kind(block.feedforward).ops
    ops |= layer_ops(block.feedforward, hidden, deployment, tokens, group_tokens, count)
    return ops | all_reduce("feedforward", tokens, hidden, deployment, count)
