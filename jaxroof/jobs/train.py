"""Job of one training iteration: its time, throughput, memory, energy and price."""

from collections.abc import Iterator

from jaxroof.deployment import SEQUENCE_WAYS, Deployment, degree, devices
from jaxroof.deployment.rule import Rule
from jaxroof.energy.energy import power_known
from jaxroof.energy.governor import mean_power
from jaxroof.hardware import Hardware
from jaxroof.jobs.economics import BILLION, clocks, joules_of_tokens, usd_of_tokens
from jaxroof.jobs.job import Job, deployment_rules
from jaxroof.jobs.scenario import Metric, Scenario, higher, lower
from jaxroof.memory.capacity import layer_count
from jaxroof.memory.legality import holds
from jaxroof.model import Model
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar
from jaxroof.op import PARALLELISMS
from jaxroof.step.step import Lazy, Terms
from jaxroof.training.frozen import frozen_formats
from jaxroof.training.iteration import Iteration, iteration
from jaxroof.training.memory import total_memory, training_fits, training_memory
from jaxroof.training.schedules import SCHEDULES, schedule_legal
from jaxroof.training.terms import model_floor, model_flops, training_terms
from jaxroof.training.training import Training, groups, micro_batches

PARTNERS = {
    "tp": "tensor-parallel devices",
    "pp": "pipeline stages",
    "dp": "copies of the weights",
    "ep": "expert-parallel devices",
    "cp": "context-parallel devices",
}
"""Between whom messages of each of `KINDS` are."""

METRICS = {
    "iteration_time": lower("s", "time of one training iteration"),
    "hfu": higher("1", "hardware FLOP utilisation: matrix work at peak, recomputation included, over time"),
    "model_flops_per_second": higher("FLOP/s", "FLOP that the model needs, per second and device"),
    "micro_batches": Metric("1", "micro-batches of one replica and iteration"),
    "micro_batch_forward_time": lower("s", "forward pass of one micro-batch on the fullest stage"),
    "micro_batch_backward_time": lower("s", "backward pass of one micro-batch on the fullest stage"),
    "recompute_time": lower("s", "time of an iteration in forward passes that are run again"),
    "optimizer_time": lower("s", "time of the update of weights and optimiser states"),
    "bubble_time": lower("s", "time of an iteration in which a pipeline stage idles"),
    "bubble_share": lower("1", "share of an iteration in which a pipeline stage idles"),
    "communication_exposed": lower("s", "time of an iteration that kernels wait for messages"),
    "communication_hidden": Metric("s", "time of an iteration's messages that run behind kernels"),
    "weights_memory": lower("B", "weights on the fullest device: 16 bits, frozen ones as they are stored"),
    "gradients_memory": lower("B", "gradients on the fullest device"),
    "optimizer_memory": lower("B", "optimiser states on the fullest device"),
    "activations_memory": lower("B", "activations of all micro-batches in flight on the fullest device"),
    "buffers_memory": lower("B", "buffers of framework, messages and gathered layers on the fullest device"),
    "training_memory": lower("B", "memory that training needs on the fullest device"),
    "training_tokens_per_second": higher("1/s", "tokens trained on per second, all devices"),
    "training_tokens_per_second_per_device": higher("1/s", "tokens trained on per second and device"),
    "joules_per_billion_tokens": lower("J", "energy of all devices per billion tokens trained on"),
    "usd_per_billion_tokens": lower("1", "US dollars per billion tokens trained on at the devices' price"),
    "training_time": lower("s", "time to train on all tokens"),
    "training_usd": lower("1", "US dollars to train on all tokens at the devices' price"),
    "training_energy": lower("J", "energy of all devices to train on all tokens"),
    **{
        f"{kind}_exposed": lower("s", f"time of an iteration that kernels wait for messages between {words}")
        for kind, words in PARTNERS.items()
    },
    **{
        f"{kind}_hidden": Metric("s", f"time of an iteration's messages between {words} that run behind kernels")
        for kind, words in PARTNERS.items()
    },
}
"""Metrics of training, and of messages between whom."""


def _place(scenario: Scenario) -> tuple[Hardware, Model, Deployment, Training]:
    return scenario.hardware, scenario.model, scenario.deployment, scenario.workload


def training_rules(scenario: Scenario) -> Iterator[Rule]:
    """Rules of the deployment, and those that training adds: micro-batches, stages, chunks and devices that add up."""
    yield from deployment_rules(scenario)
    hardware, model, deployment, training = _place(scenario)
    # Data parallelism splits sequences, micro-batches split what a replica has of them.
    number, pp, chunks = micro_batches(training, deployment), degree(deployment.pp), training.virtual_stages
    share = groups(deployment)
    yield (
        jnp.asarray((jnp.mod(number, 1.0) == 0.0) & (number >= 1.0)),
        lambda: (
            f"global_batch = {training.global_batch:g} is no multiple of micro_batch x {SEQUENCE_WAYS} "
            f"= {training.micro_batch:g} x {share:g}"
        ),
    )
    yield (
        jnp.asarray((jnp.mod(training.zero, 1.0) == 0.0) & (training.zero <= 3.0)),
        lambda: f"zero = {training.zero:g} must be 0, 1, 2 or 3",
    )
    cp = degree(deployment.cp)
    yield (
        jnp.asarray(jnp.mod(training.seq, cp) == 0.0),
        lambda: f"cp = {cp:g} does not divide the sequences of {training.seq:g} tokens",
    )
    yield (
        schedule_legal(training.schedule, pp, chunks, number),
        lambda: (
            f"schedule = {SCHEDULES[int(training.schedule)]} does not run {number:g} micro-batches on pp = {pp:g} "
            f"stages of {chunks:g} chunks: interleaved takes pp > 1 and a multiple of pp micro-batches, dualpipe an "
            "even pp and an even number of at least 2 pp, and the others 1 chunk"
        ),
    )
    layers = layer_count(model)
    yield (
        jnp.asarray(pp * chunks <= layers),
        lambda: f"pp x virtual_stages = {pp * chunks:g} chunks exceed the {layers:g} layers",
    )
    if frozen_formats(model):
        yield (
            jnp.asarray(training.lora is not None),
            lambda: "weights of fewer bits than they are multiplied in have no gradient: give adapters, lora",
        )
    if deployment.sequence_parallel:
        yield (
            jnp.asarray(jnp.mod(training.seq, cp * deployment.tp) == 0.0),
            lambda: f"sequence parallelism: tp x cp = {cp * deployment.tp:g} does not divide {training.seq:g} tokens",
        )
    links, used = hardware.links, devices(deployment)
    # The outermost tier of links bounds the devices that one job can span; without links that is one device.
    widest = next((link for link in (links.cluster, links.scale_out, links.scale_up) if link is not None), None)
    reach = 1.0 if widest is None else widest.devices
    yield (
        jnp.asarray(used <= reach),
        lambda: f"{used:g} devices exceed the {reach:g} that the hardware's links connect",
    )


def _sums(scenario: Scenario) -> Lazy:
    return training_terms(*_place(scenario), scenario.efficiency)


def training_metrics(scenario: Scenario, sums: dict[str, Scalar], tables: dict[str, Terms]) -> dict[str, Scalar]:
    """Metrics of one training iteration, by name, from terms that are summed over ops."""
    hardware, model, deployment, training = _place(scenario)
    cost = iteration(sums, *_place(scenario), scenario.efficiency)
    every = devices(deployment)
    flops = model_flops(model, deployment, training)
    floor = model_floor(hardware, model, deployment, training)
    # Sequences per device: MFU divides the work that the model needs by what all devices could do in the time.
    sequences = training.global_batch / every
    return {
        "iteration_time": cost.time,
        "mfu": floor * sequences / cost.time,
        # HFU counts recomputation too.
        "hfu": cost.executed / cost.time,
        "model_flops_per_second": flops * sequences / cost.time,
        "devices": every,
        "micro_batches": cost.micro_batches,
        "micro_batch_forward_time": cost.forward,
        "micro_batch_backward_time": cost.backward,
        "recompute_time": cost.recompute,
        "optimizer_time": cost.optimizer,
        "bubble_time": cost.bubble,
        "bubble_share": cost.bubble / cost.unlimited,
        "communication_exposed": sum(cost.exposed.values()),
        "communication_hidden": sum(cost.hidden.values()),
        **{f"{kind}_exposed": cost.exposed[kind] for kind in PARALLELISMS},
        **{f"{kind}_hidden": cost.hidden[kind] for kind in PARALLELISMS},
        **_memory(scenario),
        **_rates(scenario, cost),
    }


def _memory(scenario: Scenario) -> dict[str, Scalar]:
    """Memory of the fullest device by kind, whether it fits, and whether the layout can be."""
    hardware, model, deployment, training = _place(scenario)
    memory = training_memory(model, deployment, training)
    fits = training_fits(hardware, memory)
    split = holds(training_rules(scenario))
    total = total_memory(memory)
    return {
        "weights_memory": memory.weights,
        "gradients_memory": memory.gradients,
        "optimizer_memory": memory.optimizer,
        "activations_memory": memory.activations,
        "buffers_memory": memory.buffers,
        "training_memory": total,
        "memory_use": total / hardware.memory.hbm.capacity,
        "fits": fits,
        "legal": split,
        "feasible": fits & split,
    }


def _rates(scenario: Scenario, iteration: Iteration) -> dict[str, Scalar]:
    """Tokens per second, and what tokens take in energy, money and time where the figures are known."""
    hardware, _, deployment, training = _place(scenario)
    every = devices(deployment)
    # Tokens per iteration over its time.
    rate = training.global_batch * training.seq / iteration.time
    metrics = {"training_tokens_per_second": rate, "training_tokens_per_second_per_device": rate / every}
    if iteration.energy is not None:
        # Power of the mean device, under the limit.
        power = mean_power(iteration.unlimited, iteration.energy, hardware)
        metrics |= {
            "power": power,
            "slowdown": iteration.time / iteration.unlimited,
            **clocks(hardware, {"clock": iteration.unlimited / iteration.time}),
            "joules_per_billion_tokens": joules_of_tokens(BILLION, power * every, rate),
        }
    if hardware.price is not None:
        metrics["usd_per_billion_tokens"] = usd_of_tokens(BILLION, hardware.price * every, rate)
    # Time, money and energy of a whole training run need its number of tokens.
    if training.tokens is None:
        return metrics
    metrics["training_time"] = training.tokens / rate
    if hardware.price is not None:
        metrics["training_usd"] = usd_of_tokens(training.tokens, hardware.price * every, rate)
    if power_known(hardware):
        metrics["training_energy"] = training.tokens / BILLION * metrics["joules_per_billion_tokens"]
    return metrics


TRAIN = Job("train", Training, training_metrics, others=_sums, rules=training_rules)
