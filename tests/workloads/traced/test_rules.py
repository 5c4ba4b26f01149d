"""Rules of primitives: work of sparse products and solvers, refusals of what is not known, rules of a user."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions import F32, INT, array

import hwspaces
from jaxroof.numerics.arrays import eager
from jaxroof.roofline import op_time
from workloads.traced.elementwise import ELEMENTWISE
from workloads.traced.function import traced
from workloads.traced.rules import RULES, PrimitiveWork, rule


def test_a_linear_solve_is_its_factors():
    """LU: 2/3 n^3; two triangles: n^2 each, and a permutation."""
    ops = traced(jnp.linalg.solve, array(64, 64, dtype=F32), array(64, dtype=F32)).ops()
    factors = {name.rpartition("/")[2].partition(".")[0]: float(op.vector_flops) for name, op in ops.items()}
    assert factors["lu"] == pytest.approx(2 / 3 * 64**3) and factors["triangular_solve"] == 64**2


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
        return PrimitiveWork(
            3.0 * at.elements(node.inputs[0].shape), matrix_flops=100.0 * at.elements(node.inputs[0].shape)
        )

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
    monkeypatch.setitem(RULES, "pallas_call", lambda node, at: PrimitiveWork(2.0 * at.elements(node.inputs[0].shape)))
    (op,) = traced(doubled, array(64, 64, dtype=F32)).ops().values()
    assert (op.vector_flops, op.bytes) == (2 * 64 * 64, 2 * 4 * 64 * 64)


def test_a_kernel_with_a_stated_cost():
    """Its FLOP on matrix units, its exponentials, and 1 kB beyond its operands and result of 8 kB each."""
    pallas = pytest.importorskip("jax.experimental.pallas")

    def own(x, y):
        cost = pallas.CostEstimate(flops=1000, transcendentals=10, bytes_accessed=3 * 8192 + 1024)
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pallas.pallas_call(lambda one, other, write: None, out_shape=shape, cost_estimate=cost)(x, y)

    found = traced(own, array(64, 64), array(64, 64))
    (op,) = found.ops().values()
    assert (op.matrix_flops, op.exps, op.bytes) == (1000.0, 10.0, 3 * 8192 + 1024)
    assert found.notes == ("pallas_call: work is what its cost_estimate says, not what its code does",)


@pytest.mark.parametrize("given", ["a key", "none"])
def test_random_numbers_are_computed(given):
    """58 operations a word of threefry at least, whether the key is an argument or not."""

    def drawn(key):
        key = jax.random.wrap_key_data(key) if given == "a key" else jax.random.key(0)
        return jax.random.bits(key, (1024, 1024)) + jnp.uint32(1)

    ops = traced(drawn, array(2, dtype=jnp.uint32)).ops().values()
    assert sum(op.count * op.vector_flops for op in ops) >= 58 * 1024**2


def test_kernels_that_wait_for_each_other():
    """Kernels of 2,048 columns beyond the first 32; a sort of 32-bit keys passes over them for each of 4 digits."""
    square = array(2048, 2048, dtype=F32)
    for function, per_column in ((jnp.linalg.cholesky, 0.25), (lambda x: jax.lax.linalg.lu(x)[0], 0.5)):
        found = traced(function, square)
        longest = max(float(op.kernels) for op in found.ops().values())
        assert longest == 1.0 + per_column * (2048 - 32)
        assert any("its kernels wait for each other" in note for note in found.notes)
    (op,) = traced(jnp.sort, array(10**6, dtype=F32)).ops().values()
    assert (op.kernels, op.bytes) == (5.0, 4 * 2 * 4e6)
    small = traced(jnp.linalg.cholesky, array(16, 16, dtype=F32)).ops().values()
    assert {op.kernels for op in small} == {1.0}


def test_a_sparse_product_multiplies_what_is_stored():
    from jax.experimental.sparse import BCOO

    def product(stored, places, x):
        return BCOO((stored, places), shape=(64, 64)) @ x

    found = traced(product, array(500, dtype=F32), array(500, 2, dtype=INT), array(64, 32, dtype=F32))
    (op,) = found.ops().values()
    assert op.vector_flops == 2 * 500 * 32 and op.bytes == 4 * (500 + 2 * 500 + 64 * 32 + 64 * 32)
