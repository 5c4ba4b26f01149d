"""Programs of every kind can be lowered for CUDA, ROCm and TPU: no device is needed for that.

`python -m tests.evidence.lowering` lowers all of them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.evidence.lowering import PLATFORMS, Lowered, programs_of

LOWERED = {
    "grid of requests, derated": 2,
    "layouts and designs, train": 1,
    "gradients, step": 1,
    "optimisation": 2,
    "optimisation of a stream in its steady state": 1,
    "simulation, derated": 4,
    "scores of mappings": 1,
    "descents of mappings": 1,
    "function over its sizes": 2,
}
"""Question -> programs that it has at least."""


@pytest.mark.parametrize("name", LOWERED)
def test_programs_are_lowered_and_need_no_host(name):
    found = programs_of(name)
    assert len(found) >= LOWERED[name]
    for program in found:
        assert program.platforms == PLATFORMS
        assert program.equations > 0 and program.bytes > 0
        assert program.custom_calls == ()


def test_a_custom_call_and_float64_are_seen(float64):
    stand_in = Lowered()
    stand_in(jnp.linalg.eigh)(np.eye(2, dtype=np.float32))
    stand_in(lambda x: jnp.sin(x) + 1.0)(np.ones(2))
    solved, plain = stand_in.programs
    assert solved.custom_calls and not solved.float64
    assert plain.custom_calls == () and plain.float64 and plain.equations == 2  # a sine and a sum


def test_a_callback_to_the_host_is_refused():
    with pytest.raises(NotImplementedError, match="callback"):
        Lowered()(lambda x: jax.pure_callback(np.sin, jax.typeof(x), x))(np.ones(2, np.float32))
