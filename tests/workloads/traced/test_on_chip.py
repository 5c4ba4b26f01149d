"""On-chip memory that a compiler fills, by hand, and arithmetic that a device does not have."""

import jax
import jax.numpy as jnp
import pytest

import sweeps
from jaxroof import OnChip
from workloads.traced.function import traced


def chain(x, first, second):
    """int8 rows times two matrices; what is between them is passed on."""
    inner = jax.lax.dot(x, first, preferred_element_type=jnp.int32)
    inner = jnp.clip(inner >> 7, 0, 127).astype(jnp.int8)
    return jax.lax.dot(inner, second, preferred_element_type=jnp.int32)


def array(*shape, dtype=jnp.int8):
    return jax.ShapeDtypeStruct(shape, dtype)


ARGUMENTS = array(10, 100), array(100, 1000), array(1000, 20)
INPUT, FIRST, SECOND, RESULT = 10 * 100, 100 * 1000, 1000 * 20, 4 * 10 * 20
SUMS, PASSED = 4 * 10 * 1000, 10 * 1000  # int32 sums of the first product, and the int8 rows that the second reads


def moved(on_chip):
    """B of the two products and of what scales the sums between them."""
    ops = traced(chain, *ARGUMENTS, policy="loops").ops(matrix=("int8",), on_chip=on_chip)
    return [float(op.bytes) for op in ops.values()]


def test_without_on_chip_memory_every_kernel_moves_all_of_its_arrays():
    assert moved(None) == [INPUT + FIRST + SUMS, SUMS + PASSED, PASSED + SECOND + RESULT]


def test_what_kernels_pass_on_stays_on_the_chip_and_weights_are_read():
    """Nothing but the input, the weights and the result is in device memory."""
    assert moved(OnChip(capacity=1e6, keeps_weights=0.0)) == [INPUT + FIRST, 0, SECOND + RESULT]


def test_what_does_not_fit_is_spilled():
    """30 kB hold that much of the sums, of sums and rows, and all 10 kB of the rows that the last kernel reads."""
    small = OnChip(capacity=30e3, keeps_weights=0.0)
    assert moved(small) == [INPUT + FIRST + SUMS - 30e3, SUMS + PASSED - 30e3, SECOND + RESULT]


def test_weights_stay_in_what_the_largest_kernel_leaves():
    """Of 110 kB the 50 of sums and rows leave 60 for 120 kB of weights: half of each matrix stays. In 1 MB all do."""
    assert moved(OnChip(capacity=110e3, keeps_weights=1.0)) == [INPUT + FIRST / 2, 0, SECOND / 2 + RESULT]
    assert moved(OnChip(capacity=1e6, keeps_weights=1.0)) == [INPUT, 0, RESULT]
    assert moved(OnChip(capacity=50e3, keeps_weights=1.0)) == [INPUT + FIRST, 0, SECOND + RESULT]


def test_equal_kernels_are_one_op_of_their_mean():
    """Of two products of 10 kB by 1 MB only the second reads what is passed on; the first moves its input, the second
    its result. Both read their weights where they do not stay.
    """

    def twice(x, one, other):
        x = jax.lax.dot(x, one).astype(jnp.int8)
        return jax.lax.dot(x, other).astype(jnp.int8)

    found = traced(twice, array(10, 1000), array(1000, 1000), array(1000, 1000))
    for keeps, weights in ((0.0, 1e6), (1.0, 0.0)):
        (op,) = found.ops(matrix=("int8",), on_chip=OnChip(capacity=1e7, keeps_weights=keeps)).values()
        assert float(op.count) == 2.0 and float(op.bytes) == 10e3 + weights
    (op,) = found.ops(matrix=("int8",)).values()
    assert float(op.bytes) == 20e3 + 1e6


def test_weights_of_a_loop_are_read_in_every_trip():
    def layers(x, stacked):
        return jax.lax.scan(lambda rows, one: ((rows @ one), None), x, stacked)[0]

    arguments = array(8, 64, dtype=jnp.bfloat16), array(5, 64, 64, dtype=jnp.bfloat16)
    (op,) = traced(layers, *arguments).ops(matrix=("bf16",), on_chip=OnChip(capacity=1e9, keeps_weights=1.0)).values()
    assert float(op.count) == 5.0 and float(op.bytes) >= 2 * 64 * 64


def test_a_network_that_fits_on_the_edge_tpu_is_faster_than_its_link():
    """120 kB over 0.5 GB/s take 0.24 ms; input and result alone 3.6 us."""
    time = sweeps.from_function(chain, *ARGUMENTS).answer("Edge-TPU", "datasheet").metrics["time"]
    assert (INPUT + RESULT) / 0.5e9 <= time < FIRST / 0.5e9


@pytest.mark.parametrize(("layers", "width", "rows", "published"), [(5, 2000, 200, 12.3), (4, 1118, 168, 9.7)])
def test_perceptrons_of_tpu_v1_run_at_the_rate_of_their_weights(layers, width, rows, published):
    """MLP0 and MLP1 of Jouppi et al., ISCA 2017, tables 1 and 3: layers, weights (20 and 5 million), batch, TOP/s.

    Weights of 1 B are read in every run at 34 GB/s, 2 x 200 operations per B make 13.6 TOP/s: MLP0 reached 30.8 GB/s.
    """

    def network(x, weights):
        for one in weights:
            x = jnp.clip(jax.lax.dot(x, one, preferred_element_type=jnp.int32) >> 7, 0, 127).astype(jnp.int8)
        return x

    asked = sweeps.from_function(network, array(rows, width), [array(width, width)] * layers, fusion="compiler")
    metrics = asked.answer("TPU-v1", "datasheet").metrics
    assert 2.0 * layers * rows * width**2 / metrics["time"] == pytest.approx(published * 1e12, rel=0.1)


def product(x, y):
    return x @ y


def requantised(x, y):
    sums = jax.lax.dot(x, y, preferred_element_type=jnp.int32)
    return jnp.round(sums.astype(jnp.float32) * 0.01).astype(jnp.int8)


@pytest.mark.parametrize(
    ("function", "dtype", "device", "said"),
    [
        (product, jnp.bfloat16, "Edge-TPU", "Edge-TPU has no bf16 figure, which matmul.8x8 needs; it has int8"),
        (product, jnp.float16, "TPU-v1", "TPU-v1 has no fp16 figure, which matmul.8x8 needs; it has int8"),
        (
            product,
            jnp.float32,
            "TPU-v1",
            "TPU-v1 has no fp32 figure, which matmul.8x8 needs; it has int8",
        ),
        (jnp.multiply, jnp.float32, "Edge-TPU", "Edge-TPU has no floating point, and mul writes float32; it has int8"),
        (product, jnp.bfloat16, "V100", "V100-SXM has no bf16 figure, which matmul.8x8 needs; it has fp16, fp32"),
        (product, jnp.int8, "Raspberry-Pi-5", ""),
        (product, jnp.bfloat16, "Raspberry-Pi-5", "Raspberry-Pi-5 has no bf16 figure, which matmul.8x8 needs; it has"),
        (jnp.multiply, jnp.bfloat16, "V100", ""),
        (requantised, jnp.int8, "Edge-TPU", ""),
    ],
)
def test_arithmetic_that_a_device_does_not_have_is_refused_by_name(function, dtype, device, said):
    asked = sweeps.from_function(function, array(8, 8, dtype=dtype), array(8, 8, dtype=dtype))
    if not said:
        assert asked.answer(device).metrics["time"] > 0.0
        return
    with pytest.raises(ValueError) as caught:
        asked.answer(device)
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


def test_every_accelerator_of_a_sweep_is_checked():
    asked = sweeps.from_function(product, array(8, 8, dtype=jnp.bfloat16), array(8, 8, dtype=jnp.bfloat16))
    with pytest.raises(ValueError, match="^Edge-TPU has no bf16 figure"):
        asked.sweep(["H100-SXM", "Edge-TPU"])


def test_an_answer_says_how_far_it_is_beyond_the_evidence():
    asked = sweeps.from_function(product, array(8, 8, dtype=jnp.float16), array(8, 8, dtype=jnp.float16))
    far = asked.answer("Adreno-640").beyond
    assert far.marked and far.octaves > 3.0 and "cores" in far.text
    assert not asked.answer("Adreno-640", "datasheet").beyond.causes
