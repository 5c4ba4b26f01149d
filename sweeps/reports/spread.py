"""Section of a sweep that kept counts of its points alone: quantiles of every metric."""

import xarray as xr

from sweeps.reports.blocks import DASH, Section, Table, column, words
from sweeps.reports.facts import of_attributes

PREFIX = "quantiles_"


def spread_section(data: xr.Dataset) -> Section:
    """The section of counts; `jaxroof plot --kind spread` draws their histograms."""
    names = [str(name).removeprefix(PREFIX) for name in data.data_vars if str(name).startswith(PREFIX)]
    levels = [float(level) for level in data["quantile"].values]
    rows = [column(name, [float(value) for value in data[PREFIX + name].values]) for name in names]
    columns = [words("metric", "metric", [row.title for row in rows])]
    for i, level in enumerate(levels):
        columns.append(words(f"q{level:g}", f"{100 * level:g} %", [row.text(row.values[i]) for row in rows]))
    title = str(data.attrs.get("title", "Sweep"))
    points = data.attrs.get("points")
    counted = DASH if points is None else f"{int(points):,}"
    answer = f"Quantiles of {len(names)} metrics over {counted} designs; no single design was kept."
    return Section(
        "sweep",
        f"{title[:1].upper()}{title[1:]}",
        answer,
        (),
        [Table("Quantiles", columns)],
        **of_attributes(data.attrs),
    )
