"""Reference outputs of Accelergy-Project/timeloop-accelergy-exercises: counts, cycles, utilisation and energies.

Facts of timeloop-mapper.stats.txt and timeloop-model.stats.txt, one reference an entry; a line is a node:

    name  loops, from the outermost   | tensor  reads fills updates [pJ of one instance] | ...
    xN    loops in parallel, of N

`@` gives the pJ of an access, and `/` the words of one. Tensors: Weights, Inputs, Outputs (A and B of the reference's
products are Inputs and Weights). `~` marks outputs of the program before 2021: it also counts a fill of partial sums at
their first visit.
"""

import dataclasses
import math
import re
from typing import NamedTuple

import pytest

from jaxroof.nests import Mapping, NestFanout, NestMachine, NestMemory, NestProblem, accesses, nest_cost
from tests.nests import PJ
from workloads.nests.checks import TENSORS, convolution, matmul

LETTERS = dict(zip("WIO", TENSORS, strict=True))


class Reference(NamedTuple):
    """A published output."""

    nodes: str
    cycles: float
    utilization: float  # of the units that have work
    stride: int = 1
    densities: dict[str, float] = {}
    flags: dict[str, float] = {}  # of the machine


ALEXNET = {"stride": 4}
DOT = {"Inputs": 0.25}

SIMBA = """glb             @1.049/32  | I 154587 154587 0 10135.44 | O 0 290400 290400 19039.35
        x16     M12
        inputs          @0.237/8   | I 2196150 154587 0 69640.79
        x4      M4
        weights R11 S11 @0.237/8   | W 39930 726 0 1204.43
        sums    M2      @0.237     | O 726000 6050 732050 346991.70
        x4      C3
        regs    Q55                | W 732050 13310 0
        """
"""What is inside the DRAM, whose words alone are wider in one of two references."""

REFERENCES = {
    "exercise 02, untiled @27850fc": Reference("""
        ~main   M32 P16 @39.88/8   | W 96 0 0 478.54 | I 576 0 0 2871.22 | O 0 0 512 2552.19
        buffer  R3      @0.42      | W 1536 96 0 685.44 | I 1536 576 0 887.04 | O 1024 512 1536 1290.24
        """, 1536, 1.0),
    "exercise 02, no tiling @82b6304": Reference("""
        main    M32 P16            | W 96 0 0 | I 576 0 0 | O 0 0 512
        buffer  R3      @0.425639  | W 1536 96 0 694.64 | I 1536 576 0 898.95 | O 1024 0 1536 1089.64
        """, 1536, 1.0),
    "exercise 05, baked @b47e6cf": Reference("""
        main       @2048/32        | W 96 0 0 6144 | I 18 0 0 2048 | O 0 0 512 32768
        glb     M16 P16            | W 96 96 0 | I 288 18 0 | O 0 0 512
        rf      R3 M2   @0.425639  | W 1536 96 0 694.64 | I 1536 288 0 776.37 | O 1024 0 1536 1089.64
        """, 1536, 1.0),
    "exercise 05, one mapping @3e6dc03": Reference("""
        ~main      @2048/32        | W 96 0 0 6144 | I 18 0 0 2048 | O 0 0 512 32768
        glb     M16 P16 @102.865/32 | W 96 96 0 617.19 | I 288 18 0 1028.65 | O 0 512 512 3291.68
        rf      R3 M2   @0.42      | W 1536 96 0 685.44 | I 1536 288 0 766.08 | O 1024 512 1536 1290.24
        """, 1536, 1.0),
    "eyeriss_like, first layer of AlexNet @7252362": Reference("""
        ~dram   Q55 C3  @512/4     | W 1916640 0 0 245329920 | I 412005 0 0 52737024 | O 0 0 290400 37171200
        glb     P55     @75.215/4  | I 412005 412005 0 15494515.65 | O 580800 290400 871200 32763654
        x14     M12
        x12     S11
        ifmap           @0.237     | I 798600 37455 0 198145.04
        weights R11     @1.586     | W 798600 14520 0 1289608.32
        psum    M8      @0.251     | O 774400 72600 798600 413045.60
        """, 798600, 132 / 168, **ALEXNET),
    "simple_output_stationary, first layer of AlexNet @7252362": Reference("""
        ~dram   Q5 P5   @512/4     | W 34848 0 0 4460544 | I 173655 0 0 22227968 | O 0 0 290400 37171200
        glb     M6      @75.215/4  | W 871200 34848 0 17037100.08 | I 6588450 173655 0 127152988.31
        x16     M16
        x16     C3
        spad    S11 R11 @1.086     | O 2178000 18150 2196150 4770037.80
        weight  Q11 P11 @0.009     | W 2196150 18150 0 19928.70
        input           @0.009     | I 2196150 2196150 0 39530.70
        output          @0.009     | O 2178000 2196150 2196150 59132.70
        """, 2196150, 48 / 256, **ALEXNET),
    "simple_weight_stationary, first layer of AlexNet @bfda6af": Reference("""
        ~dram   Q5      @512/4     | W 174240 0 0 22302720 | I 154587 0 0 19787264 | O 0 0 290400 37171200
        glb     M6 Q11 P55 @75.215/4 | I 6588450 154587 0 126794438.40
        x16     M16
        x16     C3
        spad    S11 R11 @1.586     | W 2196150 3630 0 3488851.08
        weight          @0.009     | W 2196150 2196150 0 39530.70
        input           @0.009     | I 2196150 2196150 0 39530.70
        output          @0.009     | O 2178000 18150 2196150 39530.70
        """, 2196150, 48 / 256, **ALEXNET),
    "simba_like, first layer of AlexNet @7252362": Reference("""
        ~dram   P55     @512/8     | W 34848 0 0 2230272 | I 154587 0 0 9893888 | O 0 0 290400 18585600
        """ + SIMBA, 732050, 144 / 256, **ALEXNET),
    "simba_like of 16 bit, first layer of AlexNet @bfda6af": Reference("""
        ~dram   P55     @512/4     | W 34848 0 0 4460544 | I 154587 0 0 19787264 | O 0 0 290400 37171200
        """ + SIMBA, 732050, 144 / 256, **ALEXNET),
    "simple_pim @7252362": Reference("""
        ~dram   P112    @512/4     | I 153228 0 0 19613184 | O 0 0 3211264 411041792
        glb     Q28     @42.2095/4 | I 1354752 153228 0 15912581.96 | O 0 3211264 3211264 67772121.09
        x16384  M64 C3 S3 R3 >I 0.384 O 223.2320 | I 1354752 0 0 520224.77 | O 0 0 3211264 716856885.25
        cells   Q8 P2              | W 50176 1 0
        """, 50176, 1728 / 16384),
    "timeloop+accelergy, float32 @19b7fc8": Reference("""
        ~dram   Q4 M8 C16 @512/2   | W 1179648 0 0 301989888 | I 3801088 0 0 973078528 | O 0 0 802816 205520896
        glb     P56     @75.215/2  | I 9977856 3801088 0 518191636.48 | O 12042240 802816 12845056 966140887.04
        x14     Q14
        x12     M2 C2 S3
        ifmap           @0.381     | I 5505024 118784 0 2142670.85
        weights R3 C4   @1.73      | W 5505024 98304 0 9693757.44
        psum    M16     @0.395     | O 5476352 458752 5505024 4518850.56
        """, 5505024, 1.0),
    "timeloop+accelergy, int16 @19b7fc8": Reference("""
        ~dram   Q4 M4 C8 @512/4    | W 1179648 0 0 150994944 | I 1900544 0 0 243269632 | O 0 0 802816 102760448
        glb     M4 P56  @75.215/4  | I 19955712 1900544 0 410979573.76 | O 5619712 802816 6422528 241535221.76
        x14     Q14
        x12     C4 S3
        ifmap           @0.237     | I 5505024 118784 0 1332842.50
        weights R3 C4   @1.586     | W 5505024 98304 0 8886878.21
        psum    M16     @0.251     | O 5447680 458752 5505024 2864275.46
        """, 5505024, 1.0),
    "timeloop+accelergy, fpmac @b47e6cf": Reference("""
        dram    Q2 C4 P56 M8 @512/2 | W 132120576 0 0 33822867456 | I 1290240 0 0 330301440 | O 2408448 0 3211264
        glb     Q4 C8 M4           | I 28901376 1290240 0 | O 24887296 2408448 25690112
        x14     Q7 M2
        x12     C4 S3
        ifmap                      | I 5505024 344064 0
        weights R3                 | W 5505024 5505024 0
        psum    M4                 | O 5447680 1777664 5505024
        """, 5505024, 1.0),
    "simple_weight_stationary, baseline @82b6304": Reference("""
        dram    Q8 P2   @512/4     | W 864 0 0 110592 | I 156600 0 0 20044800 | O 0 0 401408 51380224
        glb     R3                 | W 13824 864 0 | I 2709504 156600 0 | O 3211264 0 3612672
        x256    M4 C3
        spad    M8 S3 Q7 P7        | W 1152 1152 0
        weight  P8 Q2              | W 903168 1152 0
        input                      | I 903168 903168 0
        output                     | O 802816 802816 903168
        """, 903168, 12 / 256, stride=2),
    "simple_pim, another mapping @30bae26": Reference("""
        ~dram   P56     @512/4     | I 153228 0 0 19613184 | O 0 0 3211264 411041792
        glb     Q56 P4  @42.2095/4 | I 1354752 153228 0 15912581.96 | O 0 3211264 3211264 67772121.09
        x16384  M64 C3 S3 R3 >I 0.384 O 223.2320 | I 1354752 0 0 520224.77 | O 0 0 3211264 716856885.25
        cells   Q4                 | W 50176 1 0
        """, 50176, 1728 / 16384),
    "timeloop+accelergy, intmac @09545d3": Reference("""
        dram    Q2 M16 C4 R3 @512/8 | W 66060288 0 0 4227858432 | I 7127040 0 0 456130560
        glb     Q2 P56 C2 M2       | I 57802752 7127040 0 | O 18464768 0 19267584
        x14     Q14
        x12     M2 C2 S3
        ifmap                      | I 5505024 688128 0
        weights C8                 | W 5505024 5505024 0
        psum    M4                 | O 5476352 659456 5505024
        """, 5505024, 1.0),
    "eyeriss_like, baseline @b47e6cf": Reference("""
        dram    P8 M2   @512/8     | W 6912 0 0 442368 | I 156600 0 0 10022400
        glb     R3 P14 Q112        | I 677376 156600 0 | O 802816 0 1204224
        x14     M8
        x12     C3 S3
        ifmap                      | I 150528 75264 0
        weights                    | W 150528 96 0
        psum    M2                 | O 100352 100352 150528
        """, 150528, 72 / 168, stride=2),
    "simba_like, baseline @ccaba0c": Reference("""
        dram    P7 Q7              | W 864 0 0
        glb     P2 Q16             | I 164934 155925 0 | O 0 0 401408
        x16     C3 M2
        inputs  P2                 | I 451584 54978 0
        x4      M4
        weights                    | W 225792 36 0
        sums    S3 P2 R3 M4        | O 401408 0 451584
        x4
        regs    P2                 | W 451584 225792 0
        """, 451584, 24 / 256, stride=2),
    "simple_output_stationary, baseline @b47e6cf": Reference("""
        dram    Q4                 | W 864 0 0
        glb     P8 Q14 C3          | W 774144 864 0 | I 677376 151875 0
        x256    M16
        spad    M2 P2 S3 R3        | O 652288 0 677376
        weight  Q2 P7              | W 677376 48384 0
        input                      | I 677376 677376 0
        output                     | O 652288 652288 677376
        """, 677376, 16 / 256, stride=2),
    "sparse_tensor_core_like, one column @09545d3": Reference("""
        dram    @512/8 <32         | I 64 0 0 4096 | W 1 0 0 512 | O 0 0 64 4096
        smem    <42                | I 64 64 0 | W 1 1 0
        x4      M4
        rf                         | O 0 0 16
        x256    M16
        lrf                        | I 1 1 0
        """, 3, 64 / 1024),
    "sparseloop 01.2.1, dot product @09545d3": Reference("""
        buffer  K16                | I 16 0 0 | W 16 0 0 | O 15 0 16
        """, 16, 1.0),
    "sparseloop 01.2.2, gated by an input @f2320f3": Reference("""
        buffer  K16 <3 gated=I     | I 16 0 0 | W 4 0 0 | O 3 0 4
        """, 16, 1.0, densities=DOT, flags={"gating": 1.0}),
    "sparseloop 01.2.3, skipped by a compressed input @f2320f3": Reference("""
        buffer  K16 gated=I packed=I | I 4 0 0 | W 4 0 0 | O 3 0 4
        """, 4, 1.0, densities=DOT, flags={"skipping": 1.0}),
    "sparseloop 02.2.1, sparse product @09545d3": Reference("""
        store   gated=IW packed=IW | I 64 0 0 | W 32 0 0 | O 0 0 64
        buffer  K8 N8 M8 gated=IW packed=W | W 64 32 0 | O 56 0 64
        """, 64, 1.0, densities={"Inputs": 0.25, "Weights": 0.5}, flags={"skipping": 1.0}),
    "sparseloop 02.2.2, sparse product in tiles @6379e7e": Reference("""
        ~store  N4 packed=IW       | I 16 0 0 | W 32 0 0 | O 0 0 64
        buffer  M8 K8 N2 gated=IW packed=IW | I 64 16 0 | W 64 32 0 | O 56 64 64
        """, 64, 1.0, densities={"Inputs": 0.25, "Weights": 0.5}, flags={"skipping": 1.0}),
    "sparseloop 03.2.1, convolution @f2320f3": Reference("""
        store   packed=W           | W 2 0 0 | I 11 0 0 | O 0 0 9
        buffer  Q9 S3 gated=W packed=W | W 12 2 0 | I 12 11 0 | O 7 0 12
        """, 12, 1.0, densities={"Weights": 0.43}, flags={"skipping": 1.0}),
    "sparseloop 03.2.2, filters @6379e7e": Reference("""
        ~store  packed=W           | W 16 0 0 | I 11 0 0 | O 0 0 144
        buffer  M16 Q9 S3 gated=W packed=W | W 144 16 0 | I 144 11 0 | O 95 144 144
        """, 144, 1.0, densities={"Weights": 0.33}, flags={"skipping": 1.0}),
    "sparseloop 03.2.3, filters in parallel @09545d3": Reference("""
        store   M4 packed=W gated=W | W 188 0 0 | I 11 0 0 | O 0 0 144
        x4      M4
        buffer  Q9 S3 gated=W      | I 47 11 0 | O 31 0 47
        """, 47, 1.0, densities={"Weights": 0.43}, flags={"skipping": 1.0}),
    "sparseloop 04.2.2, gating on an array @09545d3": Reference("""
        dram    C32 M6 S3 @512/4 packed=IO | W 884736 0 0 113246208 | I 380160 0 0 48660480 | O 3242983 0 3347596
        glb     Q13 P13 N4         | I 9345024 1382400 0 | O 24660480 8047104 24920064
        x14     M8
        x12     M4 C2
        ifmap   <2                 | I 9345024 4672512 0
        weights R3 C4 <2 gated=I   | W 2569882 13824 0
        psum    M2                 | O 9336912 770640 9345024
        """, 9345024, 64 / 168, densities={"Inputs": 0.275, "Outputs": 0.403}, flags={"gating": 1.0}),
}  # fmt: skip


class _Line(NamedTuple):
    """One node of a reference."""

    node: NestMemory | NestFanout
    loops: dict[str, float]
    counts: dict[str, tuple[float, ...]]


def _parsed(nodes: str) -> tuple[list[_Line], bool]:
    lines, early = [], "~" in nodes
    for number, text in enumerate(nodes.replace("~", "").strip().splitlines()):
        head, *tensors = (part.strip() for part in text.split("|"))
        name, _, rest = head.partition(" ")
        loops = {letter: float(count) for letter, count in re.findall(r"\b([A-Z])(\d+)\b", rest.partition(">")[0])}
        counts = {LETTERS[part[0]]: tuple(map(float, part.split()[1:])) for part in tensors}
        if match := re.fullmatch(r"x(\d+)", name):
            energies = {
                LETTERS[key]: PJ * float(pj) for key, pj in re.findall(r"([WIO]) ([\d.]+)", rest.partition(">")[2])
            }
            node: NestMemory | NestFanout = NestFanout(
                name=f"x{number}", size=float(match[1]), transfer_energy=energies or None
            )
        else:
            energy = PJ * float(match[1]) if (match := re.search(r"@([\d.]+)", rest)) else 0.0
            block = float(match[1]) if (match := re.search(r"/(\d+)", rest)) else 1.0
            wide = float(match[1]) if (match := re.search(r"<(\d+)", rest)) else math.inf
            gates, packed = (re.search(rf"{key}=([WIO]+)", rest) for key in ("gated", "packed"))
            node = NestMemory(
                name=name,
                block=block,
                read_energy=energy,
                write_energy=energy,
                update_energy=energy,
                read_bandwidth=wide,
                write_bandwidth=wide,
                gated_by=tuple(LETTERS[key] for key in gates[1]) if gates else (),
                compression={LETTERS[key]: 1.0 for key in packed[1]} if packed else None,
            )
        lines.append(_Line(node, loops, counts))
    return lines, early


def _dense(problem: NestProblem) -> NestProblem:
    tensors = {name: dataclasses.replace(tensor, density=1.0) for name, tensor in problem.tensors.items()}
    return dataclasses.replace(problem, tensors=tensors)


@pytest.mark.parametrize("name", REFERENCES)
def test_published_output(name):
    reference = REFERENCES[name]
    lines, early = _parsed(reference.nodes)
    sizes: dict[str, int] = {}
    for line in lines:
        for letter, count in line.loops.items():
            sizes[letter] = sizes.get(letter, 1) * int(count)
    if set(sizes) & set("CPQRS"):
        whole = {letter: sizes.get(letter, 1) for letter in "NMCPQRS"}
        problem = convolution(whole, reference.stride, 1, reference.densities)
    else:
        problem = matmul(*(sizes.get(letter, 1) for letter in "MNK"), reference.densities)
    machine = NestMachine(nodes=tuple(line.node for line in lines), **reference.flags)
    mapping = Mapping(
        factors=tuple(line.loops for line in lines),
        orders=tuple(tuple(line.loops) for line in lines),
        kept=tuple(
            TENSORS if not place else tuple(line.counts) if isinstance(line.node, NestMemory) else ()
            for place, line in enumerate(lines)
        ),
    )
    cost, dense = nest_cost(problem, machine, mapping), accesses(_dense(problem), machine, mapping)
    assert cost.instances and cost.utilization == pytest.approx(reference.utilization)
    # Zeros are counted on average; the reference rounds some counts up, others down, and some per tile.
    tolerance = {"rel": 0.013, "abs": 0.999} if reference.densities else {"rel": 0, "abs": 0}
    assert math.ceil(round(float(cost.cycles), 6)) == pytest.approx(reference.cycles, **tolerance)
    for line in lines:
        for tensor, (reads, fills, updates, *energy) in line.counts.items():
            found = cost.accesses[line.node.name, tensor]
            whole = dense[line.node.name, tensor]
            first = (
                whole.updates - whole.reads
                if early and isinstance(line.node, NestMemory) and line is not lines[0]
                else 0.0
            )
            first = first if tensor == "Outputs" else 0.0
            expected = (reads, fills, updates)
            assert (found.reads, found.fills + first, found.updates) == pytest.approx(expected, **tolerance)
            if energy:
                own = cost.access_energies[line.node.name, tensor] / cost.instances[line.node.name]
                own += getattr(line.node, "write_energy", 0.0) * math.ceil(first / getattr(line.node, "block", 1.0))
                # The program before 2021 rounds the sum of all accesses to blocks: it may have one less.
                block = getattr(line.node, "read_energy", 0.0) / PJ if early else 0.0
                assert own / PJ == pytest.approx(energy[0], rel=1e-4, abs=1.05 * block), (line.node.name, tensor)
