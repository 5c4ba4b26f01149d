"""Times of a stream in words."""

TIME_UNITS = (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
"""Units of time and their seconds, the largest first."""


def span_text(seconds: float) -> str:
    """A time with the unit that suits it: "58.3 min", "0.25 s"."""
    unit, size = next((one for one in TIME_UNITS if seconds >= 2.0 * one[1]), TIME_UNITS[-1])
    value = seconds / size
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
