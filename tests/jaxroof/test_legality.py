"""Legality of deployments: accepted, or refused with the sentence that a user reads."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from jaxroof import Deployment, Links
from jaxroof.memory.legality import broken_rule, crosses_domain, legal

HEADS = "tp = {} does not divide the {} attention heads"
KV_HEADS = "tp = {} neither divides nor is a multiple of the {} KV heads"
WIDTH = "tp = {} does not divide the {} width {}"
REACH = "tp = {} exceeds the {} devices that the hardware's links connect"


def sized(model, heads=64.0, kv_heads=8.0, width=28_672.0):
    """`model` with other numbers of heads and another width."""
    block = model.blocks[0]
    attention = dataclasses.replace(block.attention, heads=heads, kv_heads=kv_heads)
    feedforward = dataclasses.replace(block.feedforward, intermediate=width)
    return dataclasses.replace(
        model, blocks=(dataclasses.replace(block, attention=attention, feedforward=feedforward),)
    )


@pytest.mark.parametrize(
    ("sizes", "tp", "sentence"),
    [
        ({}, 1.0, None),
        ({}, 8.0, None),
        ({}, 64.0, None),  # more than the KV heads, and a multiple of them: each is on 8 devices
        ({}, 3.0, HEADS.format(3, 64)),
        ({}, 128.0, HEADS.format(128, 64)),
        ({"heads": 40.0}, 16.0, HEADS.format(16, 40)),
        ({"kv_heads": 1.0}, 8.0, None),  # multi-query: replicated on every device
        ({"kv_heads": 2.0}, 8.0, None),
        ({"heads": 24.0, "kv_heads": 4.0}, 6.0, KV_HEADS.format(6, 4)),
        ({"heads": 24.0, "kv_heads": 12.0}, 8.0, KV_HEADS.format(8, 12)),
        ({"width": 1000.0}, 16.0, WIDTH.format(16, "feed-forward", 1000)),
    ],
)
def test_split_of_a_dense_model(chip, dense, sizes, tp, sentence):
    model, deployment = sized(dense, **sizes), Deployment(tp=tp)
    assert broken_rule(chip, model, deployment) == sentence
    assert bool(legal(chip, model, deployment)) == (sentence is None)


def test_split_of_experts(chip, mixture):
    model = sized(mixture, width=1400.0)
    assert broken_rule(chip, model, Deployment(tp=8.0)) is None
    assert broken_rule(chip, model, Deployment(tp=16.0)) == (
        "expert tp (tp x cp x attention_dp / ep) = 16 does not divide the expert width 1400"
    )


def test_every_block_is_asked(chip, dense):
    good, bad = sized(dense).blocks[0], sized(dense, width=1000.0).blocks[0]
    model = dataclasses.replace(dense, blocks=(good, bad))
    assert broken_rule(chip, model, Deployment(tp=16.0)) == WIDTH.format(16, "feed-forward", 1000)


@pytest.mark.parametrize(
    ("without", "tp", "sentence"),
    [
        (("scale_up", "scale_out"), 1.0, None),
        (("scale_up", "scale_out"), 2.0, REACH.format(2, 1)),
        (("scale_out",), 8.0, None),
        (("scale_out",), 16.0, REACH.format(16, 8)),
        (("scale_up",), 64.0, None),
    ],
)
def test_reach_of_the_links(chip, dense, without, tp, sentence):
    hardware = dataclasses.replace(chip, links=dataclasses.replace(chip.links, **dict.fromkeys(without)))
    assert broken_rule(hardware, sized(dense), Deployment(tp=tp)) == sentence
    assert bool(legal(hardware, sized(dense), Deployment(tp=tp))) == (sentence is None)


@pytest.mark.parametrize(("tp", "crosses"), [(1.0, False), (8.0, False), (16.0, True)])
def test_a_ring_may_leave_its_domain(chip, tp, crosses):
    assert bool(crosses_domain(chip, Deployment(tp=tp))) == crosses


def test_any_ring_leaves_a_device_without_a_domain(chip):
    bare = dataclasses.replace(chip, links=Links(scale_up=None, scale_out=chip.links.scale_out))
    assert not bool(crosses_domain(bare, Deployment(tp=1.0)))
    assert bool(crosses_domain(bare, Deployment(tp=2.0)))


def test_verdict_may_be_an_axis(chip, dense):
    """Under vmap and jit the verdict equals the loop's."""
    degrees = jnp.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 64.0, 128.0])
    model = sized(dense)
    verdicts = jax.jit(jax.vmap(lambda tp: legal(chip, model, Deployment(tp=tp))))(degrees)
    assert verdicts.tolist() == [broken_rule(chip, model, Deployment(tp=float(tp))) is None for tp in degrees]
