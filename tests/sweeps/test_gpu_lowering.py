"""Every program that jaxroof compiles can be lowered for CUDA and ROCm: no device is needed for that.

Programs are not run: `jax.jit` gives arrays of the shapes that a program has (ones, and zeros of whole numbers: no
request is left), so that what follows it is reached.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sweeps
from jaxroof.jobs import JOBS, TRAIN
from jaxroof.jobs.request import REQUEST
from jaxroof.numerics.arrays import jax as lazily_jax
from sweeps.ask.axes import Axis
from sweeps.ask.cases import case
from sweeps.ask.question import Question
from sweeps.run import compiled, ways
from sweeps.run import program as terms
from sweeps.run.engine import Plan
from sweeps.run.points import Points
from sweeps.run.precision import precision
from sweeps.run.simulated import simulation
from sweeps.studies.sensitivity.gradient import all_slopes, metric_names

PLATFORMS = ("cuda", "rocm")
LENGTHS = {"batch": 4, "isl": 512, "osl": 64}
AXES = {"deployment.tp": np.array([1.0, 2.0]), "hardware.memory.hbm.bandwidth": np.array([1e12, 2e12, 3e12])}


class Lowered:
    """A stand-in of `jax.jit` whose programs are lowered, and not compiled."""

    def __init__(self, jit):
        self._jit = jit
        self.programs = []

    def __call__(self, function=None, **options):
        if function is None:
            return functools.partial(self, **options)
        program = self._jit(function, **options)

        def called(*arguments, **named):
            if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((arguments, named))):
                return program(*arguments, **named)
            found = jax.export.export(program, platforms=PLATFORMS)(*arguments, **named)
            self.programs.append(found)
            outputs = [np.full(out.shape, out.dtype.kind == "f", out.dtype) for out in found.out_avals]
            return jax.tree.unflatten(found.out_tree, outputs)

        called.lower = program.lower
        return called


@pytest.fixture
def lowered(monkeypatch):
    """What was lowered during a test; programs of other tests are set aside."""
    stand_in = Lowered(jax.jit)
    monkeypatch.setattr(jax, "jit", stand_in)
    monkeypatch.setattr(lazily_jax, "jit", stand_in)
    monkeypatch.setattr(compiled, "loops_known", lambda: False)
    for place in (compiled, terms):
        name = "_KNOWN" if place is compiled else "_KEPT"
        monkeypatch.setattr(place, name, type(getattr(place, name))())
    for cached in (simulation._programs, simulation._endings):
        cached.cache_clear()
    yield stand_in.programs
    for cached in (simulation._programs, simulation._endings):
        cached.cache_clear()
    assert all(program.platforms == PLATFORMS for program in stand_in.programs)


def axes(along: dict[str, np.ndarray]) -> tuple[Axis, ...]:
    return tuple(Axis(path, len(column), {path: column}, ()) for path, column in along.items())


def run(plan: Plan) -> None:
    for _ in plan.pieces():
        pass


@pytest.mark.parametrize("efficiency", ["derated", "learned"])
def test_a_grid_of_requests(lowered, efficiency):
    one = case("request", "H100-SXM", "Llama-3.1-8B", workload=LENGTHS, efficiency=efficiency).scenario
    run(Plan(Question(REQUEST, one, ("ttft", "tpot", "feasible")), axes(AXES), compiler="xla"))
    assert len(lowered) >= 2


def test_a_sample_of_training(lowered):
    one = case("train", "H100-SXM", "Llama-2-7B", workload={"global_batch": 32, "seq": 2048}, deployment={"dp": 4})
    column = {"hardware.memory.hbm.bandwidth": np.geomspace(1e12, 4e12, 5)}
    run(Plan(Question(TRAIN, one.scenario, ("iteration_time", "mfu")), axes(column), compiler="xla"))
    assert len(lowered) >= 2


def test_gradients_at_many_points(lowered):
    job = JOBS["step"]
    work = {"decode": 8, "context": 900}
    scenario = case("step", "H100-SXM", "Llama-3.1-8B", workload=work, efficiency="derated").scenario
    paths = ("hardware.memory.hbm.bandwidth", "hardware.cores.count")
    gradient = all_slopes(job, metric_names(job, scenario)[:4], paths)
    points = Points(np.arange(3), [{"hardware.memory.hbm.bandwidth": np.array([1e12, 2e12, 3e12])}])
    with precision("float64"):
        compiled.called(gradient, scenario, points, ways.ALL_SLOPES, (), lambda points: None)
    assert len(lowered) == 1


def test_a_simulation(lowered):
    sweeps.serve(hardware="H100-SXM", model="Llama-3.1-8B", rate=4, requests=20, isl=512, osl=32)
    assert len(lowered) >= 3


def test_a_step_of_an_optimiser(lowered):
    bounds = {"hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "8TB/s"}}
    asked = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "efficiency": "derated", "workload": LENGTHS}
    goal = {"optimize": {"minimize": "tpot"}, "constraints": {"ttft": {"max": "1s"}}}
    found = sweeps.problem(asked | goal | {"axes": bounds})
    found.value_and_grad(np.array([[2e12]]))
    found.evaluate(np.array([[2e12]]))
    assert len(lowered) >= 2


def test_a_function_over_sizes(lowered):
    def forward(x, w):
        return jnp.tanh(x @ w)

    (b,) = jax.export.symbolic_shape("b")
    arrays = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((b, 1024), (1024, 512)))
    function = sweeps.from_function(forward, *arrays)
    scenario = function.scenario("H100-SXM", "derated", {"b": 8})
    column = {"workload.sizes.b": np.array([8.0, 64.0, 512.0])}
    from sweeps.studies.price.grid import FUNCTION

    run(Plan(Question(FUNCTION, scenario), axes(column), compiler="xla"))
    assert len(lowered) >= 2
