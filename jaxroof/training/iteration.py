"""Time of one training iteration: micro-batches through the fullest stage, bubble, exposed messages, update."""

from typing import NamedTuple

from jaxroof.deployment import Deployment, degree, largest_stage, stage_devices
from jaxroof.efficiency import Efficiency
from jaxroof.energy.energy import Joules, power_known
from jaxroof.energy.governor import limited_time
from jaxroof.hardware import Hardware
from jaxroof.layers.collective import collective
from jaxroof.memory.capacity import layer_count
from jaxroof.model import Model
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.at_once import differentiated_at_once
from jaxroof.numerics.smooth import maximum, minimum, positive_part
from jaxroof.numerics.struct import Scalar, struct
from jaxroof.op import PARALLELISMS, Ops
from jaxroof.roofline import op_time
from jaxroof.training.communication import data_parallel_time
from jaxroof.training.passes import pass_tokens
from jaxroof.training.schedules import SCHEDULES, bubble_time, chunked_passes, device_sends
from jaxroof.training.state import offload_time
from jaxroof.training.terms import training_terms
from jaxroof.training.training import RECOMPUTES, Training, micro_batches

Sums = dict[str, Scalar]
"""Totals of `training_terms` by name; one without ops is not there."""


@struct
class Iteration:
    """Parts of the time of one iteration on the fullest device. Seconds, unless said otherwise."""

    time: Scalar  # of the whole iteration, under the limit of electrical power
    unlimited: Scalar  # the same without that limit
    forward: Scalar  # of one micro-batch on one stage, messages that do not hide included
    backward: Scalar  # the same, recomputation included
    weight_backward: Scalar  # of `backward`, kernels that make gradients of weights
    micro_batches: Scalar  # 1, per replica
    bubble: Scalar  # idle
    recompute: Scalar  # kernels that run again, in all micro-batches
    optimizer: Scalar  # update, streaming of offloaded states included
    contention: Scalar  # that kernels take longer while messages run behind them, in all micro-batches
    exposed: dict[str, Scalar]  # messages that kernels wait for, by kind
    hidden: dict[str, Scalar]  # messages that run behind kernels, by kind
    copies_hidden: dict[str, Scalar]  # of those between copies of the weights, by the passes that hide them
    executed: Scalar  # s of matrix work at peak on the mean device, recomputation included
    energy: Joules | None  # of the mean device; None: unknown


@differentiated_at_once
def iteration_cost(
    hardware: Hardware, model: Model, deployment: Deployment, training: Training, efficiency: Efficiency
) -> Iteration:
    """One iteration of training, shapes (). Differentiable in every leaf; see `jaxroof.numerics.smooth`.

    time = m (forward + backward) + bubble + exposed data-parallel messages + optimizer + contention

    forward and backward are of one of m micro-batches on the fullest pipeline stage; contention is what kernels take
    longer while messages run beside them.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for a precision that the model needs.
    """
    terms = training_terms(hardware, model, deployment, training, efficiency)
    # Sums first: everything after is arithmetic on a few numbers, whatever the model's depth.
    sums = {name: sum(term().values()) for name, term in terms.items()}
    return iteration(sums, hardware, model, deployment, training, efficiency)


def iteration(
    sums: Sums, hardware: Hardware, model: Model, deployment: Deployment, training: Training, efficiency: Efficiency
) -> Iteration:
    """The iteration from totals of `training_terms`: `iteration_cost` says the equation."""
    number, pp = micro_batches(training, deployment), degree(deployment.pp)
    stage = _Stage(sums, deployment, largest_stage(deployment, layer_count(model)))
    selective, full = (_chosen(training.recompute, RECOMPUTES, word) for word in ("selective", "full"))
    paired, interleaved = (_chosen(training.schedule, SCHEDULES, word) for word in ("dualpipe", "interleaved"))
    send = send_time(hardware, model, deployment, training, efficiency)
    # Interleaved chunks send asynchronously behind the next chunk's kernels.
    beside = interleaved * training.overlap
    waits = {word: _waits(stage, word, send, paired, beside, full) for word in ("forward", "backward")}

    # forward and backward: one micro-batch on the fullest stage, recomputation in the latter
    attention = stage.layers * sums.get("attention_compute", 0.0)
    # Recomputation: attention cores alone, or the whole forward pass of the stage's layers.
    again = selective * attention + full * stage.layer_time("forward")
    # Messages between experts that DualPipe hides are in the passes' times and taken out again; sends that wait are
    # added.
    forward = stage.time("forward") - waits["forward"].hidden_ep + waits["forward"].pp
    backward = stage.time("backward") + again - waits["backward"].hidden_ep + waits["backward"].pp
    both = {"forward": forward, "backward": backward}

    # bubble
    idle, weight = 0.0, stage.part("backward", "weight")
    if deployment.pp is not None:
        # while the pipeline fills and drains there is no other chunk that its messages could hide behind
        alone, back = (time + interleaved * waits[word].hidden_pp for word, time in both.items())
        idle = bubble_time(training.schedule, alone, back, weight, pp, training.virtual_stages, number)

    # messages: exposed ones are in `forward` and `backward` already, but for those of data parallelism
    exposed, hidden = _messages(stage, number, waits, full)
    # Chunks of a device end before its whole pass does: longer cover for gathers and scatters.
    covers = (chunked_passes(training.virtual_stages, pp) * time for time in (forward, backward))
    exposed["dp"], beside = data_parallel_time(sums, training, number, forward, backward, *covers)
    hidden["dp"] = sum(beside.values())

    update = sums["optimizer_compute"] + offload_time(model, deployment, training)
    # Kernels beside messages lose SMs and memory bandwidth; tensor-parallel messages hide inside of their product and
    # are left out.
    slowed = training.contention * sum(hidden[kind] for kind in PARALLELISMS if kind != "tp")
    # 1F1B in the steady state: one forward and one backward per micro-batch on the slowest stage.
    total = number * (forward + backward) + idle + exposed["dp"] + slowed + update
    energy = None
    if power_known(hardware):
        parts = ("core_energy", "other_energy")
        energy = Joules(*(_energy(sums, training, number, pp, selective, full, part) for part in parts))
    floors = _over(sums, "floor") + selective * sums.get("attention_floor", 0.0)
    return Iteration(
        time=total if energy is None else limited_time(total, energy, hardware),
        unlimited=total,
        forward=forward,
        backward=backward,
        weight_backward=jnp.asarray(weight),
        micro_batches=number,
        bubble=jnp.asarray(idle),
        recompute=number * (selective * attention + full * stage.layers * sums["forward_layers_compute"]),
        optimizer=update,
        contention=jnp.asarray(slowed),
        exposed={kind: jnp.asarray(exposed[kind]) for kind in PARALLELISMS},
        hidden={kind: jnp.asarray(hidden[kind]) for kind in PARALLELISMS},
        copies_hidden=beside,
        # The mean device: layers are spread over p stages, so each has 1 / p of the work.
        executed=number / pp * (floors + full * sums.get("forward_layers_floor", 0.0)),
        energy=energy,
    )


def _chosen(code: Scalar, words: tuple[str, ...], word: str) -> Scalar:
    """1 where a coded choice is `word`, else 0."""
    return jnp.where(code == float(words.index(word)), 1.0, 0.0)


class _Waits(NamedTuple):
    """s of one pass' messages between experts' devices and to the next stage, exposed and hidden."""

    ep: Scalar
    pp: Scalar
    hidden_ep: Scalar
    hidden_pp: Scalar


def _waits(stage: "_Stage", word: str, send: Scalar, paired: Scalar, beside: Scalar, full: Scalar) -> _Waits:
    """Messages of one pass: those that kernels wait for, and those behind kernels.

    DualPipe pairs a forward with a backward pass of another micro-batch, so that the messages of each hide behind as
    many kernels of the other; those between experts' devices hide first. With interleaved chunks the messages to the
    next stage hide behind the kernels of another chunk. Elsewhere nothing hides.

    Args:
      word: forward or backward.
      send: s of the messages to the next stage.
      paired: 1 under DualPipe.
      beside: share of the kernels that hide messages to the next stage alone: of the interleaved schedule.
      full: 1 where the backward pass repeats all of the forward pass.

    Source: DeepSeek-AI, arXiv:2412.19437 (DeepSeek-V3), section 3.2.1; Llama Team, arXiv:2407.21783, section 3.3.2
    (interleaved schedule with asynchronous messages between stages).
    """
    again = stage.layers * full if word == "backward" else 0.0
    sent = stage.part(word, "ep") + again * stage.sums.get("forward_layers_ep", 0.0)
    kernels = stage.part(word, "compute") + again * stage.sums.get("forward_layers_compute", 0.0)
    # The paired pass of another micro-batch is the cover, its kernels as long as this one's.
    cover = paired * kernels
    # What the exchange leaves of the cover hides messages to the next stage.
    left = positive_part(cover - sent) + beside * kernels
    return _Waits(positive_part(sent - cover), positive_part(send - left), minimum(sent, cover), minimum(send, left))


def _messages(
    stage: "_Stage", number: Scalar, waits: dict[str, _Waits], full: Scalar
) -> tuple[dict[str, Scalar], dict[str, Scalar]]:
    """Time in s of all micro-batches' messages that is exposed, and that is hidden, by parallelism but for dp."""
    sums = stage.sums
    sent = {kind: stage.sent(kind, full) for kind in ("tp", "cp")}
    saved = stage.saved("forward") * (1.0 + full) + stage.saved("backward")
    rings = (1.0 + full) * sums.get("forward_layers_ring", 0.0) + sums.get("backward_layers_ring", 0.0)
    exposed = {
        "tp": number * (sent["tp"] - saved),
        "cp": number * sent["cp"],
        "ep": number * sum(wait.ep for wait in waits.values()),
        "pp": number * sum(wait.pp for wait in waits.values()),
    }
    hidden = {
        "tp": number * saved,
        "cp": number * stage.layers * rings,
        "ep": number * sum(wait.hidden_ep for wait in waits.values()),
        "pp": number * sum(wait.hidden_pp for wait in waits.values()),
    }
    return exposed, hidden


class _Stage:
    """Sums of one micro-batch on the fullest pipeline stage: its share of the layers, and the ops before or after."""

    def __init__(self, sums: Sums, deployment: Deployment, layers: Scalar):
        self.sums, self.layers, self.pp = sums, layers, deployment.pp

    def layer_time(self, word: str) -> Scalar:
        """s of the stage's layers in one pass, messages that do not hide included."""
        return self.layers * (self._of(word, "layers") - self._hidden(word))

    def time(self, word: str) -> Scalar:
        """s of one pass; with stages the longer of the ops before and after the layers, without stages both."""
        # Embedding on the first stage, head on the last: the slower of the two sets the pace with its layers.
        return self.layer_time(word) + self._ends(self._of(word, "first"), self._of(word, "last"))

    def part(self, word: str, what: str) -> Scalar:
        """s of one sum of `training_terms`."""
        layers = self.layers * self.sums.get(f"{word}_layers_{what}", 0.0)
        return layers + self._ends(*(self.sums.get(f"{word}_{place}_{what}", 0.0) for place in ("first", "last")))

    def sent(self, kind: str, full: Scalar) -> Scalar:
        """s of messages of a kind in both passes, and in what full recomputation repeats."""
        both = self.part("forward", kind) + self.part("backward", kind)
        return both + full * self.layers * self.sums.get(f"forward_layers_{kind}", 0.0)

    def saved(self, word: str) -> Scalar:
        """s of tensor-parallel messages that hide behind kernels of the same pass."""
        return self.layers * self._hidden(word)

    def _of(self, word: str, place: str) -> Scalar:
        """s of one run of a place's kernels and messages."""
        return sum(self.sums.get(f"{word}_{place}_{what}", 0.0) for what in ("compute", "tp", "ep", "cp"))

    def _hidden(self, word: str) -> Scalar:
        """s of one layer's messages that hide under `Deployment.overlap`; all count as tensor-parallel ones."""
        return 0.0 - self.sums.get(f"{word}_layers_hidden", 0.0)

    def _ends(self, first: Scalar, last: Scalar) -> Scalar:
        """s of the ops before and after the layers: on different stages, or both on the only one."""
        if self.pp is None:
            return first + last
        # Fullest stage: layers and either end, not both, where stages are several.
        return jnp.where(self.pp > 1.0, maximum(first, last), first + last)


def send_time(
    hardware: Hardware, model: Model, deployment: Deployment, training: Training, efficiency: Efficiency
) -> Scalar:
    """Time in s of a stage's messages to the next one per micro-batch and direction, shape (); 0 for one stage."""
    if deployment.pp is None:
        return 0.0
    times = device_sends(training.schedule, deployment.pp, training.virtual_stages)
    parts = stage_messages(model, deployment, training).values()
    return times * sum(op_time(part, hardware, efficiency) for part in parts)


def stage_messages(model: Model, deployment: Deployment, training: Training) -> Ops:
    """One message of a micro-batch from a device of a stage to that of the next one, and what its receivers gather.

    Tensor-parallel devices hold the same tokens, or a part each with sequence parallelism: each sends a part, and
    without sequence parallelism those that receive gather the whole.

    Source: Narayanan et al., arXiv:2104.04473, section 4.1 (scatter/gather optimisation); Korthikanti et al.,
    arXiv:2205.05198, section 4.2.2.
    """
    tokens, _ = pass_tokens(deployment, training)
    message, stride = tokens * model.hidden * deployment.communication_bytes, stage_devices(deployment)
    # Scatter/gather: tensor-parallel ranks hold copies of the same activation, so each sends 1 / tp of it.
    part = message / deployment.tp
    ops: Ops = {"stage_send": collective("send_recv", part, 2.0, 1.0, stride, parallelism="pp", role="stage")}
    if not deployment.sequence_parallel:
        ops["stage_gather"] = collective("all_gather", message, deployment.tp, 1.0, parallelism="pp", role="stage")
    return ops


def _over(sums: Sums, what: str) -> Scalar:
    """One sum over both passes and all of their parts."""
    names = (f"{word}_{place}_{what}" for word in ("forward", "backward") for place in ("first", "layers", "last"))
    return sum(sums.get(name, 0.0) for name in names)


def _energy(
    sums: Sums, training: Training, number: Scalar, pp: Scalar, selective: Scalar, full: Scalar, what: str
) -> Scalar:
    """J of the mean device beside static power: passes, messages between copies by ZeRO stage, and the update.

    Args:
      what: `core_energy`, what is spent at the cores' voltage, or `other_energy`.
    """
    zero = training.zero
    passes = _over(sums, what) + selective * sums.get(f"attention_{what}", 0.0)
    passes = passes + full * sums.get(f"forward_layers_{what}", 0.0)
    # ZeRO-3 gathers twice per micro-batch, ZeRO-1 and 2 once per iteration after the update.
    gathers = jnp.where(zero >= 3.0, 2.0 * number, jnp.where(zero >= 1.0, 1.0, 0.0))
    scatters = jnp.where(zero >= 2.0, number, jnp.where(zero >= 1.0, 1.0, 0.0))
    reduces = jnp.where(zero < 1.0, 1.0, 0.0)
    sent = gathers * sums.get(f"dp_all_gather_{what}", 0.0) + scatters * sums.get(f"dp_reduce_scatter_{what}", 0.0)
    return number / pp * passes + sent + reduces * sums.get(f"dp_all_reduce_{what}", 0.0) + sums[f"optimizer_{what}"]
