"""Result of a comparison: rows of deployments that serve, and of those that do not, with what is known of them."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from hwspaces import HardwareEntry
from jaxroof.version import VERSION
from sweeps.ask.layouts import label
from sweeps.ask.names import units, variable, variable_attributes
from sweeps.ask.precisions import slower_cache
from sweeps.ask.text import finite
from sweeps.run.evidence import serving_beyond
from sweeps.run.simulated.objective import Target
from sweeps.studies.compare.advice import changes
from sweeps.studies.compare.question import ServedQuestion
from sweeps.studies.compare.ranking import first_of_each, nearest_misses
from sweeps.studies.compare.rows import Row
from sweeps.studies.compare.search import scenario_at
from sweeps.studies.compare.trust import Trust, trust
from workloads.streams.classes import RequestClass


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Result of a comparison."""

    question: ServedQuestion
    metric: str  # what rows are sorted by
    chosen: str  # why by that one
    rate: float | None  # requests/s that were asked for; None: what one replica takes
    headroom: float
    rows: tuple[Row, ...]  # every accelerator, devices and layout that serves, at its best setting; best first
    infeasible: tuple[Row, ...]  # the others, with their reasons, in the order of the accelerators
    requests: tuple[int, int]  # of a simulation, fewest and most; 0: there was none
    places: int  # that were estimated
    simulations: int
    estimate_seconds: float
    seconds: float
    arrays: Mapping[str, np.ndarray]  # figures of every deployment as estimated, shape [settings, devices, layouts]
    questions: Mapping[str | None, ServedQuestion] = dataclasses.field(default_factory=dict)  # by the weights of rows
    _trusts: dict[tuple[Any, ...], Trust] = dataclasses.field(default_factory=dict)  # that were asked for

    def __repr__(self) -> str:
        model, best = self.question.model.name, self.rows[0] if self.rows else None
        words = "" if best is None else f", best {best.devices} x {best.hardware} as {best.layout}"
        return f"<Comparison of {model} by {self.metric}: {len(self.rows)} rows of {self.places:,} candidates{words}>"

    def question_of(self, row: Row) -> ServedQuestion:
        """What was asked of a row: at the precision of its weights where several were tried."""
        return self.questions.get(row.weights, self.question)

    def device_of(self, row: Row) -> HardwareEntry:
        """The accelerator of a row."""
        return self.question_of(row).options.devices[row.place[1]]

    def trust(self, row: Row) -> Trust:
        """How far a row's figures can be trusted: of a step under its load."""
        # Everything that trust depends on: rows of pools share a place with rows of replicas that do both.
        key = row.place, row.prefill is None, row.weights, row.simulated
        if key not in self._trusts:
            sample, batch = self.question.requests.sample, max(row.metrics["batch_mean"], 1.0)
            scenario = scenario_at(self.question_of(row).options, row.place)
            # The evidence is judged at a step under the row's load: its mean batch, one sequence at least.
            beyond = serving_beyond(scenario, batch, float(np.mean(sample.isl)), float(np.mean(sample.osl)))
            precision = self.question_of(row).model.precision
            self._trusts[key] = trust(
                self.device_of(row), self.question.efficiency, beyond, row.parallelism, precision, row.simulated
            )
        return self._trusts[key]

    def slower_cache(self, row: Row) -> str | None:
        """One line, where a row's cache makes decoding slower than one of 16 bits."""
        sample = self.question.requests.sample
        # Tokens that a decoding sequence attends to on average: it is halfway through its output.
        context = float(np.mean(sample.isl)) + 0.5 * float(np.mean(sample.osl))
        return slower_cache(
            scenario_at(self.question_of(row).options, row.place), (max(row.metrics["batch_mean"], 1.0), context)
        )

    @property
    def best_layouts(self) -> tuple[Row, ...]:
        """Of `rows`, the best of every (accelerator, devices of a replica), disaggregated pools apart from others."""
        return first_of_each(self.rows, lambda row: (row.hardware, row.devices, row.prefill is None))

    @property
    def nearest_misses(self) -> tuple[Row, ...]:
        """For every accelerator without any row, the one that came nearest to serving."""
        return nearest_misses(self.rows, self.infeasible)

    def advice(self, rows: Sequence[Row]) -> list[str]:
        """For each of the rows the change that gains most load, in words; "" where none does."""
        words: dict[int, str] = {}
        # By identity: each question is estimated once, for all of its rows together.
        for question in {id(one): one for one in map(self.question_of, rows)}.values():
            own = [(i, row) for i, row in enumerate(rows) if self.question_of(row) is question]
            said = changes(question, [row for _, row in own])
            words |= {i: text for (i, _), text in zip(own, said, strict=True)}
        return [words[i] for i in range(len(rows))]

    def record(self, rows: Sequence[Row] | None = None) -> dict[str, Any]:
        """Everything for programs, as the command's --json prints it: SI units; a figure that is not known is None.

        Args:
          rows: that are shown; None: `best_layouts`, of which the command shows 20 where --top says nothing else.
        """
        return _record(self, self.best_layouts if rows is None else rows)


def _record(comparison: Comparison, rows: Sequence[Row]) -> dict[str, Any]:
    question = comparison.question
    # Units are listed for those metrics alone that some row has.
    metrics = sorted({name for row in rows for name in row.metrics})
    record = {
        "jaxroof_version": VERSION,
        "question": {
            "model": question.model.name,
            "slo": question.slo,
            "target": question.target.text,
            "share": question.target.share,
            "rate": comparison.rate,
            "headroom": comparison.headroom if comparison.rate is not None else None,
            "requests": dict(question.requests.keys),
            "classes": [_class_record(one, question.target) for one in question.requests.classes],
            "engine": question.engine,
            "efficiency": question.efficiency.name,
            "settings": dict(question.settings),
        },
        "model": question.model.name,
        "precision": question.model.precision,
        "sorted_by": comparison.metric,
        "sorted_because": comparison.chosen,
        "higher_is_better": bool(variable(comparison.metric).higher_is_better),
        "tried": {
            "places": comparison.places,
            "simulations": comparison.simulations,
            "requests_of_a_simulation": list(comparison.requests),
            "estimate_seconds": round(comparison.estimate_seconds, 3),
            "seconds": round(comparison.seconds, 3),
        },
        "rows": [
            _row_record(comparison, row, rank, change)
            for rank, (row, change) in enumerate(zip(rows, comparison.advice(rows), strict=True), 1)
        ],
        "infeasible": [
            {"hardware": row.hardware, "devices": row.devices, "layout": row.layout, "reason": row.reason}
            for row in comparison.nearest_misses
        ],
        "lacking": dict(question.lacking),
        "refused_layouts": dict(question.refused),
        "notes": list(question.notes),
        "units": units(metrics),
    }
    return finite(record)


def _class_record(one: RequestClass, target: Target) -> dict[str, Any]:
    words = {"name": one.name, "share_of_requests": one.share, "isl": one.isl.text, "osl": one.osl.text}
    prefixes = None if one.prefixes is None else one.prefixes.text
    return words | {"prefixes": prefixes, "slo": one.slo, "target": target.classes[one.name].text}


def _row_record(comparison: Comparison, row: Row, rank: int, change: str) -> dict[str, Any]:
    device = comparison.device_of(row)
    judged = comparison.trust(row)
    # 90 % interval of the metric that rows are sorted by.
    low, high = judged.interval(row.metrics[comparison.metric])
    return {
        "rank": rank,
        "hardware": row.hardware,
        "devices": row.devices,
        "server": comparison.question_of(row).options.servers[row.place[1]],
        "replicas": row.replicas,
        "layout": row.layout,
        "setting": row.setting,
        "max_sequences": row.max_sequences,
        "simulated": row.simulated,
        "stopped_by": row.binds,
        "fails_at": row.fails,
        "change": change,
        "interval_90": [low, high],
        "evidence": judged.words,
        "extrapolated": judged.extrapolated,
        "octaves_beyond": judged.octaves,
        "status": device.status,
        **({} if device.price is None else device.price.record()),
        "longest": comparison.question.requests.longest,
        "spec": dict(row.spec),
        "prefill": row.prefill,
        **({} if row.prefill is None else {"decode_replicas": row.decode_replicas}),
        **({"classes": dict(row.classes)} if comparison.question.target.classes else {}),
        # `devices` of the metrics counts all replicas; the row's own key has those of one.
        **{name: value for name, value in row.metrics.items() if name != "devices"},
    }


# Served comparisons as labelled arrays: every deployment as estimated, over setting, accelerator and layout.


DIMS = ("setting", "hardware", "layout")


def dataset(comparison: Comparison) -> xr.Dataset:
    """Figures of every deployment at its largest load; NaN where it cannot serve.

    Those that were simulated have the simulation's load: `simulated` says which.
    """
    question, options = comparison.question, comparison.question.options
    simulated = np.zeros((len(options.settings), len(options.devices), len(options.layouts)), np.int8)
    for row in comparison.rows:
        # Rows of pools are never simulated, and must not clear the flag of a place they share.
        simulated[row.place] |= row.simulated
    variables = {
        name: (DIMS, values, variable_attributes(name, values.dtype)) for name, values in comparison.arrays.items()
    }
    meaning = {"units": "1", "long_name": "1 where the load is from a simulation, 0 where from the steady state"}
    labels = {
        "setting": [choice.text or "the engine's own" for choice in options.settings],
        "hardware": [device.name for device in options.devices],
        "layout": [label(layout) for layout in options.layouts],
    }
    words = {"setting": "settings of engine and cache", "hardware": "accelerator", "layout": "parallel degrees"}
    return xr.Dataset(
        {**variables, "simulated": (DIMS, simulated, meaning)},
        {
            name: (name, np.array(values, object), {"units": "1", "long_name": words[name]})
            for name, values in labels.items()
        },
        {
            "Conventions": "CF-1.11",
            "title": f"{question.model.name}: the largest load of every deployment within {question.target.text}",
            "requests": json.dumps(dict(question.requests.keys), sort_keys=True, default=str),
            "engine": question.engine,
            "efficiency": question.efficiency.name,
            "simulated_requests": comparison.requests[1],
        },
    )
