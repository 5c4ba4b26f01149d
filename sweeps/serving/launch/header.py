"""Comment lines above launch flags: whose flags they are, the row, what it predicts, and what has no flag."""

from collections.abc import Iterable, Mapping
from typing import Any

from hwspaces import formatted
from jaxroof.version import VERSION
from sweeps.ask.layouts import label
from sweeps.data.labels import number
from sweeps.serving.launch.deployed import Pool
from sweeps.serving.launch.engine import Engine

LATENCIES = ("ttft", "tpot", "e2e")
STATISTICS = ("", "_mean", "_p50", "_p90", "_p95", "_p99")


def header(title: str, row: Mapping[str, Any], made: tuple[Pool, ...], notes: Iterable[str]) -> str:
    """The lines, each of them a comment.

    Args:
      title: whose flags they are, and of which version.
      row: the row that is written.
      made: its pools.
      notes: what else has to be known, a line each.
    """
    lines = [f"jaxroof {VERSION}: {title}", f"row{_rank(row)}: {row['spec'].get('model')} on {_pools_text(made)}"]
    lines += [f"load: {text}"] if (text := _load_text(row["spec"], row.get("replicas", 1))) else []
    lines += [f"predicted: {text}"] if (text := _predicted(row)) else []
    lines += [f"note: {note}" for note in dict.fromkeys(notes)]
    return "".join(f"# {' '.join(line.split())}\n" for line in lines)


def versions(engine: Engine, version: str | None = None) -> str:
    """An engine with its version, and the file that declares its flags."""
    return f"{engine.title} {version or engine.version}, flags of {engine.source}"


def layout(pool: Pool) -> str:
    """Parallel degrees of a pool in short."""
    return label({"tp": pool.tp, "attention_dp": pool.attention_dp, "ep": pool.ep, "pp": pool.pp})


def _rank(row: Mapping[str, Any]) -> str:
    return f" {row['rank']}" if row.get("rank") is not None else ""


def _pools_text(made: tuple[Pool, ...]) -> str:
    texts = []
    for pool in made:
        count = f"{pool.replicas} replica{'s' * (pool.replicas > 1)} of {pool.devices} x {pool.hardware}"
        texts.append(f"{f'{pool.role}: ' if pool.role != 'serve' else ''}{count} as {layout(pool)}")
    return "; ".join(texts)


def _load_text(spec: Mapping[str, Any], replicas: int) -> str:
    parts = []
    if spec.get("trace") is not None:
        parts.append(f"trace {spec['trace']}")
    for name, words in (("isl", "prompts of {} tokens"), ("osl", "outputs of {} tokens")):
        parts += [words.format(spec[name])] if spec.get(name) is not None else []
    if isinstance(spec.get("rate"), float | int):
        parts.append(f"{number(spec['rate'])} requests/s{' per replica' * (replicas > 1)}")
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
