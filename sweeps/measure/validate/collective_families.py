"""What ran behind a measured collective: which algorithms a library may use, and what the host adds."""

import dataclasses
from collections.abc import Mapping

from jaxroof.collectives import LIBRARIES

MIB = 2.0**20


@dataclasses.dataclass(frozen=True)
class Family:
    """A collective library, or an engine whose own all-reduce kernels hand large messages on to one."""

    kernels: tuple[str, ...]  # its own algorithms, beside the library's
    largest: float = 0.0  # B, of the messages that its own kernels take
    bridged: bool = True  # whether its own kernels run over PCIe
    copy_time: float = 0.0  # s per run on links whose switch reduces: copies into and out of symmetric memory
    launch_time: Mapping[str, float] = dataclasses.field(default_factory=dict)  # s of host work by version; "": newer


NCCL = "nccl"

FAMILIES = {
    NCCL: Family(()),
    "rccl": Family(()),
    "oneccl": Family(()),
    "vllm": Family(
        ("one_shot", "two_shot"), 8 * MIB - 1.0, copy_time=1.8e-6, launch_time={"0.14.0": 43.5e-6, "": 20.5e-6}
    ),
    "sglang": Family(("one_shot", "two_shot"), 16 * MIB, launch_time={"0.5.10": 41e-6, "": 29.5e-6}),
    "trtllm": Family(("one_shot",), 8 * MIB, bridged=False),
}
"""Library or engine -> what it may do.

RCCL and oneCCL are taken to do as NCCL does. Limits: vLLM's custom_all_reduce.py (`inp_size < max_size` of 8 MiB) and
SGLang's custom_all_reduce_v2.py (`inp_size <= max_size` of 16 MiB); both run NCCL on more than two PCIe-only GPUs. That
TensorRT-LLM's one-shot kernel ends at 8 MiB and does not run over PCIe is an assumption, from where its public rows
meet NCCL's. Copy and launch times are ours: medians of public eager and
graph runs (NVIDIA aiconfigurator collective tables, Apache-2.0). Launch times are of hosts, not of GPUs, and carry to
another host only roughly.
"""

IN_SWITCH_TYPES = ("half", "float16", "bfloat16", "float", "float32")
"""Element types that switches add up; NVLS takes no 8-bit integers."""

EAGER_COPIES = 2.0
"""How often an eager run moves the message through device memory beside the collective: one clone, read and written."""

COPY_SHARE = 0.87
"""Share of device memory bandwidth that such a copy reaches; ours, from eager against graph runs of 0.1 to 1 GiB."""


def algorithms(family: str, dtype: str, over_pcie: bool) -> tuple[str, ...]:
    """Algorithms that a family may use for elements of `dtype`.

    Raises:
      ValueError: one line, when the family is not known.
    """
    if family not in FAMILIES:
        raise ValueError(f"library {family!r} is not known; known: {', '.join(FAMILIES)}")
    library = LIBRARIES[NCCL]
    if dtype not in IN_SWITCH_TYPES:
        library = tuple(name for name in library if name != "in_switch")
    own = FAMILIES[family]
    return library + (own.kernels if own.bridged or not over_pcie else ())


def launch_time(family: str, version: str) -> float:
    """Host time in s that one eager run takes, whatever its size; 0 for a library that a benchmark calls in a row."""
    times = FAMILIES[family].launch_time
    return times.get(version, times.get("", 0.0))
