"""Launch text of a row for one kind of target: an engine's commands, a Dynamo graph, or a Kubernetes manifest."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from hwspaces.quantities.units import nearest
from sweeps.ask.text import escaped
from sweeps.serving.launch import dynamo, kubernetes, sglang, trtllm, vllm
from sweeps.serving.launch.deployed import LaunchedPool, pools
from sweeps.serving.launch.engine import Flag, LaunchedEngine, header, notes, versions
from sweeps.serving.launch.yaml_text import yaml_text

ADDRESS = "HOST0"
"""Stands for the address of a replica's first host."""


def commands_text(
    engine: LaunchedEngine, row: Mapping[str, Any], made: tuple[LaunchedPool, ...], more: list[str]
) -> str:
    """Commands of every pool below a header.

    Args:
      engine: the engine that is started.
      row: the row that is written.
      made: its pools.
      more: notes beside the engine's own.

    Raises:
      ValueError: one line, for what the engine cannot do.
    """
    written = [(pool, list(_commands(engine, pool))) for pool in made]
    told = [note for pool in made for note in (*notes(engine, pool), *_starting(pool))] + more
    if len(made) > 1:
        told.append("a router in front of both pools is needed; `jaxroof emit dynamo` writes one")
    text = header(versions(engine), row, made, told)
    # Commands of every host of every pool, each below a comment that says where it runs.
    for pool, commands in written:
        title = "" if len(made) == 1 else f" of the {pool.role} pool"
        for number, command in enumerate(commands):
            host = f", host {number} of {len(commands)}" if len(commands) > 1 else ""
            text += f"\n# each replica{title}{host}\n" if title or host else "\n"
            text += command
    return text


def _starting(pool: LaunchedPool) -> Iterator[str]:
    if pool.replicas > 1:
        yield f"start {pool.replicas} such replicas{f' of {pool.role}' * (pool.role != 'serve')}, each on its devices"
    if pool.hosts > 1:
        yield f"a replica takes {pool.per_host} devices of each of {pool.hosts} hosts; {ADDRESS} is the first one"


def _commands(engine: LaunchedEngine, pool: LaunchedPool) -> Iterator[str]:
    flags = engine.flags(pool) + (engine.transfer(pool) if pool.role != "serve" else [])
    start: Flag = (*engine.command, *engine.model, pool.repository)
    settings = engine.config(pool)
    # TensorRT-LLM reads a file of settings, and starts all processes of a replica at once.
    if settings:
        name = trtllm.FILE if pool.role == "serve" else f"{pool.role}_{trtllm.FILE}"
        flags = [*flags, ("--extra_llm_api_options", name)]
        # On several hosts MPI starts one task per device, here by Slurm.
        if pool.hosts > 1:
            tasks = ("--ntasks", str(pool.devices), "--ntasks-per-node", str(pool.per_host))
            start = ("srun", "--nodes", str(pool.hosts), *tasks, "--mpi=pmix", "trtllm-llmapi-launch", *start)
        yield f"cat > {name} <<'END'\n{yaml_text(settings)}END\n" + _command([start, *flags])
        # Other engines have one command per host; the first host leads.
        return
    for host in range(pool.hosts):
        spread = engine.hosts(str(host), ADDRESS, pool, host == 0) if pool.hosts > 1 else []
        yield _command([start, *flags, *spread])


def _command(parts: list[Flag]) -> str:
    return " \\\n  ".join(shlex.join(part) for part in parts) + "\n"


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
    launched = pools(row, max_len)
    # "engine@version": manifests start the engine that the row was simulated with.
    simulated = launched[0].engine.partition("@")[0]
    name = kind if kind in ENGINES else simulated
    engine = ENGINES[name]
    more = []
    if simulated != name:
        more.append(f"the row was simulated with the scheduler of {ENGINES[simulated].title}")
    if kind == "dynamo":
        return escaped(dynamo.manifest_text(name, engine, row, launched, more))
    if kind == "kubernetes":
        return escaped(kubernetes.manifest_text(engine, row, launched, more))
    return escaped(commands_text(engine, row, launched, more))
