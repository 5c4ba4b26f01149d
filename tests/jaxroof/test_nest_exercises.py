"""Published access counts of the exercises of Timeloop."""

import pytest

from jaxroof.nests import NestFanout, NestMachine
from tests.nests import ALL, DEEP, DRAM, GLB, MANY, ONE, RF, SERIES, W, X, Y, counted, mapping, memory

BUFFER, MAIN = memory("buffer"), memory("main")
PES = NestMachine(nodes=(DRAM, NestFanout(name="pes", size=16.0), GLB, RF))

# Exercises 00 to 05 of Accelergy-Project/timeloop-accelergy-exercises, ref-output of each: (reads, fills, updates) of
# one instance. 00 is of workspace/exercises/2020.ispass, all others of 01_accelergy_timeloop_2020_ispass.
EXERCISES = {
    "00": (ONE, NestMachine(nodes=(BUFFER,)), mapping(("P16 R3", ALL)), {
        ("buffer", W): (48, 0, 0), ("buffer", X): (48, 0, 0), ("buffer", Y): (32, 0, 48),
    }),
    "01 output stationary": (ONE, NestMachine(nodes=(MAIN, BUFFER)), mapping(("P16", ALL), ("R3", ALL)), {
        ("main", W): (3, 0, 0), ("main", X): (18, 0, 0), ("main", Y): (0, 0, 16),
        ("buffer", W): (48, 3, 0), ("buffer", X): (48, 18, 0), ("buffer", Y): (32, 0, 48),
    }),
    "01 weight stationary": (ONE, NestMachine(nodes=(MAIN, BUFFER)), mapping(("R3", ALL), ("P16", ALL)), {
        ("main", W): (3, 0, 0), ("main", X): (18, 0, 0), ("main", Y): (0, 0, 16),
        ("buffer", W): (48, 3, 0), ("buffer", X): (48, 18, 0), ("buffer", Y): (32, 0, 48),
    }),
    "02 tiling": (MANY, NestMachine(nodes=(MAIN, BUFFER)), mapping(("M16 P16", ALL), ("M2 R3", ALL)), {
        ("main", W): (96, 0, 0), ("main", X): (288, 0, 0), ("main", Y): (0, 0, 512),
        ("buffer", W): (1536, 96, 0), ("buffer", X): (1536, 288, 0), ("buffer", Y): (1024, 0, 1536),
    }),
    "03": (MANY, SERIES, mapping(("", ALL), ("M16 P16", ALL), ("M2 R3", ALL)), {
        ("dram", W): (96, 0, 0), ("dram", X): (18, 0, 0), ("dram", Y): (0, 0, 512),
        ("glb", W): (96, 96, 0), ("glb", X): (288, 18, 0), ("glb", Y): (0, 0, 512),
        ("rf", W): (1536, 96, 0), ("rf", X): (1536, 288, 0), ("rf", Y): (1024, 0, 1536),
    }),
    "03 bypass": (MANY, SERIES, mapping(("", ALL), ("M16 P16", (W, X)), ("M2 R3", (Y,))), {
        ("dram", W): (96, 0, 0), ("dram", X): (18, 0, 0), ("dram", Y): (0, 0, 512),
        ("glb", W): (1536, 96, 0), ("glb", X): (1536, 18, 0), ("rf", Y): (1024, 0, 1536),
    }),
    "04 channels in parallel": (DEEP, PES, mapping(("", ALL), ("C16", ()), ("C2 M32 R3", ALL), ("P16", ALL)), {
        ("dram", W): (3072, 0, 0), ("dram", X): (576, 0, 0), ("dram", Y): (0, 0, 512),
        ("glb", W): (192, 192, 0), ("glb", X): (1152, 36, 0), ("glb", Y): (512, 0, 1024),
        ("rf", W): (3072, 192, 0), ("rf", X): (3072, 1152, 0), ("rf", Y): (2560, 512, 3072),
    }),
    "04 filters in parallel": (DEEP, PES, mapping(("", ALL), ("M16", ()), ("C32 M2 R3", ALL), ("P16", ALL)), {
        ("dram", W): (3072, 0, 0), ("dram", X): (576, 0, 0), ("dram", Y): (0, 0, 512),
        ("glb", W): (192, 192, 0), ("glb", X): (1152, 576, 0), ("glb", Y): (992, 0, 1024),
        ("rf", W): (3072, 192, 0), ("rf", X): (3072, 1152, 0), ("rf", Y): (3040, 992, 3072),
    }),
    "05 null": (MANY, SERIES, mapping(("P2", ALL), ("M4 P2", (W, X)), ("P4 R3 M8", ALL)), {
        ("dram", W): (96, 0, 0), ("dram", X): (18, 0, 0), ("dram", Y): (0, 0, 512),
        ("glb", W): (192, 96, 0), ("glb", X): (78, 18, 0),
        ("rf", W): (1536, 192, 0), ("rf", X): (1536, 78, 0), ("rf", Y): (1024, 0, 1536),
    }),
    "05 free bypass": (MANY, SERIES, mapping(("", ALL), ("M16 P16", (X,)), ("R3 M2", ALL)), {
        ("dram", W): (96, 0, 0), ("dram", X): (18, 0, 0), ("dram", Y): (0, 0, 512), ("glb", X): (288, 18, 0),
        ("rf", W): (1536, 96, 0), ("rf", X): (1536, 288, 0), ("rf", Y): (1024, 0, 1536),
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", EXERCISES)
def test_published_counts_of_the_exercises(name):
    *case, expected = EXERCISES[name]
    assert counted(*case) == expected
