"""A collective as text: its time and bus bandwidth by algorithm and message size."""

from typing import Any

from sweeps.studies.collective import CollectiveTimes


def record(found: CollectiveTimes) -> dict[str, Any]:
    """The times for machines."""
    from jaxroof.collectives import UNAVAILABLE
    from sweeps.show.collectives import bus_bandwidth

    rows = []
    for i, size in enumerate(found.sizes):
        # Times in s by algorithm; one that cannot run on these devices has the time UNAVAILABLE.
        usable = {name: float(time[i]) for name, time in found.times.items() if time[i] < UNAVAILABLE}
        time = usable[found.chosen[i]]
        rows.append(
            {
                "message_bytes": float(size),
                "algorithm": found.chosen[i],
                "time_s": time,
                "bus_bandwidth_Bps": float(bus_bandwidth(found.kind, found.devices, size, time)),
                "times_s": usable,
            }
        )
    return {name: getattr(found, name) for name in found._fields[:5]} | {"sizes": rows}


def show(found: CollectiveTimes) -> None:
    """Print the times and bus bandwidths of every algorithm."""
    from hwspaces import formatted
    from jaxroof.collectives import UNAVAILABLE
    from sweeps.answers.tables import console, table
    from sweeps.show.collectives import binary_size, bus_bandwidth

    usable = [name for name, time in found.times.items() if (time < UNAVAILABLE).any()]
    out = console()
    out.print(f"{found.about}, efficiency {found.efficiency}; * chosen\n")
    names = [name.replace("_", "-") for name in usable]
    shown = table("size", "time", "bus bandwidth", *names, numbers=("size", "time", "bus bandwidth", *names))
    for i, size in enumerate(found.sizes):
        time = float(found.times[found.chosen[i]][i])
        rate = formatted(float(bus_bandwidth(found.kind, found.devices, size, time)), "B/s")
        cells = []
        for name in usable:
            # Two spaces stand in for the mark, so that times of all algorithms align.
            mark = " *" if name == found.chosen[i] else "  "
            own = float(found.times[name][i])
            cells.append("-  " if own >= UNAVAILABLE else f"{formatted(own, 's')}{mark}")
        shown.add_row(binary_size(size), formatted(time, "s"), rate, *cells)
    out.print(shown)
