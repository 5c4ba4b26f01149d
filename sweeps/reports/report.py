"""Report: results as one offline interactive page in a file."""

import os
from typing import Any

from hwspaces.files.output import Wanted, require, saved_text
from sweeps.reports.charts import altair
from sweeps.reports.page import page
from sweeps.reports.sections import section
from sweeps.reports.sources import sources


def report(*results: Any, output: str | os.PathLike[str], title: str | None = None, force: bool = False) -> None:
    """Write a page of results that a browser shows without a network and without a server.

    Args:
      *results: each a path (JSON of any verb's --json or -o, netCDF, a folder of a sweep, .zarr), an xarray Dataset, a
        record as --json prints it, or an answer with a `record()`; a section each.
      output: the page; it ends in .html.
      title: of the page; None: the result's, or how many there are.
      force: replace a file that jaxroof did not write.

    Raises:
      ValueError: one line: no result, a file that is not there, cannot be read or holds no result, a library that is
        missing (the extra `report`), or a page that must not or cannot be written.
    """
    if not results:
        raise ValueError("a report needs at least one result")
    name = os.fspath(output)
    paths = [os.fspath(one) for one in results if isinstance(one, str | os.PathLike)]
    # Everything that can be refused is refused before anything is read.
    require([Wanted(name, ("page",))], paths, force)
    altair()
    made = [section(one) for result in results for one in sources(result)]
    saved_text(name, "page", page(made, title), force, paths)
