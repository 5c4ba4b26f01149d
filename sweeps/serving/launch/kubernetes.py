"""Kubernetes manifest of a row: a Deployment, or a LeaderWorkerSet where a replica spans hosts, and a Service."""

import re
from collections.abc import Mapping
from typing import Any

from sweeps.serving.launch import trtllm
from sweeps.serving.launch.deployed import Pool
from sweeps.serving.launch.engine import Engine, Flag, notes
from sweeps.serving.launch.header import header, versions
from sweeps.serving.launch.vendors import resource
from sweeps.serving.launch.yaml_text import yaml_text

PORT = 8000
FOLDER = "/etc/jaxroof"
"""Where the engine's file of settings is mounted."""

SECRET = {"name": "hf-token-secret", "key": "HF_TOKEN", "optional": True}
"""The secret with the token that downloads the model."""

RANK, ADDRESS = "$(LWS_WORKER_INDEX)", "$(LWS_LEADER_ADDRESS)"
"""Variables that LeaderWorkerSet gives to its containers."""


def manifest_text(engine: Engine, row: Mapping[str, Any], made: tuple[Pool, ...], more: list[str]) -> str:
    """The manifest below a header.

    Args:
      engine: the engine that is started.
      row: the row that is written.
      made: its pools.
      more: notes beside the engine's own.

    Raises:
      ValueError: one line, for what cannot be started this way.
    """
    if len(made) > 1:
        raise ValueError("a disaggregated row needs a router between its pools: emit dynamo")
    (pool,) = made
    if pool.hosts > 1 and engine.config(pool):
        raise ValueError(
            f"{pool.devices} devices are {pool.hosts} hosts, on which {engine.title} is started by MPI: emit dynamo or "
            "trtllm"
        )
    told = [*notes(engine, pool), *more]
    if pool.vendor not in engine.images:
        told.append(
            f"no image of {engine.title} {engine.version} for {pool.hardware} is known: put one in place of IMAGE"
        )
    if pool.vendor == "Google":
        told.append("GKE needs a nodeSelector: cloud.google.com/gke-tpu-accelerator and gke-tpu-topology")
    if pool.hosts > 1:
        told.append(
            f"a replica spans {pool.hosts} hosts: the cluster needs LeaderWorkerSet (leaderworkerset.x-k8s.io/v1)"
        )
    parts = _objects(engine, pool)
    title = f"Kubernetes manifest of {versions(engine)}"
    return header(title, row, made, told) + "---\n".join(yaml_text(part) for part in parts)


def slug(text: str) -> str:
    """A name as Kubernetes takes it: at most 50 lower-case letters, digits and `-`."""
    return re.sub(r"[^a-z0-9]+", "-", text.rpartition("/")[2].lower()).strip("-")[:50].strip("-") or "model"


def container(engine: Engine, pool: Pool, command: tuple[str, ...], flags: list[Flag], image: str) -> dict[str, Any]:
    """The container of one host of a replica."""
    return {
        "name": "main",
        "image": image,
        "command": list(command),
        "args": [word for flag in flags for word in flag],
        "resources": {"limits": {resource(pool.hardware, pool.vendor): str(pool.per_host)}},
    }


def _objects(engine: Engine, pool: Pool) -> list[dict[str, Any]]:
    name, settings = slug(pool.repository), engine.config(pool)
    labels = {"app": name}
    objects: list[dict[str, Any]] = []
    flags: list[Flag] = [(pool.repository,), *engine.flags(pool)]
    mounts, volumes = [{"name": "shm", "mountPath": "/dev/shm"}], [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    if settings:
        flags.append(("--extra_llm_api_options", f"{FOLDER}/{trtllm.FILE}"))
        data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        objects.append({**data, "data": {trtllm.FILE: yaml_text(settings)}})
        mounts.append({"name": "settings", "mountPath": FOLDER})
        volumes.append({"name": "settings", "configMap": {"name": name}})  # type: ignore[dict-item]
    # A server that is behind a Service listens on all addresses.
    serving: list[Flag] = [*flags, ("--host", "0.0.0.0"), ("--port", str(PORT))]
    command = engine.command[:-1] if engine.command[-1].startswith("--") else engine.command
    serving, flags = _named(engine, serving), _named(engine, flags)

    def pod(words: list[Flag], serves: bool) -> dict[str, Any]:
        made = container(engine, pool, command, words, engine.images.get(pool.vendor or "", "IMAGE"))
        made["env"] = [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": SECRET}}]
        if serves:
            made["ports"] = [{"containerPort": PORT}]
            made["readinessProbe"] = {"httpGet": {"path": engine.health, "port": PORT}, "periodSeconds": 10}
        return {"containers": [made | {"volumeMounts": mounts}], "volumes": volumes}

    served = labels
    if pool.hosts == 1:
        template = {"metadata": {"labels": labels}, "spec": pod(serving, True)}
        spec = {"replicas": pool.replicas, "selector": {"matchLabels": labels}, "template": template}
        objects.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})
    else:
        served = labels | {"role": "leader"}
        leader = pod(serving + engine.hosts(RANK, ADDRESS, pool, True), True)
        worker = pod(flags + engine.hosts(RANK, ADDRESS, pool, False), False)
        templates = {
            "size": pool.hosts,
            "leaderTemplate": {"metadata": {"labels": served}, "spec": leader},
            "workerTemplate": {"metadata": {"labels": labels}, "spec": worker},
        }
        spec = {"replicas": pool.replicas, "leaderWorkerTemplate": templates}
        kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
        objects.append({**kind, "metadata": {"name": name}, "spec": spec})
    ports = [{"port": PORT, "targetPort": PORT}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}}
    objects.append({**service, "spec": {"selector": served, "ports": ports}})
    return objects


def _named(engine: Engine, flags: list[Flag]) -> list[Flag]:
    """Flags with the model first, behind the word that names it where the engine has one."""
    word = engine.command[-1]
    return [(word, *flags[0]), *flags[1:]] if word.startswith("--") else flags
