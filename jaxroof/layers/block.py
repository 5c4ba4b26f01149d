"""One layer of a model: its mixer and its feed-forward, whatever their kinds, with norms and collectives around."""

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.layers.attention import attention_matrices, attention_ops
from jaxroof.layers.collective import all_reduce
from jaxroof.layers.compressed_attention import compressed_attention_matrices, compressed_attention_ops
from jaxroof.layers.cross_attention import cross_attention_matrices, cross_attention_ops
from jaxroof.layers.elementwise import norm
from jaxroof.layers.experts import expert_matrices, expert_ops
from jaxroof.layers.feedforward import feedforward_matrices, feedforward_ops
from jaxroof.layers.indexer import indexer_matrices
from jaxroof.layers.latent_attention import latent_attention_matrices, latent_attention_ops
from jaxroof.layers.linear import Matrices
from jaxroof.layers.linear_attention import linear_attention_matrices, linear_attention_ops
from jaxroof.model import Attention, Block, CompressedAttention, Experts, LatentAttention, LinearAttention
from jaxroof.op import Op
from jaxroof.struct import Scalar

MIXERS = {
    Attention: (attention_matrices, attention_ops),
    LatentAttention: (latent_attention_matrices, latent_attention_ops),
    CompressedAttention: (compressed_attention_matrices, compressed_attention_ops),
    LinearAttention: (linear_attention_matrices, linear_attention_ops),
}
"""Kind of mixer -> its weight matrices and its ops."""


def block_matrices(block: Block, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device, by the name of the op that multiplies with them."""
    matrices: Matrices = {}
    if block.attention is not None:
        mixer, _ = MIXERS[type(block.attention)]
        matrices |= mixer(block.attention, hidden, deployment)
        if isinstance(block.attention, Attention) and block.attention.selection is not None:
            matrices |= indexer_matrices(block.attention.selection, hidden, None)
    if block.cross is not None:
        matrices |= cross_attention_matrices(block.cross, hidden, deployment)
    if isinstance(block.feedforward, Experts):
        matrices |= expert_matrices(block.feedforward, hidden, deployment)
    elif block.feedforward is not None:
        matrices |= feedforward_matrices(block.feedforward, hidden, deployment)
    return matrices


def block_ops(
    block: Block, hidden: Scalar, deployment: Deployment, batch: Batch, tokens: Scalar, group_tokens: Scalar
) -> dict[str, Op]:
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
    ops: dict[str, Op] = {}
    if block.attention is not None:
        _, mixer_ops = MIXERS[type(block.attention)]
        ops["attention_norm"] = layer_norm
        ops |= mixer_ops(block.attention, hidden, deployment, batch, tokens, count)
        if not block.parallel:
            ops |= all_reduce("attention", tokens, hidden, deployment, count)
    if block.cross is not None:
        ops["cross_norm"] = layer_norm
        ops |= cross_attention_ops(block.cross, hidden, deployment, batch, tokens, count)
        ops |= all_reduce("cross", tokens, hidden, deployment, count)
    if block.feedforward is None:
        return ops
    if not block.parallel:
        ops["feedforward_norm"] = layer_norm
    if isinstance(block.feedforward, Experts):
        ops |= expert_ops(block.feedforward, hidden, deployment, tokens, group_tokens, count)
    else:
        ops |= feedforward_ops(block.feedforward, hidden, deployment, tokens, count)
    return ops | all_reduce("feedforward", tokens, hidden, deployment, count)
