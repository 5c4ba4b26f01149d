"""Steps and first tokens of vLLM under load: what the saturated rows of e2e/tam_ground_truth.csv say."""

import dataclasses
import statistics
from pathlib import Path

import hwspaces
import workloads
from jaxroof import batch
from sweeps.ask.axes import replaced
from sweeps.ask.cases import model_deployment
from sweeps.measure.validate.measured_csv import rows
from tests.evidence.observation import Observation, Step

SET = "saturated_inference_perf"

NEW_TOKENS = 14.0
"""Prompt tokens that miss the prefix cache; the rows' notes: 11 to 16 in traced experiments."""

STEPS_TO_FIRST_TOKEN = 2.5
"""Steps between arrival and first token: half of the running one, the next one, which vLLM's asynchronous
scheduler has fixed already, and the request's own."""

NUMBERS = (
    "tp",
    "prompt_tokens",
    "output_tokens_nominal",
    "littles_law_concurrency",
    "gt_ttft_ms",
    "derived_itl_ms",
    "gt_e2e_ms",
)


@dataclasses.dataclass(frozen=True)
class Loaded:
    """One saturated row."""

    observation: Observation  # time per output token
    ttft: float  # s, mean


def request_time(found: list[Loaded]) -> float:
    """s between arrival and first step: median over rows of TTFT - `STEPS_TO_FIRST_TOKEN` * time per output token.

    The median passes over the row whose requests queued.
    """
    return statistics.median(row.ttft - STEPS_TO_FIRST_TOKEN * row.observation.seconds for row in found)


def loaded(path: str | Path) -> list[Loaded]:
    """The saturated rows, with the concurrency that Little's law gives as the number of sequences.

    Raises:
      ValueError: one line that names file, row, column and value.
    """
    found = []
    for row in rows(path, ("set", "gpu", "model", *NUMBERS)):
        if row["set"] != SET:
            continue
        values = row.numbers(NUMBERS)
        entry = workloads.model(row["model"])
        deployment = replaced(model_deployment(entry, None), "tp", values["tp"])
        osl, isl = values["output_tokens_nominal"], values["prompt_tokens"]
        decoding = 1.0 - values["gt_ttft_ms"] / values["gt_e2e_ms"]
        sequences = values["littles_law_concurrency"] * decoding
        decode = batch.decode(sequences, isl + 0.5 * osl)
        step = Step(
            hardware=hwspaces.hardware(row["gpu"]).hardware,
            model=entry.model,
            deployment=deployment,
            decode=decode,
            mixed=batch.mixed(batch.prefill(1.0, NEW_TOKENS, isl - NEW_TOKENS), decode),
            mixed_share=max(sequences - 1.0, 0.0) / osl,
        )
        observation = Observation(
            step=step,
            seconds=values["derived_itl_ms"] * 1e-3,
            group=f"{entry.name} {row['gpu']} tp{values['tp']:g} saturated",
            model=entry.name,
            engine="vllm",
        )
        found.append(Loaded(observation=observation, ttft=values["gt_ttft_ms"] * 1e-3))
    return found
