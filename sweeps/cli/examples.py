"""Examples and main flags of every verb, and of every word that a verb takes: what its `--help` shows."""

TYPE_CHECKING = False  # of `typing`, whose import would take longer than this one

if TYPE_CHECKING:
    from typing import Any


class Help:
    """What `--help` of a command shows beside its summary.

    Args:
      *examples: words behind the command.
      needs: the flags that a usual question gives, which its usage names.
      **groups: main flags by a title, whose words have underscores between; none: the help shows all flags.
    """

    def __init__(self, *examples: str, needs: str = "", **groups: str) -> None:
        self.examples, self.needs = examples, needs.split()
        self.groups = {title.replace("_", " "): flags.split() for title, flags in groups.items()}


FORM = "--output --plot --plots --chrome-trace --hardware-out --json --force --verbose --notes"
"""Flags about the form of an answer, which close every help, as far as a command has them."""

_NAMES = "--hardware --model"
_DEGREES = "--tp --pp --ep --attention-dp --dp"
_ASSUMED = "--weights --kv --engine --efficiency --prices --set"
_STEP: "dict[str, Any]" = {
    "needs": _NAMES,
    "question": f"{_NAMES} --prefill --decode --context --isl --batch",
    "deployment": f"{_DEGREES} --weights --kv",
    "assumptions": "--efficiency --set",
}
_ITERATION: "dict[str, Any]" = {
    "needs": f"{_NAMES} --global-batch",
    "question": f"{_NAMES} --global-batch --seq --micro-batch",
    "layout": "--dp --tp --pp --cp --ep --zero --recompute --schedule --precision",
    "assumptions": "--efficiency --set",
}

HELP = {
    # price
    "request": Help(
        "--hardware H100-SXM --model Llama-3.1-8B --isl 2048 --osl 256",
        "--hardware B200-SXM --model gpt-oss-120b --isl 1024 --osl 512 --set hardware.memory.hbm.bandwidth=10TB/s",
        needs=f"{_NAMES} --isl --osl",
        question=f"{_NAMES} --isl --osl --batch --cached",
        deployment=_DEGREES,
        assumptions=_ASSUMED,
    ),
    "step": Help(
        "--hardware H100-SXM --model Llama-3.1-70B --tp 4 --decode 32 --context 4096",
        "--hardware MI300X --model Llama-3.1-8B --prefill 2048 --decode 16 --context 1024",
        needs=_NAMES,
        question=f"{_NAMES} --prefill --prefills --past --decode --context",
        deployment=_DEGREES,
        assumptions=_ASSUMED,
    ),
    "train": Help(
        "--hardware H100-SXM --model Llama-2-70B --tp 8 --dp 8 --global-batch 64 --seq 4096 --zero 1",
        "--hardware H100-SXM --model Llama-2-7B --global-batch 64 --seq 4096 --search --devices 8",
        needs=f"{_NAMES} --global-batch --seq",
        question=f"{_NAMES} --global-batch --seq --tokens",
        layout="--dp --tp --pp --cp --ep --micro-batch --zero --recompute --schedule --precision",
        best_layouts="--search --devices",
        assumptions="--efficiency --prices --set",
    ),
    "price": Help(
        'jax.nn:softmax --args "x=bf16[b,4096]" --over b=1,1024 --hardware H100-SXM,TPU-v6e',
        "model.mlir --hardware H100-SXM --plot roofline.png",
    ),
    "collective": Help(
        "--hardware H100-SXM --devices 8 --size 1KiB..1GiB", "--hardware B200-SXM --kind all_gather --devices 16"
    ),
    "disaggregate": Help(
        "--hardware A100-SXM-80GB --model Llama-2-70B --tp 4 --isl 2048 --osl 256 --batch 32 "
        "--prefill hardware=H100-SXM --prefill tp=4 --rate 2",
        "--hardware H100-SXM --model Llama-3.1-8B --isl 2048 --osl 256 --batch 32 --devices 8 "
        "--slo ttft=500ms,tpot=40ms",
        needs=f"{_NAMES} --isl --osl",
        question=f"{_NAMES} --isl --osl --batch --rate",
        pools=f"--prefill {_DEGREES} --weights --kv",
        best_split="--devices --loads --slo",
        assumptions="--efficiency --prices --set",
    ),
    "colocate": Help(
        "--hardware H100-SXM --model Llama-3.1-8B --isl 512 --osl 64 --batch 4 --neighbour model=Llama-2-7B "
        "--neighbour isl=512 --neighbour osl=64",
        "--hardware H200-SXM --model Llama-3.1-8B --isl 512 --osl 64 --batch 4 --neighbour model=Llama-3.2-1B "
        "--neighbour isl=512 --neighbour osl=64 --sharing space --cores 0.7",
        needs=f"{_NAMES} --isl --osl",
        question=f"{_NAMES} --isl --osl --batch --neighbour",
        sharing="--sharing --cores --cache",
        deployment=_DEGREES,
        assumptions="--weights --kv --efficiency --prices --set",
    ),
    "map": Help("resnet50.conv2_3x3 --arch eyeriss_like", "resnet50 --arch eyeriss_like --plot energy.png"),
    "scenario": Help("list", "run T3.2"),
    # serve
    "serve": Help(
        "--hardware H100-SXM --model Llama-3.1-70B --tp 4 --rate 6 --isl 1024 --osl 256 --slo ttft=500ms,tpot=40ms",
        "--hardware H100-SXM --model Llama-3.1-8B --traffic chat --rate 4 --requests 200 --plot run.png",
        needs=f"{_NAMES} --isl --osl",
        requests="--rate --concurrency --isl --osl --requests --trace --traffic --sessions",
        engine=f"{_NAMES} --tp --engine --policy --slo --set",
        service="--dp --router --prefill",
    ),
    "capacity": Help(
        "--hardware H100-SXM,MI300X --model Llama-3.1-8B --isl 512 --osl 64 --slo ttft=1s,tpot=50ms",
        "--hardware H100-SXM --model Llama-3.1-70B --tp 4,8 --traffic chat --slo ttft=1s,tpot=50ms --plot curve.png",
        needs=f"{_NAMES} --isl --osl --slo",
        question=f"{_NAMES} --slo --share --rates",
        requests="--isl --osl --requests --trace --traffic",
        engine="--tp --engine --policy --weights --set",
        service="--dp --router --prefill",
    ),
    "trace": Help(
        "--rate 8 --isl lognormal:mean=1024,p95=3000 --osl 256",
        "requests.csv --rate 2 -o requests.png",
    ),
    # choose
    "compare": Help(
        "--model Llama-3.1-8B --isl 512 --osl 64 --slo tpot=50ms --hardware H100-SXM,L40S",
        "--model gpt-oss-120b --isl 2048 --osl 500 --slo ttft=1s,tpot=30ms --hardware H100-SXM,H200-SXM -o found.json",
        needs="--model --isl --osl --slo",
        question="--model --slo --rate --share",
        requests="--isl --osl --trace --traffic --sessions",
        what_is_tried="--hardware --devices --weights --engine --policy --simulate",
        ranking="--sort --top --all --prices",
    ),
    "fleet": Help("fleet", "fleet --budget 300USD/h -o day.png"),
    "emit": Help("vllm found.json --row 1", "dynamo found.json -o deployment.yaml"),
    # design
    "sweep": Help(
        "demo -o sweep.nc",
        "billion -o billion/ --keep pareto",
        question="--space --keep --per --plan",
        files="--compression --digits --shard-points",
        machines="--scheduler --workers --progress",
    ),
    "optimize": Help(
        "cheapest -o cheapest.nc --plot cheapest.png",
        "cheapest --minimize tpot --max owning_usd_per_million_tokens=1",
    ),
    "sensitivity": Help(
        "--hardware H100-SXM --model Llama-3.1-70B --tp 8 --batch 32 --isl 1024 --osl 256 --plot tornado.png",
        "--job step --hardware MI300X --model Llama-3.1-8B --decode 64 --context 2048 --metric step_time",
        needs=f"{_NAMES} --isl --osl",
        question="--job --metric --knob --top --all --second-order --over",
        deployment=f"{_NAMES} --tp --efficiency --set",
        workload="--isl --osl --batch --prefill --decode --context --rate",
    ),
    "space": Help("", "show gpu-n3"),
    "status": Help("billion/", "billion/ --check"),
    "query": Help(
        "sweep.nc --sort tpot --top 5",
        'billion/ --where "tokens_per_second_per_request > 100 and feasible" --sort cost',
    ),
    "merge": Help("billion/ -o billion.nc", "billion/ -o billion.nc --force"),
    # measure
    "calibrate": Help(
        "--measured results.json --hardware H100-SXM --model Llama-3.1-70B --tp 4 -o my-server.toml",
        "--check my-server.toml --measured next-month.json",
        needs=f"--measured {_NAMES}",
        question="--measured --format --drop --check",
        server=f"{_NAMES} {_DEGREES} --weights --kv --engine --engine-version --policy",
        assumptions="--efficiency --set",
    ),
    "bench": Help("-o mine.nc --budget 3min --hardware-out mine.toml", "--check mine.nc"),
    "surface": Help("import gemm/data.csv -o own.nc", "show own.nc"),
    "surface import": Help("gemm/data.csv -o own.nc", "gemm_perf.parquet --gpu h200_sxm --engine vllm -o own.nc"),
    "surface show": Help("own.nc"),
    "validate": Help("area", "serving measured.csv"),
    "validate requests": Help("--data measured.csv", "--data measured.csv --efficiency derated"),
    "validate collectives": Help("--data measured.csv", "--data measured/ --plots pictures/"),
    "validate kernels": Help("--data measured/", "--data measured/ --hardware H200-SXM --only gemm"),
    "validate power": Help("--data measured/", "--data measured/ --plots pictures/"),
    "validate serving": Help("measured.csv", "measured.csv --command 3"),
    "validate steps": Help("--data measured.csv", "--data measured.csv --hardware H200-SXM"),
    "validate training": Help("--data measured.csv", "--data measured.csv --rows"),
    "validate plausibility": Help("--hardware MI300X", "--hardware mine.toml"),
    "validate area": Help("", "--hardware H100-SXM"),
    # show
    "hardware": Help("H100-SXM", "--template"),
    "models": Help("Llama-3.1-8B", "./config.json"),
    "report": Help("found.json -o report.html", "sweep.nc run.json -o all.html --title Options"),
    "ui": Help("", "--hardware mine.toml,H100-SXM --model config.json"),
    "plot": Help(
        "sweep.nc --metric tpot -o sweep.png",
        "--kind roofline --hardware H100-SXM --model Llama-3.1-8B --prefill 2048 -o roofline.png",
        sweep="--kind --metric --x --y --at --per --reduce",
        step_of_a_roofline=f"{_NAMES} --tp --prefill --decode --context --isl --osl --batch --efficiency --set",
    ),
    "export": Help(
        "perfetto --hardware H100-SXM --model Llama-3.1-8B --batch 4 --isl 1024 --tp 2 -o step.json",
        "chakra --hardware H100-SXM --model Llama-3.1-8B --decode 64 --context 2048 --tp 2 -o traces/",
    ),
    "export perfetto": Help(
        "--hardware H100-SXM --model Llama-3.1-8B --batch 4 --isl 1024 --tp 2 -o step.json",
        "train --hardware H100-SXM --model Llama-3.1-8B --dp 8 --global-batch 32 --seq 4096 -o iteration.json",
        **_STEP,
    ),
    "export perfetto train": Help(
        "--hardware H100-SXM --model Llama-3.1-8B --dp 8 --global-batch 32 --seq 4096 -o iteration.json",
        "--hardware H100-SXM --model Llama-2-70B --tp 8 --pp 2 --global-batch 32 --seq 4096 -o iteration.json",
        **_ITERATION,
    ),
    "export chakra": Help(
        "--hardware H100-SXM --model Mixtral-8x7B --decode 64 --context 2000 --tp 2 -o traces/",
        "train --hardware H100-SXM --model Llama-3.1-8B --dp 8 --global-batch 32 --seq 4096 -o traces/",
        **_STEP,
    ),
    "export chakra train": Help(
        "--hardware H100-SXM --model Llama-3.1-8B --dp 8 --global-batch 32 --seq 4096 -o traces/",
        "--hardware H100-SXM --model Llama-2-70B --tp 8 --pp 2 --global-batch 32 --seq 4096 -o traces/",
        **_ITERATION,
    ),
    "export vidur": Help(
        "--hardware H100-SXM --model Llama-3.1-8B --tp 1,2,4 -o profiles/",
        "--hardware MI300X --model Llama-3.1-8B --most-tokens 8192 -o mi300x/",
    ),
    "export timeloop": Help(
        "--hardware H100-SXM --model Llama-3.1-8B --batch 4 --isl 1024 --tp 2 -o products/",
        "--hardware H100-SXM --model Llama-3.1-8B --decode 64 --context 2048 -o products/",
        **_STEP,
    ),
    "completion": Help("bash", "zsh", "fish"),
}
"""Words of a command -> its help. A verb without an entry shows all its flags."""
