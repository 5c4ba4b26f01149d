"""The question of one training iteration: its sums and its metrics."""

import jax.numpy as jnp

from jaxroof.deployment import devices
from jaxroof.energy import power_known
from jaxroof.op import PARALLELISMS
from jaxroof.step import Lazy, Terms
from jaxroof.struct import Scalar
from jaxroof.training.flops import model_floor, model_flops
from jaxroof.training.iteration import Iteration, iteration
from jaxroof.training.memory import total_memory, training_fits, training_memory
from jaxroof.training.terms import training_terms
from jaxroof.training.training import Training
from sweeps.job import Job, Scenario
from sweeps.legality import scenario_legal

BILLION = 1e9


def _sums(scenario: Scenario) -> Lazy:
    return training_terms(*_place(scenario), scenario.efficiency)


def _place(scenario: Scenario) -> tuple:
    return scenario.hardware, scenario.model, scenario.deployment, scenario.workload


def _metrics(scenario: Scenario, sums: dict[str, Scalar], tables: dict[str, Terms]) -> dict[str, Scalar]:
    hardware, model, deployment, training = _place(scenario)
    found = iteration(sums, *_place(scenario), scenario.efficiency)
    every = devices(deployment)
    flops = model_flops(model, deployment, training)
    floor = model_floor(hardware, model, deployment, training)
    sequences = training.global_batch / every
    return {
        "iteration_time": jnp.asarray(found.time),
        "mfu": floor * sequences / found.time,
        "hfu": found.executed / found.time,
        "model_flops_per_second": flops * sequences / found.time,
        "devices": jnp.asarray(every),
        "micro_batches": jnp.asarray(found.micro_batches),
        "micro_batch_forward_time": found.forward,
        "micro_batch_backward_time": found.backward,
        "recompute_time": jnp.asarray(found.recompute),
        "optimizer_time": jnp.asarray(found.optimizer),
        "bubble_time": found.bubble,
        "bubble_share": found.bubble / found.unlimited,
        "communication_exposed": sum(found.exposed.values()),
        "communication_hidden": sum(found.hidden.values()),
        **{f"{kind}_exposed": found.exposed[kind] for kind in PARALLELISMS},
        **{f"{kind}_hidden": found.hidden[kind] for kind in PARALLELISMS},
        **_memory(scenario),
        **_rates(scenario, found),
    }


def _memory(scenario: Scenario) -> dict[str, Scalar]:
    """Memory of the fullest device by kind, whether it fits, and whether the layout can be."""
    hardware, model, deployment, training = _place(scenario)
    memory = training_memory(model, deployment, training)
    fits = training_fits(hardware, memory)
    split = scenario_legal(scenario)
    total = jnp.asarray(total_memory(memory))
    return {
        "weights_memory": jnp.asarray(memory.weights),
        "gradients_memory": jnp.asarray(memory.gradients),
        "optimizer_memory": jnp.asarray(memory.optimizer),
        "activations_memory": jnp.asarray(memory.activations),
        "buffers_memory": jnp.asarray(memory.buffers),
        "training_memory": total,
        "memory_use": total / hardware.memory.hbm.capacity,
        "fits": fits,
        "legal": split,
        "feasible": fits & split,
    }


def _rates(scenario: Scenario, found: Iteration) -> dict[str, Scalar]:
    """Tokens per second, and what tokens take in energy, money and time where the figures are known."""
    hardware, _, deployment, training = _place(scenario)
    every = devices(deployment)
    rate = training.global_batch * training.seq / found.time
    metrics = {"training_tokens_per_second": rate, "training_tokens_per_second_per_device": rate / every}
    if power_known(hardware):
        power = found.energy / found.time + hardware.power.static
        metrics |= {
            "power": power,
            "slowdown": found.time / found.unlimited,
            "joules_per_billion_tokens": BILLION * power * every / rate,
        }
    if hardware.price is not None:
        metrics["usd_per_billion_tokens"] = BILLION * hardware.price * every / rate
    if training.tokens is None:
        return metrics
    metrics["training_time"] = training.tokens / rate
    if hardware.price is not None:
        metrics["training_usd"] = training.tokens / rate * hardware.price * every
    if power_known(hardware):
        metrics["training_energy"] = training.tokens / BILLION * metrics["joules_per_billion_tokens"]
    return metrics


TRAIN = Job("train", Training, _sums, lambda scenario: {}, _metrics)
