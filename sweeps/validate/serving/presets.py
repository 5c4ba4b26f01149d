"""How the suites started each engine: budget, admission, cache precision and memory, and how tokens were streamed."""

import dataclasses

from jaxroof.hardware import Hardware
from sweeps.validate.serving.labels import INFERENCEX

BATCHED_TOKENS = 8192.0
"""Tokens of a step, default of `vllm serve` and `trtllm-serve` on these devices."""


@dataclasses.dataclass(frozen=True)
class Preset:
    """What a scheduler and a memory model need to know of one engine as one suite ran it."""

    order: str  # one of jaxroof.ORDERS
    budget: float  # tokens of one step
    chunked: bool  # a prompt may be split over steps
    reserve: bool  # cache for the whole output is taken at admission
    max_sequences: float
    block_size: float  # tokens
    graph_step: float  # decoding batches are padded to multiples of it; 0: not at all
    graph_limit: float
    hidden_host: bool  # the next step is scheduled while one runs
    kv: str | None  # precision of the cache; None: the checkpoint's own, else 16 bits
    memory: float  # share of the device's memory, of what the weights leave where `memory_of_free`
    memory_of_free: bool
    stream_interval: float = 1.0  # tokens of one message to the client, the first message included
    wait_steps: float = 0.0  # steps that a prompt may be held back so that others join it
    poll_steps: float = 1.0  # steps between two looks for new requests
    low: float = 0.95  # shortest length over nominal


def preset(
    *,
    engine: str,
    version: str,
    family: str,
    hardware: Hardware,
    model: str,
    low_precision: bool,
    layout_tp: float,
    attention_dp: float,
    isl: float,
    osl: float,
    concurrency: float,
) -> Preset:
    """The settings of one row.

    Args:
      model: name of the catalogue.
      low_precision: weights are of 8 bits or less.
      layout_tp: tensor-parallel degree.
      isl, osl: nominal lengths, tokens.
      concurrency: clients of one replica.

    Source: scripts of the InferenceX benchmarks (benchmarks/*.sh, November 2025 to March 2026), and for NVIDIA's
    sweeps the engines' defaults.
    """
    public = family == INFERENCEX
    blackwell = "fp4" in hardware.matrix
    low = 0.8 if public else 0.95
    if engine == "trtllm":
        return _trtllm(public, blackwell, model, low_precision, layout_tp, attention_dp, isl, osl, concurrency, low)
    if engine == "sglang":
        return _sglang(public, blackwell, model, isl, osl, low)
    llama, gpt_oss = model.startswith("Llama-3"), model.startswith("gpt-oss")
    fp8_cache = public and low_precision and (llama or (gpt_oss and blackwell))
    return Preset(
        order="mixed",
        budget=BATCHED_TOKENS,
        chunked=True,
        reserve=False,
        max_sequences=max(concurrency, 256.0),
        block_size=16.0,
        graph_step=8.0,
        graph_limit=512.0,
        hidden_host=public,
        kv="fp8" if fp8_cache else None,
        memory=0.9,
        memory_of_free=False,
        low=low,
    )


def _trtllm(
    public: bool,
    blackwell: bool,
    model: str,
    low_precision: bool,
    tp: float,
    attention_dp: float,
    isl: float,
    osl: float,
    concurrency: float,
    low: float,
) -> Preset:
    gpt_oss, llama = model.startswith("gpt-oss"), model.startswith("Llama-3")
    batch = concurrency / attention_dp
    budget, share, interval, wait = BATCHED_TOKENS, 0.9, 1.0, 0.0
    kv = "fp8" if low_precision and not gpt_oss else None
    if public:
        interval = 20.0 if gpt_oss else 10.0
        share = 0.85 if gpt_oss else 0.9 if llama else 0.8 if blackwell else 0.75
        if gpt_oss:
            budget = 20000.0
            kv = "fp8" if blackwell else None
        elif llama:
            budget = 16384.0 if blackwell else isl + osl + 200.0
            wait = 20.0 if isl == osl == 1024.0 and tp < 8.0 else 0.0
        else:
            budget = 64.0 * ((batch + isl + 64.0 + 63.0) // 64.0)
            if blackwell:
                budget = max(budget, 8192.0)
    return Preset(
        order="mixed",
        budget=budget,
        chunked=False,
        reserve=True,
        max_sequences=max(batch, 256.0),
        block_size=32.0,
        graph_step=8.0,
        graph_limit=1024.0 if llama else 128.0,
        hidden_host=True,
        kv=kv,
        memory=share,
        memory_of_free=True,
        stream_interval=interval,
        wait_steps=wait,
        low=low,
    )


def _sglang(public: bool, blackwell: bool, model: str, isl: float, osl: float, low: float) -> Preset:
    budget = (16384.0 if blackwell else 32768.0) if public else 8192.0
    return Preset(
        order="prefill_first",
        budget=budget,
        chunked=True,
        reserve=False,
        max_sequences=512.0 if isl == osl == 1024.0 else 256.0,
        block_size=1.0,
        graph_step=8.0,
        graph_limit=512.0,
        hidden_host=True,
        kv="fp8" if public and blackwell else None,
        memory=(0.85 if blackwell else 0.82) if public else 0.88,
        memory_of_free=False,
        stream_interval=10.0 if public else 1.0,
        poll_steps=10.0 if public and blackwell else 1.0,
        low=low,
    )
