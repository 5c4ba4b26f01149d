"""Programs of simulated services: one for all services in one room, whose figures it leaves as they are."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxroof.batch import Batch, Decode, Prefill
from sweeps.entries.comparisons import compare
from sweeps.run.precision import precision
from sweeps.run.simulated import service
from sweeps.run.simulated.pieces import priced_step, prices_of
from sweeps.run.simulated.service_room import FEW, common_room
from sweeps.run.simulated.simulation import drafting_tables
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.run import setup

pytestmark = pytest.mark.xdist_group("simulated services")


def pools(prefill, decode, **words):
    """A service of two pools."""
    load = {"isl": "256..1024", "osl": "4..16", "rate": 20.0, "requests": 40}
    asked = serve_spec(hardware="H100-SXM", model="gpt-oss-20b", prefill=prefill, deployment=decode, **(load | words))
    return setup(asked)


def test_services_in_a_common_room_have_their_own_figures_and_share_a_program():
    setups = [
        pools({"dp": 1}, {"tp": 2, "dp": 1}),
        pools({"dp": 3}, {"attention_dp": 2, "ep": 2, "dp": 2}, requests=70),
    ]
    with precision("float64"):
        rooms = [service.room_for(one.kinds, one.routes) for one in setups]
        room = common_room(rooms, 3)
        before = service._program.cache_info().misses
        together = [service.serviced(one.kinds, one.routes, room=room) for one in setups]
        programs = service._program.cache_info().misses - before
        alone = [service.serviced(one.kinds, one.routes) for one in setups]
    assert room.requests == 70 and room.shape.engines == 8 and room.short
    assert programs <= 1
    for own, common in zip(alone, together, strict=True):
        # The same operations in the same order: equal to the last bit.
        for field in dataclasses.fields(own.served):
            np.testing.assert_array_equal(getattr(own.served, field.name), getattr(common.served, field.name))
        np.testing.assert_array_equal(own.places.then, common.places.then)
        assert own.roles == common.roles and own.blocks == common.blocks


def test_rooms_that_are_used_often_are_optimised():
    with precision("float64"):
        one = pools({"dp": 1}, {"dp": 1})
        room = service.room_for(one.kinds, one.routes)
    # 40 requests to engines of 40 slots.
    assert common_room([room], FEW // 40).short
    assert not common_room([room], FEW // 40 + 1).short


def test_a_program_is_compiled_once_for_all_pieces(monkeypatch):
    """What it returns has the types of what it was given."""
    types, made = [], service._program

    def program(*words):
        go = made(*words)

        def noted(used, kind, constants, state):
            types.append(jax.tree.map(jax.typeof, state))
            return go(used, kind, constants, state)

        return noted

    monkeypatch.setattr(service, "_program", program)
    one = pools({"dp": 1}, {"dp": 1})
    with precision("float64"):
        room = service.room_for(one.kinds, one.routes)
        pieces = room._replace(shape=dataclasses.replace(room.shape, iterations=64))
        service.serviced(one.kinds, one.routes, room=pieces)
    assert len(types) > 1 and all(each == types[0] for each in types)


def test_layouts_have_one_price_whose_numbers_are_their_own():
    """Degrees of 1 stand in place of none: a quotient by 1 is exact."""
    layouts = ({"tp": 2}, {"attention_dp": 2, "ep": 2}, {"pp": 2})
    found = []
    random = np.random.default_rng(0)
    with precision("float64"):
        for layout in layouts:
            one = pools({"dp": 1}, layout)
            kind, size = one.kinds[1].scenario, service.room_for(one.kinds, one.routes).size
            place = kind.hardware, kind.model, kind.deployment, kind.efficiency
            tables = jax.tree.map(lambda leaf: np.asarray(leaf)[0], drafting_tables(place, kind.workload, size, 1))
            priced, (price, used) = service._priced(kind, size), prices_of(kind, tables, size)
            found.append(priced.price)
            for _ in range(5):
                prompts, decodes = (float(number) for number in random.integers(1, 8, 2))
                tokens = 100.0 * prompts
                batch = Batch(
                    prefill=Prefill(sequences=prompts, tokens=tokens, past=0.0),
                    decode=Decode(sequences=decodes, context=500.0),
                    logits=prompts + decodes,
                    encode=None,
                )
                asked = batch, tokens + decodes
                assert priced_step(priced.price, priced.used, *asked) == priced_step(price, used, *asked)
    assert found[0] == found[1] == found[2]


def test_pools_of_a_comparison_share_a_program():
    before = service._program.cache_info().misses
    words = {"isl": "2048", "osl": "64", "requests": 100, "max_devices": 4, "policy": {"max_sequences": 32}}
    found = compare("Llama-3.1-8B", "ttft=0.25s,tpot=9.7ms", hardware=["H100-SXM", "H200-SXM"], simulate=1, **words)
    pools = {row.hardware for row in found.rows if row.prefill is not None and row.simulated}
    assert pools == {"H100-SXM", "H200-SXM"}
    assert service._program.cache_info().misses <= before + 1
