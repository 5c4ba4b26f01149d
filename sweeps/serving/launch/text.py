"""Launch text of a row for one kind of target: an engine's commands, a Dynamo graph, or a Kubernetes manifest."""

from collections.abc import Mapping
from typing import Any

from hwspaces.quantities.units import nearest
from sweeps.ask.escapes import escaped
from sweeps.serving.launch import dynamo, kubernetes, sglang, trtllm, vllm
from sweeps.serving.launch.commands import commands_text
from sweeps.serving.launch.deployed import pools

ENGINES = {"vllm": vllm.ENGINE, "sglang": sglang.ENGINE, "trtllm": trtllm.ENGINE}
"""Engines by the names of `sweeps.ask.engines.ENGINES`."""

KINDS = (*ENGINES, "dynamo", "kubernetes")
"""What launch text can be written for."""


def require_kind(kind: str) -> None:
    """ValueError, one line, for a kind of launch text that there is not."""
    if kind not in KINDS:
        raise ValueError(f"there are no launch flags of {kind}{nearest(kind, KINDS)}")


def launch_text(kind: str, row: Mapping[str, Any], max_len: int | None = None) -> str:
    """What starts a row: commands for a shell, or a YAML manifest, below comment lines that say what it is.

    Args:
      kind: one of `KINDS`. `dynamo` and `kubernetes` start the engine that the row was simulated with.
      row: one of the `rows` that `jaxroof compare --json` writes.
      max_len: tokens of the longest request that the engine takes, prompt and output; None: as many as the model has
        positions for, and as the cache of a replica holds two of.

    Returns:
      The text, control characters as escapes. Its first lines are comments: whose flags, of which version, the row and
      what it predicts, and every setting of the row without a flag.

    Raises:
      ValueError: one line, for a kind that there is not, a row that lacks something, or what the engine cannot do.
    """
    require_kind(kind)
    made = pools(row, max_len)
    simulated = made[0].engine.partition("@")[0]
    name = kind if kind in ENGINES else simulated
    engine = ENGINES[name]
    more = []
    if simulated != name:
        more.append(f"the row was simulated with the scheduler of {ENGINES[simulated].title}")
    if kind == "dynamo":
        return escaped(dynamo.manifest_text(name, engine, row, made, more))
    if kind == "kubernetes":
        return escaped(kubernetes.manifest_text(engine, row, made, more))
    return escaped(commands_text(engine, row, made, more))
