"""Time per output token of a closed loop without simulating it, from tables of step times and Little's law."""

import dataclasses
import math

import numpy as np

from jaxroof.batch import ORDERS
from jaxroof.prices.prices import visible_host_time
from jaxroof.prices.tables import CONTEXT, LOGITS
from sweeps.measure.validate.serving.serving_points import ServingPoint
from sweeps.measure.validate.serving.suspects import load
from tests.evidence.step_tables import DECODE, PROMPT, ROWS, Tables


@dataclasses.dataclass(frozen=True)
class Steady:
    """Mean state of the loop, from the measured latencies."""

    sequences: float  # that decode at once
    context: float  # of each, tokens
    isl: float  # mean, tokens
    mixed: float  # share of decode steps that prompts are worked on in or before
    prompts: float  # in each of those
    apart: bool  # prompts have steps of their own
    hidden_host: bool  # the host works for the sequences while the device does
    rows: float  # of the GEMMs of a decode step


def steady(point: ServingPoint) -> Steady:
    """The state of a point. Prompts come at random: of n per step, 1 - e^-n of the steps have some."""
    mean = load(point)
    per_step = max(mean.sequences - 1.0, 0.0) / mean.osl
    mixed = -math.expm1(-per_step)
    small = mean.sequences <= min(4.0, float(point.policy.graph_limit))
    return Steady(
        sequences=mean.sequences,
        context=mean.isl + 0.5 * mean.osl,
        isl=mean.isl,
        mixed=mixed,
        prompts=max(per_step / mixed, 1.0) if mixed > 0.0 else 1.0,
        apart=ORDERS[int(point.policy.order)] == "prefill_first",
        hidden_host=bool(point.policy.hidden_host),
        rows=2.0 ** math.ceil(math.log2(max(mean.sequences, 1.0))) if small else mean.sequences,
    )


def tpot(state: Steady, tables: Tables) -> float:
    """s: (1 - p) decode + p step with prompts; where they have steps of their own, decode + p prompts."""
    decode = _at(tables.rows, state.rows, ROWS) + _at(tables.logits, state.sequences, LOGITS)
    attention = _at_pair(tables.decode, state.sequences, state.context)
    alone = decode + attention + _host(state, tables, decode + attention)
    others = 0.0 if state.apart else state.sequences
    both = _at(tables.rows, others + state.prompts * state.isl, ROWS)
    both += _at(tables.logits, others + state.prompts, LOGITS) + (0.0 if state.apart else attention)
    both += state.prompts * _at(tables.prompt[0, 0], state.isl, PROMPT)
    if state.apart:
        return float(alone + state.mixed * (both + tables.step_time))
    return float((1.0 - state.mixed) * alone + state.mixed * (both + _host(state, tables, both)))


def _host(state: Steady, tables: Tables, device: float) -> float:
    """s that the host adds to a step of `device` s."""
    of_sequences = tables.sequence_time * state.sequences
    return float(visible_host_time(device, tables.step_time, of_sequences, float(state.hidden_host)))


def _at(table: np.ndarray, value: float, per_octave: int) -> float:
    return float(np.interp(_position(value, per_octave), np.arange(len(table)), table))


def _at_pair(table: np.ndarray, sequences: float, context: float) -> float:
    place = _position(sequences, DECODE)
    low = min(int(place), len(table) - 2)
    share = min(place - low, 1.0)
    return (1.0 - share) * _at(table[low], context, CONTEXT) + share * _at(table[low + 1], context, CONTEXT)


def _position(value: float, per_octave: int) -> float:
    mantissa, exponent = math.frexp(max(value, 1.0))
    return per_octave * (exponent - 2.0 + 2.0 * mantissa)
