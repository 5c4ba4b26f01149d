"""Laws of loop nests: counts of a walk, columns, gradients, proportions."""

import dataclasses
import math
import random

import numpy as np
import pytest

from jaxroof.nests import NestFanout, NestMachine, NestMemory, accesses, nest_cost
from jaxroof.numerics.arrays import jax, jnp
from tests.nests import ALL, CONV1, EYERISS, MANY, ON_EYERISS, SERIES, convolution, mapping, memory
from tests.oracle.nests import walked


@pytest.mark.parametrize("seed", range(150))
def test_counts_are_those_of_a_walk(seed):
    draw = random.Random(seed)
    stride = draw.choice([1, 1, 2, 3])
    problem = convolution(stride=stride, C=1, M=1, P=1, Q=1, R=1, S=1)
    nodes = (memory("dram"), memory("glb"), NestFanout(name="pes", size=64.0), memory("rf"), memory("reg"))
    rows = []
    budget = 1
    for node in nodes:
        loops = []
        for name in draw.sample("CMPQRS", 6):
            count = draw.choice([1, 1, 2, 2, 3])
            if isinstance(node, NestFanout) and name in "RS":
                continue  # with P and Q in one fan-out: the test below
            if count > 1 and budget * count <= 1500:
                budget *= count
                loops.append(f"{name}{count}")
        kept = (
            [] if isinstance(node, NestFanout) else [each for each in ALL if node.name == "dram" or draw.random() < 0.7]
        )
        rows.append((" ".join(loops), kept))
    machine, nest = NestMachine(nodes=nodes), mapping(*rows)
    found = walked(problem, machine, nest)
    for key, each in accesses(problem, machine, nest).items():
        assert {"reads": each.reads, "fills": each.fills, "updates": each.updates} == pytest.approx(found[key]), key


def test_structs_are_trees():
    """What JAX takes apart and puts together again is the same, and static parts are structure."""
    for one in (CONV1, EYERISS, ON_EYERISS):
        leaves, structure = jax.tree.flatten(one)
        assert jax.tree.unflatten(structure, leaves) == one and all(isinstance(leaf, float) for leaf in leaves)


def test_columns_of_factors_are_single_mappings():
    factors = np.array([1.0, 2.0, 4.0, 8.0])
    nest = mapping(("P4 M16", ALL), ("M2 P1", ALL), ("P4 R3", ALL))
    both = dataclasses.replace(
        nest, factors=({"P": 4.0, "M": 32.0 / factors}, {"M": factors, "P": 1.0}, nest.factors[2])
    )
    columns = nest_cost(MANY, SERIES, both)
    for row, count in enumerate(factors):
        single = ({"P": 4.0, "M": 32.0 / count}, {"M": count, "P": 1.0}, nest.factors[2])
        alone = nest_cost(MANY, SERIES, dataclasses.replace(nest, factors=single))
        for key, each in alone.accesses.items():
            assert [np.broadcast_to(column, 4)[row] for column in columns.accesses[key]] == list(each)
        assert np.broadcast_to(columns.cycles, 4)[row] == alone.cycles


def test_gradients_are_those_of_differences():
    """Words that move on Eyeriss, by the logarithms of four relaxed factors."""
    logs = np.log([8.0, 2.0, 4.0, 4.0])

    def moved(log):
        p, q, m, inner = jnp.exp(log)
        factors = ({"P": p, "Q": q, "M": m}, {"P": 112.0 / p, "Q": inner}, *ON_EYERISS.factors[2:])
        found = accesses(CONV1, EYERISS, dataclasses.replace(ON_EYERISS, factors=factors))
        return jnp.log(sum(each.reads + each.fills + each.updates for each in found.values()))

    with jax.enable_x64(True):
        gradient = jax.grad(moved)(logs)
        for place in range(4):
            nudge = 1e-6 * np.eye(4)[place]
            measured = (jax.jit(moved)(logs + nudge) - jax.jit(moved)(logs - nudge)) / 2e-6
            assert gradient[place] == pytest.approx(float(measured), abs=1e-7), place
        assert math.isfinite(float(gradient.sum()))


def test_costs_are_proportional_to_their_rates():
    """All energies twice: energy twice; all bandwidths half where they bind: cycles twice."""
    names = ("read_energy", "write_energy", "update_energy", "leakage")
    nodes = [
        dataclasses.replace(node, **{name: 2.0 * getattr(node, name) for name in names})
        if isinstance(node, NestMemory)
        else node
        for node in EYERISS.nodes
    ]
    double = dataclasses.replace(EYERISS, nodes=tuple(nodes), mac_energy=2.0 * EYERISS.mac_energy)
    energies = [float(nest_cost(CONV1, machine, ON_EYERISS).energy) for machine in (EYERISS, double)]
    assert energies[1] == pytest.approx(2.0 * energies[0], rel=1e-12)
    cycles = []
    for bandwidth in (0.25, 0.125):
        nodes = (EYERISS.nodes[0], dataclasses.replace(EYERISS.nodes[1], read_bandwidth=bandwidth), *EYERISS.nodes[2:])
        cycles.append(float(nest_cost(CONV1, dataclasses.replace(EYERISS, nodes=nodes), ON_EYERISS).cycles))
    assert cycles == [4 * 1354752, 8 * 1354752]
