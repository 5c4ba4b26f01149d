"""Commands that start a row's pools on hosts: a command for each host, and the engine's file of settings."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from sweeps.serving.launch import trtllm
from sweeps.serving.launch.deployed import Pool
from sweeps.serving.launch.engine import Engine, Flag, notes
from sweeps.serving.launch.header import header, versions
from sweeps.serving.launch.yaml_text import yaml_text

ADDRESS = "HOST0"
"""Stands for the address of a replica's first host."""


def commands_text(engine: Engine, row: Mapping[str, Any], made: tuple[Pool, ...], more: list[str]) -> str:
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
    for pool, commands in written:
        title = "" if len(made) == 1 else f" of the {pool.role} pool"
        for number, command in enumerate(commands):
            host = f", host {number} of {len(commands)}" if len(commands) > 1 else ""
            text += f"\n# each replica{title}{host}\n" if title or host else "\n"
            text += command
    return text


def _starting(pool: Pool) -> Iterator[str]:
    if pool.replicas > 1:
        yield f"start {pool.replicas} such replicas{f' of {pool.role}' * (pool.role != 'serve')}, each on its devices"
    if pool.hosts > 1:
        yield f"a replica takes {pool.per_host} devices of each of {pool.hosts} hosts; {ADDRESS} is the first one"


def _commands(engine: Engine, pool: Pool) -> Iterator[str]:
    flags = engine.flags(pool) + (engine.transfer(pool) if pool.role != "serve" else [])
    start: Flag = (*engine.command, *engine.model, pool.repository)
    settings = engine.config(pool)
    if settings:
        name = trtllm.FILE if pool.role == "serve" else f"{pool.role}_{trtllm.FILE}"
        flags = [*flags, ("--extra_llm_api_options", name)]
        if pool.hosts > 1:
            tasks = ("--ntasks", str(pool.devices), "--ntasks-per-node", str(pool.per_host))
            start = ("srun", "--nodes", str(pool.hosts), *tasks, "--mpi=pmix", "trtllm-llmapi-launch", *start)
        yield f"cat > {name} <<'END'\n{yaml_text(settings)}END\n" + _command([start, *flags])
        return
    for host in range(pool.hosts):
        spread = engine.hosts(str(host), ADDRESS, pool, host == 0) if pool.hosts > 1 else []
        yield _command([start, *flags, *spread])


def _command(parts: list[Flag]) -> str:
    return " \\\n  ".join(shlex.join(part) for part in parts) + "\n"
