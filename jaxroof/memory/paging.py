"""Storage of a KV cache: blocks of tokens, of which the last is rarely full, and a part outside of the device."""

import dataclasses

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.layers.linear import launched
from jaxroof.memory.capacity import kv_bytes_of_sequence, kv_bytes_per_token, layer_count, paged_tokens
from jaxroof.model import Model
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.op import Copy, Ops


def wasted_tokens(tokens: Scalar, block_tokens: Scalar) -> Array:
    """Tokens of room that a sequence of `tokens` tokens leaves empty in its last block, shape ()."""
    return paged_tokens(tokens, block_tokens) - tokens


def mean_wasted_tokens(block_tokens: Scalar) -> Scalar:
    """The same in the mean over sequences whose lengths are anything: (block_tokens - 1) / 2.

    Source: Kwon et al., arXiv:2309.06180 (PagedAttention), section 4: less than one block per sequence is wasted.
    """
    # Lengths modulo the block size are about uniform from 0 to block_tokens - 1: half of a block is empty on average.
    return 0.5 * (block_tokens - 1.0)


def copy_ops(model: Model, deployment: Deployment, local: Batch) -> Ops:
    """Copies of one step between a device and the memory that has a part of its cache; none where all of it is here.

    Decoding sequences read that part of theirs; prompts read that of what they had and write that of what they add.
    Every layer is a copy of its own; with pipeline stages those of all stages are counted, as of all ops.

    Args:
      local: of the device's attention group.
    """
    if deployment.offloaded is None:
        return {}
    # All layers are copied, whichever stage has them, and copies are not rounded to blocks.
    unstaged = dataclasses.replace(deployment, pp=None, stages=None, block_tokens=None)
    held = 0.0
    if local.decode is not None:
        some = launched(local.decode.sequences)
        # 1 where there is no sequence, so that the mean context is a number and `some` removes it.
        sequences = local.decode.sequences + (1.0 - some)
        held = some * sequences * kv_bytes_of_sequence(model, unstaged, local.decode.context / sequences)
    if local.prefill is not None:
        # A prompt reads the outside part of its past and writes that of its new tokens.
        held = held + (local.prefill.past + local.prefill.tokens) * kv_bytes_per_token(model, unstaged)
    layers = layer_count(model)
    # Layer by layer, so that one layer's copy can run behind the kernels of others.
    message = deployment.offloaded * held / layers
    return {
        "cache_copy": Copy(
            count=layers,
            kernels=launched(message),
            role="cache",
            message_bytes=message,
            tier=deployment.offload_to,
        )
    }
