"""One line where a cache of less than 16 bits makes decoding slower: some engines convert it on the way."""

import dataclasses

import numpy as np

from jaxroof import batch
from jaxroof.jobs import Scenario
from jaxroof.jobs.composition import Requests
from jaxroof.jobs.serve import Service
from jaxroof.jobs.step import StepWork
from jaxroof.numerics.arrays import eager
from jaxroof.op import Kernel, Ops
from jaxroof.step.forward import as_run
from jaxroof.step.overlap import overlapped_ops
from jaxroof.step.step import times_of

WIDE_BYTES = 2.0
"""B of a cached element that kernels take as it is."""

SLOWER = 1.01
"""Ratio of both times from which on it is said."""

SERVED = 64.0
"""Sequences that count as decoding at once where requests come over time; ours."""


def slower_cache(scenario: Scenario, work: tuple[float, float] | None = None) -> str | None:
    """The line, where decode attention of the scenario takes longer than it would with a cache of 16 bits; else None.

    Args:
      work: sequences that decode at once and tokens of each; None: those of the scenario's workload.
    """
    work = work or decoding(scenario)
    if work is None or float(scenario.deployment.kv_bytes) >= WIDE_BYTES:
        return None
    sequences, context = work
    narrow, wide = (_attention_time(scenario, kv_bytes, *work) for kv_bytes in (None, WIDE_BYTES))
    if narrow <= SLOWER * wide:
        return None
    return (
        f"decode attention is slower with this cache than with one of 16 bits: {1e3 * narrow:.3g} against "
        f"{1e3 * wide:.3g} ms a step of {sequences:,.0f} sequences of {context:,.0f} tokens"
    )


def attention_note(scenario: Scenario) -> str | None:
    """The line on the precision of attention products beside a cache of 8 bits or fewer; None with a wider cache."""
    deployment = scenario.deployment
    if not scenario.model.generates or float(deployment.kv_bytes) >= WIDE_BYTES:
        return None
    if deployment.attention_compute == "fp8":
        return "attention is multiplied in fp8, as its cache is stored"
    words = f"attention is multiplied in {deployment.attention_compute}, to which kernels convert the narrower cache"
    return f"{words}; --attention fp8 multiplies it as it is"


def decoding(scenario: Scenario) -> tuple[float, float] | None:
    """Sequences that decode at once, and tokens of each; None where nothing decodes."""
    work = scenario.workload
    if isinstance(work, Requests):
        return float(work.batch), float(work.isl + 0.5 * work.osl)
    if isinstance(work, StepWork) and work.decode is not None and work.context is not None:
        return float(work.decode), float(work.context)
    if isinstance(work, Service):
        return SERVED, float(np.mean(np.asarray(work.traffic.isl) + 0.5 * np.asarray(work.traffic.osl)))
    return None


def _attention_time(scenario: Scenario, kv_bytes: float | None, sequences: float, context: float) -> float:
    """s of all decode attention of one step."""
    deployment = scenario.deployment
    if kv_bytes is not None:
        deployment = dataclasses.replace(deployment, kv_bytes=kv_bytes)
    work = batch.decode(sequences, context)
    with eager():
        ops = overlapped_ops(as_run(scenario.model, scenario.hardware), deployment, work)
        own: Ops = {name: op for name, op in ops.items() if isinstance(op, Kernel) and op.kind == "decode_attention"}
        times = times_of(own, scenario.hardware, deployment, work, scenario.efficiency)
        return float(sum(times[name] for name in own))
