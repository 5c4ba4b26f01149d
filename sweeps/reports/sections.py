"""Sections by the kind of result: which function makes which, and errors of results that are not whole."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from sweeps.reports.blocks import Section
from sweeps.reports.checks import scenarios_file_section, scenarios_section
from sweeps.reports.collectives import collective_section
from sweeps.reports.comparison import comparison_section
from sweeps.reports.designs import designs_section
from sweeps.reports.elasticities import sensitivity_file_section, sensitivity_section
from sweeps.reports.fleet import fleet_section
from sweeps.reports.generic import dataset_section, record_section
from sweeps.reports.nests import layer_section, network_section
from sweeps.reports.ops import figures_section, ops_section
from sweeps.reports.rows import points_section, routers_section
from sweeps.reports.serving import capacity_section, curve_section, run_section, served_section
from sweeps.reports.sources import Source
from sweeps.reports.splits import splits_record_section, splits_section
from sweeps.reports.spread import spread_section
from sweeps.reports.training import layouts_section, training_section
from sweeps.reports.validation import validation_section

MAKERS: Mapping[str, Callable[[Any], Section]] = {
    "comparison": comparison_section,
    "capacity": capacity_section,
    "curve": curve_section,
    "served": served_section,
    "run": run_section,
    "ops": ops_section,
    "figures": figures_section,
    "training": training_section,
    "layouts": layouts_section,
    "points": points_section,
    "routers": routers_section,
    "designs": designs_section,
    "spread": spread_section,
    "fleet": fleet_section,
    "sensitivity": sensitivity_section,
    "sensitivity file": sensitivity_file_section,
    "layer": layer_section,
    "network": network_section,
    "split": splits_record_section,
    "split file": splits_section,
    "collective": collective_section,
    "scenarios": scenarios_section,
    "scenarios file": scenarios_file_section,
    "validation": validation_section,
    "record": record_section,
    "dataset": dataset_section,
}
"""Kind of a source -> the function of its content that makes its section."""


def section(source: Source) -> Section:
    """The section of one result.

    Raises:
      ValueError: one line that names the result: of no kind that a report shows, or with figures missing.
    """
    make = MAKERS[source.kind]
    try:
        made = make(source.content)
    except (KeyError, TypeError, AttributeError, IndexError, ZeroDivisionError, OverflowError) as error:
        # Results come from files that anybody may have edited.
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
        raise ValueError(f"{source.name} is not a whole result of jaxroof ({what})") from None
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from None
    return dataclasses.replace(made, file=source.name, written=source.written)
