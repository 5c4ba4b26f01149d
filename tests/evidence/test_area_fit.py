"""Areas per unit of the catalogue against their refit to dies of published size."""

import dataclasses

import pytest

import hwspaces
from tests.evidence import area_fit


def test_the_catalogue_holds_what_the_refit_gives():
    """To 1 %: three digits are written. Left out, a family is predicted within 25 %."""
    known = area_fit.dies()
    areas, exponent = area_fit.fitted(known)
    silicon = area_fit_silicon()
    for part, area in areas.items():
        kept = silicon["stack_area" if part == "stack" else part]
        assert area == pytest.approx(kept * 1e6, rel=1e-2), part
    assert exponent == pytest.approx(0.6, rel=1e-2)
    for family in {die.family for die in known}:
        found = area_fit.fitted([die for die in known if die.family != family])
        ratios = [area_fit.predicted(die, *found) / die.known for die in known if die.family == family]
        assert all(0.8 < ratio < 1.25 for ratio in ratios), family


def area_fit_silicon() -> dict[str, float]:
    """The catalogue's areas per unit, of stacks and of chips."""
    found = {name: hwspaces.hardware(name).hardware.silicon.areas for name in ("H100-SXM", "L40S")}
    areas = dataclasses.asdict(found["H100-SXM"])
    return areas | {"stack_area": areas["stack"], "chip": found["L40S"].stack}
