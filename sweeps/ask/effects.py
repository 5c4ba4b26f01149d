"""Settings that have an effect only beside others, and the refusal of those that are given without one."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from jaxroof.deployment import axes
from jaxroof.jobs import Scenario
from jaxroof.jobs.colocated import SHARINGS
from jaxroof.layers.registry import mixer_kind
from jaxroof.model import Block, Experts, Model
from sweeps.ask.axes import Axis, Choice, leaf
from sweeps.ask.keys import words
from sweeps.ask.leaves import known_leaf, plain_path
from sweeps.ask.words import CaseWords

SEVERAL = axes("replica")
"""Degrees by which the devices of one replica work together."""

COPIES = axes("copies")[::-1]
"""Degrees by which devices hold copies of the weights."""

EXCHANGED = axes("tokens")[::-1]
"""Degrees by which devices work on tokens of their own."""


def _any_above_one(names: tuple[str, ...]) -> str:
    """Words for one of some degrees being above 1: "tp, cp or pp above 1"."""
    return f"{', '.join(names[:-1])} or {names[-1]} above 1"


@dataclasses.dataclass(frozen=True)
class Facts:
    """Models and values of every leaf over which a question takes its answers."""

    scenarios: tuple[Scenario, ...]  # the base, and one with every whole struct that an axis puts in its place
    columns: Mapping[str, tuple[Any, ...]]  # leaf -> values along an axis, or given beside the scenarios

    @property
    def models(self) -> tuple[Model, ...]:
        """Every model, neighbours too."""
        tenants = (scenario.neighbour for scenario in self.scenarios if scenario.neighbour is not None)
        return (*(scenario.model for scenario in self.scenarios), *(tenant.model for tenant in tenants))

    def values(self, path: str) -> list[Any]:
        """Every value of the leaf at `path`, of both pools and of a neighbour; those that are unknown left out."""
        # Axes and values that no scenario holds come first; paths are compared without the pool or neighbour they are
        # of.
        leaf_values = [value for key, values in self.columns.items() if plain_path(key) == path for value in values]
        for scenario in self.scenarios:
            for place in _places(scenario):
                with contextlib.suppress(ValueError):  # a workload of another kind has no such leaf
                    leaf_values.append(leaf(place, path))
        return [value for value in leaf_values if value is not None]

    def above(self, path: str, least: float) -> bool:
        """Whether the leaf at `path` is above `least` anywhere; words of a distribution are."""
        return any(isinstance(value, str) or np.max(value) > least for value in self.values(path))

    def several(self, *names: str) -> bool:
        """Whether any of these degrees of the deployment is above 1 anywhere."""
        return any(self.above(f"deployment.{name}", 1.0) for name in names)

    def blocks(self, kind: Callable[[Block], bool]) -> bool:
        """Whether any layer of any model is of a kind."""
        return any(kind(block) for model in self.models for block in _blocks(model))


@dataclasses.dataclass(frozen=True)
class Need:
    """Condition under which a setting changes anything."""

    met: Callable[[Facts], bool]
    words: str


def _routed(facts: Facts) -> bool:
    return facts.blocks(lambda block: isinstance(block.feedforward, Experts))


def _cached(facts: Facts) -> bool:
    return facts.blocks(
        # Recurrent mixers keep a state of fixed size; cross attention caches the encoder's keys and values.
        lambda block: block.cross is not None or not (block.attention is None or mixer_kind(block.attention).recurrent)
    )


def _copied(facts: Facts) -> bool:
    return facts.several(*COPIES)


_COPIES = f"several copies of the weights: {_any_above_one(COPIES)}"
_EXCHANGED = Need(
    lambda facts: _routed(facts) and facts.several(*EXCHANGED),
    f"a model with experts, and {_any_above_one(EXCHANGED)}, so that tokens are exchanged",
)
_CACHE = Need(_cached, "a model that caches keys and values")
_OFFLOADED = Need(
    lambda facts: facts.above("deployment.offloaded", 0.0),
    "deployment.offloaded above 0, so that a part of the cache is outside the device",
)
NEEDS: dict[str, Need] = {
    # Exchange of tokens between devices that hold different experts.
    "deployment.exchange": _EXCHANGED,
    "deployment.dispatch_bytes": _EXCHANGED,
    "deployment.imbalance": Need(
        lambda facts: _routed(facts) and facts.several("ep", *EXCHANGED),
        f"a model with experts, and {_any_above_one(('ep', *EXCHANGED))}, so that devices differ in rows",
    ),
    "deployment.redundant_experts": Need(_routed, "a model with experts"),
    "deployment.alike": Need(_routed, "a model with experts"),
    "deployment.popularity": Need(_routed, "a model with experts"),
    "deployment.context_kind": Need(lambda facts: facts.several("cp"), "cp above 1"),
    "deployment.sequence_parallel": Need(lambda facts: facts.several("tp"), "tp above 1"),
    "deployment.overlap": Need(
        lambda facts: facts.several(*SEVERAL),
        f"communication to hide: {_any_above_one(SEVERAL)}",
    ),
    "deployment.reserved_cores": Need(
        lambda facts: "two_batch" in facts.values("deployment.overlap"), "deployment.overlap = two_batch"
    ),
    "deployment.communication_bytes": Need(
        lambda facts: facts.several(*SEVERAL, "dp"),
        f"several devices: {_any_above_one((*SEVERAL, 'dp'))}",
    ),
    "deployment.kv_bytes": _CACHE,
    "deployment.block_tokens": _CACHE,
    "deployment.state_bytes": Need(
        lambda facts: facts.blocks(lambda block: block.attention is not None and mixer_kind(block.attention).recurrent),
        "a model with linear attention",
    ),
    "deployment.offload_to": _OFFLOADED,
    "deployment.prefetched": _OFFLOADED,
    "deployment.score_kernels": Need(
        lambda facts: "unfused" in facts.values("deployment.attention_kernel"),
        "deployment.attention_kernel = unfused",
    ),
    # Speculative decoding: a fixed workload has its acceptance, a simulated engine has it in its policy.
    **dict.fromkeys(
        (
            "workload.acceptance",
            "policy.acceptance",
            "policy.draft_limit",
            "policy.draft_lengths",
            "deployment.drafter",
        ),
        Need(lambda facts: facts.above("deployment.drafts", 0.0), "deployment.drafts: tokens drafted per step"),
    ),
    **dict.fromkeys(
        ("deployment.match", "deployment.lookup_time"),
        Need(lambda facts: "ngram" in facts.values("deployment.drafter"), "deployment.drafter = ngram"),
    ),
    # A sharing is stored as its place in SHARINGS.
    "workload.cores": Need(
        lambda facts: float(SHARINGS.index("space")) in facts.values("workload.sharing"),
        "workload.sharing = space",
    ),
    # Training: ZeRO shards state over copies of the weights (Rajbhandari et al., arXiv:1910.02054).
    "workload.zero": Need(_copied, _COPIES),
    "workload.overlap": Need(_copied, _COPIES),
    "workload.host_bandwidth": Need(lambda facts: facts.above("workload.offload", 0.0), "workload.offload above 0"),
    "policy.swap_time": Need(lambda facts: facts.above("policy.swap", 0.0), "policy.swap = 1"),
    "policy.graph_limit": Need(lambda facts: facts.above("policy.graph_step", 0.0), "policy.graph_step above 0"),
    "policy.decode_sequences": Need(
        lambda facts: any(scenario.prefill is not None for scenario in facts.scenarios), "a pool for prompts"
    ),
}
"""Leaf -> what it needs; its default asks for nothing. Splits that cannot be at all are rules of
`jaxroof.memory.legality`."""


def facts(base: Scenario, axes: Iterable[Axis] = (), beside: Mapping[str, tuple[Any, ...]] | None = None) -> Facts:
    """Models and values of every leaf at the points along `axes` from `base`.

    Args:
      beside: leaf -> its values, of leaves that scenarios do not have.
    """
    # Columns of numbers give values of their leaf, models and deployments a scenario each. Devices and constants are
    # left out: no need in NEEDS depends on them.
    scenarios, columns = [base], dict(beside or {})
    for axis in axes:
        for path, column in axis.columns.items():
            if not isinstance(column, Choice):
                columns[path] = tuple(np.unique(column).tolist())
            elif path in ("model", "deployment"):
                scenarios += [dataclasses.replace(base, **{path: item}) for item in column.items]
            elif "." in path:
                columns[path] = tuple(column.items)
    return Facts(tuple(scenarios), columns)


def require_effect(given: Iterable[str], facts: Facts) -> None:
    """ValueError, one line, for a setting that was given, asks for something, and changes nothing anywhere.

    Args:
      given: leaves that the user set, by dotted path; a value that asks for nothing is never refused.
      facts: of the whole question: a setting has to have an effect somewhere, not at every point.
    """
    for path in dict.fromkeys(given):
        plain = plain_path(path)
        need = NEEDS.get(plain)
        if need is None or need.met(facts):
            continue
        declared = known_leaf(plain)
        # A leaf at its default asks for nothing, even where its need is not met.
        non_default = [value for value in facts.values(plain) if value != declared.default]
        if non_default:
            raise ValueError(f"{path} = {_text(non_default[0])} has no effect here: it needs {need.words}")


def given_paths(
    asked: CaseWords,
    workload: Iterable[str] = (),
    *,
    policy: Iterable[str] = (),
    prefill: Iterable[str] = (),
    neighbour: Iterable[str] = (),
) -> tuple[str, ...]:
    """Leaves that a user set, by dotted path, from the names of settings as `sweeps.ask.cases.case` takes them."""
    return (
        *(f"deployment.{name}" for name in asked.deployment),
        *(f"workload.{name}" for name in workload),
        *asked.overrides,
        *(f"policy.{name}" for name in policy),
        *(one.leaf for name, one in words(CaseWords).items() if one.leaf and getattr(asked, name)),
        *(f"prefill.deployment.{name}" for name in prefill),
        *(f"neighbour.deployment.{name}" for name in neighbour),
    )


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def _places(scenario: Scenario) -> tuple[Any, ...]:
    """The scenario, and where else its leaves may be: its prefill pool and its neighbour."""
    # A pool or a neighbour adds values of its deployment only, under the same root.
    others = [part for part in (scenario.prefill, scenario.neighbour) if part is not None]
    return scenario, *({"deployment": part.deployment} for part in others)


def _blocks(model: Model) -> tuple[Block, ...]:
    """Layers of a model, of its prediction head and of what drafts for it."""
    # A prediction head and a draft model have layers of their own, which may meet a need.
    own = model.blocks if model.prediction is None else (*model.blocks, model.prediction.block)
    return own if model.draft is None else (*own, *_blocks(model.draft))
