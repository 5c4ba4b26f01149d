"""Section of a fleet: accelerators and their cost, replicas of each class, and the day by the hour."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweeps.reports import charts
from sweeps.reports.blocks import Chart, Column, Section, Table, is_number, said, words
from sweeps.reports.facts import beside, listed


def fleet_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `fleet`."""
    kinds, classes = record["accelerators"], record["classes"]
    models = list(dict.fromkeys(str(one["model"]) for one in classes))
    load = np.sum([one["load"] for one in classes], axis=0)
    facts = [
        ("Models", ", ".join(models)),
        ("Requests", f"{3600.0 * load.sum():,.0f} a day, {load.max():,.4g} per second at the peak"),
        ("Limits", "; ".join(f"{one['name']}: {one['slo']}" for one in classes)),
        ("Budget", _usd(record.get("budget_usd_per_year"))),
        ("Headroom", said("mfu", record.get("headroom"))),
        ("Energy", _energy(record.get("energy_J_per_year"))),
        ("Loads of replicas by", str(record.get("loads_by") or "")),
    ]
    blocks: list[Table | Chart] = [*_cost(kinds), *_in_use(kinds)]
    blocks += [_day(one) for one in classes]
    blocks += [_accelerators(kinds), _replicas(classes), *_more(record.get("marginal")), _hours(kinds, classes)]
    blocks += _left_out(record)
    title = f"Fleet for {listed(models)}"
    shown = [fact for fact in facts if fact[1]]
    return Section("fleet", title, _answer(record, kinds), shown, blocks, **beside(record))


def _answer(record: Mapping[str, Any], kinds: Sequence[Mapping[str, Any]]) -> str:
    parts = [f"{one[how]:,} x {one['hardware']} {how}" for how in ("owned", "rented") for one in kinds if one[how]]
    cost, bound = record["cost_usd_per_year"], record["bound"]
    text = f"{listed(parts) or 'No devices'}: {_usd(cost)}."
    if record["goal"] != "least cost":
        served, most = said("mfu", record["served_share"]), said("mfu", bound)
        text += f" That serves {served} of the requests, and no fleet more than {most}."
        every = _usd(record.get("least_cost_usd_per_year"))
        return f"{text} All of them would cost {every}." if every else text
    # Gaps of less than a millionth are rounding of the solver.
    sure = "No fleet costs less" if bound >= cost * (1.0 - 1e-6) else f"No fleet costs less than {_usd(bound)}"
    return f"{text} {sure}."


def _cost(kinds: Sequence[Mapping[str, Any]]) -> list[Chart]:
    there = [one for one in kinds if one["rented"] or one["owned"]]
    if not any(one["usd_per_year"] for one in there):
        return []
    cost = Column("usd_per_year", "USD/year", [one["usd_per_year"] for one in there])
    names = words("hardware", "accelerator", [str(one["hardware"]) for one in there])
    counts = [Column(how, how, [one[how] for one in there]) for how in ("rented", "owned")]
    rents = [f"{name} {_usd(rent)}" for name, rent in zip(names.values, cost.values, strict=True)]
    description = f"Rent by accelerator: {', '.join(rents)}."
    spec = charts.bars(names, cost, None, counts, description)
    return [Chart("Rent of a year", spec, description, "Devices that are owned cost no rent.")]


def _in_use(kinds: Sequence[Mapping[str, Any]]) -> list[Chart]:
    used = {str(one["hardware"]): np.array(one["in_use"], float) for one in kinds if any(one["in_use"])}
    if not used:
        return []
    peaks = ", ".join(f"{name} at most {values.max():,.0f}" for name, values in used.items())
    return [_by_hour("Devices in use", "Devices", used, f"Devices in use by the hour: {peaks}.")]


def _day(one: Mapping[str, Any]) -> Chart:
    load, room = np.array(one["load"], float), np.array(one["capacity"], float)
    description = (
        f"Load and capacity of {one['name']} by the hour: load at most {load.max():.4g} requests/s, capacity then "
        f"{room[int(load.argmax())]:.4g}."
    )
    return _by_hour(f"Load of {one['name']}", "Requests/s", {"load": load, "capacity": room}, description)


def _by_hour(title: str, up: str, series: Mapping[str, np.ndarray], description: str) -> Chart:
    # A value holds until the end of its hour, the last one until midnight.
    steps = {name: (np.arange(len(values) + 1.0), np.append(values, values[-1])) for name, values in series.items()}
    spec = charts.lines("Hour of the day", up, steps, description, (False, False), step=True)
    return Chart(title, spec, description)


def _accelerators(kinds: Sequence[Mapping[str, Any]]) -> Table:
    def values(name: str) -> list[Any]:
        return [one.get(name) for one in kinds]

    limits = ["any" if one.get("available") is None else f"{one['available']:,}" for one in kinds]
    columns = [
        words("hardware", "accelerator", values("hardware")),
        Column("owned", "owned", values("owned")),
        Column("rented", "rented", values("rented")),
        words("available", "available", limits),
        Column("in_use_at_most", "in use at most", [max(one["in_use"], default=0) for one in kinds]),
        Column("usd_per_second", "USD/h", values("usd_per_second"), 1 / 3600.0, "USD/s", "rent of one device"),
        Column("usd_per_year", "USD/year", values("usd_per_year")),
        words("price_source", "source of the price", values("price_source"), extra=True),
    ]
    return Table("Accelerators", columns)


def _replicas(classes: Sequence[Mapping[str, Any]]) -> Table:
    """Replicas in the hour in which their class has its highest load."""
    rows = [
        (one, replica, replica["replicas"][int(np.argmax(one["load"]))])
        for one in classes
        for replica in sorted(one["replicas"], key=lambda replica: -replica["share_of_requests"])
    ]
    columns = [
        words("class", "class", [one["name"] for one, _, _ in rows]),
        words("model", "model", [one["model"] for one, _, _ in rows]),
        words("hardware", "accelerator", [replica["hardware"] for _, replica, _ in rows]),
        words("layout", "layout", [replica["layout"] for _, replica, _ in rows]),
        Column("devices", "devices", [replica["devices"] for _, replica, _ in rows]),
        Column("requests_per_second", "requests/s of one", [replica["requests_per_second"] for _, replica, _ in rows]),
        Column("replicas", "replicas at the peak", [count for _, _, count in rows]),
        Column("share", "share of requests (%)", [replica["share_of_requests"] for _, replica, _ in rows], 0.01, "1"),
        words("slo", "limits", [one["slo"] for one, _, _ in rows], extra=True),
    ]
    return Table("Replicas", columns, "At the hour in which the class has its highest load.")


def _more(marginal: Any) -> list[Table]:
    """What one device more, or more requests, would gain or cost."""
    if not isinstance(marginal, Mapping):
        return []
    rows = [
        (f"one more {one['hardware']} {how}", one["devices_added"], found)
        for one in marginal["one_more_device"]
        for how, found in (("given", one.get("given")), ("to rent", one.get("available")))
        if found
    ]
    traffic = dict(marginal.get("more_traffic") or {})
    share = traffic.pop("share", 0.0)
    rows += [(f"{100.0 * share:g} % more {name}, cost", None, found) for name, found in traffic.items() if found]
    if marginal.get("more_budget"):
        rows.append((f"{100.0 * marginal['more_budget']['share']:g} % more budget", None, marginal["more_budget"]))
    if not rows:
        return []
    unit = str(marginal["unit"])
    columns = [
        words("change", "change", [name for name, _, _ in rows]),
        Column(
            "dual", f"dual ({unit})", [found.get("dual") for _, _, found in rows], meaning="slope of the linear program"
        ),
        Column(
            "again",
            f"solved again ({unit})",
            [found.get("solved_again") for _, _, found in rows],
            meaning="of one, in whole replicas",
        ),
        Column("within", f"within ({unit})", [found.get("within") for _, _, found in rows], extra=True),
    ]
    return [
        Table(
            "Marginal values",
            columns,
            "Gain of one device, of as many added as the column says, where the change does not say cost.",
        )
    ]


def _hours(kinds: Sequence[Mapping[str, Any]], classes: Sequence[Mapping[str, Any]]) -> Table:
    columns = [words("hour", "hour", [f"{hour:02}:00" for hour in range(len(classes[0]["load"]))])]
    for one in classes:
        # Where everything is served the column says nothing.
        whole = min(one["served_share"]) > 1.0 - 1e-6
        name = str(one["name"])
        columns.append(Column(f"{name}_load", f"{name}, load (1/s)", one["load"], unit="1/s"))
        columns.append(Column(f"{name}_capacity", f"{name}, capacity (1/s)", one["capacity"], unit="1/s"))
        columns.append(Column(f"{name}_served", f"{name}, served (%)", one["served_share"], 0.01, "1", extra=whole))
    columns += [
        Column(f"{one['hardware']}_in_use", f"{one['hardware']} in use", one["in_use"])
        for one in kinds
        if any(one["in_use"])
    ]
    return Table("Hours of the day", columns)


def _left_out(record: Mapping[str, Any]) -> list[Table]:
    rows = [(name, "", reason) for name, reason in (record.get("left_out") or {}).items()]
    rows += [
        (name, one["name"], reason) for one in record["classes"] for name, reason in (one.get("left_out") or {}).items()
    ]
    if not rows:
        return []
    heads = ("accelerator", "class", "reason")
    return [Table("Left out", [words(head, head, [row[i] for row in rows]) for i, head in enumerate(heads)])]


def _usd(value: Any) -> str:
    return f"{value:,.0f} USD/year" if is_number(value) else ""


def _energy(value: Any) -> str:
    # A MWh is 3.6e9 J.
    return f"{value / 3.6e9:,.0f} MWh/year of devices in use" if is_number(value) else ""
