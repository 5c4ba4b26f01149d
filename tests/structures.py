"""The structures that random points are drawn of: between them every kind of layer, split, exchange and overlap."""

import dataclasses
from collections.abc import Callable

import numpy as np

from jaxroof import Model, WeightFormat
from jaxroof.layers.compressed_attention import CompressedAttention
from jaxroof.layers.latent_attention import LatentAttention
from jaxroof.layers.linear_attention import LinearAttention
from jaxroof.layers.sight import Selection
from jaxroof.model import Encoder, Prediction, Projection
from tests.points import (
    Draw,
    Points,
    attention,
    batch,
    block,
    deployment,
    efficiency,
    experts,
    feedforward,
    hardware,
    model,
    requests,
)


def points(structure: str, n: int, seed: int = 0) -> Points:
    """`n` random points of one of `STRUCTURES`, in float64."""
    return STRUCTURES[structure](Draw(n, seed))


def _format(draw: Draw, stored: float, compute: str, dequantised: bool = False) -> WeightFormat:
    return WeightFormat(bytes=np.full(draw.n, stored), compute=compute, dequantised=dequantised)


def _points(
    draw: Draw, built: Model, parts: str, without: tuple[str, ...] = (), compute: str = "bf16", **split
) -> Points:
    encoder = built.encoder is not None
    return Points(
        hardware(draw, without),
        built,
        deployment(draw, compute, **split),
        batch(draw, parts, encoder),
        requests(draw, encoder),
        efficiency(draw),
    )


def selection(
    draw: Draw, weights: WeightFormat, rank: bool = False, stride: float = 1.0, block: float | None = None
) -> Selection:
    return Selection(
        tokens=draw.pick(64, 512, 2048),
        heads=draw.pick(4, 64),
        head_dim=draw.pick(64, 128),
        stride=np.full(draw.n, stride),
        key_outputs=draw.pick(64, 256),
        query_rank=draw.pick(1536) if rank else None,
        key_bytes=draw.pick(1, 2),
        weights=weights,
        block=None if block is None else np.full(draw.n, block),
    )


def latent(
    draw: Draw, weights: WeightFormat, rank: bool = True, chosen: Selection | None = None, gate: bool = False
) -> LatentAttention:
    return LatentAttention(
        heads=draw.pick(16, 64, 128),
        query_rank=draw.pick(768, 1536) if rank else None,
        latent=draw.pick(256, 512),
        nope_dim=draw.pick(64, 128),
        rope_dim=draw.pick(32, 64),
        value_dim=draw.pick(64, 128),
        gate=draw.pick(1, 128) if gate else None,
        selection=chosen,
        down=weights,
        query=weights,
        up=weights,
        output=weights,
    )


def compressed(
    draw: Draw, weights: WeightFormat, ratio: bool = True, chosen: Selection | None = None
) -> CompressedAttention:
    return CompressedAttention(
        heads=draw.pick(64, 128),
        head_dim=draw.pick(256, 512),
        rope_dim=draw.pick(64),
        query_rank=draw.pick(1024, 1536),
        output_groups=draw.pick(8, 16),
        output_rank=draw.pick(512, 1024),
        window=draw.pick(64, 128),
        ratio=draw.pick(4, 128) if ratio else None,
        overlap=draw.pick(1, 2),
        selection=chosen,
        down=weights,
        query=weights,
        compressor=weights,
        group=weights,
        output=weights,
    )


def linear_attention(
    draw: Draw, weights: WeightFormat, rule: str, rank: bool = False, convolution: bool = True
) -> LinearAttention:
    return LinearAttention(
        heads=draw.pick(16, 32, 64),
        key_heads=draw.pick(1, 4, 16),
        key_dim=draw.pick(64, 128),
        value_dim=draw.pick(64, 128),
        gates=draw.pick(2, 130),
        gate_rank=draw.pick(64, 128) if rank else None,
        convolution=draw.pick(3, 4) if convolution else None,
        rule=rule,
        input=weights,
        output=weights,
    )


def prediction(draw: Draw, mixer, layer, weights: WeightFormat) -> Prediction:
    module = dataclasses.replace(block(draw, mixer, layer), count=np.ones(draw.n))
    return Prediction(count=draw.pick(1, 3), block=module, projection=weights, other_parameters=draw.log(1e3, 1e4))


def encoder(draw: Draw, weights: WeightFormat, *blocks, words: bool = False, projector: int = 0) -> Encoder:
    hidden = draw.pick(1024, 1280)
    return Encoder(
        hidden=hidden,
        blocks=blocks,
        inputs=None if words else draw.pick(588, 1176),
        merged=draw.pick(1, 4),
        projector=tuple(
            Projection(inputs=draw.pick(4096), outputs=draw.pick(4096, 5120), weights=weights) for _ in range(projector)
        ),
        embedding=weights,
        other_parameters=draw.log(1e3, 1e5),
    )


def dense_multi_head(draw: Draw) -> Points:
    """Multi-head attention at 16 bits; a prefill step; every figure of the hardware known."""
    bf16 = _format(draw, 2.0, "bf16")
    layer = block(draw, attention(draw, bf16, grouped=False), feedforward(draw, bf16))
    return _points(draw, model(draw, layer, outer=bf16), "prefill")


def dense_grouped_4bit(draw: Draw) -> Points:
    """Weights of 4 bits with group scales that kernels convert to 16; a decode step; no L2, no link in the node."""
    bf16, int4 = _format(draw, 2.0, "fp16"), _format(draw, 0.53125, "fp16", dequantised=True)
    layer = block(draw, attention(draw, int4), feedforward(draw, int4))
    return _points(draw, model(draw, layer, outer=bf16), "decode", ("l2", "scale_up"))


def sliding_fp8(draw: Draw) -> Points:
    """Full and sliding-window layers at 8 bits, in stages as even as they go; a mixed step; no figure for
    exponentials and no link out of the node.
    """
    bf16, fp8 = _format(draw, 2.0, "bf16"), _format(draw, 1.0, "fp8")
    layers = [block(draw, attention(draw, fp8, window), feedforward(draw, fp8)) for window in (None, "sliding")]
    built = model(draw, *layers, outer=bf16)
    return _points(draw, built, "mixed", ("exp", "scale_out"), compute="fp8", pp=draw.pick(1, 2, 3))


def experts_fp8(draw: Draw) -> Points:
    """Experts without shared ones at 8 bits, on devices that all have all tokens; a decode step; no scratchpad,
    price or power.
    """
    bf16, fp8 = _format(draw, 2.0, "bf16"), _format(draw, 1.0, "fp8")
    layer = block(draw, attention(draw, fp8), experts(draw, fp8, bf16, shared=False))
    built = model(draw, layer, outer=bf16)
    return _points(draw, built, "decode", ("scratchpad", "tdp", "price"), ep=draw.pick(1, 2))


def experts_shared_4bit(draw: Draw) -> Points:
    """A dense layer first, then experts with shared ones multiplied at 4 bits; a mixed step; no accumulator size."""
    bf16, fp4 = _format(draw, 2.0, "bf16"), _format(draw, 0.5625, "fp4")
    layers = (
        block(draw, attention(draw, bf16), feedforward(draw, bf16)),
        block(draw, attention(draw, bf16), experts(draw, fp4, bf16, shared=True)),
    )
    return _points(draw, model(draw, *layers, outer=bf16), "mixed", ("registers",), overlap="gemm")


def chunked_experts(draw: Draw) -> Points:
    """Chunked-local attention with experts that kernels convert from 4 bits; a prefill step on a cached past; neither
    caches nor links.
    """
    bf16, int4 = _format(draw, 2.0, "bf16"), _format(draw, 0.5, "bf16", dequantised=True)
    layer = block(draw, attention(draw, bf16, "chunked"), experts(draw, int4, bf16, shared=True))
    built = model(draw, layer, outer=bf16)
    return _points(draw, built, "prefill", ("l2", "scratchpad", "scale_up", "scale_out"))


def latent_drafts(draw: Draw) -> Points:
    """Latent attention with experts at 8 bits in groups of requests, and a prediction head; low-latency kernels; one
    half of a decode step computes while the other communicates.
    """
    bf16, fp8 = _format(draw, 2.0, "bf16"), _format(draw, 1.0, "fp8")
    layer = block(draw, latent(draw, fp8), experts(draw, fp8, bf16, shared=True))
    head = prediction(draw, latent(draw, bf16), experts(draw, bf16, bf16, shared=False), bf16)
    return _points(
        draw,
        model(draw, layer, outer=bf16, prediction=head),
        "decode",
        ("scale_out",),
        attention_dp=draw.pick(1, 2, 8),
        ep=draw.pick(1, 8),
        drafts=draw.pick(0, 1, 3),
        exchange="low_latency",
        overlap="two_batch",
    )


def latent_sparse(draw: Draw) -> Points:
    """Latent attention with and without an indexer, queries compressed or not, experts of few groups; prompts split
    around a ring, tokens sent once per device; a mixed step.
    """
    bf16, fp8 = _format(draw, 2.0, "bf16"), _format(draw, 1.0, "fp8")
    limited = {"groups": draw.pick(4, 8), "reached_groups": draw.pick(2, 3)}
    chosen = selection(draw, fp8, rank=True)
    layers = (
        block(draw, latent(draw, bf16, rank=False, gate=True), feedforward(draw, bf16)),
        block(draw, latent(draw, fp8, chosen=chosen), experts(draw, fp8, bf16, shared=False, **limited)),
    )
    split = {"cp": draw.pick(1, 2, 4), "attention_dp": draw.pick(1, 2), "ep": draw.pick(1, 2, 4)}
    return _points(draw, model(draw, *layers, outer=bf16), "mixed", exchange="all_to_all", **split)


def compressed_experts(draw: Draw) -> Points:
    """A window alone, compressed vectors, and those an indexer selects, with narrowed experts; groups of requests
    that gather all tokens; a mixed step.
    """
    bf16, fp8 = _format(draw, 2.0, "bf16"), _format(draw, 1.0, "fp8")
    mixers = (
        compressed(draw, bf16, ratio=False),
        compressed(draw, bf16),
        compressed(draw, fp8, chosen=selection(draw, bf16, rank=True, stride=4.0)),
    )
    narrow = experts(draw, bf16, bf16, shared=True, width=draw.pick(512, 1024), projection=bf16)
    layers = [block(draw, mixer, layer) for mixer, layer in zip(mixers, (None, None, narrow), strict=True)]
    split = {"attention_dp": draw.pick(1, 4), "cp": draw.pick(1, 2), "ep": draw.pick(1, 4)}
    return _points(draw, model(draw, *layers, outer=bf16), "mixed", ("scale_out",), exchange="all_gather", **split)


def hybrid_delta(draw: Draw) -> Points:
    """Gated delta nets and gated attention, in uneven stages, norms split over devices, collectives behind the
    products beside them; a mixed step.
    """
    bf16 = _format(draw, 2.0, "bf16")
    layers = (
        block(draw, linear_attention(draw, bf16, "delta", rank=True), feedforward(draw, bf16)),
        block(draw, attention(draw, bf16), feedforward(draw, bf16)),
    )
    split = {"pp": np.full(draw.n, 3.0), "stages": (draw.pick(20), draw.pick(21, 19), draw.pick(18))}
    return _points(
        draw, model(draw, *layers, outer=bf16), "mixed", ("scale_out",), overlap="gemm", sequence_parallel=True, **split
    )


def hybrid_decay(draw: Draw) -> Points:
    """State-space layers alone, feed-forwards alone and attention alone; a mixed step."""
    bf16 = _format(draw, 2.0, "bf16")
    layers = (
        block(draw, linear_attention(draw, bf16, "decay"), None),
        block(draw, linear_attention(draw, bf16, "decay", convolution=False), None),
        block(draw, None, feedforward(draw, bf16)),
        block(draw, attention(draw, bf16), None),
    )
    return _points(draw, model(draw, *layers, outer=bf16), "mixed", ("scale_out",))


def block_sparse(draw: Draw) -> Points:
    """Attention to selected blocks whose values are its keys, beside a feed-forward that reads the same norm; prompts
    split and gathered; a mixed step.
    """
    bf16 = _format(draw, 2.0, "bf16")
    sparse = attention(
        draw, bf16, selection=selection(draw, bf16, stride=64.0, block=8.0), value_projection=np.zeros(draw.n)
    )
    layer = block(draw, sparse, feedforward(draw, bf16), parallel=True)
    return _points(
        draw, model(draw, layer, outer=bf16), "mixed", cp=draw.pick(1, 2, 4), context_kind="all_gather", overlap="gemm"
    )


def speech(draw: Draw) -> Points:
    """An encoder that sees in both directions and a decoder with cross-attention to it; a mixed step."""
    bf16 = _format(draw, 2.0, "bf16")
    hearing = block(draw, attention(draw, bf16, grouped=False, causal=False), feedforward(draw, bf16))
    layer = block(draw, attention(draw, bf16), feedforward(draw, bf16), cross=attention(draw, bf16, grouped=False))
    built = model(draw, layer, outer=bf16, encoder=encoder(draw, bf16, hearing))
    return _points(draw, built, "mixed", ("scale_up",), cp=draw.pick(1, 2))


def vision(draw: Draw) -> Points:
    """An encoder with full, windowed and chunked layers at 8 bits and a projector; halves of a prefill step in turn."""
    bf16, fp8 = _format(draw, 2.0, "bf16"), _format(draw, 1.0, "fp8")
    seeing = [
        block(draw, attention(draw, fp8, window, causal=False), feedforward(draw, fp8))
        for window in (None, "sliding", "chunked")
    ]
    layer = block(draw, attention(draw, bf16), feedforward(draw, bf16), parallel=True)
    built = model(draw, layer, outer=bf16, encoder=encoder(draw, bf16, *seeing, projector=2))
    return _points(draw, built, "prefill", ("scale_up",), overlap="two_batch")


STRUCTURES: dict[str, Callable[[Draw], Points]] = {
    build.__name__: build
    for build in (
        dense_multi_head,
        dense_grouped_4bit,
        sliding_fp8,
        experts_fp8,
        experts_shared_4bit,
        chunked_experts,
        latent_drafts,
        latent_sparse,
        compressed_experts,
        hybrid_delta,
        hybrid_decay,
        block_sparse,
        speech,
        vision,
    )
}
