"""The exact maximum with smooth gradients: values, weights, ties, zeros, units, and the minimum made of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.numerics.arrays import eager
from jaxroof.numerics.smooth import (
    SHARPNESS,
    ceiling,
    cheapest,
    cheapest_of,
    floor,
    maximum,
    minimum,
    smoothing,
    straightened,
)


def weights(*terms):
    """Elasticities d ln maximum / d ln term."""
    value, slopes = jax.value_and_grad(lambda t: maximum(*t))(terms)
    return [float(slope * term / value) for slope, term in zip(slopes, terms, strict=True)]


def test_value_is_exact():
    assert float(maximum(3.0, 5.0, 4.999999)) == 5.0
    assert float(maximum(7.0)) == 7.0
    assert float(maximum(1e-30, 0.0)) == np.float32(1e-30)


def test_weights_near_a_ridge():
    # terms 1 and 0.95: 0.95^49 = 0.08099, weights 1 / 1.08099 and 0.08099 / 1.08099
    assert weights(1.0, 0.95) == pytest.approx([0.92507, 0.07493], abs=1e-5)
    assert weights(2.0, 2.0) == pytest.approx([0.5, 0.5], rel=1e-6)
    assert weights(2.0, 2.0, 2.0, 2.0) == pytest.approx([0.25] * 4, rel=1e-6)


def test_away_from_ridges_the_gradient_is_the_true_one():
    # a quarter of the largest: 4^-49 = 3e-30 of the weight, below float32's rounding
    slopes = jax.grad(lambda t: maximum(*t))((1.0, 4.0, 0.5))
    assert [float(slope) for slope in slopes] == pytest.approx([0.0, 1.0, 0.0], abs=1e-7)


def test_weights_sum_to_one_at_every_scale():
    """Microseconds and petabytes are smoothed alike: weights depend on ratios only, and nothing under- or overflows."""
    terms = np.random.default_rng(0).uniform(0.5, 1.0, (100, 5)).astype(np.float32)
    whole = jax.vmap(jax.grad(lambda t: maximum(*t)))
    reference = whole(terms)
    np.testing.assert_allclose(np.sum(reference * terms, axis=1), terms.max(axis=1), rtol=1e-6)
    for scale in np.float32([1e-30, 1e-6, 1e15, 1e30]):
        # 3e-5: 49th powers of ratios that the scaling rounded
        np.testing.assert_allclose(whole(terms * scale), reference, rtol=3e-5, atol=1e-7)


def test_floor():
    """The mirror image of the ceiling: whole numbers stay, and the slope is that of the ramp."""
    for number, whole in ((2.7, 2.0), (3.0, 3.0), (0.4, 0.0), (-1.2, -2.0)):
        assert float(floor(number)) == whole and not np.signbit(float(floor(0.4)))
        assert float(jax.grad(floor)(number)) == 1.0


def test_zero_terms():
    """An absent resource takes no weight, and nothing at all is zero in value and gradient."""
    assert weights(0.0, 3.0) == pytest.approx([0.0, 1.0])
    value, slopes = jax.value_and_grad(lambda t: maximum(*t))((0.0, 0.0, 0.0))
    assert float(value) == 0.0 and [float(slope) for slope in slopes] == [0.0, 0.0, 0.0]


def test_forward_mode_equals_reverse_mode():
    terms = jnp.array([1.0, 0.9, 0.7])
    assert jax.jacfwd(lambda t: maximum(*t))(terms).tolist() == pytest.approx(
        jax.jacrev(lambda t: maximum(*t))(terms).tolist(), rel=1e-6
    )


def test_gradient_of_a_p_norm(float64):
    """The documented definition: gradient of (sum x^p)^(1/p), scaled by maximum / norm, by central differences."""
    terms = np.array([1.0, 0.93, 0.85])
    norm = lambda t: (t**SHARPNESS).sum() ** (1 / SHARPNESS)  # noqa: E731
    steps = 1e-6 * np.eye(3)
    expected = [(norm(terms + s) - norm(terms - s)) / 2e-6 / norm(terms) for s in steps]
    found = jax.grad(lambda t: maximum(*t))(jnp.asarray(terms))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)  # the difference's own error


def test_minimum():
    # values; and next to a ridge both terms share the gradient, here 0.95 / 1: exact slope of first is 1
    assert float(minimum(3.0, 5.0)) == 3.0 and float(minimum(5.0, 3.0)) == 3.0
    assert float(minimum(0.0, 1.0)) == 0.0
    # min = a b / max: d ln min / d ln a = 1 - w_a
    slopes = jax.grad(lambda t: minimum(*t))((0.95, 1.0))
    assert [float(slopes[0]), float(slopes[1]) / 0.95] == pytest.approx([0.92507, 0.07493], abs=1e-5)
    assert float(jax.grad(minimum)(0.0, 1.0)) == pytest.approx(1.0)


def test_minimum_to_one_rounding():
    first, second = np.random.default_rng(0).uniform(1.0, 1e5, (2, 1000)).astype(np.float32)
    found = jax.vmap(minimum)(first, second)
    np.testing.assert_allclose(found, np.minimum(first, second), rtol=1.2e-7)  # one unit in the last place


def test_smallest_of_several():
    """The value is exact; weights mirror the maximum's: of 0.95 and 1, 0.08099 / 1.08099 for the larger."""
    terms = (3.0, 1.0, 0.95)
    value, slopes = jax.value_and_grad(lambda t: minimum(*t))(terms)
    assert float(value) == np.float32(0.95)
    assert [float(slope * term) / 0.95 for slope, term in zip(slopes, terms, strict=True)] == pytest.approx(
        [0.0, 0.07493, 0.92507], abs=1e-5
    )
    value, slopes = jax.value_and_grad(lambda t: minimum(*t))((0.0, 2.0, 0.0))
    assert float(value) == 0.0 and [float(slope) for slope in slopes] == [0.5, 0.0, 0.5]


@jax.jit
def compiled(a, b):
    """A function that JAX keeps compiled, as op times are."""
    return maximum(a, b) + 0.0 * minimum(a, b) + ceiling(a)


def test_smoothing_is_a_choice_that_no_cache_outlives():
    """Weights of 1 and 0.8 at exponents 49 (1.78e-5), 4 (0.4096) and 0, through a function that stays compiled."""

    def slopes():
        return [float(slope) for slope in jax.grad(compiled, argnums=(0, 1))(1.0, 0.8)]

    usual = slopes()
    assert usual == pytest.approx([2.0 - 1.78e-5, 1.78e-5 / 0.8], abs=1e-6)  # the ceiling adds 1 to the first
    with smoothing(4.0):
        assert slopes() == pytest.approx([1.0 + 1.0 / 1.4096, 0.4096 / 1.4096 / 0.8], abs=1e-5)
        with smoothing(0):
            assert slopes() == [1.0, 0.0]
            assert float(compiled(1.0, 0.8)) == 2.0
        assert slopes() == pytest.approx([1.0 + 1.0 / 1.4096, 0.4096 / 1.4096 / 0.8], abs=1e-5)
    assert slopes() == usual


def test_without_smoothing_ties_are_shared():
    with smoothing(0):
        assert weights(2.0, 2.0, 1.0) == [0.5, 0.5, 0.0]
        assert weights(0.0, 3.0) == [0.0, 1.0]
        assert [float(slope) for slope in jax.grad(lambda t: minimum(*t))((1.0, 0.999, 2.0))] == [0.0, 1.0, 0.0]


def test_straight_lines_through_the_first_entries():
    """By hand: a ceiling of 2.5 moves as its argument does, 3 + 0.7; without smoothing the least of 4 and x, 2.5 at
    first, is x even where 4 is less; kinds of bends that were not named stay as they are.
    """
    column = np.array([2.5, 3.2, 4.5])
    with eager(), smoothing(0):
        with straightened("choice"):
            np.testing.assert_allclose(cheapest(4.0, column), column)
            np.testing.assert_allclose(minimum(4.0, column), [2.5, 3.2, 4.0])
        with straightened("limit"):
            np.testing.assert_allclose(cheapest(4.0, column), [2.5, 3.2, 4.0])
            np.testing.assert_allclose(minimum(4.0, column), column)
            np.testing.assert_allclose(maximum(3.0, column), [3.0, 3.0, 3.0])
    with eager(), straightened("rounding"):
        np.testing.assert_allclose(ceiling(column), [3.0, 3.7, 5.0])
    with eager():
        np.testing.assert_allclose(ceiling(column), [3.0, 4.0, 5.0])


@pytest.mark.parametrize("exponent", [-1.0, 0.5, float("inf"), float("nan")])
def test_other_exponents_are_refused(exponent):
    with pytest.raises(ValueError, match="smoothing = .* must be 0"):
        smoothing(exponent)


@pytest.mark.parametrize("exponent", [0.0, SHARPNESS])
def test_alternatives_along_an_axis_are_those_of_a_list(exponent):
    """Value and slopes of `cheapest_of` are those of `cheapest`, ties and zeros included."""
    draws = np.random.default_rng(0)
    rows = [draws.uniform(0.5, 2.0, 11), np.array([1.0, 1.0, 2.0]), np.array([0.0, 1.0, 0.0]), np.array([3.0])]
    with jax.enable_x64(True):
        for row in rows:
            with smoothing(exponent):
                one = jax.value_and_grad(lambda times: cheapest(*times))(jnp.asarray(row))
                other = jax.value_and_grad(cheapest_of)(jnp.asarray(row))
            assert float(one[0]) == float(other[0])
            np.testing.assert_allclose(one[1], other[1], rtol=1e-12, atol=1e-15)
