"""A fleet as plain numbers for machines: SI units, but USD/year for costs."""

from typing import Any

from sweeps.studies.fleet.answer import YEAR, FleetPlan
from sweeps.studies.fleet.marginal import MORE, Marginal
from sweeps.studies.fleet.program import COST


def record(plan: FleetPlan) -> dict[str, Any]:
    """Everything that was found."""
    question, goal = plan.question, "least cost" if plan.goal == COST else "largest share"
    return {
        "goal": goal,
        "cost_usd_per_year": plan.cost,
        "bound": plan.bound,
        "least_cost_usd_per_year": plan.least_cost,
        # Budgets are USD/s inside; costs of a fleet are told per year.
        "budget_usd_per_year": None if question.budget is None else question.budget * YEAR,
        "served_share": plan.share,
        "headroom": question.headroom,
        "energy_J_per_year": plan.energy,
        "loads_by": plan.method,
        "seconds": round(plan.seconds, 3),
        "accelerators": [
            {
                "hardware": supply.name,
                "rented": int(plan.rented[s]),
                "owned": supply.owned,
                "available": supply.available,
                "usd_per_second": supply.price,
                "price_source": supply.price_source,
                "usd_per_year": plan.rent(s),
                # Devices that serve in each of the 24 hours, over all classes.
                "in_use": plan.in_use[:, s].sum(axis=0).tolist(),
            }
            for s, supply in enumerate(question.supplies)
        ],
        "classes": [
            {
                "name": one.name,
                "model": one.model,
                "slo": one.slo,
                "load": list(one.load),
                "served_share": plan.served[c].tolist(),
                "capacity": plan.capacity[c].sum(axis=0).tolist(),
                "replicas": [
                    {
                        "hardware": option.hardware,
                        "devices": option.devices,
                        "layout": option.layout,
                        "requests_per_second": option.requests_per_second,
                        "replicas": plan.replicas[o].astype(int).tolist(),
                        "share_of_requests": float(plan.shares[o]),
                        "spec": dict(option.spec),
                    }
                    for o, option in enumerate(plan.options)
                    # Options of this class that have a replica in at least one hour.
                    if plan.program.of_class[o] == c and plan.replicas[o].any()
                ],
                "left_out": dict(plan.left_out.get(one.name, {})),
            }
            for c, one in enumerate(question.classes)
        ],
        "left_out": dict(question.left_out),
        "notes": [note for supply in question.supplies for note in supply.notes],
        "marginal": _marginals(plan),
    }


def _marginals(plan: FleetPlan) -> dict[str, Any] | None:
    marginals = plan.marginals
    if marginals is None:
        return None
    return {
        "unit": marginals.unit,
        "one_more_device": [
            {
                "hardware": one.name,
                "rent_usd_per_year": one.rent,
                "devices_added": one.step,
                "given": _marginal(one.given),
                "available": None if one.available is None else _marginal(one.available),
            }
            for one in marginals.supplies
        ],
        "more_traffic": {"share": MORE, **{name: _marginal(one) for name, one in marginals.classes.items()}},
        "more_budget": None if marginals.budget is None else {"share": MORE, **_marginal(marginals.budget)},
        "one_more_kW": marginals.power,
        # 24 numbers that add up to 1, or are all 0 where no hour limits.
        "share_of_hours": marginals.hours.tolist(),
    }


def _marginal(one: Marginal) -> dict[str, float | None]:
    return {"dual": float(one.dual), "solved_again": one.again, "within": one.error}
