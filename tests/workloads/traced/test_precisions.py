"""Precisions of products in traced functions: what JAX is asked for, what hardware has, rows of 8 bits."""

import jax
import jax.numpy as jnp
import pytest
from functions import BF16, F32, INT, array, attention

import hwspaces
import sweeps
from workloads.traced.function import traced

H100, A100, V100, TPU = (tuple(hwspaces.hardware(name).hardware.matrix) for name in ("H100-SXM", "A100-SXM-80GB",
                         "V100-SXM", "TPU-v6e"))  # fmt: skip
"""Precisions of matrix units; a TPU's fp32 is that of its vector units."""


ASKED = {
    # what JAX is asked for: (precision, passes) on H100 and A100, on V100, on TPU
    None: (("tf32", 1), ("fp32", 1), ("bf16", 1)),
    "default": (("tf32", 1), ("fp32", 1), ("bf16", 1)),
    "high": (("tf32", 1), ("fp32", 1), ("bf16", 3)),
    "tensorfloat32": (("tf32", 1), ("fp32", 1), ("bf16", 3)),
    "highest": (("fp32", 1), ("fp32", 1), ("bf16", 6)),
    ("default", "highest"): (("fp32", 1), ("fp32", 1), ("bf16", 6)),
    "BF16_BF16_F32": (("bf16", 1), ("bf16", 1), ("bf16", 1)),
    "BF16_BF16_F32_X3": (("bf16", 3), ("bf16", 3), ("bf16", 3)),
    "TF32_TF32_F32_X3": (("tf32", 3), ("fp32", 1), ("bf16", 3)),
    "F32_F32_F32": (("fp32", 1), ("fp32", 1), ("bf16", 6)),
    jax.lax.DotAlgorithm(jnp.bfloat16, jnp.bfloat16, F32, num_primitive_operations=6): (("bf16", 6),) * 3,
}


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_float32_runs_in_the_precision_that_jax_is_asked_for(asked):
    """As `jax.lax.Precision` says: passes of bf16 on TPUs, tf32 on GPUs that have it, float32 for HIGHEST."""
    found = traced(lambda x: jnp.matmul(x, x, precision=asked), array(64, 64, dtype=F32))
    nvidia, volta, tpu = ASKED[asked]
    for matrix, (precision, passes) in ((H100, nvidia), (A100, nvidia), (V100, volta), (TPU, tpu)):
        (op,) = found.ops(matrix=matrix).values()
        assert (op.precision, op.matrix_flops) == (precision, passes * 2 * 64**3)
        assert op.shape.inputs == passes * 64


def test_convolutions_attention_and_the_default_follow_too():
    image, weight = array(1, 8, 8, 32, dtype=F32), array(3, 3, 32, 32, dtype=F32)

    def convolved(x, weight):
        return jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    queries = [array(1, 64, 4, 32, dtype=F32)] * 3
    for function, arguments in ((convolved, [image, weight]), (attention, queries)):
        (usual,) = traced(function, *arguments).ops(matrix=TPU).values()
        with jax.default_matmul_precision("highest"):
            found = traced(function, *arguments)
        (op,) = found.ops(matrix=TPU).values()
        assert (op.precision, op.matrix_flops) == ("bf16", 6 * usual.matrix_flops)
        assert [op.precision for op in found.ops(matrix=H100).values()] == ["fp32"]
        assert found.asked_products() == (("float32", "HIGHEST"),)


def test_other_types_run_as_they_are():
    def product(dtype, matrix):
        (op,) = traced(jnp.dot, *[array(64, 64, dtype=dtype)] * 2).ops(matrix=matrix).values()
        return op.precision, op.matrix_flops / (2 * 64**3)

    with jax.default_matmul_precision("highest"):
        assert product(BF16, H100) == ("bf16", 1) and product(jnp.float16, TPU) == ("bf16", 1)
    assert product(jnp.float8_e4m3fn, H100) == ("fp8", 1) and product(jnp.int4, A100) == ("int8", 1)
    assert product(jnp.complex64, H100) == ("tf32", 4)  # of real numbers


@pytest.mark.parametrize("efficiency", ["learned-vllm", "learned-sglang", "learned-trtllm", "pytorch", "tensorrt"])
@pytest.mark.parametrize(
    ("dtype", "sums", "device"), [(jnp.int8, INT, "A100-SXM-80GB"), (jnp.float8_e4m3fn, F32, "H100-SXM")]
)
def test_rows_of_eight_bits_have_no_scales_of_their_own(dtype, sums, device, efficiency):
    """50,176 rows of 256 are read, and as many sums of 4 B written: 64 MB are 32 us of an A100's memory, 19 us of an
    H100's. The same rows under engines, which scale every token, take up to 18 times as long.
    """
    arguments = array(50176, 256, dtype=dtype), array(256, 256, dtype=dtype)
    product = sweeps.from_function(lambda x, w: jax.lax.dot(x, w, preferred_element_type=sums), *arguments)
    (op,) = product.answer(device, efficiency).ops
    assert op.bytes == 50176 * 256 * (1 + 4) + 256 * 256
    bound = op.bytes / float(hwspaces.hardware(device).hardware.memory.hbm.bandwidth)
    assert bound < op.time < 1.7 * bound


def test_products_of_two_precisions_are_two_kernels():
    def both(x):
        return jnp.matmul(x, x), jnp.matmul(x.T, x, precision="high")

    ops = traced(both, array(64, 64, dtype=F32)).ops(matrix=TPU)
    assert sorted(float(op.matrix_flops) for op in ops.values()) == [2 * 64**3, 3 * 2 * 64**3]
