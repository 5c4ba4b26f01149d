"""The label set: rows read, passes of fp32 models, errors by device; measured rows where they are."""

import json
from pathlib import Path

import pytest

import hwspaces
import workloads
from jaxroof.model import WeightFormat
from jaxroof.op import Kernel
from sweeps.cli import main
from sweeps.measure.validate.training_passes import (
    EFFICIENCY,
    MeasuredPass,
    device,
    fp32,
    layout,
    measured_passes,
    passes,
    scored_passes,
)

MEASURED = Path(__file__).parents[2].parent / "shared" / "measured" / "e2e" / "tam_ground_truth.csv"

HEADER = "set,exp_id,gpu,model,mode,workload,batch,prompt_tokens,gt_e2e_ms,gt_fw_ms,gt_bw_ms"
ROWS = [
    "neusight_label,one,Tesla_V100-PCIE-32GB,bert_large,inference_forward,single_gpu,16,512,500,500,",
    "neusight_label,two,Tesla_V100-PCIE-32GB,bert_large,inference_forward,fusion,16,512,400,400,",
    "neusight_label,odd,Tesla_V100-PCIE-32GB,switchxl4,inference_forward,single_gpu,1,512,323,323,",
    "sync_guidellm,else,h100_sxm,llama-2-7b-hf,serving,chat,,70,1292,,",
]

LIMIT = 0.10
"""Mean absolute error of a device that is asked for."""

WIDER = {"P4": 0.14}
"""Devices beyond it: of a P4's three rows 16 sequences of BERT take 2.34 times as long as 8."""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("\n".join([HEADER, *ROWS]) + "\n")
    return path


def label(model="GPT-2-large", mode="inference", workload="single_gpu", sequences=4.0, tokens=1024.0) -> MeasuredPass:
    return MeasuredPass("run", "A100-PCIe-40GB", model, mode, workload, sequences, tokens, None, None, 1.0)


def test_rows_of_the_set_are_read_and_unknown_models_are_named(file):
    found, left = measured_passes(file)
    assert [row.name for row in found] == ["one", "two"]
    assert found[0].gpu == "V100-PCIe" and found[0].model == "BERT-large"
    assert (found[0].total, found[0].forward, found[0].backward) == (0.5, 0.5, None)
    assert [(row.name, row.reason) for row in left] == [("odd", "model switchxl4 is not known")]


def test_every_weight_is_fp32():
    import jax

    weights = jax.tree.leaves(
        fp32(workloads.model("OPT-1.3B").model), is_leaf=lambda leaf: isinstance(leaf, WeightFormat)
    )
    assert {(w.bytes, w.compute) for w in weights if isinstance(w, WeightFormat)} == {(4.0, "fp32")}


def test_flop_of_a_pass_by_hand():
    """GPT-2 large, 4096 tokens: 36 layers of 12 x 1280^2 weights and the head's 1280 x 50,257, 2 FLOP each; scores and
    values 2 x 2 x 1024 x 1280 per token and layer, masked pairs too.
    """
    forward, backward = passes(label())
    flops = sum(
        float(op.count * op.matrix_flops)
        for op in forward.values()
        if isinstance(op, Kernel) and op.matrix_flops is not None
    )
    weights = 36 * 12 * 1280**2 + 1280 * 50257
    assert flops == pytest.approx(4096 * (2 * weights + 36 * 4 * 1024 * 1280), rel=1e-6)
    assert backward == {}
    assert float(forward["activation"].kernels) == 8.0


def test_training_runs_the_backward_pass_and_reduces_gradients():
    forward, backward = passes(label(mode="training", workload="dp4"))
    products = [name for name, op in forward.items() if isinstance(op, Kernel) and op.matrix_flops is not None]
    assert all(f"{name}_dgrad" in backward and f"{name}_wgrad" in backward for name in products)
    assert float(backward["gradient_all_reduce"].message_bytes) == pytest.approx(4 * 774_030_080, rel=1e-3)
    assert float(forward["qkv_proj"].shape.rows) == 1024.0  # one of four sequences on each device


def test_micro_batches_fill_a_pipeline():
    """Two of two sequences through four stages: (2 + 4 - 1) / 4 times what one takes on all of them."""
    assert layout("pp4_2") == ({"pp": 4.0}, 2.0)
    assert layout("dp4") == ({"dp": 4.0}, 1.0)
    assert layout("single_gpu") == ({}, 1.0)
    assert float(passes(label(mode="training", workload="pp4_2"))[0]["qkv_proj"].shape.rows) == 2048.0


def test_an_encoder_trains_with_its_head_and_infers_without():
    assert "head" not in passes(label("BERT-large", tokens=512.0))[0]
    assert "head" in passes(label("BERT-large", "training", tokens=512.0))[0]


def test_software_sees_one_die_of_two():
    whole, die = hwspaces.hardware("MI250").hardware, device("MI250")
    assert die.matrix == {"fp32": 0.5 * whole.matrix["fp32"]}
    assert die.cores.count == 104 and die.cores.vector_flops == whole.cores.vector_flops
    assert die.memory.scratchpad == whole.memory.scratchpad


def test_the_constants_say_where_they_are_from():
    entry = hwspaces.efficiency(EFFICIENCY)
    assert entry.refit == "python -m tests.evidence.eager_fit --data DIR -o FILE"
    assert "NeuSight" in entry.sources["linear.wide.process_energy"]


def test_the_table_and_its_json(file, capsys):
    words = ["validate", "training", "--data", str(file)]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["errors"]["V100-PCIe"]["all"]["rows"] == 2
    assert found["unpredicted"] == [{"name": "odd", "reason": "model switchxl4 is not known"}]
    assert 0.3 < found["rows"][0]["predicted_forward"] < 0.8
    assert found["rows"][1]["predicted_forward"] < found["rows"][0]["predicted_forward"]  # fewer kernels in between


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("set,gpu\nneusight_label,x\n", "no column exp_id"),
        ("\n".join([HEADER, ROWS[0].replace(",512,", ",many,")]), "prompt_tokens = 'many' is not a finite number"),
        ("\n".join([HEADER, ROWS[3]]), "no row of the label set"),
    ],
)
def test_bad_files_are_one_line_and_exit_2(tmp_path, capsys, text, words):
    path = tmp_path / "runs.csv"
    path.write_text(text + "\n")
    assert main(["validate", "training", "--data", str(path)]) == 2
    said = capsys.readouterr()
    assert words in said.err and said.err.count("\n") == 1 and said.out == ""


@pytest.mark.skipif(not MEASURED.is_file(), reason="the measured rows are not beside the project")
def test_devices_are_met_within_the_limit():
    """No row of whole models was fitted: constants are those of single kernels."""
    found, _ = measured_passes(MEASURED)
    groups: dict[str, list[float]] = {}
    for row in scored_passes(found, hwspaces.efficiency(EFFICIENCY).efficiency):
        groups.setdefault(row.label.gpu, []).append(abs(row.error))
    means = {gpu: sum(errors) / len(errors) for gpu, errors in groups.items()}
    assert len(means) >= 9
    assert {gpu: mean for gpu, mean in means.items() if mean > WIDER.get(gpu, LIMIT)} == {}
