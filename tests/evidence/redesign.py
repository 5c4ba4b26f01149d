"""An A100 redesigned as an H100 in a later process, and what that gains on Llama-2-70B against published throughput."""

import copy
import dataclasses

import hwspaces
import sweeps
from hwspaces.accelerators.load import catalogue_tables
from hwspaces.accelerators.schema import entry
from hwspaces.accelerators.technology_tables import CATALOGUE, common, file_tables, resolved
from jaxroof.hardware import Hardware
from sweeps.run.answer import answer
from tests.evidence import tdp_fit

BASE, TARGET = "A100-SXM-80GB", "H100-SXM"

CORES, WIDTH, LANES = 132.0, 4096.0, 256.0
"""Cores of an H100; 16-bit matrix and float32 vector FLOP per clock of each. Source: NVIDIA H100 whitepaper, 2022."""

PIN_RATE, STACKS = 5.24e9, 5.0
"""bit/s per pin of an H100's HBM3 and its stacks. Source: its memory clock of 2619 MHz."""

COOLING = 600.0
"""W, the most that others had sold in air-cooled servers by 2022. Source: Intel Gaudi2."""

MODEL, EFFICIENCY = "Llama-2-70B", "learned-trtllm"


@dataclasses.dataclass(frozen=True)
class Given:
    """Published throughput of TensorRT-LLM in output tokens/s per GPU at one pair of lengths."""

    version: str
    isl: float
    osl: float
    before: tuple[float, float, float]  # A100, fp16: batch, tp, tokens/s per GPU
    after: tuple[float, float, float]  # H100, fp8

    @property
    def gain(self) -> float:
        """H100 over A100."""
        return self.after[2] / self.before[2]


ROWS = (
    Given("v0.6.1", 128, 128, (1280, 4, 670), (1024, 2, 2657)),
    Given("v0.6.1", 128, 2048, (240, 4, 525), (480, 4, 1486)),
    Given("v0.6.1", 2048, 128, (120, 4, 79), (96, 2, 306)),
    Given("v0.8.0", 128, 128, (256, 4, 565), (1024, 2, 3269)),
    Given("v0.8.0", 128, 2048, (128, 4, 595), (512, 4, 2718)),
    Given("v0.8.0", 2048, 128, (32, 4, 66), (96, 2, 347)),
    Given("v0.8.0", 2048, 2048, (32, 4, 185), (64, 2, 1020)),
)
"""Source: NVIDIA/TensorRT-LLM, docs/source/performance.md of these versions, LLaMA 70B."""


def redesigned(tdp: float | None = None) -> Hardware:
    """An A100 in 4N with the cores, width, memory, L2 and links of an H100, at the clock that the process gives.

    clock = A100's x speed of 4N / speed of N7; cores as Hopper's: widths, rates per clock, asynchronous matrix units.

    Args:
      tdp: W; None: by the law of `tdp_fit`, at most `COOLING`.
    """
    speeds = [hwspaces.technology_constants("voltage", name)["speed"].value for name in ("4N", "N7")]
    clock = float(hwspaces.hardware(BASE).hardware.cores.clock) * speeds[0] / speeds[1]
    peak = CORES * WIDTH * clock / 1e12
    stack = hwspaces.technology_constants("stack", "HBM3")
    vector = CORES * LANES * clock / 1e12
    changed = {
        "process": "4N",
        "die": None,
        "architecture": "Hopper",
        "cores.count": CORES,
        "cores.clock_MHz": clock / 1e6,
        "matrix.bf16_TFLOPs": peak,
        "matrix.fp16_TFLOPs": peak,
        "matrix.fp8_TFLOPs": 2.0 * peak,
        "matrix.int8_TOPs": 2.0 * peak,
        "matrix.tf32_TFLOPs": 0.5 * peak,
        "matrix.fp32_TFLOPs": vector,
        "vector.fp32_TFLOPs": vector,
        "memory.hbm.technology": "HBM3",
        "memory.hbm.bandwidth_TBps": STACKS * stack["pins"].value * PIN_RATE / 8e12,
        "memory.l2.capacity_MiB": 50,
        "links.scale_up.technology": "NVLink4",
        "links.scale_up.bandwidth_GBps": 450,
    }
    if tdp is None:
        board = tdp_fit.board(TARGET, _made(changed | {"power.tdp_W": COOLING}))
        tdp = tdp_fit.predicted(board, tdp_fit.fitted(tdp_fit.boards()), COOLING)
    return _made(changed | {"power.tdp_W": tdp})


def gains() -> list[tuple[float, float, float]]:
    """Predicted gain over the A100 of each of `ROWS`: of the redesign at the law's TDP and at 700 W, of the H100."""
    target = hwspaces.hardware(TARGET).hardware
    designs = (redesigned(), redesigned(float(target.power.tdp)), target)
    base, found = hwspaces.hardware(BASE).hardware, []
    for given in ROWS:
        before = throughput(base, given, given.before, None)
        after = [throughput(design, given, given.after, "fp8") for design in designs]
        found.append((after[0] / before, after[1] / before, after[2] / before))
    return found


def throughput(hardware: Hardware, given: Given, run: tuple[float, float, float], weights: str | None) -> float:
    """Output tokens/s per device of a static batch."""
    batch, tp, _ = run
    case = sweeps.case(
        "request",
        TARGET if weights else BASE,
        MODEL,
        workload={"batch": batch, "isl": given.isl, "osl": given.osl},
        deployment={"tp": tp},
        weights=weights,
        kv=weights,
        efficiency=EFFICIENCY,
    )
    scenario = dataclasses.replace(case.scenario, hardware=hardware)
    return float(answer(dataclasses.replace(case, scenario=scenario)).metrics["tokens_per_second_per_device"])


def _made(changed: dict) -> Hardware:
    """The base's table of the catalogue with keys by dotted path replaced, or left out where None."""
    table = copy.deepcopy({key: value for key, value in catalogue_tables()[BASE].items() if key != "sources"})
    for path, value in changed.items():
        *around, key = path.split(".")
        place = table
        for name in around:
            place = place[name]
        if value is None:
            del place[key]
        else:
            place[key] = value
    file = file_tables(CATALOGUE / "nvidia_hopper.toml")
    architectures = resolved(file, "architecture", "nvidia_hopper.toml")
    shared = dataclasses.replace(common(), architectures=architectures)
    return entry("redesign", table, shared, "tests.evidence.redesign").hardware
