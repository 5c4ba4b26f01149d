"""Laws that a user gives for numbers of a scenario, beside those of a design space."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from hwspaces.accelerators.entry import HardwareEntry
from hwspaces.quantities.laws import Law, hardware_laws, law_that_sets, lawful, merged, scenario_laws
from hwspaces.quantities.leaves import leaf_unit as hardware_unit
from hwspaces.quantities.units import formatted
from jaxroof.hardware import Hardware
from jaxroof.jobs import Scenario
from sweeps.ask.leaves import leaf_unit

WHERE = "laws"
"""Beginning of messages on laws."""


def with_laws(scenario: Scenario, texts: Mapping[str, str]) -> Scenario:
    """The scenario with laws of a user, obeying all that it has.

    Laws of the hardware are its own and read its figures alone; others may read every number.

    Raises:
      ValueError: one line, as `hwspaces.quantities.laws.hardware_laws`.
    """
    # Laws of hardware figures live in the device; the others live in the scenario.
    outside = {path: text for path, text in texts.items() if not path.startswith("hardware.")}
    hardware = with_hardware_laws(scenario.hardware, texts)
    laws = scenario_laws(outside, scenario, leaf_unit, WHERE)
    return lawful(dataclasses.replace(scenario, hardware=hardware, laws=laws))


def with_hardware_laws(hardware: Hardware, texts: Mapping[str, str]) -> Hardware:
    """The device with those laws that set its figures."""
    own = {path: text for path, text in texts.items() if path.startswith("hardware.")}
    if not own:
        return hardware
    device_laws = hardware_laws(own, hardware, WHERE)
    return dataclasses.replace(hardware, laws=merged(hardware.laws, device_laws, WHERE))


def require_free(scenario: Scenario, paths: Iterable[str]) -> None:
    """ValueError of one line where a user sets a number that follows from a law."""
    for path in paths:
        law = law_of(scenario, path)
        if law is not None:
            knobs = ", ".join(dict.fromkeys(read for _, read in law.reads))
            raise ValueError(f"{path} follows from a law: {law.text}; set what it reads ({knobs}) instead")


def law_of(scenario: Any, path: str) -> Law | None:
    """The law that sets the number at `path`; None where it is free."""
    # Laws of a device name their target without the root of the path.
    own = (
        law_that_sets(scenario.hardware.laws, path.removeprefix("hardware.")) if path.startswith("hardware.") else None
    )
    return own or law_that_sets(scenario.laws, path)


BUDGETS = ("power.tdp", "power.static", "cores.clock", "memory.l2.bandwidth", "price")
"""Figures that change with others in a device that could be built: said where an axis varies the hardware alone."""


def held_note(device: HardwareEntry, paths: Iterable[str]) -> str | None:
    """What a question holds constant while it varies figures of the hardware at `paths`; None where laws link them."""
    varied = {path.removeprefix("hardware.") for path in paths if path.startswith("hardware.")}
    if not varied or device.hardware.laws:
        return None
    held = [path for path in BUDGETS if path in device.figures and path not in varied]
    texts = [f"{path} {formatted(device.figures[path], hardware_unit(path))}" for path in held]
    return f"held constant: {', '.join(texts)} ({device.name}); --space links figures by laws" if texts else None
