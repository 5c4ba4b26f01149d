"""Meanings of the labels of a serving measurement: its source, and the layout of its devices."""

import dataclasses
import re
from typing import Any

from jaxroof.hardware import Hardware

INFERENCEX, NVIDIA = "inferencex", "nvidia"
"""Suites: the public InferenceX runs, and NVIDIA's own sweeps."""

ENGINES = ("vllm", "trtllm", "sglang")


LONG = 8192.0
"""Long one of InferenceX's nominal lengths, tokens."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Degrees of the deployment that answered."""

    tp: float
    pp: float
    attention_dp: float
    ep: float
    repaired: bool = False  # the labels said otherwise
    suspect: str | None = None  # why the labels cannot be right


def suite(source_tag: str) -> str:
    """Who measured: InferenceX, whose tag is a database dump or a date, or NVIDIA."""
    return INFERENCEX if re.match(r"db-dump|\d{4}-\d{2}-\d{2}", source_tag) else NVIDIA


def layout(numbers: dict[str, Any], family: str, mixture: bool) -> Layout:
    """The devices that ran, from tp, pp, attention dp, expert tp and ep, concurrency and batch size of a row.

    Args:
      numbers: by column; None or 0 where nothing was recorded.
      family: INFERENCEX or NVIDIA.
      mixture: the model has routed experts.

    Rules, in this order:
    1. Dense models have no expert degrees, whatever their labels say.
    2. InferenceX rows whose expert tp and ep are both n > 1 and whose tp x attention dp is n squared ran on n devices:
       tp x ep was multiplied where the suite counts the same n devices twice.
    3. An empty attention dp is what the experts' devices leave of tp, where that is a whole number; else 1.
    4. Experts on another number of devices than attention: the labels cannot be right.
    5. A batch size that is neither the clients nor an attention group's share of them: the labels cannot be right.
    6. Without a number of clients, the batch size of all attention groups; whether they were always full is not said.
    """
    tp, pp = numbers["tp_size"], numbers["pp_size"] or 1.0
    groups = numbers["attention_dp_size"] or None
    width, experts = numbers["moe_tp_size"] or 1.0, numbers["moe_ep_size"] or 1.0
    repaired, suspect = False, None
    if not mixture:
        width, experts, groups = tp, 1.0, groups or 1.0
    elif family == INFERENCEX and width == experts > 1.0 and tp * (groups or 1.0) == experts**2:
        repaired = True
        tp, groups = (experts, 1.0) if tp > 1.0 else (1.0, experts)
        width = 1.0
    elif groups is None:
        spread = width * experts / tp
        groups = spread if spread >= 1.0 and spread == int(spread) else 1.0
        repaired = groups != 1.0
    if mixture and not repaired and width * experts != tp * groups:
        if width * experts == 1.0:  # not said
            experts = 1.0
        else:
            suspect = f"experts on {width * experts:g} devices, attention on {tp * groups:g}"
    clients, batch = numbers["concurrency"], numbers["batch_size"]
    if not clients:
        suspect = suspect or "no number of clients"
    elif batch and not repaired and all(abs(batch * n - clients) > n for n in (1.0, groups)):
        suspect = suspect or f"{clients:g} clients in batches of {batch:g} on {groups:g} attention groups"
    return Layout(tp=tp, pp=pp, attention_dp=groups, ep=experts, repaired=repaired, suspect=suspect)


def scripted_degrees(
    numbers: dict[str, Any], engine: str, family: str, version: str, model: str, hardware: Hardware
) -> dict[str, Any]:
    """Degrees that InferenceX's scripts for DeepSeek on TensorRT-LLM chose by themselves until November 2025.

    Runs of that time carry no version, and their labels say expert tp = tp. On Hopper ep was tp, and attention was
    data-parallel above 64 clients (32 for long prompts); on Blackwell ep was tp from 16 clients (short outputs), from
    32 (long outputs), and always for long prompts.

    Source: benchmarks/dsr1_fp8_h200_trt_slurm.sh and dsr1_fp4_b200_trt_slurm.sh of InferenceX, October 2025.
    """
    blackwell = "fp4" in hardware.matrix
    labelled = version or (numbers["moe_ep_size"] or 1.0) != 1.0 or (numbers["attention_dp_size"] or 1.0) != 1.0
    if engine != "trtllm" or family != INFERENCEX or not model.startswith("DeepSeek") or labelled:
        return numbers
    clients, tp = numbers["concurrency"] or 0.0, numbers["tp_size"]
    long_prompt, long_output = numbers["isl_tokens"] == LONG, numbers["osl_tokens"] == LONG
    if blackwell and not long_prompt and clients < (32.0 if long_output else 16.0):
        return numbers
    spread = numbers | {"moe_ep_size": tp, "moe_tp_size": 1.0}
    if not blackwell and clients > (32.0 if long_prompt else 64.0):
        return spread | {"tp_size": 1.0, "attention_dp_size": tp}
    return spread
