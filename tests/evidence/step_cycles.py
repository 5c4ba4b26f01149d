"""Wall times of single vLLM steps with what was in each: what e2e/blis_step_cycles.csv says."""

import math
from pathlib import Path

import hwspaces
import workloads
from jaxroof.batch import Batch, Decode, Prefill
from sweeps.ask.axes import replaced
from sweeps.ask.cases import model_deployment
from sweeps.measure.validate.measured_csv import rows
from tests.evidence.observation import Observation, Step

HARDWARE = "H100-SXM"
"""The device that all steps of the file ran on."""

RELEASE = "0.15.1"
"""Of vLLM, which ran them."""

NUMBERS = (
    "tp",
    "true_cycle_us",
    "batch_prefill_tokens",
    "batch_decode_tokens",
    "batch_num_prefill_reqs",
    "kv_tokens_in_use",
)


def octave(sequences: float) -> int:
    """Smallest power of two that is not below `sequences`, at least 1."""
    return 2 ** math.ceil(math.log2(max(sequences, 1.0)))


def observations(path: str | Path) -> list[Observation]:
    """Every step of the file.

    The cache in use is taken as the context of all sequences together, prompts in prefill at the mean of
    all; blocks that sequences share are counted once, which makes the context up to a fifth too short.

    Raises:
      ValueError: one line that names file, row, column and value.
    """
    found = []
    device = hwspaces.hardware(HARDWARE).hardware
    for row in rows(path, ("experiment_id", "model", *NUMBERS)):
        values = row.numbers(NUMBERS)
        entry = workloads.model(row["model"])
        deployment = replaced(model_deployment(entry, None), "tp", values["tp"])
        prefills, decodes = values["batch_num_prefill_reqs"], values["batch_decode_tokens"]
        tokens, cached = values["batch_prefill_tokens"], values["kv_tokens_in_use"]
        past = max(cached * prefills / max(prefills + decodes, 1.0) - tokens, 0.0)
        decode = Decode(sequences=decodes, context=max(cached - past - tokens, decodes))
        step = Step(
            hardware=device,
            model=entry.model,
            deployment=deployment,
            decode=Batch(prefill=None, decode=decode, logits=decodes),
            mixed=Batch(
                prefill=Prefill(sequences=prefills, tokens=tokens, past=past), decode=decode, logits=decodes + prefills
            ),
            mixed_share=1.0,
        )
        found.append(
            Observation(
                step=step,
                seconds=values["true_cycle_us"] * 1e-6,
                group=f"{entry.name} {HARDWARE} tp{values['tp']:g} steps of up to {octave(decodes)}",
                model=entry.name,
                engine="vllm",
            )
        )
    return found
