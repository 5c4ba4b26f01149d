"""A collective as text: its time and bus bandwidth by algorithm and message size."""

from typing import Any

from sweeps.studies.collective import CollectiveTimes


def record(collective_times: CollectiveTimes) -> dict[str, Any]:
    """The times for machines."""
    from jaxroof.collectives import UNAVAILABLE
    from sweeps.show.collectives import bus_bandwidth

    rows = []
    for i, size in enumerate(collective_times.sizes):
        # Times in s by algorithm; one that cannot run on these devices has the time UNAVAILABLE.
        usable = {name: float(time[i]) for name, time in collective_times.times.items() if time[i] < UNAVAILABLE}
        time = usable[collective_times.chosen[i]]
        rows.append(
            {
                "message_bytes": float(size),
                "algorithm": collective_times.chosen[i],
                "time_s": time,
                "bus_bandwidth_Bps": float(bus_bandwidth(collective_times.kind, collective_times.devices, size, time)),
                "times_s": usable,
            }
        )
    return {name: getattr(collective_times, name) for name in collective_times._fields[:5]} | {"sizes": rows}


def show(collective_times: CollectiveTimes) -> None:
    """Print the times and bus bandwidths of every algorithm."""
    from hwspaces import formatted
    from jaxroof.collectives import UNAVAILABLE
    from sweeps.answers.tables import console, table
    from sweeps.show.collectives import binary_size, bus_bandwidth

    usable = [name for name, time in collective_times.times.items() if (time < UNAVAILABLE).any()]
    out = console()
    out.print(f"{collective_times.about}, efficiency {collective_times.efficiency}; * chosen\n")
    names = [name.replace("_", "-") for name in usable]
    shown = table("size", "time", "bus bandwidth", *names, numbers=("size", "time", "bus bandwidth", *names))
    for i, size in enumerate(collective_times.sizes):
        time = float(collective_times.times[collective_times.chosen[i]][i])
        rate = formatted(float(bus_bandwidth(collective_times.kind, collective_times.devices, size, time)), "B/s")
        cells = []
        for name in usable:
            # Two spaces stand in for the mark, so that times of all algorithms align.
            mark = " *" if name == collective_times.chosen[i] else "  "
            own = float(collective_times.times[name][i])
            cells.append("-  " if own >= UNAVAILABLE else f"{formatted(own, 's')}{mark}")
        shown.add_row(binary_size(size), formatted(time, "s"), rate, *cells)
    out.print(shown)
