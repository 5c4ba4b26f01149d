"""Text of `jaxroof fleet`: devices and their cost, what serves each class, marginal values, hours."""

import math
from typing import Any

import numpy as np

from sweeps.answers.brief import Brief
from sweeps.answers.tables import console, percent, print_lines, table
from sweeps.data.labels import number
from sweeps.studies.fleet.answer import YEAR, FleetPlan
from sweeps.studies.fleet.marginal import MORE, Marginal, Marginals
from sweeps.studies.fleet.program import COST

SMALL = 0.01
"""Share of a class's requests below which replicas have no row of their own."""

MORE_TEXT = f"{100.0 * MORE:g} %"


def printed(plan: FleetPlan, every_hour: bool) -> None:
    """Print the answer; with `every_hour` a table of the day too."""
    out, question = console(), plan.question
    if out.short(lambda: _brief(plan)):
        return
    out.print(_asked(plan))
    out.print(f"headroom {100.0 * question.headroom:g} %, loads of replicas by {plan.method}", end="\n\n")
    tables = [_devices(plan), _replicas(plan)]
    tables += [_hours(plan)] if every_hour else []
    tables += [_one_more(plan.marginals)] if plan.marginals is not None else []
    for each in tables:
        out.print(each)
        out.print()
    # Labels as wide as those of `print_lines`: seven characters and a space.
    for name, text in _lines(plan):
        out.print(f"{name:8}{text}")
    print_lines(out, "left out", _left_out(plan))
    print_lines(out, "note", [note for supply in question.supplies for note in supply.notes])


def _asked(plan: FleetPlan) -> str:
    """The requests of a day in a line."""
    question, program = plan.question, plan.program
    # Loads are requests/s by class and hour: their sum times 3600 s is a day's requests.
    requests, peak = program.load.sum() * 3600.0, program.load.sum(axis=0).max()
    kinds = _count(len({one.model for one in question.classes}), "model")
    kinds += f", {_count(len(question.classes), 'class', 'classes')}"
    return f"{kinds}: {requests:,.0f} requests a day, {peak:,.4g} per second at the peak"


def _brief(plan: FleetPlan) -> Brief:
    """What is owned and rented, and what that costs."""
    (_, cost), *lines = _lines(plan)
    counts = [(supply.name, supply.owned, plan.rented[place]) for place, supply in enumerate(plan.question.supplies)]
    owned = [f"{count:,} x {name} owned" for name, count, _ in counts if count]
    rented = [f"{count:,.0f} x {name} rented" for name, _, count in counts if count]
    return Brief(
        asked=_asked(plan),
        answer=f"{', '.join([*owned, *rented]) or 'no device'}: {cost}",
        facts=tuple((name, text) for name, text in lines if name not in ("solved", "")),
        table=_devices(plan),
        notes=tuple(note for supply in plan.question.supplies for note in supply.notes),
        next="hour by hour: -v --hours",
    )


def _devices(plan: FleetPlan) -> Any:
    """Devices of each kind and their cost."""
    heads = ("owned", "rented", "available", "in use\nat most", "USD/h", "USD/year")
    summary = table("accelerator", *heads, numbers=heads)
    for s, supply in enumerate(plan.question.supplies):
        # Kinds that the plan neither owns nor rents have no row.
        if not plan.rented[s] and not supply.owned:
            continue
        # Devices of this kind in use at once: summed over classes, in the hour that needs most.
        used = plan.in_use[:, s].sum(axis=0).max()
        # Prices are USD per second, and shown per hour.
        price = "-" if supply.price is None else f"{supply.price * 3600.0:.4g}"
        limit = "any" if supply.available is None else f"{supply.available:,}"
        counts = f"{supply.owned:,}", f"{plan.rented[s]:,.0f}", limit, f"{used:,.0f}"
        summary.add_row(supply.name, *counts, price, f"{plan.rent(s):,.0f}")
    summary.add_section()
    owned = sum(supply.owned for supply in plan.question.supplies)
    summary.add_row("total", f"{owned:,}", f"{plan.rented.sum():,.0f}", "", "", "", f"{plan.cost:,.0f}", style="bold")
    return summary


def _replicas(plan: FleetPlan) -> Any:
    """Replicas of each class."""
    heads = ("devices", "requests/s\nof one", "replicas\nat peak", "share of\nrequests")
    summary = table("class", "model", "limits", "accelerator", "layout", *heads, numbers=heads)
    for c, one in enumerate(plan.question.classes):
        # Replicas are counted in the hour in which this class has its highest load.
        peak = int(np.argmax(one.load))
        every = [o for o in np.argsort(-plan.shares) if plan.program.of_class[o] == c and plan.replicas[o].any()]
        # Small shares are summed in one row, unless there are no others.
        rows = [o for o in every if plan.shares[o] >= SMALL] or every
        for first, o in enumerate(rows):
            option = plan.options[o]
            names = (one.name, one.model, one.slo) if first == 0 else ("", "", "")
            counts = f"{option.devices}", number(option.requests_per_second), f"{plan.replicas[o, peak]:,.0f}"
            summary.add_row(*names, option.hardware, option.layout, *counts, percent(plan.shares[o]))
        if len(rows) < len(every):
            others = every[len(rows) :]
            counts = "", "", f"{plan.replicas[others, peak].sum():,.0f}", percent(plan.shares[others].sum())
            summary.add_row("", "", "", f"{len(others)} other{'s' * (len(others) > 1)}", "", *counts)
        if not every:
            summary.add_row(one.name, one.model, one.slo, "none", "", "", "", "", percent(0.0))
    return summary


def _hours(plan: FleetPlan) -> Any:
    """Load and capacity of each class, and devices in use of each kind, in every hour."""
    used = [s for s in range(len(plan.question.supplies)) if plan.in_use[:, s].any()]
    heads = [f"{one.name}\nload / capacity" for one in plan.question.classes]
    heads += [f"{plan.question.supplies[s].name}\nin use" for s in used]
    summary = table("hour", *heads, numbers=heads)
    capacity = plan.capacity.sum(axis=1)
    for hour in range(plan.program.load.shape[1]):
        cells = [
            f"{number(load[hour])} / {number(room[hour])}"
            for load, room in zip(plan.program.load, capacity, strict=True)
        ]
        cells += [f"{plan.in_use[:, s, hour].sum():,.0f}" for s in used]
        summary.add_row(f"{hour:02}:00", *cells)
    return summary


def _one_more(marginals: Marginals) -> Any:
    """Marginal values of one device of each kind."""
    given = ("one more given:\ndual", "solved again")
    rented = ("one more to rent:\ndual", "solved again ")
    gains = table(
        f"gain in {marginals.unit}", "rent", "added", *given, *rented, numbers=("rent", "added", *given, *rented)
    )
    for one in marginals.supplies:
        rent = f"{one.rent:,.0f}" if math.isfinite(one.rent) else "-"
        gains.add_row(one.name, rent, f"{one.step}", *_marginal(one.given), *_marginal(one.available))
    return gains


def _marginal(one: Marginal | None) -> tuple[str, str]:
    """Cells of a dual and of what was solved again."""
    if one is None:
        return "-", "-"
    return f"{one.dual:,.0f}", _again(one)


def _again(one: Marginal) -> str:
    """What was solved again, with the error that the gaps allow."""
    if one.again is None:
        return "-"
    # Not a number: with this change the program has no solution.
    if math.isnan(one.again):
        return "not possible"
    # An error below one would not change a digit that is printed.
    return f"{one.again:,.0f}" + (f" ± {one.error:,.0f}" if one.error >= 1.0 else "")


def _lines(plan: FleetPlan) -> list[tuple[str, str]]:
    """The answer in sentences."""
    marginals, lines = plan.marginals, []
    if plan.goal == COST:
        # USD per 1,000 requests: cost of a year over its requests; loads are those of one day by hour.
        each = plan.cost / (plan.program.load.sum() * 3600.0 * YEAR / 86400.0) * 1000.0
        # Relative gap between the plan's cost and the lower bound that the solver proved.
        proof = max(plan.cost - plan.bound, 0.0) / plan.cost if plan.cost else 0.0
        sure = "no fleet costs less" if proof < 1e-6 else f"no fleet costs less than {plan.bound:,.0f}"
        lines.append(("cost", f"{plan.cost:,.0f} USD/year, {each:.3g} USD per 1,000 requests; {sure}"))
    else:
        why = "limits allow no fleet that serves everything"
        if plan.least_cost is not None:
            why = f"everything would cost {plan.least_cost:,.0f}"
        sure = f"no fleet serves more than {percent(plan.bound)}"
        # Where classes differ in value, shares of requests and shares of value differ too.
        if len({one.value for one in plan.question.classes}) > 1:
            requests = plan.program.requests
            weighted = (plan.served * requests).sum() / requests.sum()
            sure = f"{percent(weighted)} of their value, and no fleet more than {percent(plan.bound)}"
        lines.append(("serves", f"{percent(plan.share)} of the requests for {plan.cost:,.0f} USD/year; {sure}; {why}"))
        lines += [("", text) for text in _unserved(plan)]
    # Replicas that start: increases from hour to hour, with the day's last hour before its first.
    started = np.maximum(plan.replicas - np.roll(plan.replicas, 1, axis=1), 0.0).sum(axis=1)
    lines.append(("starts", f"{started.sum():,.0f} replicas a day, on {started @ plan.program.devices:,.0f} devices"))
    if plan.energy is not None:
        # Energy from J to MWh: 1 MWh is 3.6e9 J.
        energy = f"{plan.energy / 3.6e9:,.0f} MWh/year of devices in use; idle ones are not counted"
        lines.append(("energy", energy))
    if marginals is None:
        return lines
    # Duals are slopes of the linear program; whole replicas are solved again, as slopes ignore rounding.
    for name, one in marginals.classes.items():
        costs = f"costs {one.dual:,.0f} {marginals.unit}; in whole replicas {_again(one)}"
        lines.append(("more", f"{MORE_TEXT} more {name} {costs}"))
    if marginals.budget is not None:
        lines.append(("more", f"{MORE_TEXT} more budget serves {_again(marginals.budget)} {marginals.unit} more"))
    if marginals.power is not None:
        lines.append(("more", f"1 kW more power gains {marginals.power:,.0f} {marginals.unit}"))
    # The hours that decide most of the cost: at most four, each with more than 1 % of it.
    top = [int(hour) for hour in np.argsort(-marginals.hours, kind="stable")[:4] if marginals.hours[hour] > 0.01]
    if top and plan.goal == COST:
        words = ", ".join(f"{hour:02}:00 ({percent(marginals.hours[hour])})" for hour in top)
        lines.append(("hours", f"that set the cost: {words}"))
    lines.append(("solved", f"in {plan.seconds:.1f} s"))
    return lines


def _unserved(plan: FleetPlan) -> list[str]:
    """Classes of which a part is not served, and when."""
    texts = []
    for c, one in enumerate(plan.question.classes):
        load, served = plan.program.load[c], plan.served[c]
        # Shortfalls of less than 1e-6 are rounding of the solver.
        short = np.flatnonzero((served < 1.0 - 1e-6) & (load > 0.0))
        if len(short):
            # Weighted by the load of each hour: the share of the class's requests of the day.
            share = (load * served).sum() / load.sum()
            hours = ", ".join(f"{hour:02}" for hour in short)
            texts.append(f"{one.name}: {percent(share)}; not all of it in the hours {hours}")
    return texts


def _left_out(plan: FleetPlan) -> list[str]:
    """Accelerators without a price, and those that cannot serve a class, by reason."""
    reasons: dict[str, list[str]] = {}
    for name, reason in plan.question.left_out.items():
        reasons.setdefault(reason, []).append(name)
    for one, refused in plan.left_out.items():
        for name, reason in refused.items():
            reasons.setdefault(f"cannot serve {one}: {reason}", []).append(name)
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
