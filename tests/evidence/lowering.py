"""Every program that jaxroof compiles, lowered for CUDA, ROCm and TPU, which needs none of them:
`python -m tests.evidence.lowering`.

Programs are not run: `jax.jit` gives arrays of the shapes that a program has (ones, and zeros of whole numbers: no
request is left), so that what follows it is reached. Printed are the equations of each program, the bytes of its
StableHLO, its custom calls and whether it computes in float64. A program with a callback to the host does not lower.
"""

import argparse
import contextlib
import dataclasses
import functools
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

import sweeps
from jaxroof.jobs import JOBS, Scenario
from jaxroof.numerics import xla_options
from jaxroof.numerics.arrays import jax as lazily_jax
from sweeps.ask.axes import Axis
from sweeps.ask.cases import case
from sweeps.ask.question import Question
from sweeps.run import compiled, compilers, engine, ways
from sweeps.run import program as terms
from sweeps.run.engine import Plan
from sweeps.run.points import Points, answers
from sweeps.run.precision import precision
from sweeps.run.simulated import lanes, pieces, simulation

PLATFORMS = ("cuda", "rocm", "tpu")

CALLS = re.compile(r"stablehlo\.custom_call @([\w.]+)")


@dataclasses.dataclass(frozen=True)
class LoweredProgram:
    """What is known of a program without running it."""

    name: str
    equations: int
    bytes: int  # of its StableHLO, serialised, for all platforms
    platforms: tuple[str, ...]
    custom_calls: tuple[str, ...]
    float64: bool


class Lowered:
    """A stand-in of `jax.jit` whose programs are lowered, and neither compiled nor run."""

    def __init__(self) -> None:
        self._jit, self.programs = jax.jit, list[LoweredProgram]()

    def __call__(self, function: Callable[..., Any] | None = None, **options: Any) -> Callable[..., Any]:
        if function is None:
            return functools.partial(self, **options)
        program = self._jit(function, **options)
        name = getattr(getattr(function, "func", function), "__name__", "program")
        known: dict[str, Any] = {}

        def called(*arguments: Any, **named: Any) -> Any:
            if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((arguments, named))):
                return program(*arguments, **named)
            key = str(jax.tree.map(jax.typeof, (arguments, named)))
            if key not in known:
                known[key] = jax.export.export(program, platforms=PLATFORMS)(*arguments, **named)
                self.programs.append(described(name, program.trace(*arguments, **named).jaxpr, known[key]))
            found = known[key]
            outputs = [np.full(out.shape, out.dtype.kind == "f", out.dtype) for out in found.out_avals]
            return jax.tree.unflatten(found.out_tree, [jax.device_put(output) for output in outputs])

        called.lower = lambda *given, **named: _Compiled(called)  # type: ignore[attr-defined]
        return called


class _Compiled:
    """What is lowered and compiled before it is called: the stand-in's function, whose memory is not known."""

    def __init__(self, called: Callable[..., Any]):
        self._called = called

    def compile(self, **options: Any) -> "_Compiled":
        return self

    def memory_analysis(self) -> None:
        return None

    def __call__(self, *arguments: Any) -> Any:
        return self._called(*arguments)


def described(name: str, traced: core.ClosedJaxpr, found: Any) -> LoweredProgram:
    """What a program consists of, from its equations and its StableHLO."""
    text = found.mlir_module()
    return LoweredProgram(
        name=name,
        equations=equations(traced.jaxpr),
        bytes=len(found.mlir_module_serialized),
        platforms=tuple(found.platforms),
        custom_calls=tuple(sorted(set(CALLS.findall(text)))),
        float64="xf64>" in text or "<f64>" in text,
    )


def equations(traced: core.Jaxpr) -> int:
    """Equations of a program and of those that it calls."""
    inner = 0
    for equation in traced.eqns:
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program):
            if _is_program(value):
                inner += equations(getattr(value, "jaxpr", value))
    return len(traced.eqns) + inner


def _is_program(value: Any) -> bool:
    return isinstance(value, core.Jaxpr | core.ClosedJaxpr)


@contextlib.contextmanager
def lowered() -> Iterator[list[LoweredProgram]]:
    """While it lasts, what would be compiled and run is lowered; programs that are known already are set aside."""
    stand_in = Lowered()
    caches = (pieces._price, pieces._program, simulation._starting, simulation._remaining, lanes._program)
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        for options in (xla_options.QUICK, xla_options.LIGHT, xla_options.QUICKLY):
            dict(options)  # XLA itself is asked which of them it knows
        for place in (jax, lazily_jax):
            stack.enter_context(mock.patch.object(place, "jit", stand_in))
        for place in (compiled, compilers):
            stack.enter_context(mock.patch.object(place, "loops_known", lambda: False))
        stack.enter_context(mock.patch.object(engine, "chosen", lambda sizes, most_eager: "xla"))
        stack.enter_context(mock.patch.object(simulation, "are_short", lambda *_: False))  # as of many simulations
        for place, known in ((compiled, "_KNOWN"), (terms, "_KEPT")):
            stack.enter_context(mock.patch.object(place, known, type(getattr(place, known))()))
        for cached in caches:
            cached.cache_clear()
            stack.callback(cached.cache_clear)
        yield stand_in.programs


LENGTHS = {"batch": 4, "isl": 512, "osl": 64}
HBM = "hardware.memory.hbm.bandwidth"
COLUMN = {HBM: np.array([1e12, 2e12, 3e12])}
GRID = {HBM: ["1 TB/s", "2 TB/s", "3 TB/s"], "deployment.tp": [1, 2]}
LLAMA = {"hardware": "H100-SXM", "model": "Llama-3.1-8B"}
BOUNDS = {HBM: {"from": "1TB/s", "to": "8TB/s"}}
SERVED = {"rate": 4, "requests": 20, "isl": 512, "osl": 32}
WORK = {
    "request": LENGTHS,
    "step": {"decode": 8, "context": 900, "prefills": 1, "prefill": 256},
    "train": {"global_batch": 32, "seq": 2048},
}


def grid(job: str = "request", model: str = "Llama-3.1-8B", efficiency: str = "derated", **keys: Any) -> None:
    """A sweep over two axes."""
    asked = {"hardware": "H100-SXM", "model": model, "efficiency": efficiency, "workload": WORK[job], "axes": GRID}
    sweeps.sweep(asked | keys, job=job)


def scenario(job: str, efficiency: str = "derated") -> Scenario:
    """A deployment of a job."""
    return case(job, "H100-SXM", "Llama-3.1-8B", workload=WORK[job], efficiency=efficiency).scenario


def sample(job: str = "request", efficiency: str = "derated") -> None:
    """A sample in which every number varies, as one long axis."""
    from tests.bench.cases import varied

    question, axes = varied(scenario(job, efficiency), 5)
    for _ in Plan(dataclasses.replace(question, job=JOBS[job], names=None), axes).pieces():
        pass


def slopes(job: str) -> None:
    """Gradients of metrics in some numbers at many points."""
    from sweeps.studies.sensitivity.gradient import all_slopes, metric_names

    one = scenario(job)
    gradient = all_slopes(JOBS[job], metric_names(JOBS[job], one)[:4], (HBM, "hardware.cores.count"))
    with precision("float64"):
        compiled.called(gradient, one, Points(np.arange(3), [COLUMN]), ways.ALL_SLOPES, (), lambda points: None)


def designs(job: str) -> None:
    """Layouts and designs, each a column."""
    compiled.called(
        answers(JOBS[job]), scenario(job), Points(np.arange(3), [COLUMN]), ways.Way(lanes=4), (), lambda points: None
    )


def problem(**keys: Any) -> None:
    """Values, and values with gradients, of designs under constraints."""
    goal = {"optimize": {"minimize": "tpot"}, "constraints": {"ttft": {"max": "1s"}}}
    found = sweeps.problem(LLAMA | {"efficiency": "derated", "workload": LENGTHS} | goal | {"axes": BOUNDS} | keys)
    found.value_and_grad(np.array([[2e12]]))
    found.evaluate(np.array([[2e12]]))


def updates() -> None:
    """Steps of Adam of an optimisation."""
    import optax

    jax.jit(optax.scale_by_adam().update)(np.ones(3, np.float32), optax.scale_by_adam().init(jnp.ones(3)))


def served_problem() -> None:
    """A stream at its largest rate within limits, in closed form, and its gradient in a design."""
    asked = {"efficiency": "derated", "workload": {"requests": 20, "isl": 512, "osl": 32, "rate": 2.0}, "axes": BOUNDS}
    goal = {"optimize": {"maximize": "tokens_per_second"}, "constraints": {"ttft_mean": {"max": "1s"}}}
    found = sweeps.problem(LLAMA | asked | goal | {"job": "serve"})
    found.value_and_grad(np.array([[2e12]]))


def served_slopes() -> None:
    """Elasticities of a simulated stream."""
    from sweeps.run.simulated.spec import serve_spec
    from sweeps.studies.sensitivity.serve import sensitivity_of_serve

    sensitivity_of_serve(serve_spec(**LLAMA, **SERVED))


def mappings(gradient: bool) -> None:
    """Costs of mappings of a loop nest; descents from many starts."""
    from sweeps.studies.map.descent import descended
    from sweeps.studies.map.pool import compiled_scores
    from sweeps.studies.map.space import NestRows, mapping_space
    from workloads import nests
    from workloads.nests.checks import residents

    nest, name = nests.layer("resnet50.conv2_3x3").value, nests.architecture_names()[0]
    machine, random = nests.architecture(name).value, np.random.default_rng(0)
    space = mapping_space(nest, machine, residents(nest, machine, {}, name), random)
    if gradient:
        descended(space, space.orders[0], "edp", random)
    else:
        compiled_scores(space, space.orders[0], "edp")(NestRows(space.drawn(8, random)).columns)


def function() -> None:
    """A traced function over its sizes."""
    from sweeps.studies.price.grid import FUNCTION

    (b,) = jax.export.symbolic_shape("b")
    arrays = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((b, 1024), (1024, 512)))
    found = sweeps.from_function(lambda x, w: jnp.tanh(x @ w), *arrays).scenario("H100-SXM", "derated", {"b": 8})
    path = "workload.sizes.b"
    for _ in Plan(Question(FUNCTION, found), (Axis(path, 3, {path: np.array([8.0, 64.0, 512.0])}, ()),)).pieces():
        pass


def kernels() -> None:
    """Kernels that `jaxroof bench` times on a device, in a loop."""
    from sweeps.measure.microbench import kernels, timing

    for work in (kernels.gemm("bf16", {"m": 64, "n": 256, "k": 256}), kernels.copy("fp32", {"bytes": 1 << 16})):
        timing.call_time(work, timing.Numbers(0), timing.protocol("gpu", 1e5))


POOLS = {
    "job": "disaggregated",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "prefill": {"hardware": "H100-SXM"},
    "decode": {"hardware": "A100-SXM-80GB"},
    "workload": LENGTHS | {"rate": [0.5, 1.0]},
}
NEIGHBOURS = {
    "job": "colocated",
    **LLAMA,
    "efficiency": "derated",
    "neighbour": {"model": "Llama-2-7B", "isl": 128, "osl": 32, "batch": 4},
    "workload": LENGTHS | {"sharing": "space", "cores": [0.5, 0.7]},
}

PROGRAMS: dict[str, Callable[[], Any]] = {
    **{
        f"grid of {questions}, {name}": functools.partial(grid, job, efficiency=name)
        for job, questions in (("request", "requests"), ("step", "steps"), ("train", "training"))
        for name in ("derated", "learned", "kernel")
    },
    "grid in float64": functools.partial(grid, output={"dtype": "float64"}),
    "grid of op tables": functools.partial(grid, output={"breakdown": True}),
    **{
        f"grid of {model}": functools.partial(grid, model=model, efficiency="learned", hardware="H200-SXM")
        for model in ("DeepSeek-V3", "Mamba-2-2.7B", "Gemma-3-27B")
    },
    "grid of two pools": functools.partial(sweeps.sweep, POOLS),
    "grid of neighbours": functools.partial(sweeps.sweep, NEIGHBOURS),
    **{f"sample of requests, {name}": functools.partial(sample, "request", name) for name in ("derated", "learned")},
    "sample of training": functools.partial(sample, "train"),
    **{f"layouts and designs, {job}": functools.partial(designs, job) for job in ("step", "request", "train")},
    **{f"gradients, {job}": functools.partial(slopes, job) for job in ("step", "request", "train")},
    "optimisation": problem,
    "optimisation, learned": functools.partial(problem, efficiency="learned"),
    "optimisation of a stream in its steady state": served_problem,
    "steps of Adam": updates,
    **{
        f"simulation, {name}": functools.partial(sweeps.serve, **LLAMA, **SERVED, efficiency=name)
        for name in ("derated", "learned")
    },
    "simulation, shared prefixes": functools.partial(
        sweeps.serve, **LLAMA, **SERVED, prefixes="groups=4,tokens=256", policy={"prefix_caching": True}
    ),
    "simulations of a grid": functools.partial(
        sweeps.sweep, LLAMA | {"job": "serve", "workload": SERVED | {"rate": [2, 4]}}
    ),
    "capacity": functools.partial(
        sweeps.capacity, "Llama-3.1-8B", ["H100-SXM"], "ttft=1s", isl=512, osl=32, requests=20
    ),
    "gradient of a simulation": served_slopes,
    "scores of mappings": functools.partial(mappings, False),
    "descents of mappings": functools.partial(mappings, True),
    "function over its sizes": function,
    "kernels of the microbenchmark": kernels,
}
"""Every kind of question for which programs are compiled: its name, and what asks it."""


def programs_of(name: str) -> list[LoweredProgram]:
    """What is lowered for one of `PROGRAMS`."""
    with lowered() as found:
        PROGRAMS[name]()
    return found


def main(words: list[str] | None = None) -> int:
    """Print the table; 1 where a program does not lower."""
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.lowering", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="programs whose name contains it")
    options = parser.parse_args(words)
    failed = 0
    print("| question | programs | equations | StableHLO, kB | platforms | float64 | custom calls | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    for name in (name for name in PROGRAMS if options.only in name):
        begun = time.process_time()
        try:
            found = programs_of(name)
        except Exception as error:  # one line of the table
            failed += 1
            print(f"| {name} | does not lower: {type(error).__name__}: {str(error)[:200]} |", flush=True)
            continue
        calls = sorted({call for program in found for call in program.custom_calls})
        count, size = sum(program.equations for program in found), sum(program.bytes for program in found)
        wide = sum(program.float64 for program in found)
        print(
            f"| {name} | {len(found)} | {count:,} | {size / 1e3:,.0f} | {', '.join(found[0].platforms)} "
            f"| {wide or 'none'} | {', '.join(calls) or 'none'} | {time.process_time() - begun:.1f} |",
            flush=True,
        )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
