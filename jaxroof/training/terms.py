"""Terms of a training iteration: time, energy and time at peak of every op of a micro-batch and of the update."""

import dataclasses
import functools
from collections.abc import Callable

from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.energy.energy import core_energies, other_energies, power_known
from jaxroof.hardware import Hardware
from jaxroof.model import Model
from jaxroof.numerics.struct import Scalar
from jaxroof.op import ATTENTION_CORES, PRODUCTS, Collective, Kernel, Ops
from jaxroof.step.forward import as_run
from jaxroof.step.overlap import computing_hardware, hidden_time
from jaxroof.step.step import Lazy, Terms, matrix_floors, op_times
from jaxroof.training.communication import collectives_of, ring_parts
from jaxroof.training.passes import Pass, backward_pass, forward_pass
from jaxroof.training.state import data_parallel_ops, optimizer_op
from jaxroof.training.training import Training
from jaxroof.units import unit_rate


def training_terms(
    hardware: Hardware, model: Model, deployment: Deployment, training: Training, efficiency: Efficiency
) -> Lazy:
    """Sums of one micro-batch's ops over all layers, and of one run of what happens once.

    Names are PASS_PLACE_WHAT: forward or backward; first, layers or last; and `compute` (kernels), `weight` (of them
    gradients of weights), tp, ep (messages), cp (those that attention waits for), `ring` (those that hide behind it),
    `hidden` (what `Deployment.overlap` hides, negative), `floor` (matrix work at peak), `core_energy` (J
    at the cores' voltage), `other_energy` (J of memory and links). Further `attention_` with `compute`, `floor` and the
    energies, of the forward pass, which selective recomputation repeats; dp_all_reduce, dp_reduce_scatter,
    dp_all_gather; optimizer_compute.
    """
    # Made once, and only if some term is asked for.
    forward = functools.cache(lambda: forward_pass(as_run(model, hardware), deployment, training))
    backward = functools.cache(lambda: backward_pass(forward(), training))
    device = computing_hardware(hardware, deployment)

    def times(ops: Ops) -> Terms:
        return op_times(ops, device, efficiency)

    terms: Lazy = {}
    for word, make in (("forward", forward), ("backward", backward)):
        for place in Pass._fields:
            terms |= _pass_terms(f"{word}_{place}", getattr(make(), place), hardware, deployment, times)
    # Selective recomputation (Korthikanti): attention cores have much memory and little work.
    attention = {name: op for name, op in forward().layers.items() if op.role in ATTENTION_CORES}
    update: Ops = {"optimizer": optimizer_op(model, deployment, training)}
    groups = {"attention": attention, "optimizer": update}
    for word, ops in groups.items():
        terms[f"{word}_compute"] = functools.partial(times, ops)
        terms[f"{word}_floor"] = functools.partial(matrix_floors, ops, hardware)
        terms |= _energies(word, ops, hardware)
    for kind, ops in data_parallel_ops(model, deployment, training).items():
        terms[f"dp_{kind}"] = functools.partial(times, ops)
        terms |= _energies(f"dp_{kind}", ops, hardware)
    return terms


def _energies(word: str, ops: Ops, hardware: Hardware) -> Lazy:
    """Energy of ops at the cores' voltage, and that of memory and links; nothing where it is unknown."""
    if not power_known(hardware):
        return {}
    terms: Lazy = {f"{word}_other_energy": functools.partial(other_energies, ops, hardware)}
    if any(isinstance(op, Kernel) for op in ops.values()):
        terms[f"{word}_core_energy"] = functools.partial(core_energies, ops, hardware)
    return terms


def _pass_terms(word: str, ops: Ops, hardware: Hardware, deployment: Deployment, timed: Callable[[Ops], Terms]) -> Lazy:
    """Sums of one part of one pass: `word` is PASS_PLACE. A sum without ops is left out.

    compute: kernels;  weight: of these, gradients of weights;  tp, ep: collectives that kernels wait for;
    floor: matrix work at peak;  core_energy, other_energy: J. Of layers also
    hidden: collectives behind kernels under `Deployment.overlap`, negative;
    cp, ring: messages of context parallelism that attention waits for, and those behind it.
    """
    # Times of a part are found once for all sums of it.
    times = functools.cache(lambda: timed(ops))

    def timed_ones(names: tuple[str, ...]) -> Terms:
        return {name: times()[name] for name in names}

    # Sums of times of ops, by which ops they take.
    # A sum without ops is left out, so that searches price no zeros.
    groups = {"compute": [name for name, op in ops.items() if not isinstance(op, Collective)]}
    groups["weight"] = [name for name, op in ops.items() if isinstance(op, Kernel) and op.gradient == "weights"]
    for kind in ("tp", "ep"):
        groups[kind] = collectives_of(ops, kind)
    terms: Lazy = {
        f"{word}_{what}": functools.partial(timed_ones, tuple(names)) for what, names in groups.items() if names
    }

    # Floor and energy of all ops.
    if ops:
        terms[f"{word}_floor"] = functools.partial(matrix_floors, ops, hardware)
    if ops:
        terms |= _energies(word, ops, hardware)

    # What hides behind kernels, and what they wait for, of the layers.
    if word.endswith("layers") and deployment.overlap != "none":
        terms[f"{word}_hidden"] = lambda: hidden_time(ops, times(), deployment)
    if word.endswith("layers") and deployment.cp is not None:
        terms[f"{word}_cp"] = lambda: ring_parts(ops, times())[0]
        terms[f"{word}_ring"] = lambda: ring_parts(ops, times())[1]
    return terms


# Matrix work that a model needs per sequence of training, whatever the layout: the work that MFU counts.


def needed_products(model: Model, deployment: Deployment, training: Training) -> list[tuple[Kernel, Scalar]]:
    """Ops of one sequence's forward pass on one device, and how often their FLOP are needed in one iteration.

    3: forward, gradients of inputs and of weights; 2 where weights are frozen. Recomputed scores of fused attention
    are not needed, so its backward pass counts twice its forward one. Pairs are causal: half of a square.
    """
    alone = Deployment(attention_compute=deployment.attention_compute)
    single = dataclasses.replace(training, micro_batch=1.0)
    # Per sequence on one device: model FLOP do not depend on the layout (MFU, not HFU).
    ops = forward_pass(model, alone, single)
    frozen = training.lora is not None
    return [
        # Backward costs twice the forward: dX and dW.
        (op, 2.0 if frozen and op.kind in PRODUCTS and op.role != "trained_adapter" else 3.0)
        for part in ops
        for op in part.values()
        if isinstance(op, Kernel) and op.matrix_flops is not None
    ]


def model_flops(model: Model, deployment: Deployment, training: Training) -> Scalar:
    """FLOP that one sequence of training needs, shape (): 6 per parameter of a matrix and token, and attention's.

    Embeddings are looked up, not multiplied: they do not count, but the output head does, tied or not.

    Source: Narayanan et al., arXiv:2104.04473, section 5.1, without recomputation and with causal pairs.
    """
    # 6 N per token: 2 forward, 4 backward.
    return sum(times * op.count * op.matrix_flops for op, times in needed_products(model, deployment, training))


def model_floor(hardware: Hardware, model: Model, deployment: Deployment, training: Training) -> Scalar:
    """Time in s of the same at one device's matrix peaks, each at its precision, shape ()."""
    return sum(
        times * op.count * op.matrix_flops / unit_rate(hardware, "matrix", op.precision)
        for op, times in needed_products(as_run(model, hardware), deployment, training)
    )
