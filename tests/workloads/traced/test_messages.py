"""Collectives of `shard_map` in traced functions."""

import jax
from functions import F32, array
from jax.sharding import PartitionSpec as P

from jaxroof.op import Collective
from workloads.traced.function import traced

AUTO = (jax.sharding.AxisType.Auto,)
"""An axis over which the compiler splits arrays; from jax 0.12 others are usual."""


def test_collectives_of_shard_map():
    mesh = jax.sharding.AbstractMesh((2, 4), ("dp", "tp"), axis_types=2 * AUTO)

    def layer(x, weight):
        y = jax.lax.psum(x @ weight, "tp")
        return jax.lax.all_gather(y, "dp", tiled=True), jax.lax.psum_scatter(y, ("dp", "tp"), tiled=True)

    specs = {"in_specs": (P("dp", "tp"), P("tp", None)), "out_specs": (P(), P(("dp", "tp")))}
    sharded = jax.shard_map(layer, mesh=mesh, check_vma=False, **specs)
    whole = traced(sharded, array(64, 128), array(128, 256))
    found = whole.ops()
    # inputs, the reduced product, what is gathered and what is scattered; the product itself is gone
    assert whole.peak_bytes() == 2 * (32 * 32 + 32 * 256 + 32 * 256 + 64 * 256 + 4 * 256)
    sent = {op.operation: op for op in found.values() if isinstance(op, Collective)}
    # a device has (32, 32) @ (32, 256), and no more of the inputs in its memory
    assert found["matmul.32x256"].matrix_flops == 2 * 32 * 32 * 256
    part = 2 * 32 * 256
    assert {name: (op.message_bytes, op.participants, op.stride) for name, op in sent.items()} == {
        "all_reduce": (part, 4, 1),
        "all_gather": (2 * part, 2, 4),
        "reduce_scatter": (part, 8, 1),
    }


def test_the_gradient_of_a_gathered_product_scatters():
    mesh = jax.sharding.AbstractMesh((4,), ("tp",), axis_types=AUTO)

    def loss(x, weight):
        return (jax.lax.all_gather(x, "tp", tiled=True) @ weight).astype(F32).sum()[None]

    sharded = jax.shard_map(loss, mesh=mesh, in_specs=(P("tp"), P(None, "tp")), out_specs=P("tp"))
    found = traced(jax.grad(lambda *a: sharded(*a).sum()), array(64, 128), array(128, 256)).ops()
    assert {op.operation for op in found.values() if isinstance(op, Collective)} >= {"reduce_scatter"}


def test_what_is_not_known_of_several_devices_is_said():
    mesh = jax.sharding.AbstractMesh((4,), ("tp",), axis_types=AUTO)
    sharded = jax.shard_map(lambda x: jax.lax.psum(x, "tp"), mesh=mesh, in_specs=P("tp"), out_specs=P())
    assert not traced(sharded, array(64, 64)).notes
    assert "outside of shard_map counts whole arrays" in traced(lambda x: sharded(x) @ x[:16].T, array(64, 64)).notes[0]
