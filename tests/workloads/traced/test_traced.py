"""Traces of functions: loops, messages, memory, symbolic sizes, refusals, and the project's own step beside them."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions import (
    BF16,
    F32,
    HIDDEN,
    INT,
    LLAMA,
    adamw,
    array,
    attention,
    layer_norm,
    layers,
    llama,
    masked,
    mlp,
    state_space,
    vit,
    vit_weights,
)  # fmt: skip
from jax.sharding import PartitionSpec as P

import hwspaces
import sweeps
from jaxroof.arrays import eager
from jaxroof.jobs.step import step_batch
from jaxroof.op import Collective
from jaxroof.op_time import op_time
from jaxroof.overlap import overlapped_ops
from jaxroof.training.backward import backward_ops
from workloads.traced.elementwise import ELEMENTWISE
from workloads.traced.function import traced
from workloads.traced.rules import RULES, Work, rule

PER_LAYER = 32.0
"""Layers of Llama-3.1-8B: how often a step runs an op of a block."""


@pytest.mark.parametrize("efficiency", ["datasheet", "derated", "kernel", "learned"])
def test_a_block_of_llama_takes_as_long_as_in_a_step(efficiency):
    """0.4 % differ at the border of blocks: here the first norm adds no residual, and the last kernel does."""
    scenario = sweeps.case("step", "H100-SXM", "Llama-3.1-8B", workload={"prefill": 2048}).scenario
    constants = hwspaces.efficiency(efficiency).efficiency
    step = overlapped_ops(scenario.model, scenario.deployment, step_batch(scenario.workload, scenario.model))
    block = {n: op for n, op in step.items() if float(op.count) == PER_LAYER and not isinstance(op, Collective)}
    found = traced(llama, LLAMA, array(1, 2048, HIDDEN), policy="framework").ops(matrix=scenario.hardware.matrix)
    with eager():
        expected = sum(float(op_time(op, scenario.hardware, constants)) for op in block.values())
        ours = sum(float(op.count * op_time(op, scenario.hardware, constants)) for op in found.values())
    assert ours == pytest.approx(expected, rel=0.02)
    products = sorted(float(op.matrix_flops) for op in block.values() if op.matrix_flops is not None)
    assert sorted(float(op.matrix_flops) for op in found.values() if op.matrix_flops is not None) == products
    (one,) = (op for op in found.values() if op.kind == "prefill_attention")
    other = block["prefill_attention"]
    assert (one.bytes, one.exps, one.vector_flops) == (other.bytes, other.exps, other.vector_flops)
    assert one.shape.pairs == other.shape.pairs and one.shape.kv_heads == other.shape.kv_heads


def test_the_gradient_of_a_block_is_that_of_training():
    """As `jaxroof.training` has it, but for gradients of weights, which add to what is there in training: 3 %."""
    scenario = sweeps.case("step", "H100-SXM", "Llama-3.1-8B", workload={"prefill": 2048}).scenario
    constants = hwspaces.efficiency("learned").efficiency
    step = overlapped_ops(scenario.model, scenario.deployment, step_batch(scenario.workload, scenario.model))
    block = {n: op for n, op in step.items() if float(op.count) == PER_LAYER and not isinstance(op, Collective)}
    gradient = jax.value_and_grad(lambda *each: llama(*each).astype(F32).sum(), (0, 1))
    found = traced(gradient, LLAMA, array(1, 2048, HIDDEN), policy="framework").ops(matrix=scenario.hardware.matrix)
    with eager():
        both = block | backward_ops(block)
        expected = sum(float(op_time(op, scenario.hardware, constants)) for op in both.values())
        ours = sum(float(op.count * op_time(op, scenario.hardware, constants)) for op in found.values())
    flops = sum(float(op.matrix_flops or 0.0) for op in both.values())
    assert sum(float(op.count * (op.matrix_flops or 0.0)) for op in found.values()) == flops
    assert ours == pytest.approx(expected, rel=0.03)


def test_a_scan_is_its_body_as_often_as_it_runs():
    rolled = traced(layers, array(64, 128), array(12, 128, 128)).ops()

    def unrolled(x, weights):
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return x

    flat = traced(unrolled, array(64, 128), [array(128, 128)] * 12).ops()
    assert [(op.count, op.bytes, op.matrix_flops) for op in rolled.values()] == [
        (op.count, op.bytes, op.matrix_flops) for op in flat.values()
    ]


def test_loops_that_count_and_loops_that_do_not_say():
    def counted(x):
        return jax.lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] @ c[1]), (0, x))[1]

    (op,) = traced(counted, array(64, 64)).ops().values()
    assert op.count == 10

    def converging(x):
        return jax.lax.while_loop(lambda x: jnp.sum(x) > 1.0, lambda x: x @ x, x)

    with pytest.raises(ValueError, match="does not say how often it runs: give trips=N"):
        traced(converging, array(64, 64))
    found = traced(converging, array(64, 64), trips=7.0).ops()
    assert [op.count for op in found.values() if op.kind == "linear"] == [7.0]


def test_a_loop_of_light_work_may_be_one_kernel():
    """Decay and its exponential of 32 x 8 states for 16 steps; x, both projections and results move once."""
    arguments = array(2, 16, 32, dtype=F32), array(32, 8, dtype=F32), *[array(2, 16, 8, dtype=F32)] * 2
    step_by_step = traced(state_space, *arguments).ops()
    assert sum(float(op.count) for op in step_by_step.values()) == 16
    (op,) = traced(state_space, *arguments, fused_loops=True).ops().values()
    assert op.count == 1 and op.exps == 16 * 32 * 8
    assert op.bytes == 4 * (2 * 2 * 16 * 32 + 32 * 8 + 2 * 2 * 16 * 8)


def test_what_is_computed_twice_is_one_kernel_but_where_it_is_meant():
    def twice(x):
        return jnp.exp(x).sum(0) * jnp.exp(x).max(0)

    def exponentials(policy):
        ops = traced(twice, array(64, 64), policy=policy).ops().values()
        return sum(float(op.count * (op.exps or 0.0)) for op in ops)

    assert exponentials("framework") == 64 * 64 and exponentials("eager") == 2 * 64 * 64


def test_the_heaviest_branch_of_a_cond_is_counted():
    def either(which, x):
        return jax.lax.cond(which, lambda x: x @ x @ x, lambda x: x @ x, x)

    found = traced(either, array(dtype=bool), array(64, 64))
    assert sum(float(op.count * op.matrix_flops) for op in found.ops().values()) == 2 * 2 * 64**3
    assert found.notes == ("of a cond the branch with most work is counted",)


def test_collectives_of_shard_map():
    mesh = jax.sharding.AbstractMesh((2, 4), ("dp", "tp"))

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
    mesh = jax.sharding.AbstractMesh((4,), ("tp",))

    def loss(x, weight):
        return (jax.lax.all_gather(x, "tp", tiled=True) @ weight).astype(F32).sum()[None]

    sharded = jax.shard_map(loss, mesh=mesh, in_specs=(P("tp"), P(None, "tp")), out_specs=P("tp"))
    found = traced(jax.grad(lambda *a: sharded(*a).sum()), array(64, 128), array(128, 256)).ops()
    assert {op.operation for op in found.values() if isinstance(op, Collective)} >= {"reduce_scatter"}


def test_what_is_not_known_of_several_devices_is_said():
    mesh = jax.sharding.AbstractMesh((4,), ("tp",))
    sharded = jax.shard_map(lambda x: jax.lax.psum(x, "tp"), mesh=mesh, in_specs=P("tp"), out_specs=P())
    assert not traced(sharded, array(64, 64)).notes
    assert "outside of shard_map counts whole arrays" in traced(lambda x: sharded(x) @ x[:16].T, array(64, 64)).notes[0]


def test_peak_memory():
    """Of a chain: inputs, and the two arrays around each product; of a scan: its inputs, carry and body."""
    found = traced(lambda x, a, b, c: x @ a @ b @ c, array(64, 256), *[array(256, 256)] * 3)
    assert found.peak_bytes() == 2 * (64 * 256 + 3 * 256 * 256) + 2 * 2 * 64 * 256
    framework = traced(attention, *[array(1, 512, 4, 64)] * 3, policy="framework")
    assert framework.peak_bytes() == 4 * 2 * 512 * 4 * 64
    # without fusion two arrays of 4 x 512 x 512 scores in float32 exist at once
    eager_one = traced(attention, *[array(1, 512, 4, 64)] * 3, policy="eager")
    assert eager_one.peak_bytes() >= 3 * 2 * 512 * 4 * 64 + 2 * 4 * 4 * 512 * 512


def test_donated_arguments_make_room_for_results():
    """An optimiser's weight and moments are written over the old ones; the gradient stays."""
    arguments = *[array(256, 256, dtype=F32)] * 4, array(dtype=F32)
    assert traced(adamw, *arguments).peak_bytes() == pytest.approx(4 * 7 * 256 * 256, abs=64)  # and a few scalars
    given = jax.jit(adamw, donate_argnums=(0, 1, 2))
    assert traced(given, *arguments).peak_bytes() == pytest.approx(4 * 4 * 256 * 256, abs=64)


def test_symbolic_sizes_are_functions():
    b, s = jax.export.symbolic_shape("b, s")
    every = traced(llama, LLAMA, array(b, s, HIDDEN), policy="framework", sizes={"b": 2.0, "s": 512.0})
    one = traced(llama, LLAMA, array(2, 512, HIDDEN), policy="framework")
    assert every.symbols == ("b", "s")
    assert list(every.ops({"b": 2.0, "s": 512.0}).values()) == list(one.ops().values())
    assert every.peak_bytes({"b": 2.0, "s": 512.0}) == one.peak_bytes()
    columns = every.ops({"b": np.array([1.0, 2.0]), "s": np.array([128.0, 512.0])})
    for (name, column), alone in zip(columns.items(), one.ops().values(), strict=True):
        assert np.broadcast_to(column.bytes, 2)[1] == alone.bytes, name


def test_fusion_that_would_differ_at_the_ends_of_a_grid_is_said():
    """A row of 65,536 numbers is reduced and worked on in one kernel, a longer one in two."""
    (width,) = jax.export.symbolic_shape("width")
    asked = sweeps.from_function(lambda x: x - x.mean(-1, keepdims=True), array(64, width), sizes={"width": 1024})
    assert asked.notes("H100-SXM", {"width": [1024, 4096]}) == (
        "fusion is decided at width = 1,024; the same at width = 4,096",
    )
    (note,) = asked.notes("H100-SXM", {"width": [1024, 1048576]})
    assert note.startswith("fusion is decided at width = 1,024; at width = 1,048,576 it would be 2 kernels instead of")
    assert asked.notes("H100-SXM", {"width": [1024]}) == ()
    assert asked.decided_at(width=1048576).answer("H100-SXM", width=1048576).metrics["kernels"] == 2
    assert asked.sweep("H100-SXM", {"width": [1024, 4096]}).attrs["notes"].startswith("fusion is decided at width")


def test_symbolic_expressions():
    (b,) = jax.export.symbolic_shape("b", constraints=["mod(b, 4) == 0"])

    def halves(x):
        return jnp.concatenate([x[: x.shape[0] // 4] * 2.0, x[x.shape[0] // 4 :]]) @ x.T

    ops = traced(halves, array(b, 64), sizes={"b": 16.0}).ops({"b": 32.0})
    assert [float(op.matrix_flops) for op in ops.values() if op.kind == "linear"] == [2 * 32 * 64 * 32]


def test_symbolic_sizes_as_values():
    """A mean divides by its size; a causal mask of 8 newest tokens begins at the number of cached ones."""
    s, k = jax.export.symbolic_shape("s, k")
    found = traced(lambda x: jax.device_put(x).mean(0), array(s, 64, dtype=F32), sizes={"s": 32.0})
    assert sum(float(op.bytes) for op in found.ops({"s": 1024.0}).values()) == 4 * (1024 * 64 + 64)

    def newest(q, keys, values):
        new, every = q.shape[1], keys.shape[1]
        seen = jnp.arange(every)[None] <= jnp.arange(new)[:, None] + (every - new)
        scores = jnp.where(seen, jnp.einsum("bqhd,bkhd->bhqk", q, keys), -1e30)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), values)

    sizes = array(1, s, 4, 32), array(1, k, 4, 32), array(1, k, 4, 32)
    (op,) = traced(newest, *sizes, sizes={"s": 16.0, "k": 48.0}).ops({"s": 64.0, "k": 256.0}).values()
    assert op.shape.pairs == 64 * 192 + 64 * 65 / 2


def test_a_linear_solve_is_its_factors():
    """LU: 2/3 n^3; two triangles: n^2 each, and a permutation."""
    ops = traced(jnp.linalg.solve, array(64, 64, dtype=F32), array(64, dtype=F32)).ops()
    factors = {name.rpartition("/")[2].partition(".")[0]: float(op.vector_flops) for name, op in ops.items()}
    assert factors["lu"] == pytest.approx(2 / 3 * 64**3) and factors["triangular_solve"] == 64**2


def test_equal_ops_are_one():
    def stacked(x, weights):
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return x

    found = traced(stacked, array(64, 64), [array(64, 64)] * 30)
    assert [float(op.count) for op in found.ops().values()] == [30.0, 30.0]


def test_ops_over_different_symbols_are_apart():
    """Two products that are alike where both sizes are."""
    n, e = jax.export.symbolic_shape("n, e")
    found = traced(lambda nodes, edges, w: (nodes @ w, edges @ w), array(n, 64), array(e, 64), array(64, 64))
    ops = found.ops({"n": 100.0, "e": 700.0}).values()
    assert sorted(float(op.matrix_flops) for op in ops) == [2 * 100 * 64 * 64, 2 * 700 * 64 * 64]


def test_an_unknown_primitive_is_refused_by_name_and_added_in_a_line(monkeypatch):
    monkeypatch.delitem(ELEMENTWISE, "tanh")
    with pytest.raises(ValueError, match=r'primitive tanh: .*ELEMENTWISE\["tanh"\] = \(vector FLOP, exponentials\)'):
        traced(jnp.tanh, array(64))
    monkeypatch.setitem(ELEMENTWISE, "tanh", (7.0, 1.0))
    (op,) = traced(jnp.tanh, array(64)).ops().values()
    assert (op.vector_flops, op.exps) == (7 * 64, 64)


def test_a_rule_of_a_users_own(monkeypatch):
    monkeypatch.delitem(RULES, "cumsum")
    with pytest.raises(ValueError, match="nothing is known of the primitive cumsum"):
        traced(lambda x: jnp.cumsum(x, 0), array(64, dtype=F32))
    monkeypatch.setitem(RULES, "cumsum", None)

    @rule("cumsum")
    def _(node, at):
        return Work(3.0 * at.elements(node.inputs[0].shape), matrix_flops=100.0 * at.elements(node.inputs[0].shape))

    (op,) = traced(lambda x: jnp.cumsum(x, 0), array(64, dtype=F32)).ops().values()
    assert op.vector_flops == 3 * 64 and op.matrix_flops == 100 * 64 and op.precision == "tf32"
    hardware, efficiency = hwspaces.hardware("H100-SXM").hardware, hwspaces.efficiency("learned").efficiency
    with eager():
        assert float(op_time(op, hardware, efficiency)) > 0.0


def test_what_cannot_be_is_refused():
    with pytest.raises(
        ValueError, match="fusion = 'magic' is not known; known: eager, operators, loops, framework, compiler"
    ):
        traced(jnp.tanh, array(64), policy="magic")
    with pytest.raises(ValueError, match="pure_callback runs Python on the host"):
        traced(lambda x: jax.pure_callback(np.tanh, x, x), jax.ShapeDtypeStruct((4,), F32))


def test_a_kernel_of_ones_own_is_refused_and_added(monkeypatch):
    """2 FLOP per element, and both arrays once."""
    pallas = pytest.importorskip("jax.experimental.pallas")

    def doubled(x):
        return pallas.pallas_call(lambda read, write: None, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    with pytest.raises(
        ValueError, match=r'what is inside pallas_call: .* @workloads.traced.rules.rule\("pallas_call"\)'
    ):
        traced(doubled, array(64, 64, dtype=F32))
    monkeypatch.setitem(RULES, "pallas_call", lambda node, at: Work(2.0 * at.elements(node.inputs[0].shape)))
    (op,) = traced(doubled, array(64, 64, dtype=F32)).ops().values()
    assert (op.vector_flops, op.bytes) == (2 * 64 * 64, 2 * 4 * 64 * 64)


def test_what_is_no_array_is_static():
    """A layer with its activation, and how often it runs, as models of Equinox have them; the same comes out."""

    def run(layer, x, times):
        for _ in range(times):
            x = layer["activation"](x @ layer["weight"])
        return layer | {"weight": x}

    layer = {"weight": array(64, 64), "activation": jnp.tanh}
    ops = traced(run, layer, array(64, 64), 3).ops()
    assert sum(float(op.count * (op.matrix_flops or 0.0)) for op in ops.values()) == 3 * 2 * 64**3


def test_what_is_written_into_arguments_is_a_result():
    """As modules with state have it: a dictionary's entry here."""

    def step(state, x):
        state["weight"] = state["weight"] - x.T @ x
        return x.sum()

    ops = traced(step, {"weight": array(64, 64)}, array(32, 64)).ops()
    assert sum(float(op.matrix_flops or 0.0) for op in ops.values()) == 2 * 32 * 64 * 64


def test_a_sparse_product_multiplies_what_is_stored():
    from jax.experimental.sparse import BCOO

    def product(stored, places, x):
        return BCOO((stored, places), shape=(64, 64)) @ x

    found = traced(product, array(500, dtype=F32), array(500, 2, dtype=INT), array(64, 32, dtype=F32))
    (op,) = found.ops().values()
    assert op.vector_flops == 2 * 500 * 32 and op.bytes == 4 * (500 + 2 * 500 + 64 * 32 + 64 * 32)


def test_a_mask_that_is_an_argument_is_said():
    found = traced(masked, *[array(2, 64, 4, 32)] * 3, array(2, 64, dtype=bool), policy="framework")
    assert "under a mask that is an input" in found.notes[0]


H100, A100, V100, TPU = (tuple(hwspaces.hardware(name).hardware.matrix) for name in ("H100-SXM", "A100-SXM-80GB",
                         "V100-SXM", "TPU-v6e"))  # fmt: skip
"""Precisions of matrix units; a TPU's fp32 is that of its vector units."""

ASKED = {
    # what JAX is asked for: (precision, passes) on H100 and A100, on V100, on TPU
    None: (("tf32", 1), ("fp32", 1), ("bf16", 1)),
    "default": (("tf32", 1), ("fp32", 1), ("bf16", 1)),
    "high": (("tf32", 1), ("fp32", 1), ("bf16", 3)),
    "tensorfloat32": (("tf32", 1), ("fp32", 1), ("bf16", 3)),
    "highest": (("fp32", 1), ("fp32", 1), ("bf16", 6)),
    ("default", "highest"): (("fp32", 1), ("fp32", 1), ("bf16", 6)),
    "BF16_BF16_F32": (("bf16", 1), ("bf16", 1), ("bf16", 1)),
    "BF16_BF16_F32_X3": (("bf16", 3), ("bf16", 3), ("bf16", 3)),
    "TF32_TF32_F32_X3": (("tf32", 3), ("fp32", 1), ("bf16", 3)),
    "F32_F32_F32": (("fp32", 1), ("fp32", 1), ("bf16", 6)),
    jax.lax.DotAlgorithm(jnp.bfloat16, jnp.bfloat16, F32, num_primitive_operations=6): (("bf16", 6),) * 3,
}


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_float32_runs_in_the_precision_that_jax_is_asked_for(asked):
    """As `jax.lax.Precision` says: passes of bf16 on TPUs, tf32 on GPUs that have it, float32 for HIGHEST."""
    found = traced(lambda x: jnp.matmul(x, x, precision=asked), array(64, 64, dtype=F32))
    nvidia, volta, tpu = ASKED[asked]
    for matrix, (precision, passes) in ((H100, nvidia), (A100, nvidia), (V100, volta), (TPU, tpu)):
        (op,) = found.ops(matrix=matrix).values()
        assert (op.precision, op.matrix_flops) == (precision, passes * 2 * 64**3)
        assert op.shape.inputs == passes * 64


def test_convolutions_attention_and_the_default_follow_too():
    image, weight = array(1, 8, 8, 32, dtype=F32), array(3, 3, 32, 32, dtype=F32)

    def convolved(x, weight):
        return jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    queries = [array(1, 64, 4, 32, dtype=F32)] * 3
    for function, arguments in ((convolved, [image, weight]), (attention, queries)):
        (usual,) = traced(function, *arguments).ops(matrix=TPU).values()
        with jax.default_matmul_precision("highest"):
            found = traced(function, *arguments)
        (op,) = found.ops(matrix=TPU).values()
        assert (op.precision, op.matrix_flops) == ("bf16", 6 * usual.matrix_flops)
        assert [op.precision for op in found.ops(matrix=H100).values()] == ["fp32"]
        assert found.asked_products() == (("float32", "HIGHEST"),)


def test_other_types_run_as_they_are():
    def product(dtype, matrix):
        (op,) = traced(jnp.dot, *[array(64, 64, dtype=dtype)] * 2).ops(matrix=matrix).values()
        return op.precision, op.matrix_flops / (2 * 64**3)

    with jax.default_matmul_precision("highest"):
        assert product(BF16, H100) == ("bf16", 1) and product(jnp.float16, TPU) == ("bf16", 1)
    assert product(jnp.float8_e4m3fn, H100) == ("fp8", 1) and product(jnp.int4, A100) == ("int8", 1)
    assert product(jnp.complex64, H100) == ("tf32", 4)  # of real numbers


@pytest.mark.parametrize("efficiency", ["learned-vllm", "learned-sglang", "learned-trtllm", "pytorch", "tensorrt"])
@pytest.mark.parametrize(
    ("dtype", "sums", "device"), [(jnp.int8, INT, "A100-SXM-80GB"), (jnp.float8_e4m3fn, F32, "H100-SXM")]
)
def test_rows_of_eight_bits_have_no_scales_of_their_own(dtype, sums, device, efficiency):
    """50,176 rows of 256 are read, and as many sums of 4 B written: 64 MB are 32 us of an A100's memory, 19 us of an
    H100's. The same rows under engines, which scale every token, take up to 18 times as long.
    """
    arguments = array(50176, 256, dtype=dtype), array(256, 256, dtype=dtype)
    product = sweeps.from_function(lambda x, w: jax.lax.dot(x, w, preferred_element_type=sums), *arguments)
    (op,) = product.answer(device, efficiency).ops
    assert op.bytes == 50176 * 256 * (1 + 4) + 256 * 256
    bound = op.bytes / float(hwspaces.hardware(device).hardware.memory.hbm.bandwidth)
    assert bound < op.time < 1.7 * bound


def test_products_of_two_precisions_are_two_kernels():
    def both(x):
        return jnp.matmul(x, x), jnp.matmul(x.T, x, precision="high")

    ops = traced(both, array(64, 64, dtype=F32)).ops(matrix=TPU)
    assert sorted(float(op.matrix_flops) for op in ops.values()) == [2 * 64**3, 3 * 2 * 64**3]


def test_a_thousand_primitives_are_traced_quickly():
    def long(x):
        for i in range(250):
            x = jnp.tanh(x @ x) + x * (2.0 + i)
        return x

    begun = time.perf_counter()
    found = traced(long, array(64, 64), policy="compiler")
    assert time.perf_counter() - begun < 20.0  # 0.3 s on a free core: a bound on what grows with the square
    assert sum(float(op.count) for op in found.ops().values()) == 250


COMPILED = {
    "products": (
        lambda x, a, b: x @ a @ b,
        [array(64, 128, dtype=F32), array(128, 256, dtype=F32), array(256, 64, dtype=F32)],
    ),
    "perceptron": (mlp, [array(64, 128, dtype=F32), array(128, 512, dtype=F32), array(512, 128, dtype=F32)]),
    "norm": (layer_norm, [array(256, 512, dtype=F32), array(512, dtype=F32), array(512, dtype=F32)]),
    "optimiser": (adamw, [*[array(256, 256, dtype=F32)] * 4, array(dtype=F32)]),
    "vit": (vit, [vit_weights(), array(2, 32, 64, dtype=F32)]),
    "gradient": (jax.grad(lambda *each: vit(*each).sum()), [vit_weights(), array(2, 32, 64, dtype=F32)]),
    "edges": (
        lambda x, w, i: jax.nn.relu(x[i] @ w),
        [array(100, 64, dtype=F32), array(64, 32, dtype=F32), array(500, dtype=INT)],
    ),
}


@pytest.mark.parametrize("name", COMPILED)
def test_bytes_and_memory_are_those_of_a_compiler(name):
    """XLA's own counts for the program that it compiles for CPUs; ours of kernels fused as it does.

    Bytes within 10 %; memory from 15 % less to 50 % more, for XLA writes some results over operands that end.
    """
    function, arguments = COMPILED[name]
    compiled = jax.jit(function).lower(*arguments).compile()
    found = traced(function, *arguments, policy="loops")
    ours = sum(float(op.count * op.bytes) for op in found.ops().values())
    assert ours == pytest.approx(compiled.cost_analysis()["bytes accessed"], rel=0.1)
    memory = compiled.memory_analysis()
    parts = (memory.argument_size_in_bytes, memory.output_size_in_bytes, memory.temp_size_in_bytes)
    assert 0.85 * sum(parts) <= found.peak_bytes() <= 1.51 * sum(parts)
