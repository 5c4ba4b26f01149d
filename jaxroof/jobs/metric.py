"""Declarations of metrics: unit, long name, codes and direction, stated beside the functions that compute them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Metric:
    """What one metric or variable is."""

    unit: str  # SI unit, as `hwspaces.units` writes it
    long_name: str
    flags: tuple[str, ...] = ()  # meanings of the integer codes 0, 1, ...
    higher_is_better: bool | None = None  # for plots and tables; None where neither


def lower(unit: str, long_name: str) -> Metric:
    """A metric of which less is better."""
    return Metric(unit, long_name, (), False)


def higher(unit: str, long_name: str) -> Metric:
    """A metric of which more is better."""
    return Metric(unit, long_name, (), True)
