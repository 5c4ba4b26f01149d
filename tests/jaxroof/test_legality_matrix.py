"""A matrix of deployments and models: each accepted, or refused with the sentence that a user reads. `-s` prints it."""

import dataclasses

import jax.numpy as jnp
import pytest

from jaxroof import Attention, Block, Deployment, Experts, FeedForward, Hardware, Model, WeightFormat
from jaxroof.layers.compressed_attention import CompressedAttention
from jaxroof.layers.latent_attention import LatentAttention
from jaxroof.layers.linear_attention import LinearAttention
from jaxroof.memory.legality import broken_rule, legal
from jaxroof.model import Prediction

BF16 = WeightFormat(bytes=2.0, compute="bf16")


def grouped(heads: float, kv_heads: float) -> Attention:
    return Attention(
        heads=heads, kv_heads=kv_heads, head_dim=128.0, value_dim=128.0, window=None, qkv=BF16, output=BF16
    )


def dense(width: float) -> FeedForward:
    return FeedForward(intermediate=width, up_projections=2.0, up=BF16, down=BF16)


def mixture(experts: float, width: float, shared: float | None = None) -> Experts:
    return Experts(
        experts=experts,
        top_k=2.0,
        intermediate=width,
        up_projections=2.0,
        up=BF16,
        down=BF16,
        router=BF16,
        shared=None if shared is None else dense(shared),
    )


def model(*layers, **given) -> Model:
    return Model(
        hidden=4096.0,
        vocabulary=32_000.0,
        blocks=tuple(
            Block(count=count, attention=mixer, feedforward=layer, other_parameters=0.0)
            for count, mixer, layer in layers
        ),
        embedding=BF16,
        head=BF16,
        untied=1.0,
        other_parameters=0.0,
        **given,
    )


LATENT = LatentAttention(
    heads=128.0,
    query_rank=1536.0,
    latent=512.0,
    nope_dim=128.0,
    rope_dim=64.0,
    value_dim=128.0,
    down=BF16,
    query=BF16,
    up=BF16,
    output=BF16,
)
STATE = LinearAttention(
    heads=32.0,
    key_heads=16.0,
    key_dim=128.0,
    value_dim=128.0,
    gates=2.0,
    gate_rank=None,
    convolution=4.0,
    rule="delta",
    input=BF16,
    output=BF16,
)
COMPRESSED = CompressedAttention(
    heads=64.0,
    head_dim=512.0,
    rope_dim=64.0,
    query_rank=1024.0,
    output_groups=8.0,
    output_rank=1024.0,
    window=128.0,
    ratio=128.0,
    overlap=1.0,
    down=BF16,
    query=BF16,
    compressor=BF16,
    group=BF16,
    output=BF16,
)
EXPERTS = mixture(256.0, 2048.0, shared=2048.0)
MODELS = {
    "dense": model((80.0, grouped(64.0, 8.0), dense(28_672.0))),
    "multi-query": model((32.0, grouped(24.0, 1.0), dense(6144.0))),
    "experts": model((32.0, grouped(32.0, 8.0), mixture(8.0, 14_336.0))),
    "latent": model(
        (3.0, LATENT, dense(18_432.0)),
        (58.0, LATENT, EXPERTS),
        prediction=Prediction(
            count=1.0,
            block=Block(count=1.0, attention=LATENT, feedforward=EXPERTS, other_parameters=0.0),
            projection=BF16,
            other_parameters=0.0,
        ),
    ),
    "states": model((36.0, STATE, mixture(512.0, 512.0)), (12.0, grouped(16.0, 2.0), mixture(512.0, 512.0))),
    "compressed": model((43.0, COMPRESSED, mixture(256.0, 2048.0))),
}

HEADS = "tp = {} does not divide the {} attention heads"
KV_HEADS = "tp = {} neither divides nor is a multiple of the {} KV heads"
EXPERT_WIDTH = "expert tp (tp x cp x attention_dp / ep) = {} does not divide the expert width {}"
REACH = "tp x cp x attention_dp x pp = {} exceeds the {} devices that the hardware's links connect"
WHOLE = "{} = {} must be a whole number of at least 1"

MATRIX = [
    ("dense", {}, None),
    ("dense", {"tp": 8}, None),
    ("dense", {"tp": 64}, None),
    ("dense", {"tp": 3}, HEADS.format(3, 64)),
    ("dense", {"tp": 128}, HEADS.format(128, 64)),
    ("dense", {"tp": 2.5}, WHOLE.format("tp", 2.5)),
    ("dense", {"tp": 0.5}, WHOLE.format("tp", 0.5)),
    ("dense", {"dp": 1.5}, WHOLE.format("dp", 1.5)),
    ("dense", {"dp": 100}, None),  # replicas need no links
    ("dense", {"pp": 4}, None),
    ("dense", {"pp": 80}, None),
    ("dense", {"pp": 81}, "pp = 81 exceeds the 80 layers"),
    ("dense", {"pp": 3}, None),  # 27, 27 and 26
    ("dense", {"pp": 4, "stages": (20.0, 21.0, 21.0, 18.0)}, None),
    ("dense", {"pp": 4, "stages": (20.0, 21.0, 21.0)}, "stages gives the layers of 3 pipeline stages, but pp = 4"),
    ("dense", {"stages": (40.0, 40.0)}, "stages gives the layers of 2 pipeline stages, but pp = 1"),
    ("dense", {"pp": 2, "stages": (40.0, 41.0)}, "stages adds up to 81 layers, but the model has 80"),
    ("dense", {"cp": 4}, None),
    ("dense", {"cp": 1.5}, WHOLE.format("cp", 1.5)),
    ("dense", {"tp": 8, "cp": 4, "pp": 4}, None),
    ("dense", {"tp": 8, "cp": 16, "pp": 16}, REACH.format(2048, 1024)),
    ("dense", {"ep": 1}, None),
    ("dense", {"ep": 2, "tp": 2}, "ep = 2, but the model has no experts"),
    ("dense", {"attention_dp": 1}, None),
    ("dense", {"attention_dp": 2}, "attention_dp = 2, but the model has no experts to share: use dp"),
    ("dense", {"drafts": 0}, None),
    (
        "dense",
        {"drafts": 2},
        "drafts = 2, but the model has no multi-token-prediction head and no draft model: "
        "name a draft model, or let drafter be ngram",
    ),
    ("dense", {"sequence_parallel": True, "tp": 8}, None),
    ("dense", {"overlap": "two_batch", "reserved_cores": 0.15}, None),
    (
        "dense",
        {"overlap": "two_batch", "reserved_cores": 1.0},
        "reserved_cores = 1 leaves no core to compute",
    ),
    ("dense", {"overlap": "gemm", "reserved_cores": 1.0}, None),  # of no account without two halves
    ("multi-query", {"tp": 8}, None),
    ("multi-query", {"tp": 16}, HEADS.format(16, 24)),
    ("multi-query", {"tp": 12, "pp": 2}, None),
    ("experts", {"tp": 8}, None),
    ("experts", {"tp": 8, "ep": 8}, None),
    ("experts", {"tp": 8, "ep": 2}, None),
    ("experts", {"tp": 8, "ep": 3}, "ep = 3 does not divide the 8 experts"),
    ("experts", {"tp": 2, "ep": 4}, "ep = 4 does not divide tp x cp x attention_dp = 2 devices"),
    ("experts", {"attention_dp": 3}, EXPERT_WIDTH.format(3, 14_336)),
    ("experts", {"attention_dp": 8, "ep": 8}, None),
    ("experts", {"tp": 2, "cp": 2, "attention_dp": 2, "ep": 8}, None),
    ("experts", {"cp": 8, "ep": 8}, None),
    ("experts", {"attention_dp": 16, "ep": 16}, "ep = 16 does not divide the 8 experts"),
    ("latent", {"tp": 8}, None),
    ("latent", {"tp": 128}, None),  # latent attention has no KV heads to divide
    ("latent", {"tp": 256}, HEADS.format(256, 128)),
    ("latent", {"attention_dp": 32, "ep": 32}, None),
    ("latent", {"tp": 2, "attention_dp": 128, "ep": 256}, None),
    ("latent", {"attention_dp": 512, "ep": 512}, "ep = 512 does not divide the 256 experts"),
    ("latent", {"pp": 16, "tp": 8}, None),
    ("latent", {"drafts": 1}, None),
    ("latent", {"cp": 8, "attention_dp": 2}, None),
    ("states", {"tp": 16}, None),
    ("states", {"tp": 32}, HEADS.format(32, 16)),
    ("states", {"tp": 8, "ep": 8}, None),
    ("states", {"cp": 1}, None),
    ("states", {"cp": 2}, "cp = 2 splits prompts, but the states of linear attention run through them"),
    ("compressed", {"tp": 8}, None),
    ("compressed", {"tp": 16}, "tp = 16 does not divide the 8 output groups"),
    ("compressed", {"cp": 4, "ep": 4}, None),
]


def deployment(split: dict) -> Deployment:
    return Deployment(**{name: float(value) if isinstance(value, int) else value for name, value in split.items()})


@pytest.mark.parametrize(("name", "split", "sentence"), MATRIX)
def test_matrix(chip, name, split, sentence):
    # booleans are numbers, and sequence_parallel is one
    given = dataclasses.replace(deployment(split), sequence_parallel=split.get("sequence_parallel", False))
    found = broken_rule(chip, MODELS[name], given)
    print(f"{name:12} {', '.join(f'{key} = {value}' for key, value in split.items()):60} {found or 'legal'}")
    assert found == sentence
    assert bool(legal(chip, MODELS[name], given)) == (sentence is None)


def test_key_heads_are_whole(chip):
    odd = dataclasses.replace(STATE, heads=24.0, key_heads=6.0)
    sentence = broken_rule(chip, model((4.0, odd, None)), Deployment(tp=4.0))
    assert sentence == "tp = 4 neither divides nor is a multiple of the 6 key heads"


def test_encoders_and_cross_attention_are_asked_too(chip):
    block = dataclasses.replace(MODELS["dense"].blocks[0], cross=grouped(12.0, 12.0))
    listening = dataclasses.replace(MODELS["dense"], blocks=(block,))
    assert broken_rule(chip, listening, Deployment(tp=8.0)) == HEADS.format(8, 12)


@pytest.mark.parametrize("reach", [1.0, 8.0])
def test_reach(chip: Hardware, reach):
    """A device alone, and a domain without links out of it."""
    links = dataclasses.replace(chip.links, scale_out=None)
    if reach == 1.0:
        links = dataclasses.replace(links, scale_up=None)
    hardware = dataclasses.replace(chip, links=links)
    assert broken_rule(hardware, MODELS["dense"], Deployment(pp=16.0)) == REACH.format(16, int(reach))
    alone = broken_rule(hardware, MODELS["dense"], Deployment(tp=16.0))
    assert alone == f"tp = 16 exceeds the {int(reach)} devices that the hardware's links connect"


def test_the_verdict_takes_arrays(chip):
    """The whole matrix of one model again, with degrees as arrays of shape ()."""
    for name, split, sentence in MATRIX[:8]:
        arrays = {key: jnp.asarray(float(value)) for key, value in split.items()}
        assert bool(legal(chip, MODELS[name], Deployment(**arrays))) == (sentence is None)
