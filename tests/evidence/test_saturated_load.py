"""Saturated throughput in closed form, with kernels that take next to nothing beside a slow host."""

import dataclasses
import math

import pytest

import hwspaces
import workloads
from jaxroof.efficiency import Host, datasheet
from jaxroof.numerics.arrays import eager
from sweeps.ask.cases import model_deployment
from tests.evidence.saturated_load import Lengths, Rules, Saturated, throughput, uniform
from tests.evidence.saturated_throughput import found

ENTRY = workloads.model("Llama-3.1-8B")
LENGTHS = Lengths(isl=20.0, osl=10.0, context=25.0, held=30.0)
RULES = Rules(budget=1e6, sequences=4.0, apart=False, hidden_host=0.0)
KERNELS = 0.02
"""s that the kernels of a step take at most here: 16 GB of weights at 3.35 TB/s, and a few prompts."""


def saturated(**changes) -> Saturated:
    """Llama-3.1-8B on one H100 with no end of requests."""
    one = Saturated(
        source="",
        label="",
        engine="vllm",
        gpu="H100-SXM",
        hardware=hwspaces.hardware("H100-SXM").hardware,
        model=ENTRY.model,
        deployment=model_deployment(ENTRY, None),
        lengths=LENGTHS,
        rules=RULES,
        tokens_per_second=4.0,
    )
    return dataclasses.replace(one, **changes)


def rate(one: Saturated, step_time: float = 1.0, sequence_time: float = 0.0) -> float:
    """Tokens/s where the host takes these s per step and sequence."""
    host = Host(step_time=step_time, sequence_time=sequence_time, request_time=0.0)
    with eager():
        return throughput(one, dataclasses.replace(datasheet(), host=host))


def test_lengths_drawn_between_80_and_100_percent():
    assert uniform(0.8, 1000.0, 100.0, reserve=False) == Lengths(isl=900.0, osl=90.0, context=945.0, held=945.0)
    assert uniform(0.8, 1000.0, 100.0, reserve=True).held == 990.0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 4.0),  # 4 sequences, a step a second
        # n (1 + 20 / 10) = 30 tokens of a step
        ({"rules": dataclasses.replace(RULES, budget=30.0, sequences=1e6)}, 10.0),
        # 8 clients decode for 10 s of every 10 s + 1.5 s until a first token + 1 s between: 8 * 10 / 12.5
        ({"clients": 8.0, "between": 1.0, "rules": dataclasses.replace(RULES, sequences=1e6)}, 6.4),
        ({"sequences": 7.0}, 7.0),
        # a step of prompts for every 10 / 4 decode steps: 4 / (1 + 4 / 10)
        ({"rules": dataclasses.replace(RULES, apart=True)}, 4.0 / 1.4),
    ],
)
def test_rates_of_steps_of_a_second(changes, expected):
    assert rate(saturated(**changes)) == pytest.approx(expected, rel=2.0 * KERNELS)


def test_the_cache_ends_it():
    # 80 GB without 16 GB of weights hold some 450,000 tokens of 128 KiB
    long = dataclasses.replace(LENGTHS, context=2e5, held=2e5)
    few = rate(saturated(lengths=long, rules=dataclasses.replace(RULES, sequences=100.0)))
    assert 1.0 < few < 4.0
    assert rate(saturated(lengths=dataclasses.replace(LENGTHS, held=1e7))) == 0.0


def test_a_host_beside_the_device_and_after_it():
    # 4 sequences take the host twice as long as the kernels: 3 times after these, 2 beside them; 1 s stays per step
    alone = saturated(sequences=4.0, lengths=dataclasses.replace(LENGTHS, osl=1e9))  # hardly a prompt
    device = 4.0 / rate(alone, 1e-9)
    assert 0.003 < device < KERNELS
    beside = dataclasses.replace(alone, rules=dataclasses.replace(RULES, hidden_host=1.0))
    each = 2.0 * device / 4.0
    assert 4.0 / rate(alone, 1.0, each) == pytest.approx(1.0 + 3.0 * device)
    assert 4.0 / rate(beside, 1.0, each) == pytest.approx(1.0 + 2.0 * device)
    assert 4.0 / rate(beside, 1.0, each / 4.0) == pytest.approx(1.0 + device)
    slow = dataclasses.replace(beside, rules=dataclasses.replace(beside.rules, token_time=3.0 * each))
    assert 4.0 / rate(slow, 1.0, each) == pytest.approx(1.0 + 6.0 * device)  # the front end is the slower of the two


def test_rows_are_scored_with_the_host_beside_the_device_and_after_it():
    host = Host(step_time=0.0, sequence_time=1.0, request_time=0.0)
    rare = dataclasses.replace(LENGTHS, osl=1e9, held=30.0)
    row = saturated(lengths=rare, rules=dataclasses.replace(RULES, hidden_host=1.0))
    one, *rest = found(
        [row, saturated(lengths=dataclasses.replace(LENGTHS, held=1e7))],
        {"vllm": dataclasses.replace(datasheet(), host=host)},
    )
    assert not rest and one.predicted > one.after
    assert math.isclose(one.predicted, 1.0, rel_tol=1e-6)  # 4 sequences take 4 s of the host
