"""Structs as JAX sees them: round trips, static fields as structure, one compilation for many devices."""

import dataclasses
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxroof
from jaxroof import (
    Adapters,
    AttentionSplitCost,
    Collective,
    Colocated,
    Copy,
    Curve,
    Energy,
    FeedbackCost,
    Handover,
    HandoverCost,
    Iteration,
    Kernel,
    LoRA,
    Objective,
    OnChip,
    Op,
    Policy,
    Pool,
    Requests,
    Scorer,
    Served,
    Size,
    Tenant,
    TenantCost,
    Timeline,
    Traffic,
    Training,
    TrainingMemory,
    VoltageCurve,
    datasheet,
    decode,
    prefill,
    step_time,
)
from jaxroof.jobs.composition import RequestCost
from jaxroof.jobs.serve import Service
from jaxroof.step.step import OpCost
from tests.silicon_examples import COSTS, PACKAGE, SILICON
from tests.structures import STRUCTURES, points


def production(dense, single, requests) -> list:
    """What pools, tenants, adapters and iterations of feedback are, and what they cost."""
    pool = Pool(hardware=1.0, deployment=single, efficiency=datasheet())
    rates = dict.fromkeys(("prefill_rate", "decode_rate", "transfer_rate", "rate", "bottleneck"), 1.0)
    return [
        pool,
        Handover(batch=1.0, isl=2.0, osl=3.0),
        Handover(batch=1.0, isl=2.0, osl=3.0, rate=4.0, lanes=5.0, acceptance=(0.5, 0.4)),
        HandoverCost(ttft=1.0, tpot=2.0, e2e=3.0, wait=4.0, first=4.0, taken=5.0, transfer=5.0, exposed=6.0, **rates),
        Curve(**dict.fromkeys((field.name for field in dataclasses.fields(Curve)), 1.0)),
        Tenant(model=dense, deployment=single, requests=requests, efficiency=datasheet()),
        Colocated(batch=1.0, isl=2.0, osl=3.0),
        TenantCost(ttft=1.0, tpot=2.0, ttft_alone=3.0, tpot_alone=4.0, bandwidth=5.0),
        Adapters(rank=16.0),
        dataclasses.replace(single, adapters=Adapters(rank=16.0), tree=(2.0, 1.0), drafts=2.0),
        dataclasses.replace(dense, draft=dense),
        Scorer(model=dense, deployment=single, batch=1.0),
        AttentionSplitCost(
            tpot=1.0, attention=2.0, feedforward=3.0, send=4.0, outside=5.0, attention_use=0.6, feedforward_use=0.7
        ),
        FeedbackCost(rollout=1.0, scoring=2.0, training=3.0, sync=4.0, total=10.0),
    ]


@pytest.fixture(scope="session")
def examples(chip, dense, mixture, single, experts, feedforward, attention):
    """One or more of every struct, optional parts both there and absent."""
    requests = Requests(batch=8.0, isl=100.0, osl=10.0, cached=0.0)
    bare = dataclasses.replace(chip, memory=dataclasses.replace(chip.memory, l2=None), price=None)
    often = {"count": 1.0, "kernels": 1.0}
    ops = (
        Op(**often),
        Kernel(kind="linear", precision="bf16", matrix_flops=2.0, **often),
        Collective(operation="all_reduce", message_bytes=3.0, participants=2.0, **often),
        Copy(tier="host", message_bytes=4.0, **often),
    )
    roots = [
        *(chip, bare, dense, mixture, single, requests, datasheet(), prefill(1.0, 7.0), decode(1.0, 9.0), *ops),
        dataclasses.replace(experts, shared=feedforward),
        dataclasses.replace(attention, window=64.0, window_kind="sliding"),
        RequestCost(ttft=1.0, tpot=2.0, e2e=3.0),
        *(
            Policy(),
            Objective(),
            Service(traffic=Traffic(arrival=0.0, isl=1.0, osl=2.0), policy=Policy()),
            Traffic(arrival=0.0, isl=1.0, osl=2.0),
            Traffic(arrival=0.0, isl=1.0, osl=2.0, clients=1.0),
        ),
        Served(arrival=0.0, admitted=1.0, first_token=2.0, finish=3.0, status=0, preemptions=0, cached=0),
        Timeline(end=1.0, duration=1.0, steps=1, decoding=2, prompt_tokens=3, blocks=4, joined=0, running=2),
        OpCost(time=1.0, flops=2.0, bytes=3.0, message_bytes=4.0, bound=5, algorithm=0),
        Energy(
            matrix={"bf16": 1.0}, vector=2.0, exp=3.0, hbm=4.0, l2=5.0, scratchpad=6.0, scale_up=7.0, scale_out=None
        ),
    ]
    roots += [SILICON, COSTS, VoltageCurve(full=1.0, threshold=0.3, exponent=1.3, least=0.6, static_share=0.5), PACKAGE]
    roots.append(OnChip(capacity=1e6, keeps_weights=1.0))
    roots += [
        Training(global_batch=8.0, seq=9.0, lora=LoRA(rank=4.0, targets=("q",))),
        TrainingMemory(weights=1.0, gradients=2.0, optimizer=3.0, activations=4.0, buffers=5.0),
        Iteration(
            **dict.fromkeys(("time", "unlimited", "forward", "backward", "micro_batches", "bubble"), 1.0),
            **dict.fromkeys(("recompute", "optimizer", "contention", "executed", "energy", "weight_backward"), 1.0),
            exposed={"tp": 1.0},
            hidden={"tp": 0.0},
            copies_hidden={"last backward": 0.0},
        ),
    ]
    roots += production(dense, single, requests)
    drawn = [jax.tree.map(lambda leaf: float(np.ravel(leaf)[0]), points(name, 1).step) for name in STRUCTURES]
    return [found for root in (*roots, *drawn) for found in parts(root)]


def parts(value):
    """`value` and every struct inside it."""
    if dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from parts(getattr(value, field.name))
    elif isinstance(value, tuple | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from parts(inner)


def test_every_public_struct_has_an_example(examples):
    names = (getattr(jaxroof, name) for name in jaxroof.__all__)
    public = {cls for cls in names if inspect.isclass(cls) and dataclasses.is_dataclass(cls)}
    public.remove(Size)  # shapes: not a pytree
    assert public - {type(example) for example in examples} == set()


def test_flatten_and_unflatten(examples):
    for example in examples:
        leaves, structure = jax.tree.flatten(example)
        assert jax.tree.unflatten(structure, leaves) == example
        assert all(isinstance(leaf, float | int) for leaf in leaves)  # no text, no None among the numbers


def test_structures_are_hashable_and_compare(examples):
    for example in examples:
        doubled = jax.tree.map(lambda leaf: 2 * leaf, example)
        assert hash(jax.tree.structure(example)) == hash(jax.tree.structure(doubled))
        assert jax.tree.structure(example) == jax.tree.structure(doubled)


def test_fields_are_frozen_and_named(chip):
    with pytest.raises(dataclasses.FrozenInstanceError):
        chip.price = 1.0
    with pytest.raises(TypeError):
        jaxroof.MemoryLevel(1.0, 2.0)


@pytest.mark.parametrize(
    ("fixture", "change"),
    [
        ("bf16", {"compute": "fp8"}),
        ("attention", {"window_kind": "sliding"}),
        ("single", {"attention_compute": "fp8"}),
    ],
)
def test_static_fields_are_structure(fixture, change, request):
    struct = request.getfixturevalue(fixture)
    assert jax.tree.structure(dataclasses.replace(struct, **change)) != jax.tree.structure(struct)


def test_op_kind_and_precision_are_structure():
    op = Kernel(kind="linear", precision="bf16", count=1.0, kernels=1.0)
    assert len(jax.tree.leaves(op)) == 2
    for change in ({"kind": "experts"}, {"precision": "fp8"}, {"bytes": 1.0}):
        assert jax.tree.structure(dataclasses.replace(op, **change)) != jax.tree.structure(op)


def test_an_absent_part_is_structure(chip):
    bare = dataclasses.replace(chip, memory=dataclasses.replace(chip.memory, l2=None))
    assert jax.tree.structure(bare) != jax.tree.structure(chip)
    assert len(jax.tree.leaves(bare)) == len(jax.tree.leaves(chip)) - 2


def test_two_devices_are_one_compilation(chip, dense, single):
    """`jit` traces once for two devices of one structure, and again for one without L2."""
    traces = []

    @jax.jit
    def time(hardware, batch):
        traces.append(1)
        return step_time(hardware, dense, single, batch, datasheet())

    twice = jax.tree.map(lambda figure: 2.0 * figure, chip)
    slow, fast = (float(time(hardware, decode(8.0, 500.0))) for hardware in (chip, twice))
    assert len(traces) == 1 and fast < slow
    time(chip, decode(16.0, 500.0))
    assert len(traces) == 1
    time(dataclasses.replace(chip, memory=dataclasses.replace(chip.memory, l2=None)), decode(8.0, 500.0))
    assert len(traces) == 2


def test_devices_stack_and_vmap(chip, dense, single):
    """A stack of devices gives what a loop over them gives; 1e-6 for compiled and op-by-op rounding."""
    devices = [jax.tree.map(lambda figure, scale=scale: scale * figure, chip) for scale in (0.5, 1.0, 3.0)]
    stacked = jax.tree.map(lambda *figures: jnp.stack([jnp.asarray(f) for f in figures]), *devices)

    def time(hardware):
        return step_time(hardware, dense, single, decode(8.0, 500.0), datasheet())

    np.testing.assert_allclose(jax.vmap(time)(stacked), [time(device) for device in devices], rtol=1e-6)
