"""Constants of technologies: what is known of each kind, and how many constants are assumptions."""

from typing import Any


def print_technologies() -> None:
    """Print the names of each kind, and one line with the counts."""
    from hwspaces.accelerators.constants import KNOWN, technology_counts, technology_names
    from sweeps.cli.tables import console, table

    names = table("kind", "names")
    for kind in KNOWN:
        names.add_row(kind, ", ".join(technology_names(kind)))
    out = console()
    out.print(names)
    given, assumed = technology_counts()
    out.print(f"\ntechnology: {given} constants, {assumed} of them assumptions")


def technology_record() -> dict[str, Any]:
    """Every constant by kind, name and key: value in the SI unit, unit, source and whether it is an assumption."""
    from hwspaces.accelerators.constants import KNOWN, technology_constants, technology_names

    return {
        kind: {name: _record(technology_constants(kind, name)) for name in technology_names(kind)} for kind in KNOWN
    }


def _record(constants: dict[str, Any]) -> dict[str, Any]:
    return {
        key: {"value": one.value, "unit": one.unit, "source": one.source, "assumed": one.assumed}
        for key, one in constants.items()
    }
