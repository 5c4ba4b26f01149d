"""What one engine step launches on one device: the ops of every layer, in order, by name."""

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.layers.attention import attention_ops
from jaxroof.layers.elementwise import norm
from jaxroof.layers.embedding import embedding_op, head_ops
from jaxroof.layers.experts import expert_ops
from jaxroof.layers.feedforward import feedforward_ops
from jaxroof.layers.linear import launched
from jaxroof.model import Block, Experts, Model
from jaxroof.op import Op
from jaxroof.struct import Scalar


def step_ops(model: Model, deployment: Deployment, batch: Batch) -> dict[str, Op]:
    """Ops of one step on one device, in the order they first run.

    A mixed step is additive: its GEMMs see all tokens at once, then prefill attention, then decode attention.
    Layers of one block run `count` times. With several blocks, names carry the block's number: `1.qkv_proj`.
    """
    tokens = batch_tokens(batch)
    ops = {"embedding": embedding_op(model, deployment, tokens)}
    for index, block in enumerate(model.blocks):
        prefix = f"{index}." if len(model.blocks) > 1 else ""
        ops |= {prefix + name: op for name, op in block_ops(block, model.hidden, deployment, batch, tokens).items()}
    ops["final_norm"] = norm(tokens, model.hidden, deployment.activation_bytes, 1.0)
    return ops | head_ops(model, deployment, batch.logits)


def block_ops(block: Block, hidden: Scalar, deployment: Deployment, batch: Batch, tokens: Scalar) -> dict[str, Op]:
    """Ops of one layer of `block`, each counted `block.count` times."""
    count = block.count
    layer_norm = norm(tokens, hidden, deployment.activation_bytes, count)
    all_reduce = Op(
        kind="collective",
        count=count,
        kernels=launched(tokens) * launched(deployment.tp - 1.0),
        message_bytes=tokens * hidden * deployment.communication_bytes,
        participants=deployment.tp,
    )
    feedforward_kind = expert_ops if isinstance(block.feedforward, Experts) else feedforward_ops
    return {
        "attention_norm": layer_norm,
        **attention_ops(block.attention, hidden, deployment, batch, tokens, count),
        "attention_all_reduce": all_reduce,
        "feedforward_norm": layer_norm,
        **feedforward_kind(block.feedforward, hidden, deployment, tokens, count),
        "feedforward_all_reduce": all_reduce,
    }


def batch_tokens(batch: Batch) -> Scalar:
    """Tokens that go through every layer in one step."""
    prefill = 0.0 if batch.prefill is None else batch.prefill.tokens
    decode = 0.0 if batch.decode is None else batch.decode.sequences
    return prefill + decode
