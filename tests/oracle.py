"""The cost model a second time, in plain NumPy from its definitions: oracle of tests, NumPy side of benchmarks.

It takes the structs of `jaxroof` as containers and nothing else from it. Leaves are numbers or arrays of shape
(points,), and everything broadcasts over the points, in float64. A quantity that a kernel does not use is 0
and a rate that is unknown is infinite, so that there is one path through every formula.
"""

import dataclasses
from typing import Any

import numpy as np

RESOURCES = ("matrix", "vector", "exp", "hbm", "l2", "scratchpad", "link")
LAUNCH = len(RESOURCES)
"""Code of a kernel that its fixed time binds; a resource's code is its position in `RESOURCES`."""

SIZE = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}
LOW = {"fp8", "int8", "fp4"}


@dataclasses.dataclass
class Kernel:
    """Work of one run on one device."""

    kind: str
    runs: Any
    launches: Any
    matmul: Any = 0.0  # FLOP
    precision: str | None = None
    vector: Any = 0.0  # FLOP
    exps: Any = 0.0
    moved: Any = 0.0  # B, each operand once
    message: Any = 0.0  # B
    devices: Any = 1.0


@dataclasses.dataclass
class Cost:
    """Over all runs of a kernel in a step."""

    time: Any
    flops: Any
    bytes: Any
    message_bytes: Any
    bound: Any


def launched(work):
    """A kernel without work is not launched."""
    return np.where(work > 0.0, 1.0, 0.0)


def gemm(runs, rows, inputs, outputs, weight, activation, kind="linear", copies=1.0) -> Kernel:
    """Rows times a matrix, of which `copies` different ones are touched."""
    size = SIZE[weight.compute]
    moved = launched(rows) * copies * inputs * outputs * weight.bytes + rows * (inputs * size + outputs * activation)
    return Kernel(kind, runs, launched(rows), 2.0 * rows * inputs * outputs, weight.compute, moved=moved)


def rowwise(runs, rows, moved, flops, exps=0.0, kernels=1.0) -> Kernel:
    """`rows` rows that each move `moved` B and need `flops` and `exps`."""
    return Kernel(
        "elementwise", runs, kernels * launched(rows), vector=rows * flops, exps=rows * exps, moved=rows * moved
    )


def seen_pairs(new, past, window, kind):
    """Query-key pairs when `new` tokens follow `past` ones: the sum over new tokens of the tokens that each sees."""
    if kind is None:
        return new * past + new * (new + 1.0) / 2.0
    if kind == "sliding":
        growing = np.clip(window - past, 0.0, new)  # tokens whose window is not full yet
        return growing * past + growing * (growing + 1.0) / 2.0 + (new - growing) * window
    offset = past % window
    first = np.minimum(new, window - offset)  # tokens that complete the chunk that is open
    whole, last = np.divmod(new - first, window)
    return first * offset + (first * (first + 1.0) + whole * window * (window + 1.0) + last * (last + 1.0)) / 2.0


def seen_before(position, window, kind):
    """Tokens before `position` (counted from 0) that the token there still sees."""
    if kind is None:
        return position
    return np.minimum(position, window - 1.0) if kind == "sliding" else position % window


def kv_heads_held(attention, tp):
    return np.maximum(attention.kv_heads / tp, 1.0)


def attention_kernel(kind, attention, deployment, runs, queries, pairs, cached, kernels) -> Kernel:
    heads, width = attention.heads / deployment.tp, attention.head_dim + attention.value_dim
    return Kernel(
        kind,
        runs,
        kernels * launched(queries),
        matmul=2.0 * pairs * heads * width,
        precision=deployment.attention_compute,
        vector=4.0 * pairs * heads,
        exps=pairs * heads,
        moved=cached * kv_heads_held(attention, deployment.tp) * width * deployment.kv_bytes
        + queries * heads * width * deployment.activation_bytes,
    )


def layer_kernels(block, hidden, deployment, batch, tokens) -> dict[str, Kernel]:
    """Kernels of one layer, in order."""
    attention, tp, act, runs = block.attention, deployment.tp, deployment.activation_bytes, block.count
    q = attention.heads * attention.head_dim / tp
    k = kv_heads_held(attention, tp) * attention.head_dim
    v = kv_heads_held(attention, tp) * attention.value_dim
    window, kind = attention.window, attention.window_kind
    norm = rowwise(runs, tokens, 4.0 * hidden * act, 5.0 * hidden)
    reduce = Kernel(
        "collective",
        runs,
        launched(tokens) * launched(tp - 1.0),
        message=tokens * hidden * deployment.communication_bytes,
        devices=tp,
    )
    kernels = {
        "attention_norm": norm,
        "qkv_proj": gemm(runs, tokens, hidden, q + k + v, attention.qkv, act),
        "rope_kv_write": rowwise(
            runs, tokens, (2.0 * q + k + v) * act + (k + v) * deployment.kv_bytes, 3.0 * (q + k), kernels=2.0
        ),
    }
    if batch.prefill is not None:
        part = batch.prefill
        n = np.maximum(part.sequences, 1.0)
        new, past = part.tokens / n, part.past / n
        pairs = part.sequences * seen_pairs(new, past, window, kind)
        cached = part.sequences * (seen_before(past, window, kind) + new)
        kernels["prefill_attention"] = attention_kernel(
            "prefill_attention", attention, deployment, runs, part.tokens, pairs, cached, 1.0
        )
    if batch.decode is not None:
        part = batch.decode
        newest = part.context / np.maximum(part.sequences, 1.0) - 1.0
        seen = part.sequences * (seen_before(newest, window, kind) + 1.0)
        kernels["decode_attention"] = attention_kernel(
            "decode_attention", attention, deployment, runs, part.sequences, seen, seen, 2.0
        )
    kernels["o_proj"] = gemm(runs, tokens, attention.heads * attention.value_dim / tp, hidden, attention.output, act)
    kernels |= {"attention_all_reduce": reduce, "feedforward_norm": norm}
    if hasattr(block.feedforward, "experts"):
        kernels |= expert_kernels(block.feedforward, hidden, tp, act, tokens, runs)
    else:
        kernels |= dense_kernels("", block.feedforward, hidden, tp, act, tokens, runs)
    return kernels | {"feedforward_all_reduce": reduce}


def dense_kernels(prefix, layer, hidden, tp, act, tokens, runs) -> dict[str, Kernel]:
    width, up = layer.intermediate / tp, layer.up_projections
    return {
        f"{prefix}up_proj": gemm(runs, tokens, hidden, up * width, layer.up, act),
        f"{prefix}activation": rowwise(runs, tokens, (up + 1.0) * width * act, 4.0 * width, exps=width),
        f"{prefix}down_proj": gemm(runs, tokens, width, hidden, layer.down, act),
    }


def expert_kernels(layer, hidden, tp, act, tokens, runs) -> dict[str, Kernel]:
    count, chosen, width, up = layer.experts, layer.top_k, layer.intermediate / tp, layer.up_projections
    rows = tokens * chosen
    touched = count * (1.0 - (1.0 - chosen / count) ** tokens)
    kernels = {
        "router": gemm(runs, tokens, hidden, count, layer.router, act),
        "route": rowwise(runs, tokens, 4.0 * (count + 2.0 * chosen), 3.0 * count, exps=count, kernels=3.0),
        "expert_up_proj": gemm(runs, rows, hidden, up * width, layer.up, act, "experts", touched),
        "expert_activation": rowwise(runs, rows, (up + 1.0) * width * act, 4.0 * width, exps=width),
        "expert_down_proj": gemm(runs, rows, width, hidden, layer.down, act, "experts", touched),
        "combine": rowwise(runs, tokens, (chosen + 1.0) * hidden * act, 2.0 * chosen * hidden),
    }
    if layer.shared is not None:
        kernels |= dense_kernels("shared_", layer.shared, hidden, tp, act, tokens, runs)
    return kernels


def step_kernels(model, deployment, batch) -> dict[str, Kernel]:
    """Kernels of one step by name; with several blocks a layer's names carry the block's number."""
    act, hidden, words = deployment.activation_bytes, model.hidden, model.vocabulary
    tokens = (batch.prefill.tokens if batch.prefill else 0.0) + (batch.decode.sequences if batch.decode else 0.0)
    kernels = {"embedding": rowwise(1.0, tokens, hidden * (model.embedding.bytes + act), hidden)}
    for i, block in enumerate(model.blocks):
        prefix = f"{i}." if len(model.blocks) > 1 else ""
        for name, kernel in layer_kernels(block, hidden, deployment, batch, tokens).items():
            kernels[prefix + name] = kernel
    kernels["final_norm"] = rowwise(1.0, tokens, 4.0 * hidden * act, 5.0 * hidden)
    kernels["head"] = gemm(1.0, batch.logits, hidden, words / deployment.tp, model.head, act)
    kernels["sample"] = rowwise(1.0, batch.logits, 4.0 * (2.0 * words + 1.0), 3.0 * words, exps=words, kernels=2.0)
    return kernels


def moved_into(kernel, capacity, element):
    """B through a level of `capacity` B: operands once, or 2 m n k b / sqrt(elements that fit) when that is more."""
    if kernel.precision is None or capacity is None:
        return kernel.moved
    return np.maximum(kernel.moved, kernel.matmul * SIZE[kernel.precision] / np.sqrt(capacity / element))


def resource_seconds(kernel, hardware, efficiency) -> list:
    """Seconds per resource, in the order of `RESOURCES`."""
    share = getattr(efficiency, kernel.kind)
    if kernel.kind == "collective":
        return [0.0] * 6 + [kernel.launches * all_reduce_seconds(hardware.links, kernel.message, kernel.devices, share.losses)]
    memory, cores = hardware.memory, hardware.cores
    l2, pad, size = memory.l2, memory.scratchpad, SIZE.get(kernel.precision)
    seconds = dict.fromkeys(RESOURCES, 0.0)
    if kernel.precision is not None:
        reached = share.matrix_low if kernel.precision in LOW else share.matrix
        seconds["matrix"] = kernel.matmul / (hardware.matrix[kernel.precision] * reached)
    seconds["vector"] = kernel.vector / (cores.count * cores.vector_flops * share.vector)
    if cores.exp_rate is not None:
        seconds["exp"] = kernel.exps / (cores.count * cores.exp_rate * share.vector)
    nearest = [level.capacity for level in (l2, pad) if level is not None]
    from_hbm = moved_into(kernel, nearest[0] if nearest else None, size)
    seconds["hbm"] = from_hbm / (memory.hbm.bandwidth * share.bandwidth)
    if l2 is not None:
        from_l2 = moved_into(kernel, None if pad is None else pad.capacity, size)
        seconds["l2"] = from_l2 / (l2.bandwidth * share.cache_bandwidth)
    if pad is not None:
        from_pad = moved_into(kernel, memory.register_capacity, 4.0)
        seconds["scratchpad"] = from_pad / (cores.count * pad.bandwidth * share.cache_bandwidth)
    return [seconds[name] for name in RESOURCES]


def line(protocol, losses, datasheet):
    """Seconds of a straight line: what is fixed, and the link's own time stretched."""
    stretched = 1.0 - losses + losses / protocol.share
    return losses * protocol.fixed_time + stretched * datasheet


def pipelined(link, losses, seconds_per_byte, sent):
    """The quickest of three protocols."""
    if link.transport is None:
        return sent * seconds_per_byte
    kinds = (link.transport.low_latency, link.transport.medium, link.transport.bulk)
    return np.min([line(kind, losses, sent * seconds_per_byte) for kind in kinds], axis=0)


def all_reduce_seconds(links, message, devices, losses):
    """The cheapest all-reduce of a group that fills one switched tier after the other; 0 for one device."""
    tiers = [link for link in (links.scale_up, links.scale_out, links.cluster) if link is not None]
    if not tiers:
        return 0.0 * message
    parts, held = [], 1.0  # devices of the group that the tier joins into one, and how many were one before
    for link in tiers:
        reach = devices if link is tiers[-1] else np.maximum(np.minimum(link.devices, devices), held)
        parts.append((link, reach / held, held))
        held = reach
    ring_hops = line_hops = tree_hops = 0.0
    flat, stacked, trees = [], 0.0, []
    for i, (link, n, below) in enumerate(parts):
        pace = link.oversubscription / link.bandwidth
        if link.transport is not None:
            growth = np.maximum(1.0 + link.transport.congestion * (n * below - 4.0), 0.0)
            crowded = np.maximum(link.transport.crossing * growth, 1.0)
            pace = pace * (1.0 + losses * (np.where(n * below > link.transport.peers, crowded, 1.0) - 1.0))
        used = n > 1
        around = np.where(used, pipelined(link, losses, pace, 2.0 * (n - 1.0) / n * message / below), 0.0)
        through = np.where(used, pipelined(link, losses, pace, 2.0 * message / below), 0.0)
        if i == 0:
            first, first_n, first_pace = link, n, pace
        ring_hops = ring_hops + 2.0 * (n - 1.0) * devices / (n * below) * link.latency
        line_hops = line_hops + 2.0 * (n - 1.0) * link.latency
        tree_hops = tree_hops + 2.0 * (n - 1.0 if i == 0 else np.log2(n)) * link.latency
        flat.append(around)
        stacked = stacked + around
        trees.append(through)
    ways = [ring_hops + np.max(np.broadcast_arrays(*flat), axis=0)]
    if len(parts) > 1:
        ways += [line_hops + stacked, tree_hops + np.max(np.broadcast_arrays(*trees), axis=0)]
    ways += own_kernels(first, first_n, first_pace, message, losses, devices)
    reduced = message * (1.0 + 1.0 / first_n) * first_pace
    if first.transport is not None:
        reduced = line(first.transport.switch, losses, reduced)
    hops = 2.0 * first.latency + sum(2.0 * np.log2(n) * link.latency for link, n, _ in parts[1:])
    across = np.max(np.broadcast_arrays(reduced, *trees[1:]), axis=0)
    ways.append(np.where((first.reduces > 0.5) & (first_n > 1), hops + across, np.inf))
    return np.where(devices > 1.0, np.min(np.broadcast_arrays(*ways), axis=0), 0.0)


def own_kernels(link, n, pace, message, losses, devices):
    """One-shot and two-shot all-reduces of serving engines, infinite where they cannot run."""
    possible, stage, share = n >= devices, link.latency, 1.0
    if link.transport is not None:
        possible = possible & (message <= link.transport.shot_limit) & (n <= link.transport.peers)
        stage = stage + losses * (link.transport.shot.fixed_time + (n - 1.0) * link.transport.signal_time)
        share = 1.0 / (1.0 - losses + losses / link.transport.shot.share)
    one = stage + (n - 1.0) * message * pace / share
    two = 2.0 * stage + 2.0 * (n - 1.0) / n * message * pace / share
    return [np.where(possible, time, np.inf) for time in (one, two)]


def step(hardware, model, deployment, batch, efficiency) -> dict[str, Cost]:
    """Every kernel of a step by name, and the host."""
    costs = {}
    for name, kernel in step_kernels(model, deployment, batch).items():
        seconds = np.stack(np.broadcast_arrays(*resource_seconds(kernel, hardware, efficiency)))
        if kernel.kind == "collective":  # its fixed time is part of the link's: that of an empty message
            empty = dataclasses.replace(kernel, message=0.0 * kernel.message)
            fixed = resource_seconds(empty, hardware, efficiency)[-1]
            seconds = seconds - fixed
        else:
            fixed = kernel.launches * getattr(efficiency, kernel.kind).kernel_time
        costs[name] = Cost(
            time=kernel.runs * (fixed + seconds.max(axis=0)),
            flops=kernel.runs * (kernel.matmul + kernel.vector),
            bytes=kernel.runs * kernel.moved,
            message_bytes=kernel.runs * kernel.message,
            bound=np.where(seconds.max(axis=0) > fixed, seconds.argmax(axis=0), LAUNCH),
        )
    host = efficiency.host.step_time + efficiency.host.sequence_time * batch.logits
    return costs | {"host": Cost(time=host, flops=0.0, bytes=0.0, message_bytes=0.0, bound=LAUNCH)}


def step_time(hardware, model, deployment, batch, efficiency):
    """s of one step."""
    return sum(cost.time for cost in step(hardware, model, deployment, batch, efficiency).values())


@dataclasses.dataclass
class _Part:
    sequences: Any
    tokens: Any = None
    past: Any = None
    context: Any = None


@dataclasses.dataclass
class _Batch:
    prefill: _Part | None
    decode: _Part | None
    logits: Any


def request(hardware, model, deployment, requests, efficiency) -> dict[str, Any]:
    """ttft, tpot and e2e in s of a static batch."""
    n, new = requests.batch, requests.isl - requests.cached
    prompts = _Batch(_Part(n, tokens=n * new, past=n * requests.cached), None, n)
    tokens = _Batch(None, _Part(n, context=n * (requests.isl + requests.osl / 2.0)), n)
    ttft = efficiency.host.request_time + step_time(hardware, model, deployment, prompts, efficiency)
    tpot = step_time(hardware, model, deployment, tokens, efficiency)
    return {"ttft": ttft, "tpot": tpot, "e2e": ttft + (requests.osl - 1.0) * tpot}


def weight_bytes(model, deployment):
    """B of weights on one device: every matrix's rows times columns times B, its split dimension over tp."""
    tp, hidden = deployment.tp, model.hidden

    def dense(layer):
        return hidden * layer.intermediate / tp * (layer.up_projections * layer.up.bytes + layer.down.bytes)

    total = model.vocabulary / tp * hidden * model.embedding.bytes + 2.0 * model.other_parameters
    total = total + model.untied * model.vocabulary / tp * hidden * model.head.bytes
    for block in model.blocks:
        a, f = block.attention, block.feedforward
        q, held = a.heads * a.head_dim / tp, kv_heads_held(a, tp)
        layer = hidden * (q + held * a.head_dim + held * a.value_dim) * a.qkv.bytes
        layer = layer + a.heads * a.value_dim / tp * hidden * a.output.bytes + 2.0 * block.other_parameters
        if hasattr(f, "experts"):
            layer = layer + hidden * f.experts * f.router.bytes + f.experts * dense(f)
            layer = layer + (0.0 if f.shared is None else dense(f.shared))
        else:
            layer = layer + dense(f)
        total = total + block.count * layer
    return total


def kv_bytes_per_token(model, deployment):
    """B of KV cache of one token in every layer of one device."""
    total = 0.0
    for block in model.blocks:
        a = block.attention
        total = total + block.count * kv_heads_held(a, deployment.tp) * (a.head_dim + a.value_dim) * deployment.kv_bytes
    return total
