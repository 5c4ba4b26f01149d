"""Times gradients of a million designs against the forward pass of the same metric: `python -m tests.bench.gradients`.

Sample mode, float32, a static batch of Llama-3.1-70B on eight H100: every knob has a column of its own, other numbers
are constants. Forward and gradient run in the same chunks, in turns, and the least time of several counts.
"""

import argparse
import concurrent.futures
import os
import resource
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.jobs.request import REQUEST
from sweeps.ask.axes import leaf
from sweeps.run.native.loops import mapped
from sweeps.run.points import scenario_at
from sweeps.studies.sensitivity.gradient import at_factors
from tests.bench.cases import base

KNOBS = (
    *("hardware.matrix.bf16", "hardware.cores.count", "hardware.cores.vector_flops", "hardware.cores.exp_rate"),
    *("hardware.memory.hbm.bandwidth", "hardware.memory.l2.bandwidth", "hardware.memory.l2.capacity"),
    *("hardware.memory.scratchpad.bandwidth", "hardware.memory.scratchpad.capacity", "hardware.price"),
    *("hardware.links.scale_up.bandwidth", "hardware.links.scale_up.latency", "hardware.memory.register_capacity"),
    *("workload.batch", "workload.isl", "workload.osl", "deployment.kv_bytes", "deployment.activation_bytes"),
    *("deployment.communication_bytes", "efficiency.linear.bandwidth", "efficiency.linear.matrix"),
    *("efficiency.linear.kernel_time", "efficiency.host.step_time", "deployment.tp"),
)
"""24 numbers that differ from point to point."""


def metric(scenario: Scenario, names: tuple[str, ...], settings: dict[str, jax.Array]) -> jax.Array:
    """Sum of the logarithms of metrics, shape (): one number to differentiate."""
    real = at_factors(REQUEST, scenario_at(scenario, [settings]), {}, names)
    return sum(jnp.log(real[name]) for name in names)


def programs(scenario: Scenario, names: tuple[str, ...], few: tuple[str, ...]) -> dict[str, Callable]:
    """Compiled functions of columns: the forward pass, and gradients in all knobs or a few of them."""

    def forward(columns):
        return metric(scenario, names, columns)

    def partial(columns):
        rest = {path: column for path, column in columns.items() if path not in few}
        return jax.value_and_grad(lambda some: metric(scenario, names, rest | some))({p: columns[p] for p in few})

    def along(columns):
        chosen = {path: columns[path] for path in few}
        rest = {path: column for path, column in columns.items() if path not in few}
        ones = jax.tree.map(jnp.ones_like, chosen)
        return jax.jvp(lambda some: metric(scenario, names, rest | some), (chosen,), (ones,))

    gradient = jax.value_and_grad(forward)
    return {
        "forward": _loops(forward),
        "gradient, all knobs": _loops(gradient),
        "gradient, one knob": _loops(partial),
        "forward mode, one knob": _loops(along),
        "forward, XLA": jax.jit(jax.vmap(forward)),
        "gradient, all knobs, XLA": jax.jit(jax.vmap(gradient)),
    }


def _loops(function: Callable) -> Callable:
    """A function of columns as machine code."""
    program = mapped(lambda own: function(dict(zip(KNOBS, own, strict=True))), [np.zeros(1, np.float32)] * len(KNOBS))
    return lambda columns: program([columns[path] for path in KNOBS])


def columns_of(scenario: Scenario, points: int) -> dict[str, np.ndarray]:
    """A random factor of its own for every knob and point."""
    random = np.random.default_rng(0)
    return {
        path: (float(leaf(scenario, path)) * random.uniform(0.8, 1.25, points)).astype(np.float32) for path in KNOBS
    }


def seconds(made: dict[str, Callable], columns: dict[str, np.ndarray], chunk: int, repeats: int) -> dict[str, float]:
    """Least times of all chunks of a million designs by program, which take turns; without their compilation."""
    size = len(next(iter(columns.values())))
    parts = [{path: c[low : low + chunk] for path, c in columns.items()} for low in range(0, size, chunk)]
    parts = [part for part in parts if len(part[KNOBS[0]]) == chunk]
    jax.block_until_ready([program(parts[0]) for program in made.values()])
    best = dict.fromkeys(made, np.inf)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in range(repeats):
            for name, program in made.items():
                begun = time.perf_counter()
                list(pool.map(lambda part, program=program: jax.block_until_ready(program(part)), parts))
                best[name] = min(best[name], time.perf_counter() - begun)
    return best


def main() -> None:
    """Print seconds and ratios for every chunk size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1 << 20)
    parser.add_argument("--chunks", default="4096,16384,65536")
    parser.add_argument("--metrics", default="tpot")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--efficiency", default="derated")
    options = parser.parse_args()
    scenario = jax.tree.map(np.float32, base(options.efficiency))
    made = programs(scenario, tuple(options.metrics.split(",")), ("hardware.memory.hbm.bandwidth",))
    columns = columns_of(scenario, options.points)
    print(f"{options.metrics}, {options.points:,} designs, {len(KNOBS)} knobs, {options.efficiency}")
    for chunk in map(int, options.chunks.split(",")):
        times = seconds(made, columns, chunk, options.repeats)
        text = ", ".join(f"{name} {t:.3f} s ({t / times['forward']:.1f} x)" for name, t in times.items())
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"chunks of {chunk:,}: {text}; peak RSS {rss:.2f} GB, load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
