"""Question of a served comparison: what is asked, checked, and everything that is to be combined."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any

import hwspaces
import workloads
from hwspaces.accelerators.prices import server_devices
from jaxroof.hardware import Hardware
from jaxroof.jobs import Scenario
from sweeps.ask.cases import cache_precision, model_deployment, under, with_number
from sweeps.ask.deployments import PREFIX, require_drafts, with_draft, with_settings
from sweeps.ask.effects import Facts, given_paths, require_effect
from sweeps.ask.engines import chosen, unsupported, with_host
from sweeps.ask.layouts import possible, powers_of_two
from sweeps.ask.precisions import compute_precisions, device_notes, lacking_cache, lacking_precisions
from sweeps.ask.words import CaseWords
from sweeps.data.labels import number
from sweeps.run.simulated.classes import target_of
from sweeps.run.simulated.load import require_prefix_cache
from sweeps.run.simulated.objective import Target
from sweeps.run.simulated.policies import chosen_policy, policy_values, profiled, require_priced
from sweeps.studies.compare.candidates import Options, Setting, accelerators, layouts_of
from sweeps.studies.compare.estimate import Limit, limits_of
from sweeps.studies.compare.ranking import MAX_DEVICES
from sweeps.studies.compare.requests import ServedRequests
from sweeps.studies.compare.words import AskedComparison

TOKEN_BUDGETS = (2048, 8192)
"""Tokens of one step that are tried where the engine splits prompts and nothing is said."""


@dataclasses.dataclass(frozen=True, eq=False)
class ServedQuestion:
    """A question whose parts are known to fit together."""

    options: Options
    every_accelerator: bool  # of the catalogue that is rented out: none is named
    requests: ServedRequests
    target: Target
    slo: str | Mapping[str, Any] | None  # as given
    engine: str
    efficiency: hwspaces.EfficiencyEntry
    weights: str | None
    draft: str | None
    settings: Mapping[str, Any]  # numbers by dotted path, as given
    prices: str | None  # as given
    lacking: Mapping[str, str]  # accelerators that cannot run the model -> why
    refused: Mapping[str, str]  # layouts that the model does not allow -> the broken rule

    @functools.cached_property
    def limits(self) -> list[Limit]:
        """Limits of the target, as a steady state knows them."""
        return limits_of(self.target)

    @property
    def model(self) -> workloads.ModelEntry:
        """The model that is served."""
        return self.options.model

    @property
    def notes(self) -> tuple[str, ...]:
        """What the model's reader wants said aloud, and what accelerators run weight-only."""
        of_devices = (device_notes(device, self.model.model) for device in self.options.devices)
        return (*self.model.notes, *(note for notes in of_devices for note in notes))


def question(asked: AskedComparison, weights: str | None = None) -> ServedQuestion:
    """The question that these words ask at one precision of the weights.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    # Requests and target first: they have errors of their own, and do not depend on accelerators.
    requests = ServedRequests(asked.load, asked.model)
    target = target_of(asked.slo, asked.share, requests.classes if asked.load.get("traffic") is not None else ())
    given, policy = dict(asked.overrides or {}), asked.policy or {}
    of = chosen(asked.engine, asked.efficiency)
    constants = of.constants
    entry = with_draft(workloads.model(asked.model, weights=weights), asked.draft)
    spread = under(given, "deployment")
    # Numbers of the model and of the constants apply to every point; those of hardware and deployment later.
    entry, constants = _with_numbers(entry, constants, given)

    # What is tried beside accelerators and layouts.
    caches = [None] if asked.kv is None else list(dict.fromkeys(asked.kv))
    drafted = [None] if asked.drafts is None else list(dict.fromkeys(asked.drafts))
    tried = dict(policy)
    base = chosen_policy(of.engine.words, {})
    if "token_budget" not in tried:
        # An engine that does not split prompts needs a step with room for the longest request.
        budget = max(float(base.token_budget), requests.longest)
        tried["token_budget"] = [*TOKEN_BUDGETS] if base.chunked else [budget]
    policies = [
        dict(zip(tried, values, strict=True))
        for values in itertools.product(*(_several(value) for value in tried.values()))
    ]
    choices = []
    # One setting for every combination; its text names what differs between settings alone.
    for cache, count, changes in itertools.product(caches, drafted, policies):
        beside = {} if count in (None, 0) else {"drafts": count}
        words = [f"kv {cache}"] * (len(caches) > 1) + [f"drafts {count}"] * (len(drafted) > 1)
        words += [
            f"{name} {number(float(value)) if _is_number(value) else value}"
            for name, value in changes.items()
            if len(_several(tried[name])) > 1
        ]
        scheduler = chosen_policy(of.engine.words, changes)
        require_prefix_cache(asked.load.get("hit_rate"), scheduler)
        choices.append(Setting(", ".join(words), cache, beside, changes, scheduler))

    # Accelerators that can run it, and layouts that the model allows.
    plain = model_deployment(entry, caches[0], engine=of.engine)
    needed = compute_precisions((entry.model, with_settings(plain, spread)))
    tried_devices, lacking = accelerators(asked.hardware, given, asked.prices)
    candidates = list(tried_devices.values())
    if not candidates:
        raise ValueError("hardware is empty; give at least one name")
    runnable = []
    for device in candidates:
        # The first reason is told: arithmetic, then the engine's support, then the cache, then its longer steps.
        missing = lacking_precisions(device.hardware, entry.model, with_settings(plain, spread))
        why = f"no matrix peak for {' and '.join(missing)}" if missing else unsupported(of.engine, device.vendor)
        units = [lacking_cache(device.hardware, cache_precision(entry, cache, of.engine)) for cache in caches]
        if not why and all(units):
            why = f"no {units[0]} figure for its KV cache"
        if not why and of.engine.longer_step(device.vendor, device.hardware.matrix):
            why = f"steps of {of.engine.words} take longer on it, which `serve` prices and a comparison does not"
        if why:
            lacking[device.name] = why
        else:
            runnable.append(device)
    most = MAX_DEVICES if asked.max_devices is None else asked.max_devices
    counts = powers_of_two(most) if asked.devices is None else list(dict.fromkeys(asked.devices))
    ways = layouts_of(counts, entry.model)
    # Rules of the model do not depend on the accelerator: any one's hardware checks them.
    allowed, refused = possible(ways, candidates[0].hardware, entry.model, with_settings(plain, spread))
    # Drafting has rules of its own, which may leave no layout.
    for beside in (choice.deployment for choice in choices if choice.deployment):
        drafting, rules = possible(
            allowed, candidates[0].hardware, entry.model, with_settings(plain, {**spread, **beside})
        )
        if allowed and not drafting:
            raise ValueError(f"{entry.name}: {next(iter(rules.values()))}")
    if not any(drafted):
        require_drafts(asked.draft, plain)
    one = {name: 1 for layout in allowed for name in layout}  # so that all deployments have one structure
    options = Options(
        model=entry,
        # No vendor is named: accelerators with longer steps have been left out above.
        efficiency=with_host(of, constants.efficiency, None, candidates[0].hardware, entry.model, plain),
        devices=runnable,
        layouts=allowed,
        settings=choices,
        deployments=[
            [
                profiled(
                    with_settings(
                        model_deployment(entry, choice.kv, engine=of.engine),
                        {**one, **spread, **choice.deployment, **layout},
                    ),
                    choice.changes,
                )
                for layout in allowed
            ]
            for choice in choices
        ],
        precisions=frozenset(needed),
        servers=[server_devices(device.name, asked.node) for device in runnable],
    )
    # Layouts differ in degrees alone, so that the first of every setting tells whether it can be priced.
    for deployments in options.deployments:
        for deployment in deployments[:1]:
            require_priced(entry.name, entry.model, deployment)
    # A setting without effect on any deployment or policy is refused, as a likely mistake.
    place = CaseWords(hardware="-", model=asked.model, kv=caches[0], overrides=given)
    require_effect(given_paths(place, policy=policy), _facts(options, candidates[0].hardware))
    return ServedQuestion(
        options=options,
        every_accelerator=asked.hardware is None,
        requests=requests,
        target=target,
        slo=asked.slo,
        engine=of.engine.words,
        efficiency=constants,
        weights=weights,
        draft=asked.draft,
        settings=given,
        prices=asked.prices,
        lacking=lacking,
        refused=refused,
    )


def _with_numbers(
    entry: workloads.ModelEntry, constants: hwspaces.EfficiencyEntry, given: Mapping[str, Any]
) -> tuple[workloads.ModelEntry, hwspaces.EfficiencyEntry]:
    """The model and the efficiency with the numbers of theirs that are set."""
    nowhere: Any = None  # whose numbers are set elsewhere
    parts = Scenario(
        hardware=nowhere, model=entry.model, deployment=nowhere, workload=None, efficiency=constants.efficiency
    )
    for path, value in given.items():
        if not path.startswith((PREFIX, "hardware.")):
            parts = with_number(parts, path, value)
    return dataclasses.replace(entry, model=parts.model), dataclasses.replace(constants, efficiency=parts.efficiency)


def _facts(options: Options, hardware: Hardware) -> Facts:
    """Every deployment and policy that is tried."""
    # One accelerator stands for all: effects are looked for in deployments and policies.
    scenarios = tuple(
        Scenario(
            hardware=hardware,
            model=options.model.model,
            deployment=deployment,
            workload=None,
            efficiency=options.efficiency,
        )
        for deployments in options.deployments
        for deployment in deployments
    )
    columns: dict[str, tuple[Any, ...]] = {}
    for choice in options.settings:
        for path, values in policy_values(choice.policy).items():
            # All values of a policy's number over the settings.
            columns[path] = (*columns.get(path, ()), *values)
    return Facts(scenarios, columns)


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
