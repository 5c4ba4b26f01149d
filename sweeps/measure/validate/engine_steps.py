"""Single steps of an engine under load, predicted and measured: what was in each batch, and how long it took."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import hwspaces
import workloads
from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.model import Model
from jaxroof.numerics.arrays import eager
from jaxroof.step.step import step_time
from sweeps.ask.axes import replaced
from sweeps.ask.cases import model_deployment
from sweeps.measure.validate.measured_csv import NOT_NEGATIVE, CsvRow, LeftOut, records, require_some, rows
from sweeps.measure.validate.relative_errors import error_summary, grouped

NUMBERS = (
    "tp",
    "true_cycle_us",
    "batch_prefill_tokens",
    "batch_decode_tokens",
    "batch_num_prefill_reqs",
    "kv_tokens_in_use",
)
COLUMNS = ("model", *NUMBERS)
"""Columns that a file must have."""


@dataclasses.dataclass(frozen=True)
class MeasuredStep:
    """One step: what ran in it, and its time."""

    row: int  # line of the file
    model_name: str
    model: Model
    deployment: Deployment
    batch: Batch
    seconds: float

    @property
    def sequences(self) -> float:
        """Sequences that decode in it."""
        return 0.0 if self.batch.decode is None else float(self.batch.decode.sequences)

    @property
    def prompts(self) -> bool:
        """Whether it works on prompts as well."""
        return self.batch.prefill is not None and float(self.batch.prefill.sequences) > 0.0


@dataclasses.dataclass(frozen=True)
class ScoredStep:
    """A step with its prediction."""

    step: MeasuredStep
    predicted: float  # s


@dataclasses.dataclass(frozen=True)
class StepErrors:
    """Every row of a file, scored or left out."""

    scored: tuple[ScoredStep, ...]
    left_out: tuple[LeftOut, ...]

    def errors(self, key: str) -> dict[str, dict[str, float]]:
        """By value of one of `GROUPS`: rows, mape, median_ape, signed_median."""
        groups = grouped(self.scored, lambda one: GROUPS[key](one.step))
        return {
            name: error_summary([one.predicted for one in each], [one.step.seconds for one in each])
            for name, each in sorted(groups.items(), key=lambda pair: (len(pair[0]), pair[0]))
        }


def octave(sequences: float) -> int:
    """Smallest power of two that is not below `sequences`, at least 1."""
    return 2 ** math.ceil(math.log2(max(sequences, 1.0)))


GROUPS: Mapping[str, Callable[[MeasuredStep], str]] = {
    "model": lambda step: f"{step.model_name}, tp {step.deployment.tp:g}",
    "batch": lambda step: "prompts and decoding" if step.prompts else "decoding",
    "sequences": lambda step: f"up to {octave(step.sequences)}",
}
"""What steps are grouped by -> the group of one."""


def measured_steps(path: str | Path) -> tuple[list[MeasuredStep], list[LeftOut]]:
    """Every step of a CSV file, and the rows that are none, with the reason.

    The cache in use is taken as the context of all sequences together, prompts in prefill at the mean of
    all; blocks that sequences share are counted once, which makes the context up to a fifth too short.

    Raises:
      ValueError: one line that names file, row, column and value.
    """
    return records(rows(path, COLUMNS), _step, "step_id")


def _step(row: CsvRow) -> MeasuredStep:
    """Raises ValueError with the reason why the row cannot be priced."""
    values = row.numbers(NUMBERS, NOT_NEGATIVE)
    entry = workloads.model(row["model"])
    prefills, decodes = values["batch_num_prefill_reqs"], values["batch_decode_tokens"]
    tokens, cached = values["batch_prefill_tokens"], values["kv_tokens_in_use"]
    if not prefills + decodes or not values["true_cycle_us"]:
        raise ValueError("nothing ran in the step" if values["true_cycle_us"] else "true_cycle_us is 0")
    past = max(cached * prefills / (prefills + decodes) - tokens, 0.0)
    return MeasuredStep(
        row=row.line,
        model_name=entry.name,
        model=entry.model,
        deployment=replaced(model_deployment(entry, None), "tp", values["tp"]),
        batch=Batch(
            prefill=Prefill(sequences=prefills, tokens=tokens, past=past),
            decode=Decode(sequences=decodes, context=max(cached - past - tokens, decodes)),
            logits=decodes + prefills,
        ),
        seconds=values["true_cycle_us"] * 1e-6,
    )


def predicted_steps(steps: Iterable[MeasuredStep], hardware: str, efficiency: Efficiency) -> list[ScoredStep]:
    """Every step with its prediction on an accelerator of the catalogue."""
    device = hwspaces.hardware(hardware).hardware
    with eager():
        return [
            ScoredStep(one, float(step_time(device, one.model, one.deployment, one.batch, efficiency))) for one in steps
        ]


def step_errors(path: str | Path, hardware: str, efficiency: Efficiency) -> StepErrors:
    """Predictions for every step of a CSV file.

    Args:
      path: a file with `COLUMNS`.
      hardware: accelerator that its steps ran on.
      efficiency: constants to predict with.

    Raises:
      ValueError: one line, as of `measured_steps`; or that no row could be predicted, and why.
    """
    found, left = measured_steps(path)
    require_some(path, found, left)
    return StepErrors(tuple(predicted_steps(found, hardware, efficiency)), tuple(left))
