"""Benchmarks' files become tables; what is wrong in them is named with file and row, or dropped and counted."""

import dataclasses

import numpy as np
import pandas
import pytest

import hwspaces
from hwspaces.performance.surface import SurfaceTable, read_surfaces, write_surfaces
from hwspaces.performance.surface_efficiency import surface_efficiency
from jaxroof.efficiency import datasheet
from sweeps.measure.surface_import import WantedRows, imported
from sweeps.measure.surface_import.complete_grid import complete

HEADER = "m,k,n,latency_us,mfu"


def gemm_times(path, rows):
    """An InferSim file of products: m, k, n, us."""
    folder = path / "gemm" / "h100"
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


def test_scattered_weight_matrices_are_a_table_each(tmp_path):
    """Three of nine pairs: no grid."""
    found = imported(
        [gemm_times(tmp_path, [(m, 1024 * i, 512 * i, 90.0 * i) for i in (1, 2, 3) for m in (16, 64, 128)])]
    )
    assert [table.seconds.shape for table in found.tables] == [(3, 1, 1)] * 3


@pytest.mark.parametrize(
    ("change", "words", "dropped", "left"),
    [
        (lambda rows: rows.append((16, 1024, 512, 9.0)), r"row 9 \(m 16.*already in row 1", "duplicates", 8),
        (lambda rows: rows.__setitem__(2, (16, 2048, 512, -3.0)), r"row 3 \(.*-3 us is not a time", "impossible", 4),
        (lambda rows: rows.__setitem__(7, (64, 2048, 4096, 0.4)), r"row 8 .*MFU 1\.36|row 8 .*HBM", "impossible", 4),
        (lambda rows: rows.pop(), r"holes: 1 of 8 shapes are missing, the first m 64, n 4096, k 2048", "holes", 4),
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
    assert sum(table.seconds.size for table in found.tables) == left


def test_holes_may_stay(tmp_path):
    (table,) = imported([gemm_times(tmp_path, plain_rows()[:-1])], holes="keep").tables
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
    prefill, decode = found.tables
    assert (decode.labels["heads"], decode.labels["kv_heads"], decode.seconds.shape) == (32.0, 4.0, (2, 2))
    assert (prefill.kind, prefill.seconds.shape) == ("prefill_attention", (1, 2))
    assert found.left_out == (f"{file}: 1 rows of mla/decode",)


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


def test_the_complete_part_of_a_grid_keeps_most():
    seconds = np.ones((6, 6))
    seconds[4, 1:3] = seconds[0, 5] = np.nan
    axes, kept = complete({"m": np.arange(6.0), "n": np.arange(6.0)}, seconds)
    assert kept.size == 25 and 4.0 not in axes["m"]
    assert not np.isnan(kept).any()
