"""Pages of reports: what each kind of result has, that nothing comes from elsewhere, and errors."""

import html.parser
import json
import re
import sys
import time

import numpy as np
import pytest
import xarray as xr

import sweeps
from hwspaces.files.extras import installing
from hwspaces.performance.surface import SurfaceTable, write_surfaces
from sweeps.cli import main
from tests.sweeps.reports.conftest import CAPACITY, KERNELS, SPEC, STEPS

altair = pytest.importorskip("altair", reason=installing("report"))
pytest.importorskip("vl_convert", reason=installing("report"))


class Read(html.parser.HTMLParser):
    """Headings, tables, charts and references of a page, and whether every tag that is opened is closed."""

    VOID = {"meta", "input", "br"}

    def __init__(self, text):
        super().__init__()
        self.open, self.references, self.specs, self.texts = [], [], [], {}
        self.ids, self.labelled, self.heads, self.rows = [], [], 0, 0
        self._inside = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        self.references += [attrs[name] for name in ("src", "href") if name in attrs]
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.labelled += [attrs["aria-labelledby"]] if "aria-labelledby" in attrs else []
        self.heads += tag == "th" and attrs.get("scope") == "col"
        self.rows += tag == "th" and attrs.get("scope") == "row"
        if tag == "th":
            assert attrs["scope"] in ("col", "row")
        self._inside = "spec" if attrs.get("type") == "application/json" else tag
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self._inside = self.open[-1] if self.open else None

    def handle_data(self, data):
        if self._inside == "spec":
            self.specs.append(json.loads(data))
        elif self._inside in self.texts:
            self.texts[self._inside][-1] += data


def made(tmp_path, *results, **words):
    """The page of some results, read, and its text."""
    path = tmp_path / "report.html"
    sweeps.report(*results, output=path, **words)
    text = path.read_text(encoding="utf-8")
    return Read(text), text


HELD = {
    "step": (["Time by op", "Roofline", "Ops", "All figures"], "Time of"),
    "request": (["Time by op of the prefill step", "Roofline of the decode step", "Ops of the decode step"], "TTFT"),
    "train": (["Time of an iteration", "Memory of a device", "All figures"], "One iteration takes"),
    "layouts": (["Layouts"], "The best of"),
    "compare": (["Ranking"], "comes first"),
    "static": (["Ranking"], "comes first"),
    "price": (["Time by op", "Roofline", "Ops", "All figures"], "is bound by"),
    "prices": (["Points"], "The shortest of 2 times is"),
    "serve": (["Latencies by percentile", "Latencies", "All figures"], "the median request has"),
    "run": (["How long requests take", "Requests in the engine", "Use of the KV cache", "Requests"], "median request"),
    "sweep": (["Selected designs"], "Best of"),
    "kept": (["Selected designs"], "Best design per model"),
    "counts": (["Quantiles"], "no single design was kept"),
    "optimum": (["Selected designs", "What binds the best design"], "Best of 3 designs"),
    "fleet": (["Rent of a year", "Load of chat", "Accelerators", "Replicas", "Marginal values"], "No fleet costs less"),
    "share": (["Devices in use", "Replicas"], "All of them would cost"),
    "sensitivity": (["Elasticity of TTFT", "Elasticity of TPOT", "Elasticities"], "1 % more of the number"),
    "knobs": (["Elasticity of TTFT", "Elasticity of TPOT", "Elasticities"], "1 % more of the number"),
    "pairs": (["Pairs of numbers, both turned to the better"], "1 % more of the number"),
    "layer": (["Energy by component", "Instances in use", "Levels", "Accesses"], "of the units busy"),
    "network": (["Energy by component", "Energy by layer", "Layers"], "per MAC"),
    "split": (["TTFT by split", "E2E by split", "Best split by load", "Every split"], "is the best at"),
    "splits": (["TTFT by split", "E2E by split", "Best split by load", "Every split"], "is the best at"),
    "collective": (["Time by algorithm", "Bus bandwidth", "Times"], "A message of 64 MiB takes"),
    "message": (["Time by algorithm", "Times"], "A message of 1 MiB takes"),
    "scenarios": (["Deviations from the expected values", "Checks"], "expected values agree"),
    "checks": (["Deviations from the expected values", "Checks"], "expected values agree"),
    "area": (["Predicted against measured area", "Rows"], "Median absolute error: area"),
    "plausibility": (["MI300X"], "numbers are in SI units"),
    "trace": (["Facts", "Isl and osl"], "numbers are in SI units"),
    "accelerator": (["Facts", "Figures and sources", "Offers"], "numbers are in SI units"),
    "accelerators": (["Rows"], "numbers are in SI units"),
    "models": (["Rows"], "numbers are in SI units"),
    "spaces": (["Rows"], "numbers are in SI units"),
    "technologies": (["Process"], "numbers are in SI units"),
    "query": (["Facts", "Rows"], "numbers are in SI units"),
}
"""Kind -> headings of its section, and words of its answer."""


@pytest.mark.parametrize("kind", HELD)
def test_every_kind_of_result_has_its_section(kind, results, tmp_path):
    page, text = made(tmp_path, results[kind])
    headings, answer = HELD[kind]
    assert page.open == [] and set(headings) <= set(page.texts["h3"])
    assert kind in ("step", "request") or answer in text
    assert (page.specs or kind == "prices" or "SI units" in answer) and page.heads > 1 and page.rows > 0
    # Labels name what is there, once.
    assert len(set(page.ids)) == len(page.ids) and set(page.labelled) <= set(page.ids)
    assert results[kind].name in text and "Written" in text
    for spec in page.specs:
        assert spec["description"] and "$schema" not in spec


def test_records_state_the_command_and_the_roofs(results, tmp_path):
    page, _ = made(tmp_path, results["step"])
    assert page.texts["code"] == [
        "jaxroof step --hardware H100-SXM --model Llama-3.1-8B --decode 8 --context 1000 --json"
    ]
    roofline = next(spec for spec in page.specs if "roofs" in spec["datasets"])
    # Dense bf16 of the H100: NVIDIA's datasheet.
    assert any("bf16 matrix peak 989 TFLOP/s" in row["text"] for row in roofline["datasets"]["names"])
    assert len(roofline["datasets"]["ops"]) > 5


def test_times_of_ops_and_of_an_iteration_are_whole(results, tmp_path):
    page, _ = made(tmp_path, results["train"])
    record = json.loads(results["train"].read_text())
    times = page.specs[0]["datasets"]["bars"]
    assert sum(row["value"] for row in times) * 1e-3 == pytest.approx(record["metrics"]["iteration_time"], rel=1e-4)


def test_several_results_have_a_section_each_and_contents(results, tmp_path):
    page, text = made(tmp_path, results["step"], str(results["compare"]), CAPACITY, title="Two & three")
    assert text.count("<section ") == 3 and "<title>Two &amp; three</title>" in text
    links = [reference for reference in page.references if reference.startswith("#s")]
    assert links == ["#s0", "#s1", "#s2"] and {"s0", "s1", "s2"} <= set(page.ids)
    assert "H200-SXM takes the largest load, 29 requests per second" in text.replace("\u00a0", " ")


def test_a_tornado_has_the_largest_elasticities_with_their_signs(results, tmp_path):
    for kind in ("sensitivity", "knobs"):
        page, _ = made(tmp_path, results[kind])
        record = json.loads(results["sensitivity"].read_text())
        expected = {one["path"]: one["elasticities"]["tpot"] for one in record["knobs"] if one["elasticities"]["tpot"]}
        spec = next(spec for spec in page.specs if "elasticity of TPOT" in spec["description"])
        bars = spec["datasets"]["bars"]
        ranked = sorted(expected.values(), key=lambda slope: -abs(slope))
        assert [row["slope"] for row in bars] == pytest.approx(ranked[: len(bars)], rel=1e-3)
        # More memory bandwidth shortens a decoded token.
        (bandwidth,) = [row for row in bars if row["path"] == "hardware.memory.hbm.bandwidth"]
        assert bandwidth["side"] == "less" and bandwidth["text"].startswith("-") and "%" in bandwidth["f0"]


def test_predictions_stand_beside_measurements_and_errors_in_bands(tmp_path):
    page, text = made(tmp_path, STEPS)
    points, bands = page.specs
    assert [(row["x"], row["y"]) for row in points["datasets"]["points"]] == [(20, 24), (50, 45)]
    assert [row["t0"] for row in points["datasets"]["points"]] == [20, -10]
    # Rows of one model are not told apart: bands are those of the record's groups.
    assert [row["name"] for row in bands["datasets"]["bands"]] == ["model, Llama-2-70B", "batch, decoding"]
    # The median of 20 % and 10 %.
    assert "Median absolute error: step time 15\u00a0% of 2 rows." in text
    assert "Rows that are not predicted" in text and "no such model" in text
    page, text = made(tmp_path, {**STEPS, "rows": [dict(row, model=f"m{i}") for i, row in enumerate(STEPS["rows"])]})
    shown = page.specs[1]["datasets"]["bands"]
    assert [(row["name"], row["middle"]) for row in shown] == [("all", 5), ("m0", 20), ("m1", -10)]


def test_errors_by_group_are_shown_where_rows_are_not(tmp_path):
    page, text = made(tmp_path, KERNELS)
    (spec,) = page.specs
    ends = [(row["name"], row["low"], row["middle"], row["high"]) for row in spec["datasets"]["bands"]]
    assert ends == [("GEMM", -7, -3, 7), ("experts", -20, 15, 20)]
    assert "Median absolute error: 10\u00a0% of 30 rows." in text
    # The device divides no group, and has no table of its own.
    assert "Errors by family" in text and "Errors by family and" not in text


def test_records_of_any_verb_are_taken_and_those_of_others_are_not(tmp_path, results):
    plain = {"a": 1, "b": {"x": 1.5}, "c": [{"d": 2, "e": {"f": 3}}], "notes": ["one"]}
    with pytest.raises(ValueError, match="record is no result of jaxroof"):
        made(tmp_path, plain)
    page, text = made(tmp_path, {**plain, "command": "jaxroof later --json"})
    assert {"Facts", "B", "C"} <= set(page.texts["h3"]) and "e.f" in text and "Answer of jaxroof later" in text
    with pytest.raises(ValueError, match="record is no result of jaxroof"):
        made(tmp_path, {"rows": [{"a": 1}]})


def test_a_dataset_of_ours_without_a_section_is_tables(tmp_path):
    data = xr.Dataset({"y": (("a", "b"), np.ones((2, 3))), "z": 1.0}, {"a": [1, 2]}, {"title": "own"})
    with pytest.raises(ValueError, match="own is no result of jaxroof"):
        made(tmp_path, data)
    page, _ = made(tmp_path, data.assign_attrs(jaxroof_version="0.1.0"))
    assert {"Facts", "By a, b"} <= set(page.texts["h3"]) and page.rows == 7


def test_a_file_of_measured_kernels_is_a_list_of_its_tables(tmp_path, capsys):
    axes = {"bytes": np.array([1024.0, 4096.0])}
    table = SurfaceTable("copy", "copy", "fp32", axes, np.array([1e-6, 3e-6]), {})
    path = tmp_path / "own.nc"
    write_surfaces(path, [table], {"device": "H100"})
    page, text = made(tmp_path, path)
    assert {"Provenance", "Tables"} <= set(page.texts["h3"]) and "axes.bytes.to" in text
    assert main(["surface", "show", str(path), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["tables"]
    assert (row["times"], row["shortest_s"], row["axes"]["bytes"]["to"]) == (2, 1e-6, 4096.0)


def test_nothing_is_loaded_from_elsewhere(results, tmp_path):
    page, text = made(tmp_path, *results.values())
    assert all(reference.startswith("#") for reference in page.references)
    assert "Content-Security-Policy" in text and "default-src 'none'" in text
    style = re.search(r"<style>(.*?)</style>", text, re.S).group(1)
    assert "url(" not in style and "@import" not in style and "<link" not in text
    assert len(text.encode()) < 5e6


def test_a_million_points_are_a_small_page_with_the_exact_front(million, tmp_path):
    start = time.perf_counter()
    page, text = made(tmp_path, million)
    assert len(text.encode()) < 3e6 and time.perf_counter() - start < 60
    (spec,) = page.specs
    drawn = spec["datasets"]
    mask = million.feasible.values
    tpot, usd = million.tpot.values[mask], million.usd_per_million_tokens.values[mask]
    # Along rising TPOT a design is on the front when it is cheaper than all before it.
    order = np.lexsort((usd, tpot))
    falling = np.minimum.accumulate(usd[order])
    expected = order[np.concatenate([[True], falling[1:] < falling[:-1]])]
    assert len(drawn["front"]) == len(expected)
    assert [row["x"] for row in drawn["front"]] == pytest.approx(list(1e3 * tpot[expected]), rel=1e-4)
    # Cells count all but the tails, and the page says so.
    assert 0.97 * mask.sum() < sum(cell["count"] for cell in drawn["density"]) <= mask.sum()
    assert f"Shaded cells count all {mask.sum():,} feasible designs" in text
    assert "even sample" in text and len(drawn["sample"]) < 1000
    assert made(tmp_path, million)[1] == text  # the same file, the same page


def test_every_condition_has_a_front_of_its_own(results, tmp_path):
    page, text = made(tmp_path, results["kept"])
    (spec,) = page.specs
    assert {row["front"] for row in spec["datasets"]["front"]} == {"model Llama-3.1-8B", "model Llama-2-13B"}
    assert "in 2 fronts, one per condition" in text


def test_a_zarr_store_is_a_sweep(tmp_path):
    pytest.importorskip("zarr", reason=installing("zarr"))
    sweeps.sweep_to_zarr(tmp_path / "sweep.zarr", SPEC)
    page, text = made(tmp_path, tmp_path / "sweep.zarr")
    assert len(page.specs) == 1 and "Selected designs" in text


def test_every_design_of_a_small_sweep_is_listed(results, tmp_path):
    page, text = made(tmp_path, results["sweep"])
    with xr.open_dataset(results["sweep"]) as data:
        # The capacity of memory changes neither metric: a design counts where any capacity makes it feasible.
        possible = data.feasible.any([dim for dim in data.feasible.dims if dim not in data.tpot.dims])
        count = int(possible.broadcast_like(data.tpot).sum())
    (spec,) = page.specs
    assert len(spec["datasets"]["front"]) + len(spec["datasets"]["sample"]) == count == page.rows
    assert f"All {count:,} feasible designs are drawn" in text and "density" not in spec["datasets"]


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[0m\u202e"


def test_text_of_files_is_shown_and_not_obeyed(results, tmp_path):
    record = json.loads(results["compare"].read_text())
    record["model"] = HOSTILE
    record["notes"] = [HOSTILE]
    record["rows"][0] |= {"hardware": HOSTILE, "layout": HOSTILE}
    page, text = made(tmp_path, record, title=HOSTILE)
    assert page.open == [] and "<script>alert" not in text and "<img src=x" not in text
    assert "\x1b" not in text and "\u202e" not in text
    assert any("alert(1)" in row["kind"] for row in page.specs[0]["datasets"]["points"])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.json", None, "none.json is not there"),
        ("other.json", '{"a": 1}', "other.json is no result of jaxroof"),
        ("rows.json", '{"rows": []}', "rows.json is no result of jaxroof"),
        ("fleet.json", '{"goal": 1, "accelerators": [], "classes": []}', "is not a whole result of jaxroof"),
        ("errors.json", '{"errors": {}, "rows": [1], "left_out": []}', "is not a whole result of jaxroof"),
        ("list.json", "[1, 2]", "holds a list, not the record of a result"),
        ("broken.json", "{", "broken.json"),
        ("text.txt", "x", "must be .json, .nc, .zarr or a folder of a sweep"),
        ("broken.nc", "x", "is not a netCDF file"),
        (
            "part.json",
            '{"question": {}, "rows": [{}], "sorted_by": "x", "model": "m"}',
            "is not a whole result of jaxroof",
        ),
    ],
)
def test_what_is_no_result_is_refused_in_one_line(name, content, words, tmp_path, capsys):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1 and not (tmp_path / "page.html").exists()


def test_a_page_of_others_stays_and_one_of_ours_is_replaced(results, tmp_path, capsys):
    path = tmp_path / "mine.html"
    path.write_text("<p>mine</p>")
    words = ["report", str(results["step"]), "-o", str(path)]
    assert main(words) == 2
    assert "jaxroof did not write it" in capsys.readouterr().err and path.read_text() == "<p>mine</p>"
    assert main([*words, "--force"]) == 0 and main(words) == 0
    assert f"{path}: " in capsys.readouterr().out and "jaxroof" in path.read_text(encoding="utf-8")


def test_python_takes_objects_and_says_what_it_does_not_take(tmp_path):
    path = tmp_path / "page.html"
    with pytest.raises(ValueError, match="int is no result: give a path"):
        sweeps.report(1, output=path)
    with pytest.raises(ValueError, match="a report needs at least one result"):
        sweeps.report(output=path)
    with pytest.raises(ValueError, match="must end in .html"):
        sweeps.report(CAPACITY, output=tmp_path / "page.txt")


def test_a_missing_library_is_one_line_with_the_command(monkeypatch, results, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert main(["report", str(results["step"]), "-o", str(tmp_path / "page.html")]) == 2
    assert "reports need altair and vl-convert-python: pip install" in capsys.readouterr().err
