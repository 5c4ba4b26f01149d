"""The reference simulator of services: what always holds, on random ones."""

import dataclasses
import itertools
import math

import pytest

from jaxroof.batch import STATUSES
from tests.oracle.serving import Server, Service, serve, serve_service
from tests.oracle.serving.jobs import FINISHED, REFUSED, REJECTED, UNFINISHED, Requests, listed
from tests.oracle.serving.random_engines import case as engine_case
from tests.oracle.serving.random_engines import toy_price
from tests.oracle.serving.random_services import case
from tests.oracle.serving.routers import ROUTERS

CASES = 150


@pytest.fixture(scope="module")
def random_services():
    return [(service, serve_service(service)) for service in map(case, range(CASES))]


def test_random_services_reach_every_rule(random_services):
    reached = {name: sum(out.counts[name] > 0 for _, out in random_services) for name in random_services[0][1].counts}
    assert reached["finished"] == CASES
    for name in ("preempted", "evicted", "swapped_in", "handed_over", "refused", "rejected"):
        assert reached[name] >= CASES // 10, name
    assert reached["shortened"] and sum(out.counts["preempted_partial"] for _, out in random_services)
    assert {service.router for service, _ in random_services} == set(ROUTERS)
    assert {len(service.engines) for service, _ in random_services} == set(range(1, 7))
    assert {len(service.requests.nodes[0]) for service, _ in random_services} == {1, 2, 3}
    for role in ("prefill", "decode"):
        held = [out for service, out in random_services if most_parked(service, out, role) > 1]
        assert len(held) >= CASES // 10, role


def most_parked(service, out, role) -> int:
    counts = zip(service.engines, out.engine_counts, strict=True)
    return max((count["parked"] for engine, count in counts if engine.role == role), default=0)


def test_every_request_comes_to_an_end(random_services):
    for service, out in random_services:
        assert UNFINISHED not in out.status and math.nan not in out.arrival
        for index in (i for i, status in enumerate(out.status) if status == REFUSED):
            assert not fits(service, index, out.engine[index])
        if all(engine.policy.max_waiting == math.inf for engine in service.engines):
            assert REJECTED not in out.status
        assert sum(out.counts[name] for name in STATUSES) == len(out.status)


def fits(service, index, engine) -> bool:
    isl, osl = service.requests.isl[index], service.requests.osl[index]
    first, decodes = service.engines[engine], [each for each in service.engines if each.role == "decode"]

    def holds(each, tokens):
        return -(-tokens // int(each.policy.block_size)) <= each.blocks

    after = not decodes or any(holds(each, isl + osl) for each in decodes)
    return holds(first, isl + (1 if first.role == "prefill" else osl)) and after


def test_time_runs_forward(random_services):
    for service, out in random_services:
        for steps in out.steps:
            assert all(step.start < step.end <= after.start for step, after in itertools.pairwise(steps))
        columns = (out.status, out.arrival, out.admitted, out.first_token, out.finish)
        for status, arrival, admitted, first_token, finish in zip(*columns, strict=True):
            if status == FINISHED:
                assert arrival + service.delay <= admitted < first_token <= finish
            else:
                assert math.isnan(admitted) and math.isnan(first_token) and math.isnan(finish)
        for index, other in enumerate(service.requests.after):
            if other < 0:
                assert out.arrival[index] == service.requests.arrival[index]
            elif out.status[other] == FINISHED:
                assert out.arrival[index] == out.finish[other] + service.requests.pause[index]


def test_tokens_are_conserved(random_services):
    for service, out in random_services:
        answered = [i for i, status in enumerate(out.status) if status == FINISHED]
        if all(engine.policy.order != 3.0 for engine in service.engines):  # where padding samples too
            sampled = sum(step.logits for steps in out.steps for step in steps)
            assert sampled == sum(service.requests.osl[i] for i in answered)
        if not any(out.preemptions):
            worked = sum(step.prompt_tokens for steps in out.steps for step in steps)
            assert worked == sum(service.requests.isl[i] - out.cached[i] for i in answered)
        assert sum(out.preemptions) == out.counts["preempted"] + out.counts["preempted_partial"]


def test_engines_do_what_their_roles_say(random_services):
    for service, out in random_services:
        roles = [engine.role for engine in service.engines]
        for status, osl, first, second in zip(
            out.status, service.requests.osl, out.engine, out.decode_engine, strict=True
        ):
            assert roles[first] != "decode"
            assert (second >= 0) == (status == FINISHED and roles[first] == "prefill" and osl > 1)
            assert second < 0 or roles[second] == "decode"
        for role, server, steps in zip(roles, service.engines, out.steps, strict=True):
            assert all(step.blocks <= server.blocks for step in steps)
            assert role != "prefill" or all(step.decoding == 0 for step in steps)


def test_prompts_of_a_tree_are_found_again():
    """One after the other, with room for all of them: whole blocks of what an earlier request began with."""
    for seed in range(40):
        service = case(seed, engines=1, pools=False, trees=True, turns=False)
        (engine,) = service.engines
        count = len(service.requests.isl)
        asked = dataclasses.replace(service.requests, arrival=[1e4 * i for i in range(count)])
        policy = dataclasses.replace(engine.policy, prefix_caching=1.0)
        size = int(policy.block_size)
        out = serve_service(Service(asked, [dataclasses.replace(engine, policy=policy, blocks=100_000)]))
        pairs = zip(asked.shared, asked.isl, strict=True)
        assert out.cached == [min(shared, isl - 1) // size * size for shared, isl in pairs]
        assert any(out.cached) or size > 1


def test_what_prompts_begin_with_is_consistent():
    for seed in range(CASES):
        asked = case(seed, trees=True).requests
        ancestors = {}
        for row in listed(asked):
            assert row.shared <= row.isl and row.keep < row.isl + row.osl
            path = [(node, start) for node, start in zip(row.nodes, row.starts, strict=True) if node >= 0]
            for depth in range(len(path)):
                assert ancestors.setdefault(path[depth][0], path[: depth + 1]) == path[: depth + 1]


def test_one_engine_is_what_it_is_alone():
    """In a closed loop, whoever comes next waits for the answer that brings it.

    A service rejects during a step and an engine alone after it, so closed loops with rejections are left out.
    """
    names = ("arrival", "admitted", "first_token", "finish", "status", "preemptions", "cached")
    compared = 0
    for seed in range(100):
        asked, policy, blocks, clients, think = engine_case(seed)
        out = serve(toy_price, asked, policy, blocks, clients, think)
        if clients and out.counts["rejected"]:
            continue
        if clients:
            asked = as_turns(asked, out, clients, think)
        whole = serve_service(Service(asked, [Server(policy, blocks, toy_price)]))
        assert whole.steps == [out.steps]
        for name in names:
            pairs = zip(getattr(whole, name), getattr(out, name), out.status, strict=True)
            assert all(
                a == b or (math.isnan(a) and math.isnan(b)) for a, b, s in pairs if name != "arrival" or s != REFUSED
            )
        compared += 1
    assert compared >= 90


def as_turns(asked, out, clients: int, think: float) -> Requests:
    """A closed loop as requests that wait for answers: the k-th one after those of the clients for the k-th answer."""
    line = [i for i, status in enumerate(out.status) if status != REFUSED]
    after = [-1] * len(out.status)
    for index, answered in zip(line[clients:], sorted(line, key=lambda i: (out.finish[i], i)), strict=False):
        after[index] = answered
    return dataclasses.replace(asked, after=after, pause=[think] * len(after))
