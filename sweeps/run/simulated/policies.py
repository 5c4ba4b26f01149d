"""An engine's policy with a user's changes, every value checked."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hwspaces import formatted
from hwspaces.quantities.leaves import declared_quantity
from hwspaces.quantities.units import nearest
from jaxroof.batch import ORDERS, Policy, draft_steps
from jaxroof.deployment import Deployment, drafted_tokens, replica_devices, request_groups
from jaxroof.deployment.acceptance import AcceptanceTable
from jaxroof.hardware import Hardware
from jaxroof.memory.capacity import kv_capacity_tokens, weight_bytes
from jaxroof.model import Model
from jaxroof.numerics.struct import Declaration, declarations
from jaxroof.prices.tables import MOST_DRAFTED
from sweeps.ask.acceptances import acceptance, acceptance_record, acceptance_text, is_table
from sweeps.ask.engines import policy as engine_policy
from sweeps.data.labels import number

DECLARED = declarations(Policy)
FIELDS = tuple(DECLARED)

LENGTHS = "1:5,16:3,64:0"
"""What lengths of drafts look like where a user writes them."""

SHOWN = 8
"""Positions of which a text says the acceptance."""


def chosen_policy(engine: str, values: Mapping[str, Any]) -> Policy:
    """The policy of `engine` with `values` in place of its own.

    Args:
      engine: as `hwspaces.engines.engine` takes it: "vllm", "vllm@0.24".
      values: fields of `Policy` by name, as numbers or text: order and queue by their names, switches 0 or 1.

    Raises:
      ValueError: one line that names the field, its value and what is allowed.
    """
    for name in values:
        if name not in FIELDS:
            raise ValueError(f"there is no policy.{name}{nearest(name, FIELDS)}")
    found = engine_policy(engine, **{name: policy_value(name, value) for name, value in values.items()})
    if found.swap and not found.swap_time:
        raise ValueError(
            "policy.swap = 1 needs policy.swap_time: s to move one token's cache to or from host memory, which is its "
            "bytes over the bandwidth of the host's link; no hardware file has that"
        )
    return found


OF_BOTH_POOLS = (
    "block_size", "front_time", "first_time", "ahead_steps", "wait_steps", "poll_steps",
    "acceptance", "draft_limit", "draft_lengths",
)  # fmt: skip
"""What is no pool's own: blocks that are handed over, what comes before the queue, and drafts, which prompts have none
of."""


def prefill_policy(engine: str, policy: Mapping[str, Any], own: Mapping[str, Any]) -> Policy:
    """The policy of a pool for prompts: that of the pool that decodes, with values of its own.

    Args:
      engine: as of `chosen_policy`.
      policy: values of the pool that decodes.
      own: values of the pool for prompts.

    Raises:
      ValueError: one line that names the field, its value and what is allowed.
    """
    for name in own:
        if name in OF_BOTH_POOLS:
            raise ValueError(f"prefill_policy.{name} is no number of the pool for prompts: give it as policy.{name}")
    try:
        return chosen_policy(engine, {**policy, **own})
    except ValueError as error:
        raise ValueError(f"prefill_policy: {error}") from None


def profiled(deployment: Deployment, changes: Mapping[str, Any]) -> Deployment:
    """The deployment whose engine profiles as many sequences as its policy lets run, where a user says how many.

    Raises:
      ValueError: as `policy_value`.
    """
    if deployment.sampled_rows is not None or changes.get("max_sequences") is None:
        return deployment
    most = float(number_along("max_sequences", changes["max_sequences"]))
    if not math.isfinite(most):
        return deployment
    return dataclasses.replace(deployment, sampled_rows=np.ceil(most / request_groups(deployment)))


def policy_value(name: str, value: Any) -> Any:
    """The value of the policy's field `name`: its order as an index into `ORDERS`; acceptance by position as several.

    Acceptance may be a table, too.

    Raises:
      ValueError: one line that names the field, its value and what is allowed.
    """
    declared, where = DECLARED[name], f"policy.{name}"
    words = declared.codes or declared.choices
    if name == "draft_lengths":
        return _draft_lengths(value, where)
    if words:
        if value not in words:
            raise ValueError(f"{where} = {value!r} must be {', '.join(words[:-1])} or {words[-1]}")
        return float(words.index(value)) if declared.codes else value
    if declared.unit != "1":
        return declared_quantity(value, declared, where)
    if name == "acceptance" and (not isinstance(value, str) or "," in value or is_table(value)):
        return acceptance(value, where)
    found = _number(value)
    endless = found == math.inf == declared.most
    if not endless and not (declared.zero and found == 0.0) and not declared.allows(found):
        raise ValueError(f"{where} = {value!r} must be {_range(declared)}")
    if declared.whole and not endless and found != math.floor(found):
        raise ValueError(f"{where} = {value!r} must be {_range(declared)}")
    return found


def _draft_lengths(value: Any, where: str) -> str | None:
    """Sequences from which on so many tokens are drafted, as text such as 1:5,16:3,64:0, checked."""
    if value is None:
        return None
    pairs = [each.strip().split(":") for each in str(value).split(",")]
    if not all(len(pair) == 2 and all(one.strip().isdecimal() and len(one) < 10 for one in pair) for pair in pairs):
        raise ValueError(f"{where} = {value!r} must be SEQUENCES:TOKENS,.. in whole numbers, such as {LENGTHS}")
    starts = [int(start) for start, _ in pairs]
    if starts != sorted(set(starts)) or starts[0] != 1:
        raise ValueError(f"{where} = {value!r}: sequences must begin at 1 and increase, such as {LENGTHS}")
    return ",".join(f"{int(start)}:{int(tokens)}" for start, tokens in pairs)


def _range(declared: Declaration) -> str:
    """What a number of a policy may be, in words."""
    if declared.whole:
        above = "" if math.isinf(declared.most) else f" to {declared.most:.0f}"
        return f"a whole number of at least {0 if declared.zero else 1}{above}"
    return declared.words or f"a share {declared.range}"


def number_along(name: str, value: Any) -> float | str:
    """As `policy_value`, along an axis: one number, not several.

    Raises:
      ValueError: as `policy_value`, and for several.
    """
    found = policy_value(name, value)
    if isinstance(found, AcceptanceTable | tuple):
        raise ValueError(f"policy.{name} = {value!r} cannot be on an axis: by position it is the same at all points")
    return found


def policy_values(policy: Policy) -> dict[str, tuple[Any, ...]]:
    """Every number of a policy by its leaf's path, as `sweeps.ask.effects` takes values."""
    values = {f"policy.{name}": getattr(policy, name) for name in FIELDS}
    return {path: value if isinstance(value, tuple) else (value,) for path, value in values.items()}


def policy_text(policy: Policy) -> str:
    """A policy in words: "mixed, fcfs, token_budget 8,192, ..."; what it does not do is left out."""
    parts = [ORDERS[int(policy.order)], policy.queue]
    for name in FIELDS:
        value = getattr(policy, name)
        if isinstance(value, AcceptanceTable):
            parts.append(f"{name} {acceptance_text(value)}")
        elif name == "draft_lengths":
            parts += [] if value is None else [f"{name} {value}"]
        elif isinstance(value, tuple):
            shown = ", ".join(number(each, 4) for each in value[:SHOWN])
            parts.append(f"{name} {shown}{', ...' if len(value) > SHOWN else ''}")
        elif DECLARED[name].discrete:
            parts += [name.replace("_", " ")] if value else []
        elif name == "swap_time":
            parts += [f"{formatted(value, 's')} per swapped token"] if value else []
        elif name == "poll_steps":
            parts += [f"poll_steps {number(value)}"] if value > 1.0 else []
        elif name == "graph_limit":
            parts += [f"graph_limit {number(value)}"] if policy.graph_step else []
        elif name not in ("order", "queue") and value and math.isfinite(value):
            parts.append(f"{name} {number(value, 4)}")
    return ", ".join(parts)


def policy_record(policy: Policy) -> dict[str, Any]:
    """A policy as plain data: order by its name, what is not limited as None."""
    values = {name: getattr(policy, name) for name in FIELDS}
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, AcceptanceTable):
            found[name] = acceptance_record(value)
        elif name != "draft_lengths" or value is not None:
            plain = list(value) if isinstance(value, tuple) else value
            found[name] = plain if not isinstance(plain, float) or math.isfinite(plain) else None
    return found | {"order": ORDERS[int(policy.order)]}


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


# Refusals of what cannot be simulated: models and deployments without a price, and requests without room.


def require_priced(name: str, model: Model, deployment: Deployment) -> None:
    """ValueError, one line, for what the scheduler does not price of the model of that name."""
    if not model.generates:
        raise ValueError(f"{name} is an encoder and generates nothing: `jaxroof request` times its batches")
    if any(block.cross is not None for block in model.blocks):
        raise ValueError(f"{name} attends to an encoder's output, which the scheduler does not price")
    if drafted_tokens(deployment) > MOST_DRAFTED:
        raise ValueError(
            f"deployment.drafts = {deployment.drafts:g}: the scheduler prices at most {MOST_DRAFTED} drafted tokens "
            "per sequence and step"
        )


def require_lengths(policy: Policy, deployment: Deployment) -> None:
    """ValueError, one line, for a policy that drafts more tokens than the deployment has room for."""
    most = max((tokens for _, tokens in draft_steps(policy)), default=0.0)
    if deployment.drafts is not None and most > deployment.drafts:
        raise ValueError(
            f"policy.draft_lengths = {policy.draft_lengths!r} drafts {most:g} tokens: more than deployment.drafts = "
            f"{deployment.drafts:g}"
        )


def require_room(
    name: str, device: str, hardware: Hardware, model: Model, deployment: Deployment, tokens: float
) -> None:
    """ValueError, one line, where the KV cache of an attention group cannot hold a sequence of `tokens` tokens.

    A scheduler refuses such requests one by one, so that nothing is answered and latencies have no value.

    Args:
      name, device: of model and hardware, for the message.
    """
    room = float(kv_capacity_tokens(hardware, model, deployment))
    if room < 1.0:
        raise ValueError(no_cache(name, device, hardware, model, deployment))
    if room < tokens:
        raise ValueError(
            f"{name} on {float(replica_devices(deployment)):g} x {device}: the KV cache of {room:.0f} tokens beside "
            f"the weights does not hold one sequence of {tokens:g} tokens"
        )


def no_cache(name: str, device: str, hardware: Hardware, model: Model, deployment: Deployment) -> str:
    """The sentence for a deployment whose weights leave no KV cache."""
    weights = formatted(float(weight_bytes(model, deployment)), "B")
    return (
        f"{name} does not fit on {float(replica_devices(deployment)):g} x {device}: weights of {weights} per device "
        f"leave no KV cache in {formatted(float(hardware.memory.hbm.capacity), 'B')}"
    )
