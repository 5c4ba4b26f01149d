"""Checks of an installed wheel, in an empty folder: every verb, README's commands, native code, XLA, gradient, prices.

Run by `tests/smoke/install.py` as `python -I check.py`, so that nothing but what is installed can be imported.
"""

import contextlib
import importlib.metadata
import io
import json
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request

LLAMA = "--hardware H100-SXM --model Llama-3.1-8B --efficiency derated"
LENGTHS = "--isl 512 --osl 64"
SERVED = f"--model Llama-3.1-8B --hardware H100-SXM --devices 1 {LENGTHS} --slo ttft=1s,tpot=50ms --efficiency derated"
GROUP = "--compression 1 --keep top=5"

VERBS = {
    "step": f"step {LLAMA} --decode 8 --context 1024",
    "price": "price forward:forward --args x=bf16[b,1024] --over b=1,8 --hardware H100-SXM",
    "export": f"export perfetto {LLAMA} --decode 8 --context 1024 -o step.json",
    "collective": "collective --hardware H100-SXM --kind all_reduce --devices 8 --size 1KiB..1MiB",
    "request": f"request {LLAMA} {LENGTHS} --batch 4",
    "train": "train --model Llama-2-7B --hardware H100-SXM --dp 8 --global-batch 32 --seq 2048 --zero 1",
    "serve": f"serve {LLAMA} --traffic chat --rate 4 --requests 40",
    "disaggregate": f"disaggregate {LLAMA} {LENGTHS} --batch 8 --prefill tp=1",
    "colocate": f"colocate {LLAMA} {LENGTHS} --batch 4 --neighbour model=Llama-2-7B --neighbour isl=512 "
    "--neighbour osl=64",
    "scenario": "scenario run T3.2",
    "compare": f"compare {SERVED} -o ranking.json",
    "emit": "emit vllm ranking.json --row 1",
    "capacity": f"capacity --hardware H100-SXM --model Llama-3.1-8B {LENGTHS} --slo ttft=1s --requests 40 "
    "--efficiency derated --rates 1..20",
    "fleet": "fleet fleet --no-marginals -o fleet.png",
    "sensitivity": f"sensitivity {LLAMA} {LENGTHS} --batch 4",
    "sweep": f"sweep speculation -o folder/ {GROUP}",
    "status": "status folder/ --check",
    "query": "query folder/ --top 2",
    "merge": "merge folder/ -o merged.nc",
    "optimize": "optimize small.toml --starts 8 --steps 3 --grid 200 -o small.nc",
    "map": "map resnet50.conv2_3x3 --arch eyeriss_like --mappings 2000",
    "plot": "plot merged.nc -o merged.png",
    "report": "report ranking.json merged.nc -o report.html",
    "bench": "bench -o cpu.nc --budget 1s --only copy --precision fp32",
    "hardware": "hardware H100-SXM",
    "space": "space show gpu-n3",
    "models": "models",
    "trace": "trace --rate 8 --isl 1024 --osl 256",
    "calibrate": "calibrate --measured run.json --hardware H100-SXM --model Llama-3.1-8B --efficiency derated "
    "--engine vllm -o server.toml",
    "surface": "surface import gemm/h100/data.csv -o own.nc",
    "validate": "validate area",
    "completion": "completion bash",
}
"""A quick command of every verb; some read what others have written."""

SERVICES = (
    f"serve {LLAMA} {LENGTHS} --rate 4 --requests 40 --dp 2 --prefill dp=1 --draft Llama-3.2-1B --drafts 2 "
    "--acceptance 0.8 --router prefix --tiers host=8GB --prefixes groups=4,tokens=256,zipf=1 "
    "--sessions turns=2..4,think=1",
)
"""A service with mechanisms that a kernel of XLA has to take; releases differ in what they can."""

LIGHTER = {
    "compare": "--devices 1 --simulate 2 --efficiency derated",
    "serve": "--requests 60 --efficiency derated",
    "fleet": "--no-marginals",
    "sensitivity": "--efficiency derated",
}
"""What README's commands are given on top, so that they are quick."""

LEFT_OUT = ("billion", "optimize")
"""Words of README's commands that take a minute and more."""

SMALL = """
hardware = "H100-SXM"
model = "Llama-3.1-8B"
efficiency = "derated"
workload = { batch = 16, isl = 1024, osl = 256 }
optimize = { minimize = "hardware.memory.hbm.bandwidth" }
constraints = { tpot = { max = "12ms" } }

[axes]
"hardware.memory.hbm.bandwidth" = { from = "1TB/s", to = "8TB/s" }
"hardware.cores.count" = { from = 40, to = 200 }
"""


def main() -> None:
    """Run every check in the present folder; the first failure ends it."""
    checks = (installed, command, surroundings, verbs, explorer, readme, compilers, gradient, prices, libraries)
    for check in checks:
        begun, clock = time.perf_counter(), time.process_time()
        check()
        spent = f"{time.perf_counter() - begun:.1f} s, {time.process_time() - clock:.1f} s of CPU"
        print(f"{check.__name__}: {check.__doc__.partition('.')[0]} ({spent})", flush=True)


def installed() -> None:
    """The four packages come from the environment, and nothing else does."""
    import hwspaces
    import jaxroof
    import sweeps
    import workloads

    packages = (jaxroof, hwspaces, workloads, sweeps)
    assert all(package.__file__.startswith(sys.prefix) for package in packages), packages
    tops = {file.parts[0] for file in importlib.metadata.files("jaxroof")}
    allowed = {package.__name__ for package in packages}
    assert all(top in allowed or top.endswith(".dist-info") or top == ".." for top in tops), tops


def command() -> None:
    """The command is there, and answers in a process of its own."""
    script = pathlib.Path(sys.prefix, "bin", "jaxroof")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert importlib.metadata.version("jaxroof") in done.stdout, done.stdout


def surroundings() -> None:
    """Files that verbs read."""
    pathlib.Path("forward.py").write_text("import jax.numpy as jnp\ndef forward(x):\n    return jnp.tanh(x) @ x.T\n")
    pathlib.Path("small.toml").write_text(SMALL)
    folder = pathlib.Path("gemm", "h100")
    folder.mkdir(parents=True)
    rows = [f"{m},{k},{n},{50 + m},0.1" for m in (16, 64) for k in (1024, 8192) for n in (512, 8192)]
    (folder / "data.csv").write_text("\n".join(["m,k,n,latency_us,mfu", *rows]) + "\n")
    pathlib.Path("run.json").write_text(json.dumps(measured_run()))


def measured_run() -> dict:
    """A report of GuideLLM: 120 requests, of which each takes its time."""
    draws = random.Random(0)
    requests = []
    for i in range(120):
        isl, osl = draws.randint(200, 900), draws.randint(40, 160)
        first = 0.02 + isl * 4e-5 + draws.uniform(0.0, 0.004)
        last = first + (osl - 1) * draws.uniform(0.0095, 0.0105)
        times = {"request_start_time": 1000.0 + i / 4.0, "request_latency": last, "time_to_first_token_ms": 1e3 * first}
        requests.append({"prompt_tokens": isl, "output_tokens": osl, "inter_token_latency_ms": None, **times})
    run = {"config": {"strategy": {"type_": "poisson", "rate": 4.0}}, "requests": {"successful": requests}}
    return {"metadata": {}, "benchmarks": [run]}


def verbs() -> None:
    """Every verb answers, and a service with all mechanisms."""
    from sweeps.cli.verbs import VERBS as known

    assert {*VERBS, "ui"} == set(known), {*VERBS, "ui"} ^ set(known)
    for words in (*VERBS.values(), *SERVICES):
        said(words)


def explorer() -> None:
    """The explorer answers in a process of its own until it is stopped, about a chip in a file."""
    pathlib.Path("chip.toml").write_text(
        'class = "gpu"\npeak = "1 PFLOP/s"\nmemory = { capacity = "80 GB", bandwidth = "3 TB/s" }\n'
    )
    words = "ui --no-open --port 0 --hardware chip.toml --model Llama-3.1-8B".split()
    command = [pathlib.Path(sys.prefix, "bin", "jaxroof"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+/", running.stdout.readline())
        try:
            assert address is not None
            with urllib.request.urlopen(f"{address[0]}answer?batch=4") as answer:
                assert json.load(answer)["title"].startswith("Llama-3.1-8B on 1 x chip")
        finally:
            running.send_signal(signal.SIGINT)
    assert running.returncode == 130, running.returncode


def readme() -> None:
    """README's commands answer, as the distribution's description has them."""
    metadata = importlib.metadata.metadata("jaxroof")
    description = metadata["Description"] or metadata.get_payload()
    assert "jaxroof" in description
    for block in re.findall(r"```sh\n(.*?)```", description, re.S):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.partition("#")[0].strip()
            if not line.startswith("jaxroof "):
                continue
            if any(word in line for word in LEFT_OUT):
                require_named(line)
                continue
            # README has paths of a checkout; elsewhere a specification has its name.
            words = re.sub(r"sweeps/specs/(\w+)\.toml", r"\1", line.removeprefix("jaxroof "))
            if "compare ..." in words:
                said(words.replace("compare ...", f"compare {SERVED}"))
            else:
                said(f"{words} {LIGHTER.get(words.split()[0], '')}")


def require_named(line: str) -> None:
    """AssertionError unless the specification that a command names is one of the distribution."""
    from sweeps.ask.spaces import names

    given = line.split()[2] if line.split()[1] in ("sweep", "optimize") else None
    assert given is None or pathlib.PurePath(given).stem in names(), line


def compilers() -> None:
    """NumPy, native loops and XLA give the same numbers."""
    import numpy as np

    from jaxroof.jobs.request import REQUEST
    from sweeps.ask.axes import Axis
    from sweeps.ask.cases import case
    from sweeps.ask.question import Question
    from sweeps.run.engine import Plan
    from sweeps.run.precision import precision

    workload = {"batch": 4, "isl": 512, "osl": 64}
    base = case("request", "H100-SXM", "Llama-3.1-8B", workload=workload, efficiency="derated").scenario
    columns = {"deployment.tp": np.array([1.0, 2.0]), "hardware.memory.hbm.bandwidth": np.geomspace(1e12, 8e12, 7)}
    axes = tuple(Axis(path, len(column), {path: column}, ()) for path, column in columns.items())
    found = {}
    for name in ("numpy", "llvm", "xla"):
        with precision("float64"):
            plan = Plan(Question(REQUEST, base, ("ttft", "tpot")), axes, "float64", compiler=name)
            found[name] = {piece.name: np.array(piece.values) for piece in plan.pieces()}
    for name in ("llvm", "xla"):
        for metric, values in found["numpy"].items():
            np.testing.assert_allclose(found[name][metric], values, rtol=1e-9)


def gradient() -> None:
    """JAX's gradient of a cost is the quotient of differences."""
    import dataclasses

    import jax

    import jaxroof
    import sweeps
    from sweeps.run.precision import precision

    workload = {"batch": 4, "isl": 512, "osl": 64}
    one = sweeps.case("request", "H100-SXM", "Llama-3.1-8B", workload=workload, efficiency="derated").scenario

    def tpot(scale: float) -> jax.Array:
        level = dataclasses.replace(one.hardware.memory.hbm, bandwidth=scale * one.hardware.memory.hbm.bandwidth)
        memory = dataclasses.replace(one.hardware.memory, hbm=level)
        hardware = dataclasses.replace(one.hardware, memory=memory)
        return jaxroof.request_cost(hardware, one.model, one.deployment, one.workload, one.efficiency).tpot

    with precision("float64"):
        slope = float(jax.grad(tpot)(1.0))
    quotient = (float(tpot(1.01)) - float(tpot(0.99))) / 0.02
    assert slope < 0.0 and abs(slope / quotient - 1.0) < 0.05, (slope, quotient)


def prices() -> None:
    """The price of an engine's step is the same where its tables are made in the program that reads them."""
    import jax

    import sweeps
    from jaxroof.batch import Batch, Decode, Prefill
    from jaxroof.prices.prices import step_prices
    from jaxroof.prices.tables import Limits
    from sweeps.run.precision import precision

    workload = {"batch": 4, "isl": 512, "osl": 64}
    one = sweeps.case("request", "H100-SXM", "Llama-3.1-8B", workload=workload, efficiency="derated").scenario
    limits = Limits(rows=4096, sequences=64, context=8192)

    def price(place: tuple, sequences: jax.Array) -> jax.Array:
        batch = Batch(
            prefill=Prefill(sequences=0.0, tokens=0.0, past=0.0),
            decode=Decode(sequences=sequences, context=1000.0 * sequences),
            logits=sequences,
        )
        return sum(step_prices(*place, limits)[1](batch, sequences))

    with precision("float64"):
        place = one.hardware, one.model, one.deployment, one.efficiency
        place, eight = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf, float), (place, 8.0))
        together, apart = float(jax.jit(price)(place, eight)), float(price(place, eight))
    assert abs(together / apart - 1.0) < 1e-9, (together, apart)


def libraries() -> None:
    """Adapters of optimisers can be imported, and Dask computes a sweep."""
    import sweeps
    from sweeps.studies.adapters import with_optuna, with_pymoo, with_scipy

    asked = {"job": "step", "hardware": "H100-SXM", "model": "Llama-3.1-8B", "efficiency": "derated"}
    asked |= {"workload": {"decode": 32, "context": 1024}, "constraints": {"step_time": {"max": "6ms"}}}
    asked |= {"axes": {"hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "16TB/s"}}}
    problem = sweeps.problem(asked | {"optimize": {"minimize": "hardware.memory.hbm.bandwidth"}})
    assert all((with_optuna, with_pymoo, with_scipy, problem))
    said("sweep speculation -o dask/ --scheduler dask --workers 1")


def said(words: str) -> str:
    """What a command prints; AssertionError where its exit status is not 0."""
    from sweeps.cli import main as run

    out, errors = io.StringIO(), io.StringIO()
    begun = time.process_time()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            status = run(shlex.split(words))
    except SystemExit as end:  # it would end the checks as if all were well
        raise AssertionError(f"jaxroof {words} ended the process: {end.code}") from None
    print(f"  {time.process_time() - begun:5.1f} s of CPU  jaxroof {words}", flush=True)
    assert status == 0 and out.getvalue(), f"jaxroof {words}: status {status}: {errors.getvalue()[-2000:]}"
    return out.getvalue()


if __name__ == "__main__":
    os.environ["XDG_CACHE_HOME"] = os.path.abspath("cache")
    sys.path.insert(0, os.getcwd())  # of the function that `price` reads
    main()
