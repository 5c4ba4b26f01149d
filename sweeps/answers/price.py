"""Text, JSON, files and pictures of `jaxroof price`: one point op by op, or many points in rows."""

from typing import Any

from sweeps.answers.answer import say
from sweeps.studies.price.points import Priced

LEAST_SLOPE = 5e-4
"""Elasticity that is printed at least."""

SLOPES = 3
"""Elasticities in a short answer, the largest ones."""


def _sizes_text(sizes: dict[str, float]) -> str:
    return "".join(f", {name} = {value:g}" for name, value in sizes.items())


def print_answer(
    options: Any, asked: Any, device: Any, sizes: dict[str, float], answer: Any, slopes: dict[str, float]
) -> None:
    """Print the ops of one point, its totals and, where there are some, elasticities."""
    from hwspaces import efficiency
    from sweeps.answers import tables

    out, notes = tables.console(), asked.notes(device, efficiency=options.efficiency)
    what = f"{asked.traced.name} on {device.name}{_sizes_text(sizes)}, efficiency {efficiency(options.efficiency).name}"
    if out.short(lambda: _brief(what, device, answer, slopes, notes)):
        return
    out.print(f"{what}\nfusion {asked.policy}", end="\n\n")
    out.print(tables.op_table(answer.ops))
    out.print()
    for label, text in _totals(device, answer).items():
        out.print(f"{label:7} {text}")
    tables.print_lines(out, "note", notes)
    if slopes:
        out.print()
        shown = tables.table("number", "elasticity of time", numbers=("elasticity of time",))
        # By magnitude: a negative elasticity matters as much as a positive one.
        for path, slope in sorted(slopes.items(), key=lambda item: -abs(item[1])):
            if abs(slope) >= LEAST_SLOPE:
                shown.add_row(path, f"{slope:+.3f}")
        out.print(shown)


def _brief(what: str, device: Any, answer: Any, slopes: dict[str, float], notes: tuple[str, ...]) -> Any:
    """One point on a screen: its time, its longest kernels, what its time follows most."""
    from sweeps.answers import tables
    from sweeps.answers.brief import Brief
    from sweeps.run.answer import bound_shares

    time, use, *facts = _totals(device, answer).items()
    facts.insert(0, ("limited", tables.shares_text(bound_shares(answer.ops))))
    steepest = sorted(slopes.items(), key=lambda item: -abs(item[1]))[:SLOPES]
    facts += [("slopes", ", ".join(f"{path} {slope:+.2f}" for path, slope in steepest))] if steepest else []
    return Brief(
        asked=what,
        answer=f"{time[1]}; {use[1]}",
        facts=tuple(facts),
        table=tables.longest_ops(answer.ops),
        notes=notes,
        next="many sizes: --over b=1,8,64",
    )


def _totals(device: Any, answer: Any) -> dict[str, str]:
    """What a point takes in all, by label."""
    from hwspaces import formatted
    from sweeps.answers import tables

    metrics = answer.metrics
    # Slowdown at the limit of electrical power; one below 0.1 % is not worth a line.
    slowed = metrics.get("slowdown", 1.0)
    limit = f", {100 * (slowed - 1):.1f} % longer under the power limit" if slowed > 1.001 else ""
    fits = "fits in" if metrics["fits_memory"] else "does not fit in"
    capacity = formatted(device.hardware.memory.hbm.capacity, "B")
    found = {
        "time": f"{formatted(metrics['time'], 's')}{limit}, {metrics['kernels']:,.0f} kernels",
        "use": f"MFU {tables.percent(metrics['mfu'])}, MBU {tables.percent(metrics['mbu'])}",
        "memory": f"{formatted(metrics['peak_bytes'], 'B')} at most, {fits} {capacity}",
    }
    if "energy" in metrics:
        found["energy"] = f"{formatted(metrics['energy'], 'J')}, {metrics['power']:,.0f} W"
    return found | ({"beyond": answer.beyond.text} if answer.beyond.marked else {})


def print_points(options: Any, asked: Any, notes: tuple[str, ...], data: Any, beyond: dict[str, str]) -> None:
    """Print a row for every point of a sweep, and how far its accelerators are beyond the evidence at the first one."""
    from hwspaces import efficiency, formatted
    from sweeps.answers import tables
    from sweeps.data import labels

    out = tables.console()
    out.print(
        f"{asked.traced.name}, efficiency {efficiency(options.efficiency).name}\nfusion {asked.policy}", end="\n\n"
    )
    rows = points(asked, notes, data, beyond)["points"]
    sizes = [name for name in rows[0] if name in data.dims and name != "hardware"]
    columns = ["hardware", *sizes, "time", "FLOP", "bytes", "MFU", "MBU", "memory", "fits", "bound"]
    shown = tables.table(*columns, numbers=[*sizes, "time", "FLOP", "bytes", "MFU", "MBU", "memory"])
    for row in rows:
        shown.add_row(
            row["hardware"],
            *(labels.text(data, name, row[name]) for name in sizes),
            formatted(row["time_s"], "s"),
            tables.flop(row["flops"]),
            tables.size(row["moved_bytes_B"]),
            tables.percent(row["mfu"]),
            tables.percent(row["mbu"]),
            tables.size(row["peak_bytes_B"]),
            "yes" if row["fits_memory"] else "no",
            row["bound"],
        )
    out.print(shown)
    tables.print_lines(out, "beyond", [f"{device}: {text}" for device, text in beyond.items()])
    tables.print_lines(out, "note", notes)


def points(asked: Any, notes: tuple[str, ...], data: Any, beyond: dict[str, str]) -> dict[str, Any]:
    """Every point of a sweep for machines."""
    import itertools

    from sweeps.ask.names import variable

    axes = [str(axis) for axis in data["time"].dims]
    missing = [axis for axis in ("hardware", *asked.traced.symbols) if axis not in axes]
    rows = []
    # All places of the grid, the last axis fastest.
    for place in itertools.product(*(range(data.sizes[axis]) for axis in axes)):
        at = dict(zip(axes, place, strict=True))
        # A single accelerator has no axis: its name is an attribute of the dataset.
        row: dict[str, Any] = {"hardware": data.attrs["hardware"]} if "hardware" in missing else {}
        row |= {
            axis: data[axis].values[i] if axis == "hardware" else float(data[axis].values[i]) for axis, i in at.items()
        }
        for name in data.data_vars:
            # A variable lacks axes that it does not depend on: its place has fewer indices.
            value = data[name].values[tuple(at[dim] for dim in data[name].dims)]
            meaning = variable(str(name))
            # Codes are stored as integers; their flags are the words for them.
            if meaning.flags:
                row[str(name)] = meaning.flags[int(value)]
            elif value.dtype == bool:
                row[str(name)] = bool(value)
            else:
                # The unit is a part of the key, except for ratios.
                row[f"{name}{'' if meaning.unit == '1' else '_' + meaning.unit}"] = float(value)
        rows.append(row)
    return {**data.attrs, "beyond": beyond, "notes": list(notes), "points": rows}


def record(options: Any, asked: Any, device: Any, sizes: dict[str, float], answer: Any) -> dict[str, Any]:
    """The answer to one point for machines."""
    import dataclasses

    return {
        "function": asked.traced.name,
        "fusion": asked.policy,
        "hardware": device.name,
        "sizes": sizes,
        "metrics": answer.metrics,
        "ops": [dataclasses.asdict(op) for op in answer.ops],
        "beyond": answer.beyond.text if answer.beyond.marked else None,
        "notes": list(asked.notes(device, efficiency=options.efficiency)),
    }


def drawn(options: Any, asked: Any, device: Any, sizes: dict[str, float], answer: Any) -> Any:
    """The roofline of one point."""
    import hwspaces
    from sweeps.show.roofline import ops_roofline

    constants = hwspaces.efficiency(options.efficiency)
    title = f"{asked.traced.name} on {device.name}{_sizes_text(sizes)}"
    notes = "; ".join((f"fusion {asked.traced.policy}", *asked.notes(device, efficiency=options.efficiency)))
    return ops_roofline(answer.ops, device.hardware, title, constants.name, notes)


def print_files(options: Any, asked: Any, device: Any, sizes: dict[str, float], data: Any) -> None:
    """Print which files are written, and what is in them."""
    if options.output:
        say(f"\n{options.output}: {data.attrs['function']} over {', '.join(map(str, data['time'].dims))}")
    if options.plot:
        say(f"\n{options.plot}: {asked.traced.name} on {device.name}{_sizes_text(sizes)}")


# Any number of points: op by op where there is one, else in rows.


def show(found: Priced) -> None:
    """Print the ops of one point, or a row for each of many."""
    if found.one_point:
        print_answer(found, found.question, found.devices[0], found.first, found.answer, dict(found.slopes))
    else:
        print_points(found, found.question, found.notes, found.dataset, found.beyond)


def whole_record(found: Priced) -> dict[str, Any]:
    """One point, or all of many, for machines."""
    if not found.one_point:
        return points(found.question, found.notes, found.dataset, found.beyond)
    told = record(found, found.question, found.devices[0], found.first, found.answer)
    return told | ({"elasticities": dict(found.slopes)} if found.slopes else {})


def picture(found: Priced) -> Any:
    """The roofline of the first point."""
    return drawn(found, found.question, found.devices[0], found.first, found.answer)
