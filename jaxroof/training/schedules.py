"""Pipeline schedules of training: time that stages idle per iteration, and micro-batches that they hold."""

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum, minimum, positive_part
from jaxroof.numerics.struct import Array, Scalar

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero_bubble", "dualpipe")
"""Pipeline schedules, in the order of the float codes that functions take.

gpipe: all forward passes, then all backward passes. 1f1b: a backward pass as soon as there is one, so that a stage
never holds more micro-batches than there are stages after it. interleaved: 1f1b with several chunks of layers per
device. zero_bubble: ZB-H1, 1f1b whose weight gradients wait until a device would idle. dualpipe: micro-batches enter
at both ends, and every device holds two stages.

Source: Huang et al., arXiv:1811.06965 (GPipe), section 2.3; Narayanan et al., arXiv:2104.04473, section 2.2 (1F1B with
flush, interleaved); Qi et al., arXiv:2401.10241 (zero bubble), table 2; DeepSeek-AI, arXiv:2412.19437 (DeepSeek-V3),
section 3.2.1 and table 2 (DualPipe).
"""


def schedule_code(name: str) -> float:
    """The float code of a schedule.

    Raises:
      ValueError: one line, for a name that is not in `SCHEDULES`.
    """
    if name not in SCHEDULES:
        raise ValueError(f"schedule = {name!r} must be one of {', '.join(SCHEDULES)}")
    return float(SCHEDULES.index(name))


def bubble_time(
    schedule: Scalar,
    forward: Scalar,
    backward: Scalar,
    weight_backward: Scalar,
    stages: Scalar,
    virtual_stages: Scalar,
    micro_batches: Scalar,
) -> Array:
    """Time in s that a device idles in one iteration, shape (): iteration - micro_batches (forward + backward).

    With p stages, v chunks per device, m micro-batches, f and b of all chunks of a device, w the part of b that makes
    weight gradients, and i = b - w the part that the stage before waits for:

    gpipe, 1f1b:  (p - 1) (f + b)
    interleaved:  (p - 1) (f + b) / v
    zero_bubble:  (p - 1) (f + i) - min(m - 1, p - 1) min(w, i, f);  (p - 1) (f + i - w) in the paper: m >= p, w <= i, f
    dualpipe:     (p / 2 - 1) (f + max(max(f, i) + i - w, f));  (p / 2 - 1) (F&B + B - 3 W) in the paper: w <= f <= i

    All but the last equal the iteration of the schedule, task by task. The last does where f = i >= w, as in layers
    without recomputation, and is within 5 % of the iteration elsewhere; the paper's F&B, both passes as one, is f + b.
    Messages between stages take no time here: what of them is not hidden belongs to `forward` and `backward`.

    Args:
      schedule: index into `SCHEDULES`, float.
      forward, backward: s of one micro-batch on the slowest device, all its chunks; recomputation is backward.
      weight_backward: s of `backward` that makes weight gradients: 0 where they are frozen.
      stages: pipeline-parallel degree, at least 1.
      virtual_stages: chunks of layers per device; other schedules than interleaved take no notice.
      micro_batches: per iteration and replica; see `schedule_legal`.

    Returns:
      s, 0 for one stage, finite everywhere. Differentiable; smooth where two tasks tie.

    Source: those of `SCHEDULES`; the minima for few micro-batches and unequal tasks are ours.
    """
    # B splits into dX (the stage before waits for it) and dW (which can wait).
    input_backward = positive_part(backward - weight_backward)
    # p - 1 stages fill and drain: GPipe and 1F1B idle equally, and differ in memory.
    others = positive_part(stages - 1.0)
    filling = others * (forward + backward)
    # Zero bubble: weight gradients that were put off fill what would be idle.
    delayed = minimum(positive_part(micro_batches - 1.0), others)
    moved = minimum(weight_backward, input_backward, forward)
    longer = maximum(forward, input_backward)
    # The paper's F&B + B - 3 W where f <= i, with F&B = f + b; never less than two forward passes.
    both_ends = forward + maximum(positive_part(longer + input_backward - weight_backward), forward)
    times = {
        "gpipe": filling,
        "1f1b": filling,
        # v chunks per device: the pipeline fills in 1 / v of the time, at v times the messages.
        "interleaved": filling / virtual_stages,
        "zero_bubble": positive_part(others * (forward + input_backward) - delayed * moved),
        "dualpipe": positive_part(0.5 * stages - 1.0) * both_ends,
    }
    return _chosen(schedule, times)


def in_flight(schedule: Scalar, stages: Scalar, virtual_stages: Scalar, micro_batches: Scalar) -> Array:
    """Micro-batches whose activations the fullest device holds at its peak, shape (); of all layers of one device.

    gpipe m; 1f1b and zero_bubble min(p, m); interleaved min(p + (p - 1) / v, m); dualpipe min(p + 1, m).

    Of zero_bubble until the weight gradient is made; of dualpipe over both of a device's stages.

    Source: those of `SCHEDULES`; interleaved: Korthikanti et al., arXiv:2205.05198, section 4.2.3 and appendix C,
    p (1 + (p - 1) / (p v)).
    """
    # Warm-up of interleaved 1F1B: p - 1 more chunks in flight.
    interleaved = stages + (stages - 1.0) / virtual_stages
    held = {
        "gpipe": micro_batches,
        "1f1b": minimum(stages, micro_batches),
        "interleaved": minimum(interleaved, micro_batches),
        "zero_bubble": minimum(stages, micro_batches),
        "dualpipe": minimum(stages + 1.0, micro_batches),
    }
    return _chosen(schedule, held)


def stage_sends(schedule: Scalar, stages: Scalar, virtual_stages: Scalar) -> Array:
    """Messages from stage to stage of one micro-batch on its whole way in one direction, shape ().

    p - 1, interleaved p v - 1. The backward pass sends as many, of the same size.

    Source: Narayanan et al., arXiv:2104.04473, section 2.2.2.
    """
    once = stages - 1.0
    # p v chunks in line have p v - 1 boundaries.
    sends = dict.fromkeys(SCHEDULES, once) | {"interleaved": stages * virtual_stages - 1.0}
    return _chosen(schedule, sends)


def device_sends(schedule: Scalar, stages: Scalar, virtual_stages: Scalar) -> Array:
    """Messages that a device in the middle of the pipeline sends per micro-batch and direction, shape ().

    1, interleaved v; 0 for one stage.
    """
    some = jnp.where(stages > 1.0, 1.0, 0.0)
    return _chosen(schedule, dict.fromkeys(SCHEDULES, some) | {"interleaved": some * virtual_stages})


def chunked_passes(virtual_stages: Scalar, stages: Scalar) -> Array:
    """Passes of one micro-batch that a device runs between its first and its last chunk's last use, shape ().

    (1 + p (v - 1)) / v: micro-batches go through every chunk in groups of p, so that the gradients of all but one chunk
    are whole while other chunks still run, and their weights are not needed before other chunks have run. 1 for v = 1.

    Source: Narayanan et al., arXiv:2104.04473, section 2.2.2, figure 4.
    """
    further = positive_part(virtual_stages - 1.0)
    return (1.0 + stages * further) / (1.0 + further)


def weight_copies(schedule: Scalar) -> Array:
    """Stages of the model whose weights each device holds, in stages of 1/p of the layers, shape (): dualpipe 2."""
    return _chosen(schedule, dict.fromkeys(SCHEDULES, 1.0) | {"dualpipe": 2.0})


def schedule_legal(schedule: Scalar, stages: Scalar, virtual_stages: Scalar, micro_batches: Scalar) -> Array:
    """Whether the schedule runs so, shape (), bool.

    interleaved: micro_batches are a multiple of stages, 2 or more of them. dualpipe: an even number of stages, and an
    even number of micro_batches, 2 per stage or more. Chunks of layers are of interleaved alone.

    Source: Narayanan et al., arXiv:2104.04473, section 2.2.2; DeepSeek-AI, github.com/deepseek-ai/DualPipe, README.
    """
    alone = virtual_stages == 1.0
    interleaved = (stages > 1.0) & (jnp.mod(micro_batches, stages) == 0.0)
    paired = (jnp.mod(stages, 2.0) == 0.0) & (jnp.mod(micro_batches, 2.0) == 0.0)
    legal = dict.fromkeys(SCHEDULES, alone) | {
        "interleaved": interleaved,
        "dualpipe": alone & paired & (micro_batches >= 2.0 * stages),
    }
    return _chosen(schedule, legal)


def _chosen(schedule: Scalar, by_name: dict[str, Scalar]) -> Array:
    """The entry of the schedule's code; every entry is finite, so that the others add nothing to gradients."""
    chosen = jnp.asarray(by_name[SCHEDULES[0]])
    for code, name in enumerate(SCHEDULES[1:], start=1):
        chosen = jnp.where(schedule == float(code), by_name[name], chosen)
    return chosen
