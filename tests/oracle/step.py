"""One step again: every kernel of it, what each takes on the hardware, and what overlap hides."""

import dataclasses
from typing import Any

import numpy as np

from tests.oracle.attention import tokens_decoded
from tests.oracle.collectives import seconds as collective_seconds
from tests.oracle.feedforward import stage
from tests.oracle.kernel import LOW, SIZE, Kernel, gemm, launched, message, norm, rowwise, summed, ways
from tests.oracle.layer import Part, Step, encoder, layer, layers

RESOURCES = ("matrix", "vector", "exp", "hbm", "l2", "scratchpad", "link")
LAUNCH = len(RESOURCES)
"""Code of a kernel that its fixed time binds; a resource's code is its position in `RESOURCES`."""


@dataclasses.dataclass
class Cost:
    """Over all runs of a kernel in a step."""

    time: Any
    flops: Any = 0.0
    bytes: Any = 0.0
    message_bytes: Any = 0.0
    bound: Any = LAUNCH


def share(batch, part) -> Step:
    """`part` of every sum of a step."""

    def scaled(piece):
        names = [] if piece is None else [f.name for f in dataclasses.fields(piece)]
        values = {name: value for name in names if (value := getattr(piece, name)) is not None}
        return piece and Part(**{name: value * part for name, value in values.items()})

    return Step(scaled(batch.prefill), scaled(batch.decode), batch.logits * part, scaled(batch.encode), batch.encoded)


def step_kernels(model, deployment, batch) -> dict[str, Kernel]:
    """Kernels of one step on one device by name, in order."""
    act, hidden = deployment.activation_bytes, model.hidden
    groups, each = ways(deployment.attention_dp), tokens_decoded(deployment)
    local = share(batch, 1.0 / groups)
    prompt = 0.0 if batch.prefill is None else batch.prefill.tokens
    decoded = 0.0 if batch.decode is None else batch.decode.sequences * each
    all_tokens = prompt + decoded
    tokens = (prompt / ways(deployment.cp) + decoded) / groups
    kernels = {}
    if batch.encode is not None and model.encoder is not None:
        kernels |= encoder(local.encode, model.encoder, deployment)
    kernels["embedding"] = rowwise(1.0, tokens, hidden * (model.embedding.bytes + act), hidden)
    kernels |= summed("embedding", 1.0, tokens, hidden, deployment)
    kernels |= layers(model.blocks, hidden, deployment, local, tokens, all_tokens)
    if deployment.pp is not None:
        size = tokens * hidden * deployment.communication_bytes
        kernels["stage_send"] = message("send_recv", deployment.pp - 1.0, size, 2.0, stage(deployment))
    kernels["final_norm"] = norm(1.0, tokens, hidden, act)
    if not model.generates:
        return kernels
    verified = 0.0 if batch.decode is None else local.decode.sequences * (each - 1.0)
    kernels |= head(model, deployment, local.logits + verified, 1.0)
    if deployment.drafts is not None and model.prediction is not None:
        kernels |= drafting(model, deployment, local, tokens, all_tokens, groups)
    return kernels


def head(model, deployment, rows, runs) -> dict[str, Kernel]:
    """Logits of `rows` rows, split over tp, gathered and sampled in float32."""
    words = model.vocabulary
    kernels = gemm("head", runs, rows, model.hidden, words / deployment.tp, model.head, deployment.activation_bytes)
    kernels["head_all_gather"] = message(
        "all_gather", runs, rows * words * deployment.communication_bytes, deployment.tp
    )
    kernels["sample"] = rowwise(runs, rows, 4.0 * (2.0 * words + 1.0), 3.0 * words, exps=words, kernels=2.0)
    return kernels


def drafting(model, deployment, local, tokens, all_tokens, groups) -> dict[str, Kernel]:
    """The prediction head: once over the step's tokens, then once per further draft over one token per sequence."""
    act, hidden, drafts = deployment.activation_bytes, model.hidden, deployment.drafts
    context = 0.0 if local.decode is None else local.decode.context
    if local.prefill is not None:
        context = context + local.prefill.tokens + local.prefill.past
    newest = Step(decode=Part(local.logits, context=context), logits=local.logits)
    one = dataclasses.replace(deployment, drafts=None)

    def run(prefix, place, batch, rows, all_rows, runs):
        block = dataclasses.replace(model.prediction.block, count=runs)
        kernels = {"norms": norm(runs, 2.0 * rows, hidden, act)}
        kernels |= gemm("join_proj", runs, rows, 2.0 * hidden, hidden, model.prediction.projection, act)
        kernels |= layer(block, hidden, place, batch, rows, all_rows)
        kernels["final_norm"] = norm(runs, rows, hidden, act)
        kernels |= head(model, place, local.logits, runs)
        return {prefix + name: kernel for name, kernel in kernels.items()}

    first = run("draft.", deployment, local, tokens, all_tokens, launched(drafts))
    further = run("drafts.", one, newest, local.logits, local.logits * groups, np.maximum(drafts - 1.0, 0.0))
    return first | further


def moved_into(kernel, capacity, element):
    """B through a level of `capacity` B: operands once, or 2 m n k b / sqrt(elements that fit) when that is more."""
    if kernel.precision is None or capacity is None:
        return kernel.moved
    return np.maximum(kernel.moved, kernel.matmul * SIZE[kernel.precision] / np.sqrt(capacity / element))


def resource_seconds(kernel, hardware, efficiency) -> tuple[list, Any]:
    """Seconds per resource in the order of `RESOURCES`, and the fixed time. A collective's is that of 0 B."""
    constants = getattr(efficiency, kernel.kind)
    if kernel.kind == "collective":
        place = (kernel.devices, kernel.stride, constants.losses, kernel.needed)
        whole, fixed = (
            kernel.launches * collective_seconds(hardware.links, kernel.collective, size, *place)
            for size in (kernel.message, 0.0 * kernel.message)
        )
        return [0.0] * 6 + [whole - fixed], fixed
    memory, cores = hardware.memory, hardware.cores
    l2, pad, size = memory.l2, memory.scratchpad, SIZE.get(kernel.precision)
    seconds = dict.fromkeys(RESOURCES, 0.0)
    if kernel.precision is not None:
        reached = constants.matrix_low if kernel.precision in LOW else constants.matrix
        seconds["matrix"] = kernel.matmul / (hardware.matrix[kernel.precision] * reached)
    seconds["vector"] = kernel.vector / (cores.count * cores.vector_flops * constants.vector)
    if cores.exp_rate is not None:
        seconds["exp"] = kernel.exps / (cores.count * cores.exp_rate * constants.vector)
    pads = None if pad is None else cores.count * pad.capacity
    from_hbm = moved_into(kernel, pads if l2 is None else l2.capacity, size)
    seconds["hbm"] = from_hbm / (memory.hbm.bandwidth * constants.bandwidth)
    if l2 is not None:
        from_l2 = moved_into(kernel, None if pad is None else pad.capacity, size)
        seconds["l2"] = from_l2 / (l2.bandwidth * constants.cache_bandwidth)
    if pad is not None:
        from_pad = moved_into(kernel, memory.register_capacity, 4.0)
        seconds["scratchpad"] = from_pad / (cores.count * pad.bandwidth * constants.cache_bandwidth)
    return [seconds[name] for name in RESOURCES], kernel.launches * constants.kernel_time


def without_reserved(hardware, deployment):
    """The hardware that computes while communication keeps some of its cores busy."""
    left = 1.0 - deployment.reserved_cores
    cores = dataclasses.replace(hardware.cores, count=hardware.cores.count * left)
    return dataclasses.replace(hardware, cores=cores, matrix={name: r * left for name, r in hardware.matrix.items()})


def step(hardware, model, deployment, batch, efficiency) -> dict[str, Cost]:
    """Every kernel of a step by name, what overlap hides as a negative time, and the host."""
    halves = 2.0 if deployment.overlap == "two_batch" else 1.0
    kernels = step_kernels(model, deployment, share(batch, 1.0 / halves))
    device = without_reserved(hardware, deployment) if halves > 1.0 else hardware
    costs = {}
    for name, kernel in kernels.items():
        resources, fixed = resource_seconds(kernel, device, efficiency)
        seconds, runs = np.stack(np.broadcast_arrays(*resources)), halves * kernel.runs
        costs[name] = Cost(
            time=runs * (fixed + seconds.max(axis=0)),
            flops=runs * (kernel.matmul + kernel.vector),
            bytes=runs * kernel.moved,
            message_bytes=runs * kernel.message,
            bound=np.where(seconds.max(axis=0) > fixed, seconds.argmax(axis=0), LAUNCH),
        )
    if deployment.overlap != "none":
        costs["hidden"] = Cost(time=-hidden(deployment.overlap, kernels, costs))
    sampling = batch.logits / ways(deployment.attention_dp)  # an engine process per group
    return costs | {"host": Cost(time=efficiency.host.step_time + efficiency.host.sequence_time * sampling)}


def hidden(overlap, kernels, costs):
    """Seconds that overlap saves: the shorter of kernels and messages, or three quarters of what runs beside a GEMM."""
    if overlap == "two_batch":
        return halves_hide(kernels, costs)
    saved = 0.0
    for prefix in dict.fromkeys(name.rpartition(".")[0] for name in kernels):
        layer = [name for name in kernels if name.rpartition(".")[0] == prefix]
        products = [name for name in layer if kernels[name].kind in ("linear", "experts")]
        for name in layer:
            place, plain = layer.index(name), name.rpartition(".")[2]
            if kernels[name].kind != "collective" or plain.split("_")[0] not in ("attention", "cross", "feedforward"):
                continue
            before = [product for product in products if layer.index(product) < place]
            after = [product for product in products if layer.index(product) > place and product != "head"]
            beside = (after + products)[0] if kernels[name].collective == "all_gather" else before[-1]
            saved = saved + 0.75 * np.minimum(costs[name].time, costs[beside].time)
    return saved


def halves_hide(kernels, costs):
    """Seconds that two halves hide: the shorter of kernels and messages, but where tokens are exchanged by stages."""
    saved, rest = 0.0, {True: 0.0, False: 0.0}
    for prefix in dict.fromkeys(name.rpartition(".")[0] for name in kernels):
        layer = [name for name in kernels if name.rpartition(".")[0] == prefix]
        places = [place for place, name in enumerate(layer) if is_exchange(name)]
        work = {place: costs[name].time for place, name in enumerate(layer) if kernels[name].kind != "collective"}
        messages = {place: costs[name].time for place, name in enumerate(layer) if place not in work}
        if not places:
            rest[True], rest[False] = rest[True] + sum(messages.values()), rest[False] + sum(work.values())
            continue
        there, back = (messages.pop(place) for place in places)
        before = sum(time for place, time in work.items() if place < places[0])
        experts = sum(time for place, time in work.items() if places[0] < place < places[1])
        attention = sum(work.values()) - experts
        if "all" not in kernels[layer[places[0]]].collective:
            beside = np.minimum(attention, there + back)
        else:
            pairs = [(before, there), (experts, there), (experts, back), (attention, back)]
            beside = sum(np.minimum(*pair) for pair in pairs) / 2.0
        saved = saved + beside + np.minimum(sum(messages.values()), sum(work.values()) - beside)
    return saved + np.minimum(rest[True], rest[False])


def is_exchange(name):
    """Whether a kernel of this name brings tokens to experts or back."""
    return name.rpartition(".")[2] in ("dispatch", "return", "dispatch_all_gather", "combine_reduce_scatter")


def step_time(hardware, model, deployment, batch, efficiency):
    """s of one step."""
    return sum(cost.time for cost in step(hardware, model, deployment, batch, efficiency).values())
