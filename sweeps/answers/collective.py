"""A collective as text: its time and bus bandwidth by algorithm and message size."""

from typing import Any, NamedTuple


class FoundTimes(NamedTuple):
    """Times of a collective by algorithm and message size."""

    hardware: str
    kind: str
    devices: float
    stride: float | None
    efficiency: str
    sizes: Any  # B, shape [sizes]
    times: dict[str, Any]  # s by algorithm, shape [sizes]
    chosen: list[str]  # the algorithm of every size

    @property
    def about(self) -> str:
        """The question in words."""
        every = "" if self.stride is None else f", every {self.stride:g}th device"
        return f"{self.kind.replace('_', '-').capitalize()} of {self.devices:g} x {self.hardware}{every}"


def entry_of(name: str, settings: dict[str, Any]) -> Any:
    """The accelerator with the figures of its links that are set."""
    import hwspaces

    for path in settings:
        if not path.removeprefix("hardware.").startswith("links."):
            raise ValueError(f"--set {path}: a collective depends on hardware.links alone")
    entry = hwspaces.hardware(name)
    return hwspaces.overridden(entry, settings) if settings else entry


def times_of(
    links: Any, kind: str, devices: float, stride: float | None, sizes: Any, efficiency: Any
) -> tuple[Any, ...]:
    """Algorithm -> times in s, shape [sizes]; and the name of the chosen one per size."""
    import numpy as np

    from jaxroof.collectives import ALGORITHMS, collective_algorithm, collective_times
    from jaxroof.numerics.arrays import eager
    from jaxroof.op import Collective

    column = np.asarray(sizes, float)
    sent: dict[str, Any] = {"message_bytes": column, "participants": np.float64(devices), "stride": stride}
    op = Collective(operation=kind, count=1.0, kernels=1.0, **sent)
    with eager():
        times, codes = collective_times(links, op, efficiency), collective_algorithm(links, op, efficiency)
    found = {name: np.broadcast_to(times[name], column.shape) for name in ALGORITHMS if name in times}
    return found, [ALGORITHMS[int(code)] for code in np.broadcast_to(codes, column.shape)]


def record(found: FoundTimes) -> dict[str, Any]:
    """The times for machines."""
    from jaxroof.collectives import UNAVAILABLE
    from sweeps.show.collectives import bus_bandwidth

    rows = []
    for i, size in enumerate(found.sizes):
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


def show(found: FoundTimes) -> None:
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
            mark = " *" if name == found.chosen[i] else "  "
            own = float(found.times[name][i])
            cells.append("-  " if own >= UNAVAILABLE else f"{formatted(own, 's')}{mark}")
        shown.add_row(binary_size(size), formatted(time, "s"), rate, *cells)
    out.print(shown)
