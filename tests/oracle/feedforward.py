"""Dense feed-forward layers and mixtures of experts again, with what exchanges tokens between devices."""

import numpy as np

from tests.oracle.kernel import Kernel, gemm, message, rowwise, ways


def dense(prefix, layer, hidden, tp, act, tokens, runs) -> dict[str, Kernel]:
    """Kernels of a dense layer of which every device has 1/tp of the width."""
    width, up = layer.intermediate / tp, layer.up_projections
    return {
        **gemm(f"{prefix}up_proj", runs, tokens, hidden, up * width, layer.up, act),
        f"{prefix}activation": rowwise(runs, tokens, (up + 1.0) * width * act, 4.0 * width, exps=width),
        **gemm(f"{prefix}down_proj", runs, tokens, width, hidden, layer.down, act),
    }


def stage(deployment):
    """Devices that share a layer."""
    return deployment.tp * ways(deployment.cp) * ways(deployment.attention_dp)


def hit(boxes, balls, tokens=1.0):
    """Boxes of `boxes` that are hit when each of `tokens` throws hits a share `balls` of them at random."""
    missed = 1.0 - np.minimum(balls / boxes, 1.0 - 1e-6)
    return boxes * (1.0 - missed**tokens)


def hit_by_most(layer, stored, tokens, devices):
    """Experts that are hit on the device of `devices` where most are: mean and deviation of normal counts."""
    here, share = stored / devices, np.minimum(layer.top_k / stored, 1.0 - 1e-6)
    groups, near = (1.0, 1.0) if layer.groups is None else (layer.groups, layer.reached_groups)
    # Two experts of one device are of one group, or of two where it holds several groups.
    alike = np.minimum((stored / groups - 1.0) / np.maximum(here - 1.0, 1.0), 1.0)
    reached = near / groups * (alike + (1.0 - alike) * (near - 1.0) / np.maximum(groups - 1.0, 1.0))
    among = stored * near / groups
    twice = reached * layer.top_k * np.maximum(layer.top_k - 1.0, 0.0) / np.maximum(among * (among - 1.0), 1.0)
    none, neither = (1.0 - share) ** tokens, (1.0 - np.minimum(2.0 * share - twice, 1.0 - 1e-6)) ** tokens
    spread = here * none * (1.0 - none) + here * np.maximum(here - 1.0, 0.0) * (neither - none * none)
    above = (devices - 0.375) / (devices + 0.25)
    highest = here * (1.0 - none) + 4.91 * (above**0.14 - (1.0 - above) ** 0.14) * np.sqrt(np.maximum(spread, 0.0))
    return np.minimum(np.maximum(highest, 1.0), np.minimum(here, hit(stored, layer.top_k, tokens)))


def mixture(layer, hidden, deployment, tokens, all_tokens, runs) -> dict[str, Kernel]:
    """Kernels of a mixture of experts; `tokens` are in this device's group, `all_tokens` in all groups."""
    act, ep = deployment.activation_bytes, ways(deployment.ep)
    count, chosen, up = layer.experts, layer.top_k, layer.up_projections
    width, inner = layer.intermediate / (stage(deployment) / ep), hidden if layer.width is None else layer.width
    uneven = 1.0 if deployment.ep is None else deployment.imbalance
    received = all_tokens * uneven / ep  # tokens times their experts here, over top_k
    stored = count + (0.0 if deployment.redundant_experts is None else deployment.redundant_experts)
    rows, touched = received * chosen, hit_by_most(layer, stored, all_tokens, ep)
    there, back = exchange(layer, inner, deployment, all_tokens, runs)
    kernels = gemm("router", runs, tokens, hidden, count, layer.router, act)
    kernels["route"] = rowwise(runs, tokens, 4.0 * (count + 2.0 * chosen), 3.0 * count, exps=count, kernels=3.0)
    if layer.width is not None:
        kernels |= gemm("narrow_proj", runs, tokens, hidden, inner, layer.projection, act)
    kernels |= there
    kernels |= gemm("expert_up_proj", runs, rows, inner, up * width, layer.up, act, "experts", touched, received)
    kernels["expert_activation"] = rowwise(runs, rows, (up + 1.0) * width * act, 4.0 * width, exps=width)
    kernels |= gemm("expert_down_proj", runs, rows, width, inner, layer.down, act, "experts", touched)
    kernels |= back
    kernels["combine"] = rowwise(runs, tokens, (chosen + 1.0) * inner * act, 2.0 * chosen * inner)
    if layer.width is not None:
        kernels |= gemm("widen_proj", runs, tokens, inner, hidden, layer.projection, act)
    if layer.shared is not None:
        kernels |= dense("shared_", layer.shared, hidden, deployment.tp, act, tokens, runs)
    return kernels


def fetched(layer, ep, parts):
    """Of `parts` of the devices those that need a token: of a router with groups, where its groups lie."""
    boxes = np.minimum(parts, ep)
    if layer.groups is not None:
        per_box = np.maximum(layer.groups / boxes, 1.0)
        boxes = np.maximum(boxes * (1.0 - (1.0 - layer.reached_groups / layer.groups) ** per_box), 1.0)
    in_box = layer.experts / np.minimum(parts, ep)
    return hit_boxes(boxes, in_box, layer.top_k) * np.maximum(parts / ep, 1.0)


def hit_boxes(boxes, in_box, chosen):
    """Boxes of `in_box` experts each that hold at least one of those chosen."""
    few, many = np.minimum(chosen, in_box), np.maximum(chosen, in_box)
    return hit(boxes, boxes * many / (boxes * in_box - (few - 1.0) / 2.0), few)


def exchange(layer, width, deployment, all_tokens, runs) -> tuple[dict, dict]:
    """What carries tokens to experts elsewhere and their results back; nothing where every device has every token."""
    if deployment.attention_dp is None and deployment.cp is None:
        return {}, {}
    tp, ep = deployment.tp, ways(deployment.ep)
    if deployment.exchange == "all_gather":
        groups, elements = stage(deployment) / tp, all_tokens * width
        gathered = message("all_gather", runs, elements * deployment.dispatch_bytes, groups, tp)
        scattered = message("reduce_scatter", runs, elements * deployment.communication_bytes, groups, tp)
        return {"dispatch_all_gather": gathered}, {"combine_reduce_scatter": scattered}
    per_device = stage(deployment) / ep  # devices that share an expert, each of which needs the token
    if deployment.exchange == "low_latency":
        copies, out, home = layer.top_k, "dispatch", "combine"
    else:
        # of ep devices those that at least one of a token's choices falls on
        copies, out, home = hit_boxes(ep, layer.experts / ep, layer.top_k), "all_to_all", "all_to_all"
    devices = stage(deployment)
    apart = np.where(devices > tp, 1.0, 0.0)  # with one group alone, every device has every token
    elements = apart * all_tokens / devices * copies * per_device * width * deployment.imbalance
    forwards = deployment.exchange == "all_to_all"
    needed = (lambda parts: fetched(layer, ep, parts) / (copies * per_device)) if forwards else None
    sent = message(out, runs, elements * deployment.dispatch_bytes, devices, needed=needed)
    returned = message(home, runs, elements * deployment.communication_bytes, devices, needed=needed)
    return {"dispatch": sent}, {"return": returned}
