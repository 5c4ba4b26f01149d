"""Small loop nests for tests: convolutions, memories, mappings, and the design eyeriss_like."""

import dataclasses

from jaxroof.nests import Mapping, NestFanout, NestMachine, NestMemory, accesses
from workloads.nests import checks

W, X, Y = ALL = "Weights", "Inputs", "Outputs"
PJ = 1e-12


def convolution(stride=1, **sizes):
    """Two-dimensional, or one-dimensional where Q and S are absent."""
    return checks.convolution(sizes, stride)


def thinned(problem, density):
    """A problem with zeros in its inputs."""
    inputs = dataclasses.replace(problem.tensors[X], density=density)
    return dataclasses.replace(problem, tensors=problem.tensors | {X: inputs})


def memory(name, block=1, energies=(0, 0, 0), leakage=0, **figures):
    """A memory with energies in pJ of a read, a fill and an update."""
    read, write, update = (PJ * energy for energy in energies)
    return NestMemory(
        name=name,
        keeps=ALL,
        block=float(block),
        read_energy=read,
        write_energy=write,
        update_energy=update,
        leakage=PJ * leakage,
        **figures,
    )


def mapping(*nodes):
    """Loops as "P8 Q2", from the outermost, with the tensors that reside in each node."""
    parsed = [[(loop[0], float(loop[1:])) for loop in loops.split()] for loops, _ in nodes]
    return Mapping(
        factors=tuple(dict(loops) for loops in parsed),
        orders=tuple(tuple(name for name, _ in loops) for loops in parsed),
        kept=tuple(tuple(kept) for _, kept in nodes),
    )


ONE = convolution(M=1, P=16, R=3)
MANY = convolution(M=32, P=16, R=3)
DEEP = convolution(C=32, M=32, P=16, R=3)

RF, GLB, DRAM = memory("rf"), memory("glb"), memory("dram")
SERIES = NestMachine(nodes=(DRAM, GLB, RF))


def counted(problem, machine, nest):
    return {key: tuple(map(float, each[1:])) for key, each in accesses(problem, machine, nest).items()}


CONV1 = convolution(stride=2, C=3, M=32, P=112, Q=112, R=3, S=3)
"""The default problem of the example designs, 10,838,016 MACs."""

EYERISS = NestMachine(
    nodes=(
        memory("dram", 8, (512, 512, 512)),
        memory("glb", 8, (18.183829, 14.137929, 14.137929), 0.005652, read_bandwidth=16.0, write_bandwidth=16.0),
        NestFanout(name="columns", size=14.0),
        NestFanout(name="rows", size=12.0),
        memory("ifmap", 2, (0.202442, 0.176713, 0.176713), 0.000101, read_bandwidth=2.0, write_bandwidth=2.0),
        memory("weights", 2, (1.976602, 1.881657, 1.881657), 0.001592, read_bandwidth=2.0, write_bandwidth=2.0),
        memory("psum", 1, (0.2513, 0.2191, 0.2191), 0.000134, read_bandwidth=2.0, write_bandwidth=2.0),
    ),
    mac_energy=0.207692 * PJ,
)
ON_EYERISS = mapping(
    ("P8 Q2 M4", ALL), ("P14 Q4", (X, Y)), ("Q14", ()), ("C3 S3", ()), ("", (X,)), ("R3", (W,)), ("M8", (Y,))
)
