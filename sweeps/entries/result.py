"""Answers of entry points: the object of a study, with what every answer has in Python."""

import functools
import os
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas as pd
    import xarray as xr

    from sweeps.answers.answer import Block
    from sweeps.answers.brief import Brief


ROWS = 10
"""Rows that a notebook shows at most."""


class Result:
    """An answer: its `repr`, and what a notebook shows of it, is the short form that its verb prints."""

    @classmethod
    def of(cls, found: Any, **more: Any) -> Self:
        """The object of a study as an answer, with some attributes more."""
        made = object.__new__(cls)
        # Objects of studies are frozen: what they hold is taken over as it is.
        vars(made).update(vars(found), **more)
        return made

    def record(self) -> dict[str, Any]:
        """Everything for programs, as the verb prints it with --json: SI units; what does not exist is None."""
        from sweeps.ask.text import finite

        return finite(self._record())

    @property
    def dataset(self) -> "xr.Dataset":
        """Everything as labelled arrays, each with its unit and meaning."""
        raise NotImplementedError

    def table(self) -> "pd.DataFrame":
        """The rows of the answer, in SI units."""
        raise NotImplementedError

    def plot(self) -> "matplotlib.figure.Figure":
        """A picture of the answer, which a notebook shows and `savefig` writes.

        Raises:
          ValueError: one line, where matplotlib is not installed, or there is nothing to draw.
        """
        raise NotImplementedError

    def report(self, path: str | os.PathLike[str], title: str | None = None, force: bool = False) -> None:
        """Write the answer as a page of one file, which a browser shows without a network.

        Args:
          path: ends in .html.
          title: of the page; None: what was asked.
          force: replace a file that jaxroof did not write.

        Raises:
          ValueError: one line, for a file that must not or cannot be written.
        """
        from sweeps.reports.report import report

        report(self, output=path, title=title, force=force)

    def text(self) -> str:
        """All of the answer as text, as the verb prints it with -v."""
        from sweeps.answers.answer import instead
        from sweeps.answers.screen import text

        with instead(kept := _Kept()):
            self._say()
        return text(kept.blocks)

    def __repr__(self) -> str:
        from sweeps.answers.brief import WIDTH
        from sweeps.answers.screen import text

        return text(self._brief.blocks(python=True), WIDTH)

    def _repr_html_(self) -> str:
        from sweeps.answers.brief import WIDTH
        from sweeps.answers.html import fragment

        return fragment(self._brief, 2 * WIDTH, ROWS)

    def _record(self) -> dict[str, Any]:
        """The record, which may have numbers that do not exist."""
        raise NotImplementedError

    def _say(self) -> None:
        """Say the answer to the screen, or to what stands in its place."""
        raise NotImplementedError

    @functools.cached_property
    def _brief(self) -> "Brief":
        """The short form."""
        from sweeps.answers.answer import instead
        from sweeps.answers.short import Short

        with instead(short := Short()):
            self._say()
        return short.found()


class _Kept:
    """Keeps the blocks of an answer."""

    def __init__(self) -> None:
        self.blocks = list["Block"]()

    def show(self, block: "Block") -> None:
        """One block more."""
        self.blocks.append(block)
