"""Small changes in core formulas, each of which a test has to catch.

    python -m tests.mutations            # all of them, in a copy of the tree: caught or survived
    python -m tests.mutations --only roofline_sum --only prefix_of_all

The exit status is 1 where one survives. It takes some minutes, so CI checks only that every change still applies
(`tests/test_mutations.py`).
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mutation(NamedTuple):
    """One change of a formula, and the tests that have to fail with it."""

    file: str
    old: str  # stands once in the file
    new: str
    tests: str  # files of `tests/`, with blanks


MUTATIONS = {
    # One op
    "roofline_sum": Mutation(
        "jaxroof/roofline.py",
        "Timing(launch + maximum(*times.values())",
        "Timing(launch + sum(times.values())",
        "jaxroof/test_roofline_regimes.py",
    ),
    "blocked_traffic": Mutation(
        "jaxroof/memory/traffic.py",
        "elements = rsqrt(capacity / element_bytes)",
        "elements = 0.5 * rsqrt(capacity / element_bytes)",
        "jaxroof/test_roofline_regimes.py jaxroof/test_oracle_agreement.py",
    ),
    "bound_of_levels": Mutation(
        "jaxroof/roofline.py",
        "return Timing(maximum(timing.total, *longest), slower(counted, least))",
        "return Timing(timing.total, slower(counted, least))",
        "jaxroof/test_bounds.py",
    ),
    "memory_beside": Mutation(
        "jaxroof/memory/beside.py",
        "more = positive_part(beside_time(op, hardware) * hardware.memory.hbm.bandwidth - own)",
        "more = 0.0 * positive_part(beside_time(op, hardware) * hardware.memory.hbm.bandwidth - own)",
        "jaxroof/test_memories.py",
    ),
    "slowest_memory": Mutation(
        "jaxroof/memory/placement.py",
        "before = rates[other] < rates[name] if slowest_first else rates[other] > rates[name]",
        "before = rates[other] > rates[name]",
        "jaxroof/test_memories.py",
    ),
    "mesh_crossing": Mutation(
        "jaxroof/efficiency/mesh.py",
        "return op.kernels * CROSSINGS * jnp.sqrt(hardware.cores.count) * hop",
        "return op.kernels * jnp.sqrt(hardware.cores.count) * hop",
        "jaxroof/test_memories.py",
    ),
    "tile_columns": Mutation(
        "jaxroof/efficiency/tiles.py",
        "columns = {n: ceiling(outputs * (1.0 / n))",
        "columns = {n: (outputs * (1.0 / n))",
        "jaxroof/test_gemm_kernel.py",
    ),
    "store_time": Mutation(
        "jaxroof/efficiency/tiles.py",
        "(fixed_time + store_time * (m * n / STORED))",
        "(fixed_time + store_time * (m / STORED))",
        "jaxroof/test_gemm_kernel.py",
    ),
    "decode_overlap": Mutation(
        "jaxroof/efficiency/decode.py",
        "square = work * work + start * start + wait * wait",
        "square = work * work + start * start",
        "jaxroof/test_decode_kernel.py",
    ),
    "decode_splits": Mutation(
        "jaxroof/efficiency/decode.py",
        "Splits(per_unit, 1.0 - 1.0 / per_unit,",
        "Splits(per_unit, 1.0 - 0.9 / per_unit,",
        "jaxroof/test_decode_kernel.py",
    ),
    "prefill_longest": Mutation(
        "jaxroof/efficiency/prefill.py",
        "joined(share, kernel.tail * tiles.longest)",
        "joined(share, 0.5 * kernel.tail * tiles.longest)",
        "jaxroof/test_prefill_kernel.py",
    ),
    "causal_ahead": Mutation(
        "jaxroof/efficiency/prefill.py",
        "ahead = 0.5 * positive_part(queries - 1.0)",
        "ahead = 0.5 * positive_part(queries)",
        "jaxroof/test_prefill_kernel.py",
    ),
    "grouped_contention": Mutation(
        "jaxroof/efficiency/grouped.py",
        "taken = matrix + memory + 2.0 * kernel.contention",
        "taken = matrix + memory + 1.9 * kernel.contention",
        "jaxroof/test_grouped_kernel.py",
    ),
    "expert_spread": Mutation(
        "jaxroof/efficiency/grouped.py",
        "partly = 1.0 + (over - 1.0 - 0.5 * jnp.log(over)) / span",
        "partly = 1.0 + (over - 1.0 - 0.4 * jnp.log(over)) / span",
        "jaxroof/test_grouped_kernel.py",
    ),
    # Collectives
    "tree_hops": Mutation(
        "jaxroof/collectives/algorithms.py",
        "return hops + maximum(stream_time(inner, passes * size), *_branches(outer, size, passes))",
        "return hops + maximum(stream_time(inner, size), *_branches(outer, size, passes))",
        "jaxroof/test_collectives.py jaxroof/test_tiers.py",
    ),
    "halving_hops": Mutation(
        "jaxroof/collectives/algorithms.py",
        "hops = passes * sum(_depth(tier) * tier.hop_time for tier in tiers)",
        "hops = sum(_depth(tier) * tier.hop_time for tier in tiers)",
        "jaxroof/test_collectives.py",
    ),
    # Memory
    "stage_weights": Mutation(
        "jaxroof/memory/capacity.py",
        "outer = jnp.where(deployment.pp > 1.0, maximum(embedding, head), outer)",
        "outer = jnp.where(deployment.pp > 2.0, maximum(embedding, head), outer)",
        "jaxroof/test_memory.py jaxroof/test_parallelism.py",
    ),
    "outside_cache": Mutation(
        "jaxroof/memory/capacity.py",
        "beyond = outside.capacity / jnp.where(some, deployment.offloaded, 1.0)",
        "beyond = outside.capacity",
        "jaxroof/test_memory.py jaxroof/test_paging.py",
    ),
    "sampler_rows": Mutation(
        "jaxroof/memory/reserve.py",
        "return minimum(rows, deployment.max_batched_tokens)",
        "return rows",
        "jaxroof/test_reserved.py",
    ),
    "expert_group": Mutation(
        "jaxroof/memory/legality.py",
        "divides(deployment.ep, stage),",
        "divides(deployment.ep, stage * 2.0),",
        "jaxroof/test_legality.py jaxroof/test_legality_matrix.py",
    ),
    # One step
    "gemm_pieces": Mutation(
        "jaxroof/step/overlap.py",
        "saved = saved + (1.0 - 1.0 / PIECES) * minimum(times[name], times[partner])",
        "saved = saved + minimum(times[name], times[partner])",
        "jaxroof/test_overlap.py",
    ),
    "two_halves": Mutation(
        "jaxroof/step/overlap.py",
        "return {name: dataclasses.replace(op, count=2.0 * op.count) for name, op in ops.items()}",
        "return {name: dataclasses.replace(op, count=1.9 * op.count) for name, op in ops.items()}",
        "jaxroof/test_overlap.py",
    ),
    "drafts_right": Mutation(
        "jaxroof/deployment/speculation.py",
        "return -jnp.expm1((deployment.drafts + 1.0) * jnp.log(right)) / (1.0 - right)",
        "return -jnp.expm1(deployment.drafts * jnp.log(right)) / (1.0 - right)",
        "jaxroof/test_speculation.py",
    ),
    "tree_branches": Mutation(
        "jaxroof/deployment/speculation.py",
        "-jnp.expm1(branches * jnp.log1p(-_inside(right)))",
        "-jnp.expm1(jnp.log1p(-_inside(right)))",
        "jaxroof/test_speculation.py",
    ),
    # Energy, silicon, money
    "lowest_voltage": Mutation(
        "jaxroof/energy/governor.py",
        "return AtVoltage(share * share, 1.0 / headroom, clock)",
        "return AtVoltage(share, 1.0 / headroom, clock)",
        "jaxroof/test_governor.py",
    ),
    "power_limit": Mutation(
        "jaxroof/energy/governor.py",
        "longest = energy.total * limit.reciprocal",
        "longest = energy.core * limit.reciprocal",
        "jaxroof/test_governor.py",
    ),
    "memory_stacks": Mutation(
        "jaxroof/chip/area.py",
        "hbm.capacity / silicon.stack_capacity)",
        "hbm.capacity / silicon.stack_bandwidth)",
        "jaxroof/test_area.py",
    ),
    "die_yield": Mutation(
        "jaxroof/chip/cost.py",
        "* area * defects / clustering) ** -clustering",
        "* area * defects) ** -clustering",
        "jaxroof/test_cost.py",
    ),
    "lost_packages": Mutation(
        "jaxroof/chip/cost.py",
        '"package": covered * costs.package * lost,',
        '"package": covered * costs.package,',
        "jaxroof/test_cost.py",
    ),
    "dollars": Mutation(
        "jaxroof/chip/cost.py",
        "return device_cost(hardware) * _costs(hardware).margin",
        "return 1.01 * device_cost(hardware) * _costs(hardware).margin",
        "jaxroof/test_cost.py",
    ),
    # A simulated engine
    "prefix_of_all": Mutation(
        "jaxroof/scheduler/prefixes.py",
        "jnp.minimum(cached_blocks, (target - 1) // engine.size)",
        "jnp.minimum(cached_blocks, target // engine.size)",
        "jaxroof/test_serving.py",
    ),
    "next_block": Mutation(
        "jaxroof/scheduler/admission.py",
        "next_begins = begins_block(candidate.target + 1, engine.size)",
        "next_begins = begins_block(candidate.target, engine.size)",
        "jaxroof/test_scheduler.py jaxroof/test_oracle_agreement.py",
    ),
    "blocks_of": Mutation(
        "jaxroof/scheduler/state.py",
        "return (tokens + size - 1) // size",
        "return tokens // size + 1",
        "jaxroof/test_scheduler.py",
    ),
    "second_token": Mutation(
        "jaxroof/jobs/serve.py",
        "several = done & (osl > 1.5)",
        "several = done & (osl > 2.5)",
        "jaxroof/test_serving.py",
    ),
    "time_per_token": Mutation(
        "jaxroof/jobs/serve.py",
        "jnp.where(several, osl - 1.0, 1.0)",
        "jnp.where(several, osl, 1.0)",
        "jaxroof/test_serving.py",
    ),
    # An engine under endless load
    "room_for_prompts": Mutation(
        "jaxroof/steady/steady_state.py",
        "room = jnp.maximum(policy.token_budget - jnp.where(mixed, batch, 0.0), 1.0)",
        "room = jnp.maximum(policy.token_budget, 1.0)",
        "jaxroof/test_steady_state.py",
    ),
    "last_part": Mutation(
        "jaxroof/steady/steady_state.py",
        "return jnp.where(parts < CHUNKS - 1.0, 1.0 + longer, parts + 0.5)",
        "return jnp.where(parts < CHUNKS - 1.0, longer, parts + 0.5)",
        "jaxroof/test_steady_state.py",
    ),
    "waiting": Mutation(
        "jaxroof/steady/queue.py",
        "further = turned_away * service / (2.0 * idle * evenness)",
        "further = turned_away * service / (idle * evenness)",
        "jaxroof/test_prompt_queue.py sweeps/test_pool_latencies.py",
    ),
    "layerwise": Mutation(
        "jaxroof/jobs/splits.py",
        "overlapped = transfer / layers + others * positive_part(transfer - prefill)",
        "overlapped = others * positive_part(transfer - prefill)",
        "jaxroof/jobs",
    ),
    # Training
    "interleaved_bubble": Mutation(
        "jaxroof/training/schedules.py",
        '"interleaved": filling / virtual_stages,',
        '"interleaved": filling,',
        "training/test_schedules.py",
    ),
    "activations_in_flight": Mutation(
        "jaxroof/training/schedules.py",
        "interleaved = stages + (stages - 1.0) / virtual_stages",
        "interleaved = stages + stages / virtual_stages",
        "training/test_schedules.py",
    ),
    "input_gradient": Mutation(
        "jaxroof/training/backward.py",
        "moved = shape.rows * (shape.outputs * op.operand_bytes + shape.inputs * shape.output_bytes)",
        "moved = shape.rows * (shape.inputs * op.operand_bytes + shape.inputs * shape.output_bytes)",
        "jaxroof/test_training_backward.py",
    ),
    # Streams of requests
    "gamma_shape": Mutation(
        "workloads/streams/arrivals.py",
        "shape = max(cv, _EVEN) ** -2.0",
        "shape = max(cv, _EVEN) ** -1.0",
        "workloads/test_streams.py",
    ),
    "percentile_rank": Mutation(
        "jaxroof/jobs/serve.py",
        "places = shares * (total - jnp.where(jnp.isfinite(least), least, 0.0))",
        "places = shares * total",
        "jaxroof/test_serving.py",
    ),
    "lognormal_mean": Mutation(
        "workloads/streams/lengths.py",
        'return math.log(v["mean"]) - spread**2 / 2.0, spread',
        'return math.log(v["mean"]) - spread**2, spread',
        "workloads/test_streams.py",
    ),
}
"""Changes by name."""


def run() -> int:
    """Apply the changes one by one, say what became of each, and return the exit status."""
    parser = argparse.ArgumentParser(description="small changes of core formulas that tests have to catch")
    parser.add_argument("--only", action="append", choices=MUTATIONS, help="one of them; may be given again")
    names = parser.parse_args().only or list(MUTATIONS)
    survived = []
    with tempfile.TemporaryDirectory(prefix="mutations-") as name:
        tree = Path(name) / "tree"
        left_out = shutil.ignore_patterns(".git", ".venv", "*.egg-info", ".*cache", "__pycache__")
        shutil.copytree(ROOT, tree, ignore=left_out)
        if _failed(tree, " ".join(dict.fromkeys(" ".join(MUTATIONS[each].tests for each in names).split()))):
            raise RuntimeError("a test fails without any change")
        for mutation in names:
            caught = _caught(tree, MUTATIONS[mutation])
            survived += [] if caught else [mutation]
            print(f"{'caught  ' if caught else 'SURVIVED'} {mutation}", flush=True)
    print(f"{len(names) - len(survived)} of {len(names)} caught")
    return int(bool(survived))


def _caught(tree: Path, mutation: Mutation) -> bool:
    """Whether a test fails in `tree` with the change, which is taken back."""
    file = tree / mutation.file
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        return _failed(tree, mutation.tests)
    finally:
        file.write_text(text, encoding="utf-8")


def _failed(tree: Path, tests: str) -> bool:
    """Whether one of these tests of `tree` fails."""
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    words += [f"tests/{each}" for each in tests.split()]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
    done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1):  # pytest: 1 is a failed test, all else is no answer
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return done.returncode == 1


if __name__ == "__main__":
    sys.exit(run())
