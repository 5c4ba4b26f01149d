"""Kubernetes manifest of a row: a Deployment, or a LeaderWorkerSet where a replica spans hosts, and a Service."""

import re
from collections.abc import Mapping
from typing import Any

from sweeps.serving.launch import trtllm
from sweeps.serving.launch.deployed import LaunchedPool, resource
from sweeps.serving.launch.engine import Flag, LaunchedEngine, header, notes, versions
from sweeps.serving.launch.yaml_text import yaml_text

PORT = 8000
FOLDER = "/etc/jaxroof"
"""Where the engine's file of settings is mounted."""

SECRET = {"name": "hf-token-secret", "key": "HF_TOKEN", "optional": True}
"""The secret with the token that downloads the model."""

RANK, ADDRESS = "$(LWS_WORKER_INDEX)", "$(LWS_LEADER_ADDRESS)"
"""Variables that LeaderWorkerSet gives to its containers."""


def manifest_text(
    engine: LaunchedEngine, row: Mapping[str, Any], made: tuple[LaunchedPool, ...], more: list[str]
) -> str:
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
    # An engine with a file of settings starts its hosts by MPI, for which no manifest is written here.
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
    """A name as Kubernetes takes it: at most 50 lower-case letters, digits and `-`, a letter first."""
    # Names of Services are labels of RFC 1035: a letter first; the owner of the model is left out.
    return (
        re.sub(r"[^a-z0-9]+", "-", f"/{text}".rpartition("/")[2].lower()).lstrip("-0123456789")[:50].strip("-")
        or "model"
    )


def container(pool: LaunchedPool, command: tuple[str, ...], flags: list[Flag], image: str) -> dict[str, Any]:
    """The container of one host of a replica."""
    return {
        "name": "main",
        "image": image,
        "command": list(command),
        "args": [word for flag in flags for word in flag],
        "resources": {"limits": {resource(pool.hardware, pool.vendor): str(pool.per_host)}},
    }


def _objects(engine: LaunchedEngine, pool: LaunchedPool) -> list[dict[str, Any]]:
    name, settings = slug(pool.repository), engine.config(pool)
    words = engine.flags(pool)
    objects = []
    # The engine's file of settings is mounted from a ConfigMap.
    if settings:
        words.append(("--extra_llm_api_options", f"{FOLDER}/{trtllm.FILE}"))
        objects.append(_object("v1", "ConfigMap", name, data={trtllm.FILE: yaml_text(settings)}))
    labels = {"app": name}
    # A replica on one host is a pod of a Deployment.
    if pool.hosts == 1:
        pod = {"metadata": {"labels": labels}, "spec": _pod(engine, pool, words, True)}
        spec = {"replicas": pool.replicas, "selector": {"matchLabels": labels}, "template": pod}
        return [*objects, _object("apps/v1", "Deployment", name, spec=spec), _service(name, labels)]
    # A replica on several hosts is a group of pods, of which the leader alone serves requests.
    leading = labels | {"role": "leader"}
    group: dict[str, Any] = {"size": pool.hosts}
    for part, marks, leads in (("leaderTemplate", leading, True), ("workerTemplate", labels, False)):
        own = words + engine.hosts(RANK, ADDRESS, pool, leads)
        group[part] = {"metadata": {"labels": marks}, "spec": _pod(engine, pool, own, leads)}
    spec = {"replicas": pool.replicas, "leaderWorkerTemplate": group}
    worker_set = _object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, spec=spec)
    return [*objects, worker_set, _service(name, leading)]


def _pod(engine: LaunchedEngine, pool: LaunchedPool, words: list[Flag], serves: bool) -> dict[str, Any]:
    """The pod of one host; one that serves listens on all its addresses, since it is behind a Service."""
    flags: list[Flag] = [(*engine.model, pool.repository), *words]
    flags += [("--host", "0.0.0.0"), ("--port", str(PORT))] if serves else []
    main_container = container(pool, engine.command, flags, engine.images.get(pool.vendor or "", "IMAGE"))
    main_container["env"] = [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": SECRET}}]
    if serves:
        main_container["ports"] = [{"containerPort": PORT}]
        main_container["readinessProbe"] = {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 10}
    # Processes of one host exchange data in shared memory, of which a container has little by default.
    folders: dict[str, tuple[str, dict[str, Any]]] = {"shm": ("/dev/shm", {"emptyDir": {"medium": "Memory"}})}
    if engine.config(pool):
        folders["settings"] = (FOLDER, {"configMap": {"name": slug(pool.repository)}})
    main_container["volumeMounts"] = [{"name": name, "mountPath": place} for name, (place, _) in folders.items()]
    return {
        "containers": [main_container],
        "volumes": [{"name": name, **source} for name, (_, source) in folders.items()],
    }


def _service(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    ports = [{"port": PORT, "targetPort": PORT}]
    return _object("v1", "Service", name, spec={"selector": dict(labels), "ports": ports})


def _object(version: str, kind: str, name: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **content}
