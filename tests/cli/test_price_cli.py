"""`jaxroof price`: tables, JSON, files and pictures of a function, and what it refuses."""

import json
import subprocess
import sys

import pytest
import xarray as xr

from sweeps.cli import main

MODULE = """
import jax
import jax.numpy as jnp

shapes = {"up": (256, 1024), "down": (1024, 256)}
weights = {name: jax.ShapeDtypeStruct(shape, jnp.bfloat16) for name, shape in shapes.items()}


def forward(params, x):
    return jax.nn.silu(x @ params["up"]) @ params["down"]


def double(x):
    return x * 2.0


def broken(x):
    raise RuntimeError("no such layer")


def picky():
    raise RuntimeError("no weights here")


words = {"a": "b"}


def loud(x, times=1):
    print("traced")
    for _ in range(times):
        x = x @ x
    return x


def squared(x):
    return x @ x


def leaves(x):
    raise SystemExit(3)


def endless(x):
    return jax.lax.while_loop(lambda x: x.sum() > 0, lambda x: x * x, x)
"""

BANDWIDTH = "hardware.memory.hbm.bandwidth"
ASKED = ("price", "priced_module:forward", "--args", "params=priced_module:weights", "x=bf16[b*s,256]")


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    (tmp_path / "priced_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "priced_module", raising=False)


def test_the_table_says_policy_and_ops(capsys):
    assert main([*ASKED, "--hardware", "H100-SXM", "--over", "b=2", "--over", "s=64", "-v"]) == 0
    out = capsys.readouterr().out
    assert "fusion framework: kernels that libraries have" in out
    assert "matmul.256x1024" in out and "activation" in out and "memory  " in out and "MFU" in out
    assert main([*ASKED, "--hardware", "H100-SXM", "--over", "b=2", "--over", "s=64", "--fusion", "eager", "-v"]) == 0
    assert "fusion eager: every primitive is a kernel" in capsys.readouterr().out
    words = ("--fusion", "operators", "--efficiency", "pytorch")
    assert main([*ASKED, "--hardware", "H100-SXM", "--over", "b=2", "--over", "s=64", *words, "-v"]) == 0
    out = capsys.readouterr().out
    assert "fusion operators: every call of a jitted function" in out and "the host launches every kernel, " in out


def test_json_of_one_point(capsys):
    assert main([*ASKED, "--hardware", "H100-SXM", "--over", "b=2", "--over", "s=64", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    products = [op for op in found["ops"] if op["precision"]]
    assert sum(op["flops"] for op in products) == 2 * 2 * 128 * 256 * 1024
    assert found["sizes"] == {"b": 2.0, "s": 64.0} and found["metrics"]["kernels"] == 3


def test_many_points_and_their_file(capsys, tmp_path):
    file = tmp_path / "points.nc"
    words = ("--hardware", "H100-SXM,TPU-v6e", "--over", "b=1,8,64", "--over", "s=64", "-o", str(file))
    assert main([*ASKED, *words, "-v"]) == 0
    out = capsys.readouterr().out
    assert out.count("\nTPU-v6e ") == 3
    with xr.open_dataset(file) as data:
        assert dict(data.sizes) == {"hardware": 2, "b": 3, "s": 1}
    assert main([*ASKED, *words[:-2], "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert len(points) == 6 and points[0]["hardware"] == "H100-SXM" and points[0]["b"] == 1.0


def test_numbers_of_the_hardware(capsys):
    bandwidth = "hardware.memory.hbm.bandwidth"
    words = (*ASKED, "--hardware", "H100-SXM", "--over", "b=1", "--over", "s=8", "--efficiency", "datasheet", "--json")
    assert main([*words, "--over", f"{bandwidth}=1TB/s,4TB/s", "-v"]) == 0
    slow, fast = json.loads(capsys.readouterr().out)["points"]
    assert slow["hbm_bandwidth"] == 1e12 and slow["time_s"] == pytest.approx(4 * fast["time_s"], rel=0.01)
    assert main([*words, "--set", f"{bandwidth}=1TB/s", "--elasticities", "-v"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one["metrics"]["time"] == pytest.approx(slow["time_s"])
    assert one["elasticities"][bandwidth] == pytest.approx(-1.0, abs=0.02)


def test_the_roofline(capsys, tmp_path):
    picture = tmp_path / "roofline.png"
    words = ("--hardware", "H100-SXM", "--over", "b=2", "--over", "s=64", "--plot", str(picture))
    assert main([*ASKED, *words, "-v"]) == 0
    assert picture.stat().st_size > 10_000


def test_answers_beyond_the_evidence_say_so(capsys):
    words = (*ASKED, "--over", "b=2", "--over", "s=64", "--efficiency", "learned")
    assert main([*words, "--hardware", "H100-SXM", "-v"]) == 0
    assert "beyond" not in capsys.readouterr().out
    assert main([*words, "--hardware", "Apple-M4-Max", "-v"]) == 0
    assert " beyond the evidence: " in capsys.readouterr().out
    assert main([*words, "--hardware", "H100-SXM,Apple-M4-Max", "-v"]) == 0
    assert "beyond  Apple-M4-Max: " in capsys.readouterr().out
    assert main([*words, "--hardware", "H100-SXM,Apple-M4-Max", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["beyond"]) == ["Apple-M4-Max"]


@pytest.mark.parametrize("device", ["Edge-TPU", "TPU-v1", "V100-SXM", "Raspberry-Pi-5", "Apple-M1"])
def test_a_device_without_bf16_is_refused_by_name(device, capsys):
    assert main([*ASKED, "--over", "b=2", "--over", "s=64", "--hardware", f"H100-SXM,{device}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"jaxroof price: {device} has no bf16 figure, which matmul.256x1024 needs; it has ")


def test_a_module_of_stablehlo_is_the_function_that_it_was(capsys, tmp_path):
    import jax
    import jax.numpy as jnp

    def forward(up, down, x):
        return jax.nn.silu(x @ up) @ down

    shapes = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((256, 1024), (1024, 256), (128, 256))]
    (tmp_path / "model.mlir").write_text(jax.jit(forward).lower(*shapes).as_text())
    words = ("--hardware", "H100-SXM", "--json")
    assert main(["price", str(tmp_path / "model.mlir"), *words, "-v"]) == 0
    module = json.loads(capsys.readouterr().out)
    assert main([*ASKED, *words, "--over", "b=2", "--over", "s=64", "-v"]) == 0
    function = json.loads(capsys.readouterr().out)
    products = [[op["flops"] for op in found["ops"] if op["precision"]] for found in (module, function)]
    assert products[0] == products[1] and len(products[0]) == 2
    assert module["metrics"]["time"] == pytest.approx(function["metrics"]["time"], rel=1e-3)
    assert main(["price", str(tmp_path / "model.mlir"), "--hardware", "H100-SXM,MI300X", "-v"]) == 0
    assert "MI300X" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("price", "model.mlir", "--hardware", "H100-SXM"), "model.mlir: no such file"),
        (
            ("price", "model.mlir", "--args", "x=f32[1]", "--hardware", "H100-SXM"),
            "--args x=f32[1]: a module of StableHLO",
        ),
        (("price",), "MODULE:FUNCTION or FILE.mlir is missing"),
        (ASKED, "--hardware NAMES is missing"),
        ((*ASKED, "--hardware", "H100-SXM"), "the size b has no value: give --over b=N"),
        ((*ASKED, "--hardware", "H100-SXM", "--over", "c=1"), "--over c: the arguments have no size c; they have b, s"),
        ((*ASKED, "--hardware", "H100-SXM", "--over", "b=1.5"), "must be a whole number"),
        ((*ASKED, "--hardware", "H100-SXM", "--over", "b=1,1"), "--over b=1,1 has a value twice"),
        ((*ASKED, "--hardware", "H100-SXM", "--fusion", "magic"), "--fusion magic is not known"),
        ((*ASKED, "--hardware", "H100-SXM", "--fusion", ""), "--fusion '' is not known"),
        ((*ASKED, "--hardware", "H100-SXM", "--set", "efficiency.x=1"), "a function depends on hardware alone"),
        ((*ASKED, "--hardware", "H100-SXM", "--over", "model.hidden=1"), "depends on numbers of hardware alone"),
        ((*ASKED, "--hardware", "H100-SXM,H100-SXM"), "must be names of different accelerators"),
        (("price", "priced_module:forwad", "--hardware", "H100-SXM"), "did you mean forward"),
        (("price", "no_such_module:f", "--hardware", "H100-SXM"), "importing no_such_module fails"),
        (("price", "forward", "--hardware", "H100-SXM"), "must be module:name"),
        (
            ("price", "model.onnx", "--hardware", "H100-SXM"),
            "'model.onnx' must be module:name, such as mymodule:forward, or a file that ends in .mlir or .mlirbc or",
        ),
        (("price", "priced_module:broken", "--args", "x=f32[4 4]", "--hardware", "H100-SXM"), "'4 4' are no sizes"),
        (
            (*ASKED, "--hardware", "H100-SXM", "--over", f"{BANDWIDTH}=3TB/s,3TB/s"),
            f"--over {BANDWIDTH}=3TB/s,3TB/s has a value twice",
        ),
        (
            (*ASKED, "--hardware", "H100-SXM", "--over", f"{BANDWIDTH}=3TB/s", "--set", f"{BANDWIDTH}=4TB/s"),
            f"--set {BANDWIDTH}: --over varies it",
        ),
        (("price", "priced_module:weights", "--hardware", "H100-SXM"), "is no function"),
        (
            ("price", "priced_module:forward", "--args", "y=bf16[1]", "--hardware", "H100-SXM"),
            "the function has no argument y",
        ),
        (("price", "priced_module:broken", "--args", "x=bf17[1]", "--hardware", "H100-SXM"), "bf17 is no dtype"),
        (
            ("price", "priced_module:broken", "--args", "x=s8[4,4]", "--hardware", "H100-SXM"),
            "--args 'x=s8[4,4]': s8 is no dtype; known: bf16, f16, fp16, f32, fp32, f64, f8, fp8, i4, i8, i16, i32, ",
        ),
        (("price", "priced_module:broken", "--args", "x=object[1]", "--hardware", "H100-SXM"), "object is no dtype"),
        (("price", "priced_module:broken", "--args", "x=f32[-1]", "--hardware", "H100-SXM"), "must be at least 1"),
        (
            ("price", "priced_module:broken", "--args", "x=priced_module:picky", "--hardware", "H100-SXM"),
            "calling it fails: RuntimeError: no weights here",
        ),
        (
            ("price", "priced_module:broken", "--args", "x=priced_module:words", "--hardware", "H100-SXM"),
            "a str is no array, no number and no tree of these",
        ),
        (
            ("price", "priced_module:double", "--args", "x=f32[a-b]", "--over", "a=2", "--over", "b=4")
            + ("--hardware", "H100-SXM"),
            "of an argument of double is -2 at a = 2, b = 4",
        ),
        (
            ("price", "priced_module:leaves", "--args", "x=f32[4]", "--hardware", "H100-SXM"),
            "cannot be traced: SystemExit: 3 (priced_module.py:",
        ),
        (
            ("price", "priced_module:loud", "--args", "x=f64[4,4]", "--hardware", "H100-SXM"),
            "JAX has no float64 unless JAX_ENABLE_X64=1 is set",
        ),
        (
            ("price", "priced_module:squared", "--args", "x=f8[4,4]", "--hardware", "A100-SXM-80GB"),
            "A100-SXM-80GB has no fp8 figure",
        ),
        (
            ("price", "priced_module.py:loud", "--args", "x=f32[4,4]", "--hardware", "H100-SXM"),
            "give the module's name, priced_module:loud",
        ),
        (
            ("price", "priced_module:loud", "--args", "x=f32[4,4]", "times=two", "--hardware", "H100-SXM"),
            "or a value such as 8, True or 'same'",
        ),
        (("price", "priced_module:broken", "--args", "x=f32[b-]", "--hardware", "H100-SXM"), "are no sizes"),
        (
            ("price", "priced_module:broken", "--args", "x=f32[4]", "--hardware", "H100-SXM"),
            "cannot be traced: RuntimeError: no such layer",
        ),
        (
            ("price", "priced_module:endless", "--args", "x=f32[4]", "--hardware", "H100-SXM"),
            "does not say how often it runs",
        ),
    ],
)
def test_bad_words_are_refused_in_one_line(capsys, words, message):
    assert main(list(words)) == 2
    out, err = capsys.readouterr()
    assert not out and message in err and err.count("\n") == 1


def test_help_does_not_import_jax():
    code = "import sys; from sweeps.cli import main\ntry: main(['price', '--help'])\nexcept SystemExit: pass\n"
    done = subprocess.run([sys.executable, "-c", code + "assert 'jax' not in sys.modules"], capture_output=True)
    assert done.returncode == 0, done.stderr


def test_values_are_static_and_prints_stay_out_of_json(capsys):
    asked = ("price", "priced_module:loud", "--args", "x=f32[64,64]", "times=3", "--hardware", "H100-SXM", "--json")
    assert main([*asked, "-v"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert "traced" in err and found["metrics"]["flops"] == 3 * 2 * 64**3
    assert found["notes"][0].startswith("float32 products (precision DEFAULT) run as tf32 at 495 TFLOP/s on H100-SXM; ")
