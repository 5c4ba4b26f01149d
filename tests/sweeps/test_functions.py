"""Functions of JAX arrays as questions: answers, sweeps that agree with them, elasticities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
import sweeps


def array(*shape, dtype=jnp.bfloat16):
    return jax.ShapeDtypeStruct(shape, dtype)


def perceptron(x, up, down):
    return jax.nn.gelu(x @ up) @ down


@pytest.fixture(scope="module")
def asked():
    b, s = jax.export.symbolic_shape("b, s")
    return sweeps.from_function(perceptron, array(b * s, 1024), array(1024, 4096), array(4096, 1024))


def test_an_answer(asked):
    """At the datasheet's peaks, 512 rows: 2 x 2 x 512 x 1024 x 4096 FLOP at 989.4 TFLOP/s."""
    found = asked.answer("H100-SXM", "datasheet", b=1, s=512)
    products = [op for op in found.ops if op.precision == "bf16"]
    assert sum(op.flops for op in products) == 4 * 512 * 1024 * 4096
    assert found.metrics["mfu"] == pytest.approx(4 * 512 * 1024 * 4096 / 989.4e12 / found.metrics["time"], rel=1e-3)
    assert sum(op.time for op in found.ops) == pytest.approx(found.metrics["time"] / found.metrics["slowdown"])
    assert found.metrics["fits_memory"] and found.metrics["kernels"] == 3
    assert asked.policy.startswith("framework: kernels that libraries have")


@pytest.mark.parametrize("efficiency", ["derated", "learned"])
def test_a_sweep_is_its_points(asked, efficiency):
    data = asked.sweep(["H100-SXM", "TPU-v6e"], {"b": [1, 8], "s": [128, 1024]}, efficiency)
    assert data["time"].dims == ("hardware", "b", "s")
    for name in ("H100-SXM", "TPU-v6e"):
        one = asked.answer(name, efficiency, b=8, s=128)
        assert float(data["time"].sel(hardware=name, b=8, s=128)) == pytest.approx(one.metrics["time"], rel=1e-9)
    assert data.attrs["fusion"] == asked.policy and data["time"].attrs["units"] == "s"


def test_a_sweep_over_the_hardware(asked):
    bandwidth = "hardware.memory.hbm.bandwidth"
    data = asked.sweep("H100-SXM", {"b": [1], "s": [16]}, "datasheet", {bandwidth: ["2TB/s", "4TB/s"]})
    slow, fast = data["time"].values.ravel()
    assert slow == pytest.approx(2 * fast, rel=0.05)  # 16 rows: bound by the weights' bytes


def test_elasticities_are_slopes(asked):
    found = asked.elasticities("H100-SXM", "derated", b=4, s=512)
    size = found["workload.sizes.s"]
    low, high = (asked.answer("H100-SXM", "derated", b=4, s=s).metrics["time"] for s in (508, 516))
    assert size == pytest.approx(np.log(high / low) / np.log(516 / 508), rel=0.05)
    assert found["workload.sizes.b"] == pytest.approx(size)  # only their product counts
    assert found["hardware.matrix.bf16"] < -0.1


def test_elasticities_agree_with_jax(asked, float64):
    from jaxroof.jobs.function import FUNCTION
    from sweeps.run.points import answers_at
    from sweeps.studies.sensitivity.gradient import moved

    scenario = asked.scenario("H100-SXM", "derated", {"b": 2, "s": 256})
    path = "workload.sizes.s"

    def logarithm(factor):
        return jnp.log(answers_at(FUNCTION, moved(scenario, {path: factor}), ("time",))["time"])

    slope = asked.elasticities("H100-SXM", "derated", paths=[path], b=2, s=256)[path]
    assert float(jax.grad(logarithm)(1.0)) == pytest.approx(slope, rel=1e-6)


def test_what_cannot_be_is_said(asked):
    with pytest.raises(ValueError, match="perceptron has no symbolic size c; it has b, s"):
        asked.answer("H100-SXM", c=3)
    with pytest.raises(ValueError, match="the size s of perceptron has no value: give s=N"):
        asked.answer("H100-SXM", b=3)
    with pytest.raises(ValueError, match=r"b = 1.5 must be a whole number of at least 1"):
        asked.answer("H100-SXM", b=1.5, s=1)
    with pytest.raises(ValueError, match="metric = 'speed' is no real number of a function; those are time"):
        asked.elasticities("H100-SXM", metric="speed", b=1, s=1)
    with pytest.raises(ValueError, match="'Q100' is neither in the catalogue"):
        asked.answer("Q100", b=1, s=1)


def convolved(image, weight):
    return jax.lax.conv_general_dilated(image, weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def test_launches_of_the_host_bind_small_kernels():
    """One convolution of a tiny image: as long as Python takes to launch it; a large one hides that."""
    (b,) = jax.export.symbolic_shape("b")
    asked = sweeps.from_function(convolved, array(b, 8, 8, 16), array(3, 3, 16, 16), fusion="operators")
    launch = hwspaces.efficiency("pytorch").efficiency.host.kernel_time
    small, large = (asked.answer("A100-SXM-80GB", "pytorch", b=b).metrics for b in (1, 1 << 16))
    assert small["time"] == pytest.approx(launch) and large["time"] > 10 * launch
    data = asked.sweep(["A100-SXM-80GB"], {"b": [1, 1 << 16]}, "pytorch")
    np.testing.assert_allclose(data["time"].values.ravel(), [small["time"], large["time"]], rtol=1e-9)
    assert any("the host launches every kernel" in note for note in asked.notes("H100-SXM", None, "pytorch"))


def test_engines_without_convolutions_say_so():
    asked = sweeps.from_function(convolved, array(1, 8, 8, 16), array(3, 3, 16, 16))
    assert any("engine without convolutions" in note for note in asked.notes("H100-SXM", None, "learned"))
    assert asked.notes("H100-SXM", None, "tensorrt") == asked.notes("H100-SXM", None, "datasheet") == ()


def test_float32_is_a_choice():
    """A square product of an A100 at its peaks of TF32 and of FP32."""
    square, times = array(4096, 4096, dtype=jnp.float32), {}
    for chosen in ("tf32", "fp32"):
        with jax.default_matmul_precision({"tf32": "default", "fp32": "highest"}[chosen]):
            asked = sweeps.from_function(jnp.dot, square, square)
        found = asked.answer("A100-SXM-80GB", "datasheet").metrics
        times[chosen] = found["time"] / found["slowdown"]
    assert times["fp32"] / times["tf32"] == pytest.approx(156 / 19.5, rel=0.01)


@pytest.mark.parametrize("efficiency", ["datasheet", "tensorrt"])
def test_sweeps_of_convolutions_are_their_points(efficiency):
    """Whatever algorithm is fastest at each point, threads or a compiled array."""
    (b,) = jax.export.symbolic_shape("b")
    asked = sweeps.from_function(convolved, array(b, 14, 14, 96), array(3, 3, 96, 40))
    names, batches = ["H100-SXM", "A100-SXM-80GB", "TPU-v6e"], [1, 32]
    data = asked.sweep(names, {"b": batches}, efficiency)
    points = [[asked.answer(name, efficiency, b=b).metrics["time"] for b in batches] for name in names]
    np.testing.assert_allclose(data["time"].values, points, rtol=1e-9)
    assert 0.0 < asked.elasticities("H100-SXM", efficiency, b=256)["workload.sizes.b"] <= 1.01
