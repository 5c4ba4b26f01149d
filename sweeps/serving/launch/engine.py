"""An engine as it is started: its version, images and flags; and what of a row it has no flag for."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hwspaces import EngineEntry, formatted
from hwspaces.engines.launch import LaunchWords
from jaxroof.batch import ORDERS
from jaxroof.deployment import GROUPS
from jaxroof.deployment.acceptance import AcceptanceTable
from jaxroof.numerics.struct import given
from jaxroof.version import VERSION
from sweeps.ask.acceptances import acceptance_text
from sweeps.ask.layouts import label
from sweeps.data.labels import number
from sweeps.run.simulated.policies import policy_record
from sweeps.serving.launch.deployed import LaunchedPool

SIXTEEN_BITS = ("bf16", "fp16")

Flag = tuple[str, ...]
"""One flag and its value, or a flag alone."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LaunchedEngine:
    """How the flags of one engine follow from a pool; its names, version and words are those of `hwspaces/engines/`."""

    entry: EngineEntry
    flags: Callable[[LaunchedPool, LaunchWords], list[Flag]]  # ValueError in one line for what the engine cannot do
    # contents of the file of settings; empty where there is none
    config: Callable[[LaunchedPool, LaunchWords], dict[str, Any]] = lambda pool, words: {}
    # of a host's number, the first host's address, and if it leads
    hosts: Callable[[str, str, LaunchedPool, bool], list[Flag]] = lambda rank, address, pool, leads: []
    transfer: Callable[[LaunchedPool], list[Flag]] = lambda pool: []  # of a prefill or decode pool
    remarks: Callable[[LaunchedPool, LaunchWords], list[str]]  # what it does in another way than the row

    @property
    def title(self) -> str:
        """The engine's own name."""
        return self.entry.title

    @property
    def words(self) -> LaunchWords:
        """Its version, images, command and names of precisions."""
        return given(self.entry.launch, f"launch table of {self.entry.file}")


def switch(name: str, on: float) -> Flag:
    """A flag that has a `--no-` form."""
    return (f"--{'' if on else 'no-'}{name}",)


def notes(engine: LaunchedEngine, pool: LaunchedPool) -> list[str]:
    """What of a pool the engine's flags do not say, a line each."""
    lines = engine.remarks(pool, engine.words)
    if not pool.named:
        lines.append(f"no repository of {pool.repository} is known: put the path of its checkpoint there")
    if pool.longest > pool.context:
        why = f"{pool.repository} has {pool.positions} positions" if pool.context == pool.positions else "as asked for"
        lines.append(f"the longest request has {pool.longest} tokens; the engine takes {pool.context} at most: {why}")
    if pool.step_tokens > pool.token_budget:
        what = "prompts are not split, and the longest request must fit in a step"
        lines.append(f"tokens of a step are {pool.step_tokens}, not the row's {pool.token_budget}: {what}")
    policy = policy_record(pool.policy)
    for name in sorted(pool.changed - engine.words.said - {"acceptance"}):
        lines.append(f"{name} = {_text(policy[name])} has no flag in {engine.title}")
    for name, value in sorted(pool.rest.items()):
        lines.append(f"{name} = {_text(value)} has no flag here")
    right = pool.policy.acceptance
    if isinstance(right, AcceptanceTable):
        lines.append(f"predicted for drafted tokens that are right with probability {acceptance_text(right)}")
    elif right:
        chances = ", ".join(f"{float(each):g}" for each in (right if isinstance(right, tuple) else (right,)))
        lines.append(f"predicted for drafted tokens that are right with probability {chances}")
    return lines


def order_of(pool: LaunchedPool) -> str:
    """Which work goes first in a step, as a name of `jaxroof.batch.ORDERS`."""
    return ORDERS[int(pool.policy.order)]


def quantized(pool: LaunchedPool, methods: Mapping[str, str]) -> str | None:
    """The method by which an engine makes the row's weights of the checkpoint while it loads them; None: by none.

    Args:
      pool: what is started.
      methods: precision -> the engine's method, which takes 16-bit checkpoints.
    """
    return methods.get(pool.weights or "") if pool.checkpoint in SIXTEEN_BITS else None


def weights_notes(title: str, pool: LaunchedPool, methods: Mapping[str, str]) -> list[str]:
    """The note on weights that are neither the checkpoint's nor made of it by one of the `methods`."""
    if not pool.weights or pool.checkpoint.startswith(pool.weights) or quantized(pool, methods):
        return []
    what = f"weights of {pool.weights} ({title} does not make them of {pool.checkpoint})"
    return [f"{what}: put a checkpoint of that precision in place of {pool.repository}"]


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# Comment lines above launch flags: whose flags they are, the row, what it predicts, and what has no flag.


LATENCIES = ("ttft", "tpot", "e2e")
STATISTICS = ("", "_mean", "_p50", "_p90", "_p95", "_p99")


def header(title: str, row: Mapping[str, Any], made: tuple[LaunchedPool, ...], notes: Iterable[str]) -> str:
    """The lines, each of them a comment.

    Args:
      title: whose flags they are, and of which version.
      row: the row that is written.
      made: its pools.
      notes: what else has to be known, a line each.
    """
    lines = [f"jaxroof {VERSION}: {title}", f"row{_rank(row)}: {row['spec'].get('model')} on {_pools_text(made)}"]
    lines += [f"load: {text}"] if (text := _load_text(row)) else []
    lines += [f"predicted: {text}"] if (text := _predicted(row)) else []
    lines += [f"note: {note}" for note in dict.fromkeys(notes)]
    return "".join(f"# {' '.join(line.split())}\n" for line in lines)


def versions(engine: LaunchedEngine, version: str | None = None) -> str:
    """An engine with its version, and the file that declares its flags."""
    return f"{engine.title} {version or engine.words.version}, flags of {engine.words.source}"


def layout(pool: LaunchedPool) -> str:
    """Parallel degrees of a pool in short."""
    return label({"tp": pool.tp, GROUPS: pool.groups, "ep": pool.ep, "pp": pool.pp})


def _rank(row: Mapping[str, Any]) -> str:
    return f" {row['rank']}" if row.get("rank") is not None else ""


def _pools_text(made: tuple[LaunchedPool, ...]) -> str:
    texts = []
    for pool in made:
        count = f"{pool.replicas} replica{'s' * (pool.replicas > 1)} of {pool.devices} x {pool.hardware}"
        texts.append(f"{f'{pool.role}: ' if pool.role != 'serve' else ''}{count} as {layout(pool)}")
    return "; ".join(texts)


def _load_text(row: Mapping[str, Any]) -> str:
    spec, several, parts = row["spec"], row.get("replicas", 1) > 1, []
    if spec.get("trace") is not None:
        parts.append(f"trace {spec['trace']}")
    for name, words in (("isl", "prompts of {} tokens"), ("osl", "outputs of {} tokens")):
        parts += [words.format(spec[name])] if spec.get(name) is not None else []
    if isinstance(spec.get("rate"), float | int):
        # The rate of a row of pools is that of one replica that decodes.
        pools = row.get("prefill") is not None
        to = f" to both pools{' of each unit' * several}" if pools else " per replica" * several
        parts.append(f"{number(spec['rate'] * (row.get('decode_replicas', 1) if pools else 1))} requests/s{to}")
    for name in ("image", "images", "arrivals", "concurrency", "prefixes", "slo"):
        parts += [f"{name} {spec[name]}"] if spec.get(name) is not None else []
    return ", ".join(parts)


def _predicted(row: Mapping[str, Any]) -> str:
    parts = []
    for latency in LATENCIES:
        for statistic in STATISTICS:
            value = row.get(f"{latency}{statistic}")
            if isinstance(value, float | int):
                parts.append(f"{latency.upper()}{statistic.replace('_', ' ')} {formatted(value, 's')}")
    if isinstance(row.get("usd_per_million_tokens"), float | int):
        parts.append(f"{number(row['usd_per_million_tokens'])} USD per million tokens")
    return ", ".join(parts)
