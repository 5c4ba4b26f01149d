"""Questions of sensitivities: the point, the metrics, the knobs and the smoothing."""

import argparse
from typing import Any

from sweeps.cli import common, deployment, request, serve, step, train
from sweeps.run.compile_cache import compilation_cache

UNTRAINED = ("isl", "osl", "attention", "kv", "communication", "adapters")
UNTRAINED += tuple(name for name in deployment.flags() if name not in (*train.DEGREES, *train.PLACES))
"""Flags that `--job train` does not read, of those that the others do."""


def found_of(options: argparse.Namespace, names: Any, wanted: Any, exponent: float | None, top: int) -> Any:
    """The sensitivities of one step, static batch or iteration of training."""
    said, case = _said(options)
    from sweeps.answers.tables import notes
    from sweeps.studies.sensitivity.ranking import ranking

    # Number of knobs whose pairs are computed: pairs grow with its square.
    pairs_of = top if options.second_order else 0
    return ranking(options.job, case.scenario, names, wanted, exponent, pairs_of, said, notes(case))


def found_of_serve(options: argparse.Namespace, names: Any, wanted: Any, exponent: float | None) -> Any:
    """The sensitivities of a simulation."""
    common.require_names(options)
    if options.second_order:
        raise ValueError("--second-order is of a step or a request: a simulation's decisions have no gradient")
    if options.encoder_tokens is not None:
        raise ValueError("--encoder-tokens is not of --job serve, whose requests have images: give --image WxH")
    question = serve.question(options)
    compilation_cache()
    from sweeps.entries.sensitivities import service_ranking

    return service_ranking(question, names, wanted, exponent)


def _said(options: argparse.Namespace) -> tuple[str, Any]:
    """The question in words, and the case."""
    from sweeps.entries.sensitivities import question_text

    # Training has a batch of sequences and no requests: flags on requests do not apply.
    if options.job == "train" and (foreign := common.given(options, UNTRAINED)):
        raise ValueError(f"{foreign[0]} is not of --job train")
    cases = {"train": train.training_case, "step": step.step_case, "request": request.request_case}
    case = cases[options.job](options)
    return question_text(options.job, case, common.overrides(options.set)), case


def read_prefill(options: argparse.Namespace) -> None:
    """Make `--prefill` what the job takes: tokens of a step, or settings of a pool for prompts."""
    settings = options.prefill
    if options.job == "serve":
        return
    if settings and options.job != "step":
        raise ValueError(f"--prefill is of --job step or serve, and this is --job {options.job}")
    if len(settings) > 1:
        raise ValueError(f"--prefill {settings[1]} is the second one: a step has one")
    options.prefill = settings[0] if settings else None


def smoothing_exponent(text: str | None) -> float | None:
    """The exponent; None where the flag was not given."""
    if text is None:
        return None
    # Text that is no number takes the way of numbers out of range.
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (value == 0.0 or 1.0 <= value < float("inf")):
        raise ValueError(f"--smoothing {text} must be 0, the exact gradient, or a finite exponent of at least 1")
    return value
