"""An engine as it is started: its version, images and flags; and what of a row it has no flag for."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxroof.batch import ORDERS
from sweeps.run.simulated.policies import policy_record
from sweeps.serving.launch.deployed import Pool

SIXTEEN_BITS = ("bf16", "fp16")

Flag = tuple[str, ...]
"""One flag and its value, or a flag alone."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Engine:
    """One engine of one version."""

    title: str
    version: str
    source: str  # file that declares the flags
    images: Mapping[str, str]  # vendor -> container image of this version
    command: tuple[str, ...]  # what starts it
    model: tuple[str, ...]  # words before the model
    flags: Callable[[Pool], list[Flag]]  # ValueError in one line for what the engine cannot do
    config: Callable[[Pool], dict[str, Any]]  # contents of the file of settings; empty where there is none
    hosts: Callable[[str, str, Pool, bool], list[Flag]]  # of a host's number, the first host's address, and if it leads
    transfer: Callable[[Pool], list[Flag]]  # of a prefill or decode pool
    said: frozenset[str]  # fields of the policy that its flags say
    remarks: Callable[[Pool], list[str]]  # what it does in another way than the row


def switch(name: str, on: float) -> Flag:
    """A flag that has a `--no-` form."""
    return (f"--{'' if on else 'no-'}{name}",)


def notes(engine: Engine, pool: Pool) -> list[str]:
    """What of a pool the engine's flags do not say, a line each."""
    found = engine.remarks(pool)
    if not pool.named:
        found.append(f"no repository of {pool.repository} is known: put the path of its checkpoint there")
    if pool.longest > pool.context:
        why = f"{pool.repository} has {pool.positions} positions" if pool.context == pool.positions else "as asked for"
        found.append(f"the longest request has {pool.longest} tokens; the engine takes {pool.context} at most: {why}")
    if pool.step_tokens > pool.token_budget:
        what = "prompts are not split, and the longest request must fit in a step"
        found.append(f"tokens of a step are {pool.step_tokens}, not the row's {pool.token_budget}: {what}")
    policy = policy_record(pool.policy)
    for name in sorted(pool.changed - engine.said - {"acceptance"}):
        found.append(f"{name} = {_text(policy[name])} has no flag in {engine.title}")
    for name, value in sorted(pool.rest.items()):
        found.append(f"{name} = {_text(value)} has no flag here")
    if float(pool.policy.acceptance):
        found.append(f"predicted for drafted tokens that are right with probability {float(pool.policy.acceptance):g}")
    return found


def order_of(pool: Pool) -> str:
    """Which work goes first in a step, as a name of `jaxroof.batch.ORDERS`."""
    return ORDERS[int(pool.policy.order)]


def quantized(pool: Pool, methods: Mapping[str, str]) -> str | None:
    """The method by which an engine makes the row's weights of the checkpoint while it loads them; None: by none.

    Args:
      pool: what is started.
      methods: precision -> the engine's method, which takes 16-bit checkpoints.
    """
    return methods.get(pool.weights or "") if pool.checkpoint in SIXTEEN_BITS else None


def weights_notes(title: str, pool: Pool, methods: Mapping[str, str]) -> list[str]:
    """The note on weights that are neither the checkpoint's nor made of it by one of the `methods`."""
    if not pool.weights or pool.checkpoint.startswith(pool.weights) or quantized(pool, methods):
        return []
    what = f"weights of {pool.weights} ({title} does not make them of {pool.checkpoint})"
    return [f"{what}: put a checkpoint of that precision in place of {pool.repository}"]


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
