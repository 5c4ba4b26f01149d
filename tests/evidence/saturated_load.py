"""Output tokens per s of an engine with more requests than it can hold, in closed form from two of its steps."""

import dataclasses
import math

from jaxroof import batch
from jaxroof.batch import Batch
from jaxroof.deployment import Deployment, degree
from jaxroof.efficiency import Efficiency
from jaxroof.energy.energy import joules_of, power_known
from jaxroof.energy.governor import limited_time
from jaxroof.hardware import Hardware
from jaxroof.memory.capacity import parameter_count, sequence_capacity
from jaxroof.model import Model
from jaxroof.prices.prices import visible_host_time
from jaxroof.step.overlap import overlapped_ops
from jaxroof.step.step import HOST, times_of

LARGE = 30e9
"""Parameters from which on a model counts as large."""

ROUNDS = 4
"""Times that the number of decoding sequences is put right in a closed loop: then within 0.2 %."""


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Lengths of the requests in tokens, means over requests but for `context`."""

    isl: float
    osl: float
    context: float  # of a decoding sequence, mean over the steps of all
    held: float  # of cache that an admitted sequence takes


def uniform(low: float, isl: float, osl: float, reserve: bool) -> Lengths:
    """Lengths drawn evenly between `low` times nominal and nominal.

    Args:
      reserve: the cache of the whole output is taken at admission.
    """
    mean = 0.5 * (1.0 + low)
    isl, osl = mean * isl, mean * osl
    return Lengths(isl, osl, isl + 0.5 * osl, isl + (1.0 if reserve else 0.5) * osl)


@dataclasses.dataclass(frozen=True)
class Rules:
    """What the closed form needs to know of a scheduler, for one attention group."""

    budget: float  # tokens of one step
    sequences: float  # that run at once
    apart: bool  # prompts have steps of their own
    hidden_host: float
    step_time: float = 0.0  # s that a step takes longer
    token_time: float = 0.0  # s of the server's front end per token


@dataclasses.dataclass(frozen=True)
class Saturated:
    """One replica, its load, and the throughput that was measured."""

    source: str
    label: str
    engine: str
    gpu: str
    hardware: Hardware
    model: Model
    deployment: Deployment
    lengths: Lengths
    rules: Rules
    tokens_per_second: float
    clients: float = math.inf  # of a closed loop
    between: float = 0.0  # s from the last token of a client to its next request's place in the queue
    sequences: float | None = None  # that decoded at once, where it was measured

    @property
    def large(self) -> bool:
        """Whether the model has 30 billion parameters, those of all experts counted."""
        return float(parameter_count(self.model)) >= LARGE


def throughput(one: Saturated, efficiency: Efficiency) -> float:
    """Output tokens per s; 0 where the cache cannot hold one sequence.

    In the mean n sequences decode in a step of T s and n / osl prompts come: n / T tokens/s. With p prompts per step,
    1 - e^-p of the steps have some. n is limited by the cache, the scheduler and the clients; and where prompts fill
    the steps, by the tokens of a step: n (1 + isl / osl) = budget.
    """
    lengths, rules, groups = one.lengths, one.rules, float(degree(one.deployment.attention_dp))
    room = float(sequence_capacity(one.hardware, one.model, one.deployment, lengths.held))
    if room < 1.0:
        return 0.0
    most = min(room, rules.sequences * groups, one.clients) if one.sequences is None else one.sequences
    if not rules.apart and one.sequences is None:
        most = min(most, rules.budget * groups / (1.0 + lengths.isl / lengths.osl))
    found = most
    for _ in range(ROUNDS):
        time, first = _times(one, efficiency, found)
        if math.isinf(one.clients):
            break
        decoding = lengths.osl * time
        found = min(most, one.clients * decoding / (decoding + first + one.between))
    return found / time


def _times(one: Saturated, efficiency: Efficiency, sequences: float) -> tuple[float, float]:
    """s between two tokens of a sequence, and from a place in the queue to the first token."""
    per_step = sequences / one.lengths.osl
    decode = batch.decode(sequences, one.lengths.context)
    alone = _step(one, efficiency, decode)
    if one.rules.apart:
        groups = float(degree(one.deployment.attention_dp))
        together = max(min(one.rules.budget * groups / one.lengths.isl, per_step), 1.0)
        prompts = _step(one, efficiency, batch.prefill(together, one.lengths.isl))
        return alone + per_step / together * prompts, prompts
    mixed = -math.expm1(-per_step)
    prompts = batch.prefill(max(per_step / mixed, 1.0), one.lengths.isl)
    time = (1.0 - mixed) * alone + mixed * _step(one, efficiency, batch.mixed(prompts, decode))
    return time, 1.5 * time


def _step(one: Saturated, efficiency: Efficiency, work: Batch) -> float:
    """Time in s of one step, under the limit of electrical power."""
    ops = overlapped_ops(one.model, one.deployment, work)
    times = times_of(ops, one.hardware, one.deployment, work, efficiency)
    usual, host = float(efficiency.host.step_time), float(times.pop(HOST))
    device, per_step = float(sum(times.values())), usual + one.rules.step_time
    of_sequences = max(host - usual, one.rules.token_time * float(work.logits))
    time = device + float(visible_host_time(device, per_step, of_sequences, one.rules.hidden_host))
    if not power_known(one.hardware):
        return time
    return float(limited_time(time, joules_of(ops, one.hardware), one.hardware))
