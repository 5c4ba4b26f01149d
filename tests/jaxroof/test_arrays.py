"""The array namespace: when JAX is imported, when structs are pytrees, and where formulas run on NumPy."""

import subprocess
import sys
import threading

import jax
import numpy as np
import pytest

from jaxroof.numerics.arrays import eager, is_traced, jnp

FIRST_NAME = """
import sys, hwspaces
entry = hwspaces.hardware("H100-SXM")
assert "jax" in sys.modules  # a struct in the caller's hands
import jax
assert len(jax.tree.leaves(entry.hardware)) > 100
"""

ON_USE = """
import sys
from jaxroof.public import jax_on_use
with jax_on_use():
    import hwspaces
    entry = hwspaces.hardware("H100-SXM")
    assert "jax" not in sys.modules
    import jax
    hwspaces.names  # a public name after JAX was imported
    assert len(jax.tree.leaves(entry.hardware)) > 100
"""

MADE_AFTERWARDS = """
from jaxroof.numerics.struct import Scalar, struct

@struct
class Pair:
    first: Scalar
    second: Scalar

early = Pair(first=1.0, second=2.0)
import jax
late = Pair(first=3.0, second=4.0)
assert jax.tree.leaves((early, late)) == [1.0, 2.0, 3.0, 4.0]
"""

FIRST_INSIDE_A_TRACE = """
import jax
def first(x):
    from jaxroof.numerics.arrays import is_traced
    assert is_traced()
    return x
jax.jit(first)(1.0)
from jaxroof.numerics.arrays import is_traced
assert not is_traced()
"""


def _run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "code",
    [FIRST_NAME, ON_USE, MADE_AFTERWARDS, FIRST_INSIDE_A_TRACE],
    ids=["first name", "on use", "made afterwards", "first inside a trace"],
)
def test_structs_are_pytrees_and_traces_are_known_in_every_order(code):
    _run(code)


def test_namespace_inside_and_outside_of_traces():
    answers = []

    def asked(x):
        answers.append((is_traced(), jnp.sqrt is np.sqrt))
        with eager():
            answers.append((is_traced(), jnp.sqrt is np.sqrt))
        return x

    one, column = 1.0, np.ones(2)
    for transformed, argument in (
        (jax.jit(asked), one),
        (jax.grad(asked), one),
        (jax.vmap(asked), column),
        (jax.vmap(jax.grad(jax.jit(asked))), column),
    ):
        answers.clear()
        transformed(argument)
        assert answers == [(True, False), (False, True)]
    answers.clear()
    thread = threading.Thread(target=asked, args=(1.0,))
    thread.start()
    thread.join()
    assert answers == [(False, True)] * 2
