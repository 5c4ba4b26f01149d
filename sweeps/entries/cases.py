"""One point in Python: a static batch of requests, one engine step, or one iteration of training."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hwspaces.quantities.units import plain_arguments
from sweeps.ask.cases import Case, case
from sweeps.ask.keys import takes
from sweeps.ask.names import UDUNITS, variable, variable_attributes
from sweeps.ask.training_case import training_case
from sweeps.entries.result import Result
from sweeps.entries.words import EntryWords, fields
from sweeps.run.answer import Answer, answer, request_answer

if TYPE_CHECKING:
    from typing import Unpack

    import matplotlib.figure
    import pandas as pd
    import xarray as xr

    from sweeps.ask.keywords import CaseKeys

OP_FIGURES = ("time", "flops", "bytes")
"""Figures of an op that are variables of a dataset."""

COLUMNS = ("name", "count", "time", "flops", "bytes", "message_bytes", "intensity", "bound", "algorithm", "power")
"""What a table says of every op."""


class CaseResult(Result, Answer):
    """The answer to one point.

    Attributes:
      case: hardware, model, deployment and workload, and where each is from.
      metrics: by name, in SI units; what binds is text.
      steps: the ops that run, in their order, of every step.
    """

    case: Case
    job: str
    settings: Mapping[str, Any]

    def table(self) -> "pd.DataFrame":
        """Every metric with its unit and meaning."""
        import pandas as pd

        units = [UDUNITS.get(variable(name).unit, variable(name).unit) for name in self.metrics]
        columns = {
            "value": pd.Series(list(self.metrics.values()), dtype=object),
            "unit": units,
            "meaning": [variable(name).long_name for name in self.metrics],
        }
        return pd.DataFrame(columns).set_index(pd.Index(list(self.metrics), name="metric"))

    def ops(self) -> "pd.DataFrame":
        """Every op of every step, over all its runs in the step, on one device: s, FLOP, B, W."""
        import pandas as pd

        rows = [
            {"step": name} | {column: getattr(op, column) for column in COLUMNS}
            for name, ops in self.steps.items()
            for op in ops
        ]
        return pd.DataFrame(rows)

    @property
    def dataset(self) -> "xr.Dataset":
        """Metrics, and along the ops of every step what each costs."""
        import xarray as xr

        import sweeps.data.accessor  # noqa: F401
        from sweeps.data.store import OP_DIMENSIONS

        variables: dict[str, tuple[Any, ...]] = {}
        for name, value in self.metrics.items():
            flags = variable(name).flags
            stored = np.asarray(flags.index(str(value)) if flags else value)
            variables[name] = ((), stored, variable_attributes(name, stored.dtype))
        coordinates = {}
        for step_name, ops in self.steps.items():
            # A request has two steps, whose variables begin with their names.
            prefix = f"{step_name}_" if f"{step_name}_op" in OP_DIMENSIONS else ""
            dim = f"{prefix}op"
            for name in OP_FIGURES:
                label, column = f"{prefix}op_{name}", np.array([getattr(op, name) for op in ops])
                variables[label] = (dim, column, variable_attributes(label, column.dtype))
            for label, values, words in (
                (dim, [op.name for op in ops], OP_DIMENSIONS[dim]),
                (f"{dim}_bound", [op.bound for op in ops], "what binds the op, under the limit of electrical power"),
            ):
                coordinates[label] = (dim, np.array(values, object), {"units": "1", "long_name": words})
        about = {"hardware": self.case.hardware.name, "model": self.case.model.name, "job": self.job}
        about |= {"efficiency": self.case.efficiency.name, "notes": " | ".join(self.case.notes)}
        return xr.Dataset(variables, coordinates, {"Conventions": "CF-1.11", **about})

    def plot(self) -> "matplotlib.figure.Figure":
        """The roofline of every step; of a training the parts of an iteration's time and memory."""
        if self.job == "train":
            from sweeps.show.iteration import iteration

            return iteration(self.case, self.metrics)
        from sweeps.show.roofline import roofline

        return roofline(self.case, what=self._what())

    def _what(self) -> str:
        """The work in words."""
        if self.job == "step":
            from sweeps.answers.step import step_text

            return step_text(self.case)
        from sweeps.answers.request import batch_text

        return batch_text(self.case)

    def _record(self) -> dict[str, Any]:
        if self.job == "train":
            from sweeps.answers.train import record

            return record(self.case, self)
        from sweeps.answers import shared

        return shared.record(self.case, self)

    def _say(self) -> None:
        settings = {path: str(value) for path, value in self.settings.items()}
        if self.job == "train":
            from sweeps.answers import train

            return train.show(self.case, self.metrics, settings)
        if self.job == "step":
            from sweeps.answers import step

            return step.show(self.case, self, settings)
        from sweeps.answers import request

        return request.show(self.case, self, settings)


@takes(EntryWords)
@plain_arguments
def request(hardware: str, model: str, *, workload: Mapping[str, Any], **words: "Unpack[CaseKeys]") -> CaseResult:
    """Latency, throughput and fit of a static batch of equal requests on one deployment, as `jaxroof request` has it.

    Args:
      hardware, model: names of the catalogues, or files.
      workload: batch, isl and osl: requests at once, prompt and output tokens of each; cached, delay, acceptance.
      deployment: tp, pp, ep, attention_dp ... by name; `set`: any other number by its path, "8TB/s" or in SI units.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.

    Example:
      found = sweeps.request("H100-SXM", "Llama-3.1-8B", workload={"batch": 8, "isl": 1024, "osl": 256})
      found.metrics["tpot"]  # s; found.table(), found.ops(), found.dataset, found.plot()
    """
    asked = case("request", hardware, model, workload=workload, **fields(words))
    return CaseResult.of(request_answer(asked), case=asked, job="request", settings=fields(words).get("overrides", {}))


@takes(EntryWords)
@plain_arguments
def step(hardware: str, model: str, *, workload: Mapping[str, Any], **words: "Unpack[CaseKeys]") -> CaseResult:
    """One engine step of a deployment, op by op, as `jaxroof step` has it.

    Args:
      hardware, model: names of the catalogues, or files.
      workload: prefill, the prompt tokens of each of `prefills` prompts, or decode sequences at a context of so many
        tokens, or both.
      deployment, set: as of `sweeps.request`.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.

    Example:
      found = sweeps.step("H100-SXM", "Llama-3.1-8B", workload={"decode": 64, "context": 2048})
      found.ops().nlargest(5, "time")
    """
    asked = case("step", hardware, model, workload=workload, **fields(words))
    return CaseResult.of(answer(asked), case=asked, job="step", settings=fields(words).get("overrides", {}))


@takes(EntryWords)
@plain_arguments
def train(
    hardware: str,
    model: str,
    *,
    workload: Mapping[str, Any],
    precision: str | None = None,
    **words: "Unpack[CaseKeys]",
) -> CaseResult:
    """One iteration of training on a layout of devices: time, memory, messages and money, as `jaxroof train` has it.

    Args:
      hardware, model: names of the catalogues, or files.
      workload: global_batch and seq: sequences of an iteration and their tokens; micro_batch, zero, recompute,
        schedule ("interleaved:4"), lora ("rank=16,target=q,v") ...
      deployment: dp, tp, pp, cp and ep, as training frameworks count them.
      precision: of linear layers, bf16 or fp8; weights: what frozen ones are stored in, with lora.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.

    Example:
      work = {"global_batch": 64, "seq": 4096, "zero": 1}
      found = sweeps.train("H100-SXM", "Llama-2-70B", workload=work, deployment={"tp": 8, "dp": 8})
      found.metrics["mfu"]
    """
    given = fields(words)
    asked = training_case(hardware, model, workload, precision=precision, **given)
    return CaseResult.of(answer(asked), case=asked, job="train", settings=given.get("overrides", {}))
