"""Wall times of single vLLM steps with what was in each: what e2e/blis_step_cycles.csv says."""

import dataclasses
from pathlib import Path

import hwspaces
from sweeps.measure.validate.engine_steps import measured_steps, octave
from tests.evidence.observation import Observation, Step

HARDWARE = "H100-SXM"
"""The device that all steps of the file ran on."""

RELEASE = "0.15.1"
"""Of vLLM, which ran them."""


def observations(path: str | Path) -> list[Observation]:
    """Every step of the file.

    Raises:
      ValueError: one line that names file, row, column and value.
    """
    device = hwspaces.hardware(HARDWARE).hardware
    return [
        Observation(
            step=Step(
                hardware=device,
                model=one.model,
                deployment=one.deployment,
                decode=dataclasses.replace(one.batch, prefill=None, logits=one.sequences),
                mixed=one.batch,
                mixed_share=1.0,
            ),
            seconds=one.seconds,
            group=f"{one.model_name} {HARDWARE} tp{one.deployment.tp:g} steps of up to {octave(one.sequences)}",
            model=one.model_name,
            engine="vllm",
        )
        for one in measured_steps(path)[0]
    ]
