"""Section of a sweep that kept counts of its points alone: quantiles and histograms of its metrics."""

import numpy as np
import xarray as xr

from sweeps.reports import charts
from sweeps.reports.blocks import DASH, Chart, Section, Table, column, words
from sweeps.reports.facts import of_attributes

QUANTILES, HISTOGRAM = "quantiles_", "histogram_"


def spread_section(data: xr.Dataset) -> Section:
    """The section of counts."""
    titles = [_charted(data, name) for name in _names(data, HISTOGRAM)]
    drawn = [one for one in titles if one is not None]
    names = _names(data, QUANTILES)
    blocks: list[Table | Chart] = [*drawn, *([_quantiles(data, names)] if names else [])]
    title = str(data.attrs.get("title", "Sweep"))
    points = data.attrs.get("points")
    counted = DASH if points is None else f"{int(points):,}"
    answer = f"Counts of {counted} designs by {len(drawn) or len(names)} metrics; no single design was kept."
    return Section("sweep", f"{title[:1].upper()}{title[1:]}", answer, (), blocks, **of_attributes(data.attrs))


def _names(data: xr.Dataset, prefix: str) -> list[str]:
    return [str(name).removeprefix(prefix) for name in data.data_vars if str(name).startswith(prefix)]


def _quantiles(data: xr.Dataset, names: list[str]) -> Table:
    levels = [float(level) for level in data["quantile"].values]
    rows = [column(name, [float(value) for value in data[QUANTILES + name].values]) for name in names]
    columns = [words("metric", "metric", [row.title for row in rows])]
    for i, level in enumerate(levels):
        columns.append(words(f"q{level:g}", f"{100 * level:g} %", [row.text(row.values[i]) for row in rows]))
    return Table("Quantiles", columns)


def _charted(data: xr.Dataset, name: str) -> Chart | None:
    """Shares of the feasible designs in bins of a metric; None for flags and codes, which have none."""
    if f"{name}_bin" not in data or data.sizes[f"{name}_bin"] < 2:
        return None
    counts = data[HISTOGRAM + name].values.astype(float)
    low = column(name, [float(value) for value in data[f"{name}_bin"].values])
    across = np.array([low.scaled(value) for value in low.values], float)
    description = f"Share of the feasible designs in each bin of {low.title}, {len(counts)} bins."
    series = {low.title: (across, 100.0 * counts / max(counts.sum(), 1.0))}
    log = charts.is_wide(across)
    spec = charts.lines(low.title, "Designs (%)", series, description, (log, False), step=True)
    return Chart(low.title, spec, description)
