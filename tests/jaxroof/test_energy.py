"""Energy of ops by hand, the limit of electrical power, and how both scale."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof import (
    Collective,
    Energy,
    Joules,
    Kernel,
    Power,
    Requests,
    datasheet,
    limited_time,
    op_energy,
    request_cost,
)
from jaxroof.collectives.choice import sent_bytes

ENERGY = Energy(
    matrix={"bf16": 1e-12, "fp8": 5e-13, "fp4": 3e-13},
    vector=2e-12,
    exp=1e-11,
    hbm=5e-11,
    l2=5e-12,
    scratchpad=1e-12,
    scale_up=4e-11,
    scale_out=2e-10,
)


@pytest.fixture(scope="session")
def powered(chip):
    """The chip of round numbers with an energy of everything, and 100 W static of 700 W."""
    return dataclasses.replace(chip, energy=ENERGY, power=Power(tdp=700.0, static=100.0))


def op(**quantities) -> Kernel:
    return Kernel(**({"kind": "linear", "precision": "bf16", "count": 1.0, "kernels": 1.0} | quantities))


@pytest.mark.parametrize(
    ("quantities", "joules"),
    [
        # 1e9 B once through every level: 1e9 (50 + 5 + 1) pJ
        ({"kind": "elementwise", "precision": None, "bytes": 1e9}, 0.056),
        # and 1e9 vector FLOP, 1e8 exponentials: 2e-3 + 1e-3
        ({"kind": "elementwise", "precision": None, "bytes": 1e9, "vector_flops": 1e9, "exps": 1e8}, 0.059),
        # a product that is small against its bytes: once through every level, and 1e9 FLOP
        ({"matrix_flops": 1e9, "operand_bytes": 2.0, "bytes": 1e9}, 0.057),
        # one that is large: 2e15 / sqrt(S) B from L2, S = 1.8e5 / 2 = 300^2 elements of the scratchpad: 6.667e12 B;
        # from HBM S = 5e7 / 2 = 5000^2: 4e11 B; from the scratchpad S = 2.5e5 / 4 = 250^2: 8e12 B; 1e15 FLOP
        ({"matrix_flops": 1e15, "operand_bytes": 2.0, "bytes": 1e9}, 1000.0 + 20.0 + 33.3333333 + 8.0),
    ],
)
def test_energy_of_an_op_by_hand(powered, quantities, joules):
    assert float(op_energy(op(**quantities), powered)) == pytest.approx(joules, rel=1e-5)


@pytest.mark.parametrize(
    ("collective", "devices", "up", "out"),
    [
        ("all_reduce", 4.0, 1.5e6, 0.0),  # 2 (n - 1) / n
        ("all_gather", 4.0, 0.75e6, 0.0),
        ("all_reduce", 16.0, 1.75e6, 2 * (1e6 / 8 - 1e6 / 16)),  # two domains of eight
        ("all_to_all", 16.0, 7 / 16 * 1e6, 0.5e6),  # 7 peers of 16 inside, 8 outside
        ("send_recv", 2.0, 1e6, 0.0),
        ("all_reduce", 1.0, 0.0, 0.0),
    ],
)
def test_bytes_that_a_device_sends(powered, collective, devices, up, out):
    sends = Collective(operation=collective, count=1.0, kernels=1.0, message_bytes=1e6, participants=devices)
    sent = sent_bytes(powered.links, sends)
    np.testing.assert_allclose([sent["scale_up"], sent["scale_out"]], [up, out], rtol=1e-6)
    assert float(op_energy(sends, powered)) == pytest.approx(up * 4e-11 + out * 2e-10, rel=1e-6)


def test_an_energy_that_is_not_there_is_refused(powered):
    with pytest.raises(ValueError, match="hardware.energy has no figure for matrix at int8"):
        op_energy(op(precision="int8", matrix_flops=1.0, operand_bytes=1.0, bytes=1.0), powered)


def test_the_limit_stretches_a_step(powered, float64):
    # 90 J in 0.1 s are 900 W beside 100 W static; 600 W are left for them: 0.15 s
    def stretched(static, tdp, energy, time=0.1):
        hardware = dataclasses.replace(powered, power=Power(tdp=tdp, static=static))
        return limited_time(time, Joules(core=0.0, other=energy), hardware)

    assert float(stretched(100.0, 700.0, 90.0)) == pytest.approx(0.15, rel=1e-12)
    assert float(stretched(100.0, 700.0, 30.0)) == pytest.approx(0.1, rel=1e-12)
    # d time / d tdp = -energy / (tdp - static)^2, where the limit binds well: 1 / (1 + (2/3)^16) of it
    slope = jax.grad(stretched, argnums=1)(100.0, 700.0, 90.0)
    assert float(slope) == pytest.approx(-90.0 / 600.0**2, rel=2e-3)
    # static power above the limit leaves 1 % of it
    value, slopes = jax.value_and_grad(stretched, argnums=(0, 1, 2))(800.0, 700.0, 90.0)
    assert float(value) == pytest.approx(90.0 / 7.0) and all(np.isfinite(slope) for slope in slopes)


def test_unknown_power_limits_nothing(chip):
    assert float(limited_time(0.1, Joules(core=0.0, other=1e9), chip)) == pytest.approx(0.1)


def test_requests_are_throttled_and_ample_power_changes_nothing(chip, powered, dense, single, float64):
    requests = Requests(batch=64.0, isl=1000.0, osl=10.0, cached=0.0)

    def cost(hardware):
        return jax.tree.map(float, request_cost(hardware, dense, single, requests, datasheet()))

    ample = dataclasses.replace(powered, power=Power(tdp=1e6, static=100.0))
    tight = dataclasses.replace(powered, power=Power(tdp=200.0, static=100.0))
    assert cost(ample) == cost(chip)
    # at 100 W left, times are energies over 100 W: twice as long at 50 W left
    tighter = dataclasses.replace(powered, power=Power(tdp=150.0, static=100.0))
    assert cost(tight).ttft > 1.5 * cost(chip).ttft
    assert cost(tighter).ttft == pytest.approx(2.0 * cost(tight).ttft, rel=1e-12)


def test_energy_is_of_degree_one_in_its_constants(powered, float64):
    """Euler: the elasticities of an op's energy with respect to all J per operation and byte add to 1."""
    product = op(matrix_flops=1e12, operand_bytes=2.0, bytes=1e9, vector_flops=1e8)

    def logarithm(scales):
        leaves, tree = jax.tree.flatten(ENERGY)
        energy = jax.tree.unflatten(tree, [leaf * jnp.exp(scale) for leaf, scale in zip(leaves, scales, strict=True)])
        return jnp.log(op_energy(product, dataclasses.replace(powered, energy=energy)))

    slopes = jax.grad(logarithm)(jnp.zeros(len(jax.tree.leaves(ENERGY))))
    assert float(sum(slopes)) == pytest.approx(1.0, abs=1e-10) and (np.asarray(slopes) >= 0.0).all()
