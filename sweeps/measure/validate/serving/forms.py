"""Forms of files of served points, and the reader that each takes."""

from pathlib import Path

from sweeps.measure.validate.measured_csv import LeftOut, rows
from sweeps.measure.validate.serving import inferencex, serving_points
from sweeps.measure.validate.serving.serving_points import ServingPoint


def served_points(path: str | Path) -> tuple[list[ServingPoint], list[LeftOut]]:
    """Every row of a CSV file, as a point or as what is in its way.

    Raises:
      ValueError: one line that names file, row, column and value, as of the form's reader.
    """
    # The header tells: files of InferenceX name frameworks.
    if inferencex.is_inferencex(rows(path, ())[0]):
        return inferencex.points(path)
    return serving_points.points(path, pools=True)
