"""Served runs that confirm the predictions of every engine: whose accelerators, which layouts and weights."""

import dataclasses

POOLS = "pools"
"""Prefill and decode on replicas of their own, as if it were a parallelism."""

WORDS = {
    "pp": "pipeline stages",
    "tp": "tensor parallelism",
    "ep": "expert parallelism",
    "attention_dp": "data-parallel attention",
    "cp": "context parallelism",
    POOLS: "pools that only prefill or only decode",
}
"""Parallelisms in words."""


@dataclasses.dataclass(frozen=True)
class Runs:
    """Runs of one vendor's accelerators that one engine's constants were fitted to, or that they predict as well."""

    engine: str
    vendor: str
    devices: tuple[str, ...]
    runs: int
    parallelism: frozenset[str]  # that some of the runs had; a row may have any other only at degree 1
    weights: frozenset[str]  # precisions


_TEXT = frozenset(("bf16", "fp16", "fp8", "nvfp4", "mxfp4"))
_NODE = frozenset(("tp", "ep", "attention_dp"))
_HOPPER_AND_BLACKWELL = ("H100-SXM", "H200-SXM", "B200-SXM")

SERVED_RUNS = (
    Runs("vllm", "NVIDIA", _HOPPER_AND_BLACKWELL, 280 + 158, _NODE, _TEXT),
    Runs("sglang", "NVIDIA", _HOPPER_AND_BLACKWELL, 254 + 228, _NODE, _TEXT),
    Runs("trtllm", "NVIDIA", _HOPPER_AND_BLACKWELL, 806 + 86, _NODE, _TEXT),
    Runs("sglang", "AMD", ("MI300X", "MI355X"), 40 + 98, frozenset(("tp",)), frozenset(("fp8", "mxfp4"))),
    Runs("vllm", "AMD", ("MI355X",), 27, frozenset(("tp",)), frozenset(("mxfp4",))),  # ATOM, vLLM's constants
    Runs("vllm", "Google", ("TPU-v7",), 12, frozenset(("tp", "ep", "attention_dp")), frozenset(("fp8",))),
)
"""All runs. None has pipeline stages, and none is of two pools. Eight runs of Gaudi 3 are not among them, which are
three times slower than predicted.

Source: docs/evidence/serving.md (models under load, AMD's devices by day, time to the first token; data-parallel
attention and experts over many nodes), docs/evidence/other_accelerators.md.
"""


def runs_of(engine: str, vendor: str) -> Runs | None:
    """The runs of an engine on a vendor's accelerators; None where there are none."""
    return next((one for one in SERVED_RUNS if (one.engine, one.vendor) == (engine, vendor)), None)


def not_confirmed(engine: str, vendor: str, parallelism: frozenset[str], weights: str) -> list[str]:
    """What no served run of the engine on the vendor's accelerators confirms, in words; empty where all is covered.

    Args:
      parallelism: names of degrees above 1, and `POOLS`.
      weights: precision of the weights.
    """
    found = runs_of(engine, vendor)
    covered = frozenset().union(*(one.parallelism for one in SERVED_RUNS)) if found is None else found.parallelism
    said = [f"accelerators of {vendor}"] if found is None else []
    if found is not None and weights.partition(",")[0] not in found.weights:
        said.append(f"{weights} weights")
    return said + [WORDS.get(name, name) for name in sorted(parallelism - covered)]
