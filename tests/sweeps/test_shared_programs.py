"""Programs of simulations: shared where steps are priced alike, and none where there is little to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.numerics.smooth import maximum
from sweeps.run.simulated import grid, pieces, simulation
from sweeps.run.simulated.spec import serve_spec
from sweeps.run.simulated.straight import Straight
from sweeps.serving.run import setup

NUMBER = jax.ShapeDtypeStruct((), "float32")


def sum_of(scale: float, given: dict, asked: tuple) -> tuple:
    """A custom derivative, a call, and inputs that nothing reads."""
    call = jax.jit(lambda x: jnp.where(x > 1.0, x * scale, given["table"].sum()))
    return maximum(call(given["a"]), asked[0]), asked[0] + given["a"]


def recorded(scale: float = 2.0, **more: jax.ShapeDtypeStruct) -> Straight:
    given = {"a": NUMBER, "table": jax.ShapeDtypeStruct((3,), "float32"), **more}
    return Straight(lambda given, asked: sum_of(scale, given, asked), given, (NUMBER,))


def test_lines_do_what_the_function_does():
    line = recorded(z=NUMBER)
    assert line.used == (0, 1), "a and the table, not z"
    table = np.arange(3, dtype=np.float32)
    for a in (0.5, 4.0):
        expected = sum_of(2.0, {"a": jnp.float32(a), "table": table}, (jnp.float32(1.5),))
        assert jax.jit(lambda a: line([a, table], [jnp.float32(1.5)]))(jnp.float32(a)) == list(expected)
    several = jax.vmap(lambda a: line([a, table], [jnp.float32(1.5)]))(jnp.float32([0.5, 4.0]))
    assert np.asarray(several[0]).tolist() == [3.0, 8.0]


def test_keys_are_those_of_what_is_done():
    assert recorded() == recorded(z=NUMBER) == recorded(y=NUMBER, z=NUMBER)
    assert recorded() != recorded(3.0)
    assert recorded() != recorded(table=jax.ShapeDtypeStruct((4,), "float32"))


def asked(model: str):
    return setup(serve_spec(model=model, hardware="H100-SXM", rate=8.0, isl="256", osl="16", requests=12))


@pytest.fixture
def few(monkeypatch, float64):
    """Simulations of 12 requests; programs that are known already set aside."""
    pieces._program.cache_clear()
    return monkeypatch


def test_models_whose_steps_are_priced_alike_share_a_program(few):
    """Their other layers differ: a gated one and a plain one, with and without biases, tied embeddings."""
    for model in ("Llama-3.1-8B", "OLMo-2-7B"):
        found = grid.outcomes([asked(model).scenario])
        assert found["finished"] == 12
    assert pieces._program.cache_info().currsize == 1
    assert grid.outcomes([asked("DeepSeek-V2-Lite").scenario])["finished"] == 12
    assert pieces._program.cache_info().currsize == 2, "latent attention is priced in another way"


def test_many_simulations_in_programs_are_those_that_few_are_on_numpy(few):
    points = [asked("Llama-3.1-8B").scenario]
    plain = grid.outcomes(points)
    for module in (grid, simulation):
        few.setattr(module, "are_short", lambda simulations, requests: False)
    programs = grid.outcomes(points)
    assert plain.keys() == programs.keys()
    for name, values in plain.items():
        np.testing.assert_allclose(programs[name], values, rtol=1e-12, err_msg=name)


def test_closed_loops_at_once_are_each_alone(float64):
    """Clients that send again write to one place of every simulation, which a kernel cannot do for all at once."""
    loops = [
        setup(serve_spec(model="Llama-3.1-8B", hardware="H100-SXM", concurrency=n, isl="256", osl="16", requests=12))
        for n in (2, 3)
    ]
    together = grid.outcomes([one.scenario for one in loops])
    for place, one in enumerate(loops):
        alone = grid.outcomes([one.scenario])
        for name, values in alone.items():
            np.testing.assert_allclose(together[name][place], values[0], rtol=1e-12, err_msg=name)
