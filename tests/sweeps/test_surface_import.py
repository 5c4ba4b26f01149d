"""Benchmarks' files become tables; what is wrong in them is named with file and row, or dropped and counted."""

import dataclasses

import numpy as np
import pandas
import pytest

import hwspaces
import workloads
from hwspaces.performance.surface import SurfaceTable, read_surfaces, table_rows, write_surfaces
from hwspaces.performance.surface_efficiency import surface_efficiency, with_surfaces
from jaxroof.batch import Batch, Decode
from jaxroof.deployment import Deployment
from jaxroof.efficiency import datasheet
from jaxroof.numerics.arrays import eager
from jaxroof.roofline import op_time
from jaxroof.step.forward import step_ops
from sweeps.measure.surface_import import WantedRows, imported
from sweeps.run.joined import ops_joined

HEADER = "m,k,n,latency_us,mfu"


def gemm_times(path, rows, device="h100"):
    """An InferSim file of products: m, k, n, us."""
    folder = path / "gemm" / device
    folder.mkdir(parents=True)
    file = folder / "data.csv"
    file.write_text("\n".join([HEADER, *(f"{m},{k},{n},{us},0.1" for m, k, n, us in rows)]) + "\n")
    return file


def plain_rows():
    """Two m, n and k each: at 100 us."""
    return [(m, k, n, 100.0 + m) for m in (16, 64) for k in (1024, 2048) for n in (512, 4096)]


@pytest.fixture
def table() -> SurfaceTable:
    axes = {"m": np.array([1.0, 8.0]), "n": np.array([512.0]), "k": np.array([1024.0, 2048.0])}
    return SurfaceTable("gemm", "linear", "bf16", axes, np.array([[[1e-5, 2e-5]], [[3e-5, 4e-5]]]), {"copies": 6.0})


def test_a_file_is_read_as_it_was_written(table, tmp_path):
    holes = dataclasses.replace(table, name="other", seconds=np.where(table.seconds > 3e-5, np.nan, table.seconds))
    file = tmp_path / "out.nc"
    write_surfaces(file, [table, holes], {"device": "H100", "driver": "570"}, {"copy_bandwidth": 2e12})
    found = read_surfaces(file)
    assert found.provenance == {"device": "H100", "driver": "570"}
    assert found.bandwidths == {"copy_bandwidth": 2e12}
    for one, other in zip(found.tables, (table, holes), strict=True):
        assert (one.name, one.kind, one.precision, one.labels) == (other.name, other.kind, other.precision, one.labels)
        assert list(one.axes) == list(other.axes)
        np.testing.assert_array_equal(one.seconds, other.seconds)
    assert [path.name for path in tmp_path.iterdir()] == ["out.nc"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "conv"}, "kind = 'conv' must be one of"),
        ({"axes": {"m": np.array([1.0, 8.0])}}, "must be m, n, k"),
        ({"seconds": np.ones((2, 2, 2))}, "have shape"),
        ({"seconds": np.array([[[1e-5, -1.0]], [[1.0, 1.0]]])}, "m 1, n 512, k 2048: -1"),
        ({"seconds": np.full((2, 1, 2), np.nan)}, "none of its times"),
        ({"labels": {"head_dim": 128.0}}, "head_dim is not known"),
        ({"labels": {"scaled": 2.0}}, "must be 0 or 1"),
        (
            {
                "kind": "decode_attention",
                "axes": {"sequences": np.ones(1), "keys": np.ones(1)},
                "seconds": np.ones((1, 1)),
            },
            "head_dim is missing",
        ),
    ],
)
def test_a_table_that_is_none_is_refused(table, tmp_path, changes, words):
    with pytest.raises(ValueError, match=words) as caught:
        write_surfaces(tmp_path / "out.nc", [dataclasses.replace(table, **changes)], {}, {})
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_files_of_another_version_say_what_to_do(table, tmp_path):
    import netCDF4

    file = tmp_path / "old.nc"
    write_surfaces(file, [table], {"device": "H100"}, {})
    with netCDF4.Dataset(file, "a") as opened:
        opened.setncattr("jaxroof_surface_version", 0)
    with pytest.raises(ValueError, match="version 0.*jaxroof surface import"):
        read_surfaces(file)


def test_other_files_are_refused(tmp_path):
    text = tmp_path / "text.nc"
    text.write_text("no")
    for path, words in ((text, "not a netCDF file"), (tmp_path / "none.nc", "no such file")):
        with pytest.raises(ValueError, match=words):
            read_surfaces(path)


def test_an_efficiency_of_a_file_names_it_and_its_base(table, tmp_path):
    file = tmp_path / "own.nc"
    write_surfaces(file, [table], {"device": "h100_sxm", "engine": "mine", "engine_version": "1"}, {})
    entry = hwspaces.efficiency(f"surface:{file}")
    assert (entry.name, entry.engine, entry.file) == ("surface:own", "mine 1", str(file))
    assert "linear.base.matrix" in entry.sources and "linear.tables" in entry.sources
    assert "elementwise.matrix" in entry.sources
    assert hwspaces.efficiency(f"surface:{file}:datasheet").efficiency.linear.base == datasheet().linear
    unknown = tmp_path / "unknown.nc"
    write_surfaces(unknown, [table], {"device": "my prototype"}, {})
    with pytest.raises(ValueError, match="device = 'my prototype'"):
        hwspaces.efficiency(f"surface:{unknown}")
    own = hwspaces.hardware("H100").hardware
    assert surface_efficiency(unknown, hwspaces.efficiency("datasheet"), own).efficiency.linear.tables


def test_products_of_a_folder(tmp_path):
    found = imported([gemm_times(tmp_path, plain_rows())])
    (table,) = found.tables
    assert (found.device, table.kind, table.precision, table.labels["scaled"]) == ("H100-SXM", "linear", "fp8", 1.0)
    assert table.seconds.shape == (2, 2, 2)
    assert table.seconds[1, 0, 0] == pytest.approx(164e-6)


def test_scattered_weight_matrices_are_one_list(tmp_path):
    """Three of nine pairs: no grid."""
    rows = [(m, 1024 * i, 512 * i, 90.0 * i) for i in (1, 2, 3) for m in (16, 64, 128)]
    (table,) = imported([gemm_times(tmp_path, rows)]).tables
    assert table.listed and table.seconds.shape == (9,)
    assert list(table.axes["k"][::3]) == [1024.0, 2048.0, 3072.0]


def test_lists_are_read_as_they_were_written(tmp_path):
    (table,) = imported([gemm_times(tmp_path, [(16, 1024 * i, 512 * i, 90.0) for i in (1, 2, 3)])]).tables
    write_surfaces(tmp_path / "out.nc", [table], {"device": "H100"})
    (found,) = read_surfaces(tmp_path / "out.nc").tables
    assert found.listed and list(found.axes) == list(table.axes) and found.labels == table.labels
    np.testing.assert_array_equal(found.seconds, table.seconds)


@pytest.mark.parametrize(
    ("change", "words", "dropped", "left"),
    [
        (lambda rows: rows.append((16, 1024, 512, 9.0)), r"row 9 \(m 16.*already in row 1", "duplicates", 8),
        (lambda rows: rows.__setitem__(2, (16, 2048, 512, -3.0)), r"row 3 \(.*-3 us is not a time", "impossible", 7),
        (lambda rows: rows.__setitem__(7, (64, 2048, 4096, 0.4)), r"row 8 .*MFU 1\.36|row 8 .*HBM", "impossible", 7),
    ],
)
def test_bad_rows_are_named_or_dropped(tmp_path, change, words, dropped, left):
    rows = plain_rows()
    change(rows)
    file = gemm_times(tmp_path, rows)
    with pytest.raises(ValueError, match=words) as caught:
        imported([file])
    assert str(file) in str(caught.value) and "--drop" in str(caught.value)
    found = imported([file], drop=True)
    assert getattr(found.dropped, dropped) >= 1
    assert sum(int(table.measured.sum()) for table in found.tables) == left


def test_shapes_that_are_missing_stay_so(tmp_path):
    (table,) = imported([gemm_times(tmp_path, plain_rows()[:-1])]).tables
    assert np.isnan(table.seconds).sum() == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("m,k,latency_us,mfu\n1,2,3,0.1\n", "column n is missing"),
        (f"{HEADER}\n1,2,3,fast,0.1\n", "row 1: latency_us = 'fast' is not a number"),
        ("a,b\n1,2\n", "not recognised"),
    ],
)
def test_unreadable_files_are_named(tmp_path, text, words):
    file = gemm_times(tmp_path, [])
    file.write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        imported([file])
    assert str(file) in str(caught.value)


def test_an_unknown_device_is_named(tmp_path):
    file = tmp_path / "united.csv"
    file.write_text(f"table,gpu,shape_tag,{HEADER}\ngemm,x100,data,16,1024,512,99,0.1\n")
    with pytest.raises(ValueError, match="device 'x100'"):
        imported([file])
    with pytest.raises(ValueError, match="--gpu h100 is not in it; it has x100"):
        imported([file], wanted=WantedRows(gpu="h100"))


def test_united_attention_rows_are_tables_by_heads(tmp_path):
    lines = ["table,gpu,shape_tag,dtype,kv_dtype,batch_size,kv_len,seq_len,latency_us,mfu"]
    lines += [
        f"mha/decode,h800,64-8-128-tp2,bf16,bf16,{b},{k},,{40 + b * k / 100},0.1" for b in (1, 8) for k in (1024, 2048)
    ]
    lines += [f"mha/prefill,h800,32-8-128,bf16,,,,{s},{s / 4},0.1" for s in (1024, 4096)]
    lines += ["mla/decode,h800,128-512-64,bf16,bf16,1,1024,,20,0.1"]
    file = tmp_path / "united.csv"
    file.write_text("\n".join(lines) + "\n")
    found = imported([file])
    prefill, decode, latent = found.tables
    assert (latent.labels["latent"], latent.labels["head_dim"], latent.labels["value_dim"]) == (1.0, 576.0, 512.0)
    assert (decode.labels["heads"], decode.labels["kv_heads"], decode.seconds.shape) == (32.0, 4.0, (2, 2))
    assert (prefill.kind, prefill.seconds.shape) == ("prefill_attention", (1, 2))
    assert found.left_out == ()


SPARSE = ["table,gpu,shape_tag,dtype,kv_dtype,batch_size,kv_len,batchsize,next_n,s_kv,s_q,latency_us,mfu"]
SPARSE += [f"dsa/decode,h800,attn-128-576-2048,bf16,fp8,64,{keys},,,,,{90 + keys / 1024},0.4" for keys in (1024, 8192)]
SPARSE += [
    f"dsa/decode,h800,logits-64-128,,,,,64,{n},{keys},,{keys / 100},0.1" for n in (1, 2) for keys in (1024, 8192)
]
SPARSE += [f"dsa/prefill,h800,attn-128-576-2048,bf16,,,,,,{keys},4096,3700,0.6" for keys in (4096, 8192)]
SPARSE += [f"dsa/prefill,h800,logits-64-128,,,,,,,{keys},4096,{keys / 20},0.6" for keys in (4096, 8192)]


def test_sparse_attention_and_its_indexer_join(tmp_path):
    """A step of DeepSeek-V3.2 finds its tables: a selection of 2048 keys, and scores of 64 heads of 128."""
    file = tmp_path / "united.csv"
    file.write_text("\n".join(SPARSE) + "\n")
    write_surfaces(tmp_path / "own.nc", imported([file]).tables, {"device": "H800"})
    base = hwspaces.efficiency("datasheet")
    efficiency = surface_efficiency(tmp_path / "own.nc", base).efficiency
    hardware, model = hwspaces.hardware("H800").hardware, workloads.model("deepseek-v3.2").model
    deployment = Deployment(kv_bytes=1.0)
    decode = Decode(sequences=64.0, context=64.0 * 8192.0)
    with eager():
        ops = step_ops(model, deployment, Batch(prefill=None, decode=decode, logits=64.0))
        joined = {row.op.split(".")[-1]: row.way for row in ops_joined(ops, efficiency, lambda op: 0.0)}
        scores = next(op for name, op in ops.items() if name.endswith("decode_index_scores"))
        own, below = (float(op_time(scores, hardware, one)) for one in (efficiency, base.efficiency))
    assert joined["decode_attention"] == joined["decode_index_scores"] == "interpolated"
    assert joined["q_proj"] == "model"
    assert own == pytest.approx(81.92e-6, rel=1e-4) != below


def grouped_times(folder, rows):
    folder.mkdir(parents=True)
    file = folder / "data.csv"
    names = ["num_experts,num_gpus,num_local_experts,topk,hidden_size,intermediate_size,batch_size_per_gpu"]
    names += ["tokens_per_expert,up_proj_us,up_mfu,down_proj_us,down_mfu"]
    file.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return file


def test_grouped_products_are_points_of_both_matrices(tmp_path):
    """Two rows of one shape are repeats; at one token per expert half of the experts have none."""
    rows = [
        (64, 8, 8, 8, 7168, 2048, 16, 16, 100.0, 0.1, 60.0, 0.1),
        (64, 8, 8, 8, 7168, 2048, 17, 16, 110.0, 0, 70.0, 0),
    ]
    rows += [(64, 8, 8, 8, 7168, 2048, 1, 1, 80.0, 0.1, 50.0, 0.1)]
    (table,) = imported([grouped_times(tmp_path / "grouped_gemm" / "decode" / "h800", rows)]).tables
    shapes = zip(*(table_rows(table)[name] for name in table.axes), strict=True)
    listed = dict(zip(shapes, table.seconds[table.measured], strict=True))
    assert listed[16.0, 8.0, 4096.0, 7168.0] == pytest.approx(105e-6)
    assert listed[16.0, 8.0, 7168.0, 2048.0] == pytest.approx(65e-6)
    assert listed[1.0, 4.0, 4096.0, 7168.0] == pytest.approx(80e-6)
    assert (table.kind, table.labels["scaled"]) == ("experts", 1.0)


def test_delta_nets_are_left_out_with_a_reason(tmp_path):
    folder = tmp_path / "gdn" / "decode" / "h20"
    folder.mkdir(parents=True)
    (folder / "4-16-128-32-128.csv").write_text("batchsize,conv,gdn_update\n1,7,66\n16,9,66\n")
    found = imported([folder / "4-16-128-32-128.csv", gemm_times(tmp_path, plain_rows(), "h20")])
    assert "2 rows of gdn/decode (recurrent states" in found.left_out[0]


def collected(path, **columns):
    frame = pandas.DataFrame(columns).assign(gpu="h100_sxm", backend="trtllm", version="1", kernel_source="flow")
    frame.to_parquet(path)
    return path


def test_collected_tables(tmp_path):
    shapes = np.array(np.meshgrid([1, 64], [512, 4096], [1024, 2048], indexing="ij")).reshape(3, -1)
    m, n, k = shapes
    file = collected(tmp_path / "gemm.parquet", m=m, n=n, k=k, dtype="fp8", latency_us=20.0 + m, timing="cudagraph")
    (table,) = imported([file]).tables
    assert (table.precision, table.labels["quantised"], table.labels["copies"]) == ("fp8", 1.0, 6.0)
    batch, length = np.array(np.meshgrid([1, 8], [128, 1024], indexing="ij")).reshape(2, -1)
    heads = {"attn_dtype": "bfloat16", "kv_dtype": "fp8", "head_dim": 128, "n_heads": 32, "n_kv_heads": 8}
    decode = collected(tmp_path / "d.parquet", batch=batch, kv_len=length, window=0, latency_us=30.0 + length, **heads)
    prefill = collected(
        tmp_path / "p.parquet", batch=batch, seq_q=length, kv_past=0, window=0, latency_us=3.0 * length, **heads
    )
    found = imported([file, decode, prefill])
    assert [table.kind for table in found.tables] == ["linear", "decode_attention", "prefill_attention"]
    assert found.tables[1].labels["kv_bytes"] == 1.0
    assert found.provenance["engine"] == "trtllm"


def test_collected_latent_attention_and_experts(tmp_path):
    """Layers of experts are priced by both products; latent prefill has keys of 192 elements, decode of 576."""
    shape = {"mla_dtype": "bfloat16", "kv_dtype": "bfloat16", "n_heads": 16}
    length = np.array([128, 1024, 128, 1024])
    batch = np.array([1, 1, 8, 8])
    decode = collected(tmp_path / "d.parquet", batch=batch, seq_q=1, kv_past=length - 1, latency_us=30.0, **shape)
    prefill = collected(tmp_path / "p.parquet", batch=1, seq_q=[128, 1024], kv_past=0, latency_us=300.0, **shape)
    experts = collected(
        tmp_path / "moe.parquet",
        dtype="bfloat16",
        distribution=["balanced", "balanced", "power_law_1.2"],
        num_tokens=[2, 256, 2],
        hidden_size=2048,
        inter_size=1024,
        topk=8,
        num_experts=64,
        moe_tp_size=2,
        moe_ep_size=1,
        latency_us=[200.0, 400.0, 900.0],
    )
    found = imported([decode, prefill, experts])
    one, two, three = found.tables
    assert (one.kind, one.labels["latent"], one.labels["head_dim"]) == ("decode_attention", 1.0, 576.0)
    assert (two.kind, two.labels["kv_heads"], two.labels["head_dim"]) == ("prefill_attention", 16.0, 192.0)
    assert three.kind == "expert_layer" and table_rows(three)["inner"][0] == 512.0
    assert found.left_out == (f"{experts}: 1 rows of distribution power_law_1.2",)
    base = hwspaces.efficiency("datasheet")
    efficiency = with_surfaces(base.efficiency, found.tables, hwspaces.hardware("H100").hardware, "test")
    (surface,) = efficiency.experts.tables
    assert surface.form == "product" and {axis.name for axis in surface.axes} == {"m", "matrices", "n", "k"}


def test_the_collectors_own_columns_are_known(tmp_path):
    """Times in ms, steps in place of keys, and the driver's name of the device."""
    frame = pandas.DataFrame({"batch_size": [1, 8], "isl": 1, "num_heads": 32, "num_key_value_heads": 8, "step": 1023})
    frame = frame.assign(head_dim=128, attn_dtype="bfloat16", kv_cache_dtype="fp8", window_size=0, latency=[0.03, 0.09])
    frame = frame.assign(framework="vllm", version="1", device="NVIDIA H100 80GB HBM3", kernel_source="fa3")
    file = tmp_path / "generation_attention_perf.parquet"
    frame.to_parquet(file)
    found = imported([file])
    (table,) = found.tables
    assert (found.device, list(table.axes["keys"])) == ("H100-SXM", [1024.0])
    assert table.seconds[0, 0] == pytest.approx(30e-6)
    modules = frame.assign(architecture="DeepseekV3")
    modules.to_parquet(file)
    with pytest.raises(ValueError, match="no row is of a kernel that can be imported: 2 rows of whole blocks"):
        imported([file])


def test_several_engines_need_a_choice(tmp_path):
    file = tmp_path / "gemm.parquet"
    frame = pandas.DataFrame(
        {"m": [1, 1], "n": 512, "k": 512, "dtype": "bfloat16", "latency_us": 9.0, "gpu": "h100_sxm"}
    )
    frame.assign(backend=["vllm", "sglang"], version="1").to_parquet(file)
    with pytest.raises(ValueError, match="choose one with --engine: sglang, vllm"):
        imported([file])
    assert imported([file], wanted=WantedRows(engine="vllm")).provenance["engine"] == "vllm"


def test_measurements_without_a_header(tmp_path):
    file = tmp_path / "matmul_A100.csv"
    file.write_text("64, 4096, 4096, 0.1900ms, 11.3Tflops\n128, 4096, 4096, 0.2003ms, 21.4Tflops\n")
    (table,) = imported([file]).tables
    np.testing.assert_allclose(table.seconds.ravel(), [190e-6, 200.3e-6])
    stream = tmp_path / "gelu_A100.csv"
    stream.write_text("1048576, 20\n2097152, 30\n")  # thousand million elements per second
    (table,) = imported([stream]).tables
    assert table.axes["bytes"][0] == 4 * 1048576
    assert table.seconds[0] == pytest.approx(1048576 / 20e9)
