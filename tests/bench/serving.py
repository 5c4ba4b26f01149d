"""Simulated requests per second, alone and vmapped, beside the plain simulator: `python -m tests.bench.serving`.

Every case runs in a process of its own, so that its peak memory is its own. `--against` ends with 1 where a case is
slower than in another checkout.
"""

import argparse
import dataclasses
import functools
import json
import os
import resource
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.bench import turns


class Case(NamedTuple):
    """One row of the table."""

    title: str
    simulations: int  # hardware points
    requests: int
    slots: int
    threads: int = 1
    # "metrics"; "gradient" of mean and p99 TTFT through the loop, "slopes" of both from its record; "plain", the
    # simulator of the tests; or one of all replicas together
    what: str = "metrics"
    efficiency: str = "derated"


CASES = {
    "plain": Case("plain Python, step by step (the tests' reference)", 1, 200, 64, what="plain"),
    "single": Case("one simulation, 64 slots", 1, 1000, 64),
    "single-256": Case("one simulation, 256 slots", 1, 1000, 256),
    "many": Case("64 accelerators, 64 slots", 64, 1000, 64),
    "many-256": Case("64 accelerators, 256 slots", 64, 1000, 256),
    "many-threads": Case("64 accelerators, 64 slots, on two threads", 64, 1000, 64, threads=2),
    "many-256-threads": Case("64 accelerators, 256 slots, on two threads", 64, 1000, 256, threads=2),
    "learned": Case("64 accelerators, 64 slots, `learned`", 64, 1000, 64, efficiency="learned"),
    "long": Case("one simulation of 10,000 requests, 64 slots", 1, 10_000, 64),
    "memory": Case("64 accelerators, 10,000 requests, 256 slots", 64, 10_000, 256),
    "service": Case("8 replicas, conversations, prefix router", 8, 1000, 64, what="service"),
    "pools": Case("3 + 5 replicas in pools, conversations that wait", 8, 1000, 64, what="pools"),
    "fleet": Case("100 replicas, prompts that begin alike, prefix router", 100, 1000, 64, what="fleet"),
    "everything": Case("3 + 5 replicas in pools, two tiers, drafts", 8, 1000, 64, what="everything"),
    "slopes": Case("one simulation of 10,000 and gradients of mean and p99 TTFT", 1, 10_000, 64, what="slopes"),
    "gradient": Case("one simulation, gradient of mean and p99 TTFT", 1, 1000, 64, what="gradient"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.serving", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of every case after a warm-up")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--case", metavar="NAME", action="append", choices=list(CASES), help="only this case")
    parser.add_argument("--against", metavar="FOLDER", help="another checkout, measured in turns with this one")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_process:
        print(json.dumps(measured(options.case[0], options.repeats)))
        return 0
    names = options.case or list(CASES)
    if options.against is not None:
        beside = turns.beside(
            names, lambda name, folder: in_own_process(name, options.repeats, folder), "requests", options.against
        )
        return turns.judged(beside, "requests", options.against, options.json)
    rows = [in_own_process(name, options.repeats) for name in names]
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    table = Table(title=f"simulated requests/s, {os.cpu_count()} cores, median of {options.repeats}")
    for heading in ("case", "requests/s", "best", "us/iteration", "iterations/request", "compile", "peak memory"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for row in rows:
        table.add_row(
            CASES[row["name"]].title,
            f"{row['requests'] / row['median_s']:,.0f}",
            f"{row['requests'] / row['best_s']:,.0f}",
            f"{1e6 * row['median_s'] / row['iterations']:,.1f}",
            f"{row['iterations_per_request']:.2f}",
            f"{row['compile_s']:.1f} s",
            f"{row['memory_bytes'] / 1e9:.2f} GB",
        )
    Console(width=150).print(table)
    return 0


def in_own_process(name: str, repeats: int, folder: str | None = None) -> dict:
    words = ["--in-process", "--case", name, "--repeats", str(repeats)]
    return turns.in_own_process("tests.bench.serving", words, folder)


def measured(name: str, repeats: int) -> dict:
    import jax

    jax.config.update("jax_enable_x64", True)
    case = CASES[name]
    made = {
        "plain": plain,
        "slopes": recorded,
        "service": service,
        "pools": service,
        "fleet": service,
        "everything": everything,
    }
    run, iterations, per_request = made.get(case.what, compiled)(case)
    begun = time.perf_counter()
    run()
    first = time.perf_counter() - begun
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begun)
    return {
        "name": name,
        "requests": case.requests * case.simulations,
        "median_s": statistics.median(seconds),
        "best_s": min(seconds),
        "compile_s": max(first - statistics.median(seconds), 0.0),
        "iterations": iterations(),
        "iterations_per_request": per_request(),
        "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def streams(case: Case):
    from workloads.streams.streams import generated

    return generated(
        "poisson:8", "lognormal:mean=1024,sigma=0.6", "lognormal:mean=256,sigma=0.6", requests=case.requests, seed=1
    )


def alone(case: Case):
    """One replica and its requests."""
    import hwspaces
    import workloads
    from jaxroof.batch import Policy
    from jaxroof.jobs import Scenario
    from jaxroof.jobs.serve import Service
    from sweeps.ask.cases import model_deployment
    from workloads.streams.stream import traffic

    entry = workloads.model("Llama-3.1-70B")
    return Scenario(
        hardware=hwspaces.hardware("H100-SXM").hardware,
        model=entry.model,
        deployment=dataclasses.replace(model_deployment(entry, None), tp=8.0),
        workload=Service(traffic=traffic(streams(case)), policy=Policy(max_sequences=float(case.slots))),
        efficiency=hwspaces.efficiency(case.efficiency).efficiency,
    )


def recorded(case: Case):
    """A simulation and, from its record, derivatives by every number of the hardware."""
    from sweeps.ask.axes import leaf, leaf_paths
    from sweeps.run.simulated.routes import Routes
    from sweeps.run.simulated.service import EngineKind, room_for, serviced
    from sweeps.run.simulated.slopes import slopes

    one, routes, made = alone(case), Routes(), {}
    engines = [EngineKind(one, 1, 0)]
    numbers = [path for path in leaf_paths(one) if path.startswith("hardware.") and not np.ndim(leaf(one, path))]

    def run() -> None:
        room = room_for(engines, routes, traced=True)._replace(short=False)
        made["found"] = serviced(engines, routes, room=room)
        slopes(made["found"], one, ("ttft_mean", "ttft_p99"), numbers, routes)

    return run, lambda: made["found"].iterations, lambda: made["found"].iterations / case.requests


def compiled(case: Case):
    """The run, and functions that say how many iterations it made."""
    import jax
    import jax.numpy as jnp

    from jaxroof.jobs import Scenario
    from jaxroof.jobs.serve import Objective, serving_metrics
    from jaxroof.scheduler import simulate
    from sweeps.run.simulated.simulation import simulated, size_for

    one = alone(case)
    requests, policy = one.workload.traffic, one.workload.policy
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), one)
    size = size_for(requests, policy)

    def bandwidth(serving: Scenario, scale) -> Scenario:
        memory = serving.hardware.memory
        hbm = dataclasses.replace(memory.hbm, bandwidth=memory.hbm.bandwidth * scale)
        hardware = dataclasses.replace(serving.hardware, memory=dataclasses.replace(memory, hbm=hbm))
        return dataclasses.replace(serving, hardware=hardware)

    if case.what == "gradient":
        size = dataclasses.replace(size, iterations=3 * case.requests)

        @jax.jit
        @jax.grad
        def slope(serving: Scenario):
            found, timeline = simulate(*_parts(serving), size)
            metrics = serving_metrics(found, timeline, serving.workload.traffic, 1e5, Objective())
            return metrics["ttft_mean"] + metrics["ttft_p99"]

        return lambda: jax.block_until_ready(slope(one)), lambda: size.iterations, lambda: 3.0

    axes = Scenario(hardware=0, model=None, deployment=None, workload=None, efficiency=None)
    scales = jnp.linspace(0.9, 2.0, case.simulations)
    hardware = jax.vmap(lambda scale: bandwidth(one, scale).hardware)(scales)
    parts = [
        dataclasses.replace(one, hardware=jax.tree.map(lambda leaf, part=part: leaf[part :: case.threads], hardware))
        for part in range(case.threads)
    ]
    made = {}

    def part(index: int) -> None:
        # Rates are those of long runs, whose programs are optimised; of few requests they are not: a second less.
        _, timeline = jax.block_until_ready(simulated(parts[index], size, axes, short=False))
        made[index] = timeline.steps.shape[1]

    def run() -> None:
        if case.threads == 1:
            part(0)
            return
        with ThreadPoolExecutor(case.threads) as pool:
            list(pool.map(part, range(case.threads)))

    return run, lambda: made[0], lambda: made[0] / case.requests


def service(case: Case):
    """All replicas of one service: `case.simulations` of them, with `case.requests` requests each."""
    import hwspaces
    import workloads
    from jaxroof.batch import Policy
    from jaxroof.jobs import Scenario
    from jaxroof.jobs.scenario import Pool
    from jaxroof.jobs.serve import Service
    from sweeps.ask.cases import model_deployment
    from sweeps.run.simulated.service import Routes, kinds, room_for, serviced
    from workloads.streams.stream import traffic
    from workloads.streams.streams import generated

    entry, replicas, count = workloads.model("Llama-3.1-8B"), case.simulations, case.simulations * case.requests
    words = {"prefixes": f"groups={20 * replicas},tokens=1024,zipf=1"}
    if case.what != "fleet":
        words["sessions"] = f"turns=2..8,think=5,wait={int(case.what == 'pools')}"
    rate = {"fleet": 8.0, "service": 2.0, "pools": 1.0}[case.what] * replicas
    lengths = "lognormal:mean=512,sigma=0.6", "lognormal:mean=128,sigma=0.6"
    requests = traffic(generated(f"poisson:{rate}", *lengths, requests=count, seed=1, **words))
    policy = Policy(max_sequences=float(case.slots))
    hardware, constants = hwspaces.hardware("H100-SXM").hardware, hwspaces.efficiency(case.efficiency).efficiency
    alone = model_deployment(entry, None)
    pool = Pool(hardware=hardware, deployment=dataclasses.replace(alone, dp=3.0), efficiency=constants)
    decoding = 5 if case.what == "pools" else replicas
    scenario = Scenario(
        hardware=hardware,
        model=entry.model,
        deployment=dataclasses.replace(alone, dp=float(decoding)),
        workload=Service(traffic=requests, policy=policy),
        efficiency=constants,
        prefill=pool if case.what == "pools" else None,
    )
    engines, routes, made = kinds(scenario), Routes(router="prefix"), {}

    def run() -> None:
        made["found"] = serviced(engines, routes, room=room_for(engines, routes)._replace(short=False))

    return run, lambda: made["found"].iterations, lambda: made["found"].iterations / count


def everything(case: Case):
    """The pools of `service` with tiers of the cache, a draft model and a prefix router, as a user writes them."""
    from sweeps.run.simulated.service import room_for, serviced
    from sweeps.run.simulated.spec import serve_spec
    from sweeps.serving.run import setup

    count, made = case.simulations * case.requests, {}
    asked = serve_spec(
        hardware="H100-SXM",
        model="Llama-3.1-8B",
        deployment={"dp": 5, "drafts": 3},
        prefill={"dp": 3},
        draft="Llama-3.2-1B",
        policy={"acceptance": 0.8, "max_sequences": case.slots},
        router="prefix",
        tiers="host=256GB,ssd=2TB",
        rate=float(case.simulations),
        isl="lognormal:mean=512,sigma=0.6",
        osl="lognormal:mean=128,sigma=0.6",
        requests=count,
        prefixes=f"groups={20 * case.simulations},tokens=1024,zipf=1",
        sessions="turns=2..8,think=5,wait=1",
        seed=1,
    )
    given = setup(asked)
    room = room_for(given.kinds, given.routes)._replace(short=False)

    def run() -> None:
        made["found"] = serviced(given.kinds, given.routes, room=room)

    return run, lambda: made["found"].iterations, lambda: made["found"].iterations / count


def plain(case: Case):
    """The tests' simulator with the same prices."""
    import jax
    import jax.numpy as jnp

    import hwspaces
    import workloads
    from jaxroof.batch import Batch, Decode, Policy, Prefill
    from jaxroof.prices.prices import step_prices
    from jaxroof.prices.tables import Limits
    from sweeps.ask.cases import model_deployment
    from tests.oracle.serving import serve
    from tests.oracle.serving.jobs import Requests
    from workloads.streams.stream import traffic

    entry = workloads.model("Llama-3.1-70B")
    deployment = dataclasses.replace(model_deployment(entry, None), tp=8.0)
    _, price = step_prices(
        hwspaces.hardware("H100-SXM").hardware,
        entry.model,
        deployment,
        hwspaces.efficiency(case.efficiency).efficiency,
        Limits(rows=8192 + case.slots, sequences=case.slots, context=16384),
    )
    compiled_price = jax.jit(price)

    @functools.cache
    def priced(prompts, tokens, past, sequences, context, logits, rows):
        batch = Batch(
            prefill=Prefill(sequences=jnp.asarray(prompts), tokens=jnp.asarray(tokens), past=jnp.asarray(past)),
            decode=Decode(sequences=jnp.asarray(sequences), context=jnp.asarray(context)),
            logits=jnp.asarray(logits),
        )
        device, host = compiled_price(batch, jnp.asarray(rows))
        return float(device), float(host)

    def of(batch, rows=None):
        prefill, decode = batch.prefill, batch.decode
        prompt = (prefill.sequences, prefill.tokens, prefill.past) if prefill else (0.0, 0.0, 0.0)
        decoding = (decode.sequences, decode.context) if decode else (0.0, 0.0)
        return priced(*prompt, *decoding, batch.logits, rows or prompt[1] + decoding[0])

    made, asked = {}, traffic(streams(case))
    requests = Requests(asked.arrival, asked.isl, asked.osl)

    def run() -> None:
        made["steps"] = len(serve(of, requests, Policy(max_sequences=float(case.slots)), 10**6).steps)

    return run, lambda: made["steps"], lambda: made["steps"] / case.requests


def _parts(serving) -> tuple:
    return (
        serving.hardware,
        serving.model,
        serving.deployment,
        serving.efficiency,
        serving.workload.traffic,
        serving.workload.policy,
    )


if __name__ == "__main__":
    sys.exit(main())
