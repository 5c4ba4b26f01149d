"""Engine settings of the benchmark suites: budget, admission, cache precision and memory, and streaming of tokens."""

import dataclasses

from jaxroof.hardware import Hardware
from sweeps.ask.releases import TOKEN_TIMES, hides_host, longer_step, numbers
from sweeps.measure.validate.serving.deployment_labels import INFERENCEX, Layout
from sweeps.measure.validate.serving.precisions import bits

BATCHED_TOKENS = 8192.0
"""Tokens of a step: the default of `vllm serve` on devices of 70 GB and more, and of `trtllm-serve`."""

SHORT, LONG = 1024.0, 8192.0
"""Nominal lengths of InferenceX, tokens."""

NVIDIA_DEVICES, AMD_DEVICES = "NVIDIA", "AMD"
"""Vendors, as the catalogue writes them, whose devices the scripts of InferenceX are known for."""


@dataclasses.dataclass(frozen=True)
class Preset:
    """What a scheduler and a memory model need to know of one engine as one suite ran it."""

    max_sequences: float
    block_size: float  # tokens
    graph_limit: float  # largest batch that is padded
    client_time: float  # s from a client to the queue and back, beyond `host.request_time`; fitted
    mixture_time: float  # s more until the first token of a mixture of experts; fitted as CLIENT_TIMES are
    memory: float  # share of the device's memory, or of what weights leave of it where `of_free`
    of_free: bool = False
    static: bool = False  # the share is of weights and cache alone
    order: str = "mixed"  # one of jaxroof.ORDERS
    budget: float = BATCHED_TOKENS  # tokens of one step
    chunked: bool = True  # a prompt may be split over steps
    reserve: bool = False  # cache for the whole output is taken at admission
    graph_step: float = 8.0  # decoding batches are padded to multiples of it
    kv: str | None = None  # precision of the cache; None: the checkpoint's own, else 16 bits
    hidden_host: bool = False  # the host works for the sequences while the device does
    first_time: float = 0.0  # s that every client's first request takes longer: kernels are built and loaded; fitted
    step_time: float = 0.0  # s that a step takes longer than with today's release of the engine
    token_time: float = 0.0  # s of the server's front end per token, of one process beside the engine; fitted
    state_bytes: float = 4.0  # B per element of a linear-attention state
    wait_steps: float = 0.0  # steps that a prompt may be held back for others to join it
    poll_steps: float = 1.0  # steps between two looks for new requests
    ahead_steps: float = 0.0  # steps that are launched before the prompt of a new request
    first_steps: float = 0.0  # steps from a first token to its way to the client; fitted
    message_bytes: float = 2.0  # B per element of an all-reduce
    low: float = 0.95  # shortest length over nominal
    assumed: str | None = None  # what the settings are, on devices that are not NVIDIA's


VLLM = Preset(
    max_sequences=1024.0, block_size=16.0, graph_limit=512.0, client_time=0.014, mixture_time=0.01, memory=0.9
)
TRTLLM = Preset(
    chunked=False,
    reserve=True,
    hidden_host=True,
    ahead_steps=1.0,
    max_sequences=2048.0,
    block_size=32.0,
    graph_limit=128.0,
    client_time=0.09,
    mixture_time=0.02,
    memory=0.9,
    of_free=True,
)
SGLANG = Preset(
    order="prefill_first",
    ahead_steps=1.0,
    max_sequences=2048.0,
    block_size=1.0,
    graph_limit=256.0,
    client_time=0.3,
    mixture_time=0.0,
    memory=0.88,
    static=True,
)
DEFAULTS = {"vllm": VLLM, "trtllm": TRTLLM, "sglang": SGLANG}
"""Engines as they start by themselves. Source: their command-line references, versions of 2025."""


CLIENT_TIMES = {"vllm": 0.0, "trtllm": 0.015, "sglang": 0.025}
"""Engine -> `client_time` in s of InferenceX's clients; the others are NVIDIA's. Fitted to 1,445
public points with the steps ahead and vLLM's `mixture_time`, each device judged by the others, in November 2026:
`tests.evidence.first_token`."""

LATE_STEPS, LATE_TIME, NEW_TRTLLM = 9.0, 0.08, [1, 2]
"""What DeepSeek's first tokens come later under TensorRT-LLM in InferenceX: steps before version 1.2, s from then on.
The steps are also those of gpt-oss with Triton's experts (Hopper). Fitted to DeepSeek on H200, and on B200; their cause
is not known."""

WAIT_STEPS = 60.0, 30.0
"""Steps that TensorRT-LLM holds a prompt back for those of other attention groups: all that its scripts allow before
version 1.2, half of them from then on (fitted)."""

FIRST_TIMES = {NVIDIA_DEVICES: 1.4, AMD_DEVICES: 4.0}
"""Vendor of the devices -> `first_time` in s of SGLang under InferenceX: Triton compiles a kernel at its first call.
Ours, from means against medians of public points."""


@dataclasses.dataclass(frozen=True)
class Run:
    """What ran, as far as a preset depends on it."""

    engine: str  # one of ENGINES
    version: str  # of the engine, "" where it is not recorded
    family: str  # labels.INFERENCEX or labels.NVIDIA
    gpu: str  # of the catalogue
    vendor: str | None  # of the device
    hardware: Hardware
    model_name: str  # of the catalogue
    precision: str  # of the weights
    layout: Layout
    isl: float  # nominal, tokens
    osl: float
    concurrency: float  # clients
    date: str  # of the run, ISO 8601; "" where it is not recorded

    @property
    def blackwell(self) -> bool:
        """`is_blackwell` of the device."""
        return is_blackwell(self.vendor, self.hardware)

    @property
    def low_precision(self) -> bool:
        """Whether weights are of 8 bits or less."""
        return bits(self.precision) <= 8


def is_blackwell(vendor: str | None, hardware: Hardware) -> bool:
    """True for NVIDIA's devices with a matrix unit for 4 bits."""
    return vendor == NVIDIA_DEVICES and "fp4" in hardware.matrix


def preset(run: Run) -> Preset:
    """The settings of one row. On devices that no script is known for they are the engine's defaults, and say so.

    Source: scripts of the InferenceX benchmarks (benchmarks/*.sh, October 2025 to March 2026); for NVIDIA's sweeps the
    engines' defaults, and an 8-bit cache with TensorRT-LLM's 8-bit weights.

    Raises:
      ValueError: one line, for TensorRT-LLM on a device that is not NVIDIA's.
    """
    base = dataclasses.replace(
        DEFAULTS[run.engine], hidden_host=hides_host(run.engine, run.version, DEFAULTS[run.engine].hidden_host)
    )
    if run.vendor != NVIDIA_DEVICES:
        return _elsewhere(run, base)
    if run.family != INFERENCEX:
        seconds = TOKEN_TIMES.get((run.engine, run.version), 0.0)
        base = dataclasses.replace(base, low=_spread_of_lengths(run), token_time=seconds)
    if run.engine == "trtllm" and run.low_precision and not _is(run, "gpt-oss"):
        base = dataclasses.replace(base, kv="fp8")
    if run.family != INFERENCEX:
        return base
    return SCRIPTED[run.engine](run, dataclasses.replace(base, client_time=CLIENT_TIMES[run.engine]))


def _elsewhere(run: Run, base: Preset) -> Preset:
    """The settings on a device that is not NVIDIA's."""
    if run.engine == "trtllm":
        vendor = run.vendor or "others"
        raise ValueError(f"backend = 'trtllm' runs on NVIDIA's devices alone, not on those of {vendor}")
    if run.family != INFERENCEX:
        told = "the engine's own defaults, with the clients and lengths of NVIDIA's sweeps"
        return dataclasses.replace(base, low=_spread_of_lengths(run), assumed=told)
    base = dataclasses.replace(base, low=0.8, client_time=CLIENT_TIMES[run.engine])
    if run.vendor != AMD_DEVICES:
        told = "the engine's own defaults, with the clients and lengths of InferenceX"
        return dataclasses.replace(base, assumed=told)
    scripted = AMD_SCRIPTED[run.engine](run, base)
    return dataclasses.replace(scripted, assumed="those of InferenceX's scripts for AMD's devices")


def _spread_of_lengths(run: Run) -> float:
    """Shortest length over nominal in NVIDIA's sweeps, which do not say it.

    Ours, from how far the measured times to the first token show prompts in step: strictly so in SGLang's sweep of
    2025 (0.5.1), hardly in its later one, a little in those of vLLM and TensorRT-LLM.
    """
    if run.engine == "sglang":
        return 1.0 if run.version.startswith(("0.4", "0.5.0", "0.5.1", "0.5.2")) else 0.65
    return 0.8 if run.engine == "trtllm" else 0.95


def _vllm(run: Run, base: Preset) -> Preset:
    fp8_cache = run.low_precision and (run.blackwell or _is(run, "Llama-3"))
    per_prompt = run.blackwell and _is(run, "Kimi", "MiniMax")
    return dataclasses.replace(
        base,
        low=0.8,
        kv="fp8" if fp8_cache else None,
        budget=2.0 * run.isl if per_prompt else base.budget,
        max_sequences=run.concurrency,
        graph_limit=2048.0 if _is(run, "gpt-oss", "Kimi", "MiniMax") else 512.0,
        memory=0.95 if _is(run, "MiniMax") and not run.blackwell else 0.9,
        hidden_host=True,  # `--async-scheduling`
    )


def _trtllm(run: Run, base: Preset) -> Preset:
    new = numbers(run.version) >= NEW_TRTLLM
    mixture = LATE_TIME if new and _is(run, "DeepSeek") else 0.0
    late = (_is(run, "DeepSeek") and not new) or (_is(run, "gpt-oss") and not run.blackwell)
    # `attention_dp_config.timeout_iters` of its scripts is 60: ranks wait for each other's prompts.
    wait = 0.0 if run.layout.attention_dp == 1.0 else WAIT_STEPS[new]
    base = dataclasses.replace(
        base, low=0.8, mixture_time=mixture, first_steps=LATE_STEPS if late else 0.0, wait_steps=wait
    )
    batch = run.concurrency / run.layout.attention_dp
    if _is(run, "gpt-oss"):
        kv = "fp8" if run.blackwell else None
        return dataclasses.replace(base, kv=kv, budget=20000.0, memory=0.85, graph_limit=run.concurrency)
    if _is(run, "Llama-3"):
        wait = 20.0 if run.isl == run.osl == SHORT and run.layout.tp < 8.0 else 0.0
        budget = 16384.0 if run.blackwell and "nvfp4" not in run.model_name else run.isl + run.osl + 200.0
        return dataclasses.replace(base, budget=budget, wait_steps=wait, graph_limit=1024.0)
    budget = 64.0 * ((batch + run.isl + 127.0) // 64.0)
    if run.blackwell:
        return dataclasses.replace(base, budget=max(budget, BATCHED_TOKENS), memory=0.8, graph_limit=512.0)
    return dataclasses.replace(base, budget=budget, memory=0.75)


def _sglang(run: Run, base: Preset) -> Preset:
    kv = "fp8" if run.blackwell else None
    base = dataclasses.replace(base, low=0.8, kv=kv, first_time=FIRST_TIMES[NVIDIA_DEVICES])
    if _is(run, "Qwen3.5"):
        base = dataclasses.replace(base, kv="fp8", state_bytes=2.0, max_sequences=128.0, memory=0.8)
        poll = (30.0 if run.concurrency > 4.0 else 10.0) if run.blackwell else 1.0
        return dataclasses.replace(base, budget=BATCHED_TOKENS if run.blackwell else 16384.0, poll_steps=poll)
    if _is(run, "DeepSeek") and run.blackwell:
        poll = 30.0 if run.concurrency >= 16.0 else 10.0
        return dataclasses.replace(base, budget=16384.0, memory=0.85, max_sequences=256.0, poll_steps=poll)
    short = run.isl == run.osl == SHORT
    return dataclasses.replace(
        base,
        budget=32768.0,
        memory=0.85 if run.blackwell else 0.82,
        max_sequences=512.0 if short else 256.0,
        graph_limit=512.0 if short else 256.0,
    )


def _vllm_on_amd(run: Run, base: Preset) -> Preset:
    """Source: gptoss_fp4_mi300x.sh, gptoss_fp4_mi355x.sh."""
    return dataclasses.replace(base, memory=0.95, block_size=64.0)


def _sglang_on_amd(run: Run, base: Preset) -> Preset:
    """The scripts' `--num-continuous-decode-steps=4` does nothing: SGLang has not read it since November 2024.

    Source: dsr1_fp8_mi300x.sh, dsr1_fp8_mi355x.sh, dsr1_fp4_mi355x.sh.
    """
    four_bits = "fp4" in run.hardware.matrix
    budget = AMD_PROMPT_TOKENS[1] if four_bits else AMD_PROMPT_TOKENS[0]
    if four_bits and run.isl == LONG and run.osl == SHORT and run.concurrency > 32.0:
        budget = 32768.0
    return dataclasses.replace(
        base,
        budget=budget,
        memory=0.8,
        graph_limit=128.0,
        max_sequences=run.concurrency,
        message_bytes=INT4_BYTES if four_bits else base.message_bytes,
        first_time=FIRST_TIMES[AMD_DEVICES],
        step_time=longer_step(run.engine, run.version, run.date, run.vendor, run.hardware),
    )


AMD_PROMPT_TOKENS = 131072.0, 196608.0
"""`--chunked-prefill-size` on MI300X, and on MI355X."""

INT4_BYTES = 0.5 + 2.0 / 32.0
"""B per element of an all-reduce on MI355X: 4 bits, and 16 bits of scale per 32. Source:
`ROCM_QUICK_REDUCE_QUANTIZATION=INT4` of its scripts, not of MI300X's; the codec of AMD's quick all-reduce."""

AMD_SCRIPTED = {"vllm": _vllm_on_amd, "sglang": _sglang_on_amd}
"""Engine -> what the scripts of InferenceX change in its defaults on AMD's devices."""

SCRIPTED = {"vllm": _vllm, "trtllm": _trtllm, "sglang": _sglang}
"""Engine -> what the scripts of InferenceX change in its defaults."""


def scripted_degrees(numbers: dict, engine: str, family: str, version: str, model: str, blackwell: bool) -> dict:
    """Degrees that InferenceX's scripts for DeepSeek on TensorRT-LLM chose by themselves until November 2025.

    Runs of that time carry no version, and their labels say expert tp = tp. On Hopper ep was tp, and attention was
    data-parallel above 64 clients (32 for long prompts); on Blackwell ep was tp from 16 clients (short outputs), from
    32 (long outputs), and always for long prompts.

    Source: benchmarks/dsr1_fp8_h200_trt_slurm.sh and dsr1_fp4_b200_trt_slurm.sh of InferenceX, October 2025.
    """
    labelled = version or (numbers["moe_ep_size"] or 1.0) != 1.0 or (numbers["attention_dp_size"] or 1.0) != 1.0
    if engine != "trtllm" or family != INFERENCEX or not model.startswith("DeepSeek") or labelled:
        return numbers
    clients, tp = numbers["concurrency"] or 0.0, numbers["tp_size"]
    long_prompt, long_output = numbers["isl_tokens"] == LONG, numbers["osl_tokens"] == LONG
    if blackwell and not long_prompt and clients < (32.0 if long_output else 16.0):
        return numbers
    spread = numbers | {"moe_ep_size": tp, "moe_tp_size": 1.0}
    if not blackwell and clients > (32.0 if long_prompt else 64.0):
        return spread | {"tp_size": 1.0, "attention_dp_size": tp}
    return spread


def _is(run: Run, *families: str) -> bool:
    return run.model_name.startswith(families)
