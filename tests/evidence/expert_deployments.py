"""Published throughput of DeepSeek-V3 with experts over many nodes: `python -m tests.evidence.expert_deployments`.

Nothing is fitted to these figures.
"""

import argparse
import dataclasses
import sys

import hwspaces
import workloads
from jaxroof import Deployment, decode, prefill, step_time
from jaxroof.numerics.arrays import eager
from tests.evidence.expert_exchange import FP8
from tests.evidence.harness import command

PROFILE = "DeepSeek's profile: deepseek-ai/profile-data, as read by LMSYS, Deploying DeepSeek on 96 H100 GPUs, May 2025"
SGLANG = "LMSYS, Deploying DeepSeek with PD disaggregation and large-scale expert parallelism on 96 H100 GPUs, May 2025"
SERVED = "deepseek-ai/open-infra-index, day 6: mean of a day, 128 sequences as LMSYS takes them"

RESERVED = 20.0 / 132.0
"""Share of the cores that prefill kernels communicate with. Source: arXiv:2412.19437, section 3.2.2."""

COPIES = 32.0
"""Copies of popular experts, which a profile on 128 devices has no even place for. Source: day 6 of open-infra-index,
and LMSYS.
"""


@dataclasses.dataclass(frozen=True)
class Reported:
    """One published figure: every device works on `sequences` prompts or decoding sequences of `tokens` tokens."""

    name: str
    source: str
    device: str  # of the catalogue
    devices: float
    sequences: float
    tokens: float
    prompts: bool
    per_node: float  # tokens/s of 8 devices

    @property
    def deployment(self) -> Deployment:
        """Groups of requests on one device each, experts over all of them, and two batches that overlap."""
        return Deployment(
            attention_dp=self.devices,
            ep=self.devices,
            redundant_experts=COPIES if (256.0 + COPIES) % self.devices == 0.0 else None,
            overlap="two_batch",
            exchange="forwarding" if self.prompts else "low_latency",
            reserved_cores=RESERVED if self.prompts else 0.0,
            dispatch_bytes=FP8,
        )


REPORTED = [
    Reported("prefill, balanced", PROFILE, "H800-SXM", 32.0, 4.0, 4096.0, True, 62_713.0),
    Reported("decode, balanced", PROFILE, "H800-SXM", 128.0, 128.0, 4096.0, False, 18_598.0),
    Reported("decode, a day's mean", SERVED, "H800-SXM", 144.0, 128.0, 4989.0, False, 14_800.0),
    Reported("prefill, balanced", SGLANG, "H100-SXM", 32.0, 4.0, 4096.0, True, 59_337.0),
    Reported("prefill of 4096, as routed", SGLANG, "H100-SXM", 32.0, 4.0, 4096.0, True, 50_302.0),
    Reported("prefill of 2048, as routed", SGLANG, "H100-SXM", 32.0, 8.0, 2048.0, True, 54_543.0),
    Reported("prefill of 1024, as routed", SGLANG, "H100-SXM", 32.0, 16.0, 1024.0, True, 57_674.0),
    Reported("decode", SGLANG, "H100-SXM", 72.0, 256.0, 2000.0, False, 22_282.0),
]
"""Published figures. How uneven routing was is published for none but those that are called balanced."""


def predicted(row: Reported, engine: str = "learned-sglang") -> float:
    """Tokens/s of eight devices."""
    sequences = row.sequences * row.devices
    batch = prefill(sequences, row.tokens) if row.prompts else decode(sequences, row.tokens)
    hardware, model = hwspaces.hardware(row.device).hardware, workloads.model("DeepSeek-V3").model
    with eager():
        time = step_time(hardware, model, row.deployment, batch, hwspaces.efficiency(engine).efficiency)
    return 8.0 * row.sequences * (row.tokens if row.prompts else 1.0) / float(time)


@command()
def main(options: argparse.Namespace) -> None:
    """Print every figure beside its prediction with the kernels of every engine; returns the exit status."""
    for engine in ("learned-sglang", "learned", "learned-trtllm"):
        print(engine)
        for row in REPORTED:
            rate = predicted(row, engine)
            print(
                f"  {row.device:9}{row.devices:4g} devices  {row.name:28}{row.per_node:8.0f} tokens/s per node"
                f"  predicted {rate:8.0f}  {100 * (rate / row.per_node - 1):+6.1f} %"
            )


if __name__ == "__main__":
    sys.exit(main())
