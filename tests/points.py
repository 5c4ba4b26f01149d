"""Random valid parts of the cost model: every leaf of every struct is drawn anew for every point."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxroof import (
    Attention,
    Batch,
    Block,
    Cores,
    Decode,
    Deployment,
    Efficiency,
    Experts,
    FeedForward,
    Hardware,
    Link,
    Links,
    Memory,
    MemoryLevel,
    Model,
    Power,
    Prefill,
    Requests,
    WeightFormat,
)
from jaxroof.batch import Encode
from jaxroof.efficiency import Host, KindEfficiency, LinkEfficiency
from jaxroof.hardware import Protocol, Transport
from jaxroof.model import Mixer


def dotted(path: Any) -> str:
    """A path of JAX's in a tree as jaxroof writes it: hardware.memory.hbm.bandwidth."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


@dataclasses.dataclass(frozen=True)
class Points:
    """One structure, leaves of shape (points,)."""

    hardware: Hardware
    model: Model
    deployment: Deployment
    batch: Batch
    requests: Requests
    efficiency: Efficiency

    @property
    def step(self) -> tuple:
        """Arguments of `step_time`."""
        return self.hardware, self.model, self.deployment, self.batch, self.efficiency

    @property
    def request(self) -> tuple:
        """Arguments of `request_cost`."""
        return self.hardware, self.model, self.deployment, self.requests, self.efficiency


class Draw:
    """Random leaves of shape (n,)."""

    def __init__(self, n: int, seed: int):
        self.n = n
        self.random = np.random.default_rng(seed)

    def log(self, low: float, high: float) -> np.ndarray:
        """Log-uniform real numbers."""
        return np.exp(self.random.uniform(np.log(low), np.log(high), self.n))

    def pick(self, *values: float) -> np.ndarray:
        return self.random.choice(np.array(values, float), self.n)


def transport(draw: Draw) -> Transport:
    """Any losses of collectives; engines' own kernels join two devices or all."""

    def protocol(longest: float) -> Protocol:
        return Protocol(fixed_time=draw.log(1e-6, longest), share=draw.log(0.1, 1.0))

    return Transport(
        low_latency=protocol(1e-5),
        medium=protocol(2e-5),
        bulk=protocol(1e-4),
        direct=protocol(5e-5),
        peer=protocol(5e-5),
        shot=protocol(1e-5),
        switch=protocol(1e-4),
        dispatch=protocol(1e-4),
        combine=protocol(1e-4),
        peer_rate=draw.log(1e9, 1e10),
        signal_time=draw.log(1e-8, 1e-6),
        shot_limit=draw.log(1e5, 1e8),
        peers=draw.pick(2, 72),
        crossing=draw.log(1, 4),
        spread=draw.log(1, 2),
        own_part=draw.log(0.01, 0.5),
    )


def hardware(draw: Draw, without: tuple[str, ...] = ()) -> Hardware:
    """Any accelerator from an edge device to one that does not exist; `without` names what is unknown or absent."""

    def known(name, value):
        return None if name in without else value

    return Hardware(
        matrix={precision: draw.log(5e13, 1e16) for precision in ("bf16", "fp16", "fp8", "fp4")},
        cores=Cores(
            count=draw.log(1, 300),
            vector_flops=draw.log(1e11, 2e12),
            exp_rate=known("exp", draw.log(1e9, 1e11)),
            clock=known("clock", draw.log(8e8, 3e9)),
            asynchronous=draw.pick(0.0, 1.0),
            tensor_memory=draw.pick(0.0, 1.0),
            wide_waves=draw.pick(0.0, 1.0),
            narrow_waves=draw.pick(0.0, 1.0),
            register_copies=draw.pick(0.0, 1.0),
            compiled=draw.pick(0.0, 1.0),
        ),
        memory=Memory(
            hbm=MemoryLevel(bandwidth=draw.log(3e11, 2e13), capacity=draw.log(2e10, 5e11)),
            l2=known("l2", MemoryLevel(bandwidth=draw.log(2e12, 3e13), capacity=draw.log(4e6, 3e8))),
            scratchpad=known("scratchpad", MemoryLevel(bandwidth=draw.log(5e10, 1e12), capacity=draw.log(4e4, 1e6))),
            register_capacity=known("registers", draw.log(6e4, 1e6)),
        ),
        links=Links(
            scale_up=known(
                "scale_up",
                Link(
                    bandwidth=draw.log(3e10, 2e12),
                    latency=draw.log(1e-7, 1e-5),
                    devices=draw.pick(2, 4, 8),
                    oversubscription=draw.pick(1, 2),
                    reduces=draw.pick(0, 1),
                    axes=draw.pick(1),
                    transport=transport(draw),
                ),
            ),
            scale_out=known(
                "scale_out",
                Link(
                    bandwidth=draw.log(5e9, 1e11),
                    latency=draw.log(1e-6, 3e-5),
                    devices=draw.pick(64, 1024),
                    oversubscription=draw.pick(1, 2),
                    reduces=draw.pick(0, 1),
                    axes=draw.pick(1),
                    transport=transport(draw),
                ),
            ),
        ),
        power=Power(tdp=known("tdp", draw.log(50, 2000))),
        price=known("price", draw.log(1e-4, 1e-2)),
    )


def efficiency(draw: Draw) -> Efficiency:
    def share():
        return draw.log(0.2, 1.0)

    def kind():
        return KindEfficiency(
            matrix=share(),
            matrix_low=share(),
            vector=share(),
            bandwidth=share(),
            cache_bandwidth=share(),
            kernel_time=draw.log(1e-7, 2e-5),
        )

    return Efficiency(
        linear=kind(),
        experts=kind(),
        prefill_attention=kind(),
        decode_attention=kind(),
        elementwise=kind(),
        collective=LinkEfficiency(
            losses=share(), share=np.ones(draw.n), two_shot=np.ones(draw.n), wait_time=np.zeros(draw.n)
        ),
        host=Host(
            step_time=draw.log(1e-5, 1e-2), sequence_time=draw.log(1e-7, 1e-4), request_time=draw.log(1e-4, 1e-2)
        ),
    )


def attention(draw: Draw, weights: WeightFormat, window: str | None = None, grouped: bool = True, **given) -> Attention:
    heads = draw.pick(16, 32, 64)
    return Attention(
        heads=heads,
        kv_heads=draw.pick(1, 2, 4, 8) if grouped else heads,
        head_dim=draw.pick(64, 128, 192),
        value_dim=draw.pick(64, 128),
        window=None if window is None else draw.pick(128, 1024, 4096),
        window_kind=window,
        value_projection=given.pop("value_projection", draw.pick(1)),
        gate=draw.pick(0, 1, 128),
        qk_norm=draw.pick(0, 1),
        qkv=weights,
        output=weights,
        **given,
    )


def feedforward(draw: Draw, weights: WeightFormat) -> FeedForward:
    return FeedForward(
        intermediate=draw.pick(2048, 8192, 14336), up_projections=draw.pick(1, 2), up=weights, down=weights
    )


def experts(draw: Draw, weights: WeightFormat, router: WeightFormat, shared: bool, **given) -> Experts:
    return Experts(
        experts=draw.pick(8, 64, 128),
        top_k=draw.pick(1, 2, 6),
        intermediate=draw.pick(768, 2048, 14336),
        up_projections=draw.pick(1, 2),
        up=weights,
        down=weights,
        router=router,
        shared=feedforward(draw, weights) if shared else None,
        **given,
    )


def block(draw: Draw, mixer: Mixer | None, layer: FeedForward | Experts | None, **given) -> Block:
    return Block(
        count=draw.pick(1, 16, 40),
        attention=mixer,
        feedforward=layer,
        norms=draw.pick(1, 2),
        other_parameters=draw.log(1e3, 1e5),
        **given,
    )


def model(draw: Draw, *blocks: Block, outer: WeightFormat, **given) -> Model:
    return Model(
        hidden=draw.pick(1024, 4096, 8192),
        vocabulary=draw.pick(32_000, 128_256),
        blocks=blocks,
        embedding=outer,
        head=outer,
        untied=draw.pick(0, 1),
        other_parameters=draw.log(1e3, 1e5),
        **given,
    )


def deployment(draw: Draw, compute: str = "bf16", **given) -> Deployment:
    """Any precisions and tensor-parallel degree; `given` are the other degrees and kinds."""
    drawn = Deployment(
        tp=draw.pick(1, 2, 4, 8, 16),
        activation_bytes=draw.pick(1, 2, 4),
        kv_bytes=draw.pick(1, 2),
        state_bytes=draw.pick(2, 4),
        communication_bytes=draw.pick(1, 2),
        dispatch_bytes=draw.pick(1, 2),
        dp=draw.pick(1, 4),
        imbalance=draw.log(1.0, 2.0),
        alike=np.ones(draw.n),
        reserved_cores=draw.log(0.05, 0.3),
        attention_compute=compute,
        memory_utilization=draw.log(0.5, 1.0),
        reserve_bytes=draw.log(1e8, 4e9),
        memory_static=draw.pick(0, 1),
        logit_bytes=draw.log(10, 40),
        graph_bytes=draw.log(1e6, 2e7),
        hidden_tile=256.0 * np.ones(draw.n),
        expert_tile=128.0 * np.ones(draw.n),
        memory_of_free=draw.pick(0, 1),
        max_batched_tokens=draw.log(512, 16384),
        prefetched=np.ones(draw.n),
        lookup_time=1e-5 * np.ones(draw.n),
    )
    return dataclasses.replace(drawn, **given)


def batch(draw: Draw, parts: str, encoder: bool = False) -> Batch:
    """`parts`: "prefill", "decode" or "mixed". Lengths are real, so that no chunk ends exactly on a sequence's end."""
    prompts, tokens = draw.pick(1, 2, 16), draw.pick(1, 8, 256)
    prefill = Prefill(
        sequences=prompts, tokens=prompts * draw.log(16, 8000), past=prompts * draw.pick(0, 1) * draw.log(1, 30_000)
    )
    decode = Decode(sequences=tokens, context=tokens * draw.log(2, 60_000))
    return Batch(
        prefill=None if parts == "decode" else prefill,
        decode=None if parts == "prefill" else decode,
        logits={"prefill": prompts, "decode": tokens, "mixed": prompts + tokens}[parts],
        encode=Encode(sequences=prompts, tokens=prompts * draw.log(100, 5000)) if encoder else None,
        encoded=draw.log(50, 2000) if encoder else np.zeros(draw.n),
    )


def requests(draw: Draw, encoder: bool = False) -> Requests:
    isl = draw.log(16, 30_000)
    cached = draw.pick(0, 0.25, 0.9) * isl
    return Requests(
        batch=draw.pick(1, 8, 128),
        isl=isl,
        osl=1.0 + draw.pick(0, 1) * draw.log(1, 4000),
        cached=cached,
        encoder_tokens=draw.log(100, 5000) if encoder else None,
        acceptance=draw.pick(0, 0.5, 0.8, 1),
        delay=np.zeros(draw.n),
    )


def leaves_as(points: Points, convert: Callable[[np.ndarray], Any]) -> Points:
    """`points` with every leaf converted."""
    return Points(*(jax.tree.map(convert, getattr(points, field.name)) for field in dataclasses.fields(points)))
