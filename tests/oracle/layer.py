"""One layer again, whatever it is made of, and what turns images or sound into vectors before the decoder."""

import dataclasses
from typing import Any

from tests.oracle.attention import cross, grouped
from tests.oracle.compact import compressed, latent
from tests.oracle.feedforward import dense, mixture
from tests.oracle.kernel import Kernel, gemm, norm, rowwise, summed
from tests.oracle.recurrent import linear_attention

MIXERS = {
    "Attention": grouped,
    "LatentAttention": latent,
    "CompressedAttention": compressed,
    "LinearAttention": linear_attention,
}


@dataclasses.dataclass
class Part:
    """Sequences of one part of a step."""

    sequences: Any
    tokens: Any = None
    past: Any = None
    context: Any = None


@dataclasses.dataclass
class Step:
    """What a step works on; a part that is None is not there."""

    prefill: Part | None = None
    decode: Part | None = None
    logits: Any = 0.0
    encode: Part | None = None
    encoded: Any = 0.0


def layer(block, hidden, deployment, batch, tokens, all_tokens) -> dict[str, Kernel]:
    """Kernels of one layer, in order."""
    act, runs = deployment.activation_bytes, block.count
    rows = tokens / deployment.tp if deployment.sequence_parallel else tokens
    normed = norm(runs * block.norms, rows, hidden, act)
    kernels = {}
    if block.attention is not None:
        kernels["attention_norm"] = normed
        mixer = MIXERS[type(block.attention).__name__]
        kernels |= mixer(block.attention, runs, hidden, deployment, batch, tokens)
        if not block.parallel:
            kernels |= summed("attention", runs, tokens, hidden, deployment)
    if block.cross is not None:
        kernels["cross_norm"] = normed
        kernels |= cross(block.cross, runs, hidden, deployment, batch, tokens)
        kernels |= summed("cross", runs, tokens, hidden, deployment)
    if block.feedforward is not None:
        if not block.parallel:
            kernels["feedforward_norm"] = normed
        if hasattr(block.feedforward, "experts"):
            kernels |= mixture(block.feedforward, hidden, deployment, tokens, all_tokens, runs)
        else:
            kernels |= dense("", block.feedforward, hidden, deployment.tp, act, tokens, runs)
        kernels |= summed("feedforward", runs, tokens, hidden, deployment)
    return kernels


def layers(blocks, hidden, deployment, batch, tokens, all_tokens) -> dict[str, Kernel]:
    """Kernels of all layers; with several blocks a layer's names carry the block's number."""
    kernels = {}
    for i, block in enumerate(blocks):
        prefix = f"{i}." if len(blocks) > 1 else ""
        for name, kernel in layer(block, hidden, deployment, batch, tokens, all_tokens).items():
            kernels[prefix + name] = kernel
    return kernels


def encoder(part, model, deployment) -> dict[str, Kernel]:
    """Kernels of an encoder: its tokens see each other, all on every context-parallel device."""
    act, tokens, hidden = deployment.activation_bytes, part.tokens, model.hidden
    if model.inputs is None:
        kernels = {"embedding": rowwise(1.0, tokens, 2.0 * hidden * act, hidden)}
    else:
        kernels = gemm("embedding", 1.0, tokens, model.inputs, hidden, model.embedding, act)
    whole = dataclasses.replace(deployment, cp=None)
    batch = Step(prefill=Part(part.sequences, tokens=tokens, past=0.0 * tokens))
    kernels |= layers(model.blocks, hidden, whole, batch, tokens, tokens)
    kernels["final_norm"] = norm(1.0, tokens, hidden, act)
    for i, matrix in enumerate(model.projector):
        rows = tokens / model.merged
        kernels |= gemm(f"projector_{i}", 1.0, rows, matrix.inputs, matrix.outputs, matrix.weights, act)
    return {f"encoder.{name}": kernel for name, kernel in kernels.items()}
