"""The question of `jaxroof sensitivity --job serve`: a simulation of the flags of `jaxroof serve`."""

import argparse
from typing import Any

from sweeps.cli import deployment
from sweeps.cli.common import compilation_cache, overrides, policy_settings, require_names
from sweeps.cli.serve import offered


def found_of_serve(options: argparse.Namespace, names: Any, wanted: Any, exponent: float | None) -> Any:
    """The simulation's sensitivities, for the report; ValueError in one line for flags that describe none."""
    require_names(options)
    if options.second_order:
        raise ValueError("--second-order is of a step or a request: a simulation's decisions have no gradient")
    policy, settings = policy_settings(options.policy), overrides(options.set)
    compilation_cache()
    from sweeps.cli.sensitivity_report import Found
    from sweeps.cli.tables import heading
    from sweeps.serving.spec import ServeSpec
    from sweeps.studies.elasticity.serve import sensitivity_of_serve

    asked = ServeSpec(
        **{name: getattr(options, name) for name in ("hardware", "model", "weights", "kv", "communication")},
        **{name: getattr(options, name) for name in ("efficiency", "engine")},
        **offered(options),
        deployment=deployment.settings(options),
        overrides=settings,
        policy=policy,
    )
    found, said, point, checked = sensitivity_of_serve(asked, names, wanted, exponent)
    notes = [*said, "when steps end has a gradient, what the scheduler decides has none: docs/reference/scheduler.md"]
    return Found(heading(found.case, found.load.text, settings), notes, point, checked, {})
