"""`jaxroof capacity`: a ranking in words, in JSON, in a file and in a picture, and one line where there is none."""

import json

import pytest
import xarray as xr

from sweeps.cli import main
from sweeps.serving.curve import load_range

pytestmark = pytest.mark.xdist_group("capacity")

ASKED = ("capacity", "--hardware", "H100-SXM, L4,T4", "--model", "Llama-3.1-8B")
LOAD = ("--isl", "300", "--osl", "20", "--requests", "40", "--slo", "ttft=100ms,tpot=20ms")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One search, printed, with its files."""
    import contextlib
    import io

    folder, out = tmp_path_factory.mktemp("capacity"), io.StringIO()
    files = ("-o", str(folder / "out.nc"), "--plot", str(folder / "out.svg"))
    with contextlib.redirect_stdout(out):
        assert main([*ASKED, *LOAD, "--rates", "1..200", "--points", "4", *files, "-v"]) == 0
    return folder, out.getvalue()


def test_the_table_says_who_takes_what(made):
    _, out = made
    lines = out.splitlines()
    assert lines[0] == "Llama-3.1-8B: requests/s at which TTFT <= 100 ms, TPOT <= 20 ms for 95 % of the requests"
    row = next(line for line in lines if line.startswith("1  H100-SXM")).split()
    assert row[2] == "1" and row[3] == row[4] and float(row[5].replace(",", "")) > 0.0
    assert any(line.startswith("L4") and "TPOT p95" in line for line in lines)
    assert any(line.startswith("left out  T4: T4 has no bf16 figure") for line in lines)
    assert any("2 accelerators x (4 loads from 1 to 200 requests/s, then 7 halvings to 2 %)" in line for line in lines)


def test_the_file_and_the_picture(made):
    folder, _ = made
    with xr.open_dataset(folder / "out.nc") as data:
        assert data.capacity.sel(hardware="H100-SXM") > 0.0 and data.attrs["limit_ttft"] == 0.1
        assert data.state.flag_meanings == "met more none" and data.state.sel(hardware="L4") == 2
        assert data.sizes == {"hardware": 2, "rate": 4}
    assert "<svg" in (folder / "out.svg").read_text()


def test_json_of_percentiles_that_nothing_keeps(made, capsys):
    words = ("--slo", "ttft_p99=1ms", "--rates", "1,200")
    assert main([*ASKED, *LOAD[:-2], *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [row["state"] for row in found["rows"]] == ["none", "none"]
    assert found["rows"][0]["capacity"] is None and "TTFT p99" in found["rows"][0]["missed"]
    assert found["curve"]["rate"] == [1.0, 200.0] and found["left_out"]["T4"]


def test_bounds_have_no_ranks_and_no_winner(made, tmp_path, capsys):
    """40 requests at 1 to 2 per second, and even all at once, are answered within 20 s: no limit was found."""
    words = (*ASKED[:1], "--hardware", "H100-SXM,L4", *ASKED[3:], *LOAD[:-2], "--slo", "ttft=20s", "--rates", "1,2")
    picture, file = tmp_path / "bounds.svg", tmp_path / "bounds.nc"
    assert main([*words, "--plot", str(picture), "-o", str(file), "-v"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines if line.startswith("-  ")]
    assert [row[:6] for row in rows] == [["-", name, "1", ">=", "2", ">="] for name in ("H100-SXM", "L4")]
    said = "at least 2 requests/s; with 40 requests the queue does not build up, even where all come at once"
    assert f"H100-SXM, L4: {said}: give more requests" in lines
    assert "no ranks: a bound does not compare with a capacity" in lines
    assert "H100-SXM and L4 keep the target at every load tried, up to 2 requests/s" in picture.read_text()
    with xr.open_dataset(file) as data:
        assert (data.state == 1).all() and data.requests_per_usd.isnull().all()
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found["ranked"] is False and [row["rank"] for row in found["rows"]] == [None, None]
    assert all(row["censored"] and row["idle"] and row["capacity"] == 2.0 for row in found["rows"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--slo", "ttft"), "slo 'ttft' must be LATENCY=TIME"),
        (("--slo", "ttft=0"), "slo ttft = '0'"),
        (("--slo", "ttft_p97=1s"), "did you mean ttft_p99"),
        (("--slo", "ttft=1s", "--share", "2"), "share = '2'"),
        (("--slo", "ttft=1s", "--rates", "8..2"), "--rates 8..2"),
        (("--slo", "ttft=1s", "--rates", "0..2"), "--rates = '0'"),
        (("--slo", "ttft=1s", "--rates", "4,2"), "rates: 4, 2 must rise"),
        (("--slo", "ttft=1s", "--rates", "1", "--concurrency", "2"), "--rates and --concurrency"),
        (("--slo", "ttft=1s", "--points", "4"), "--points 4: it needs --rates LOW..HIGH"),
        (("--slo", "ttft=1s", "--rates", "1,2", "--points", "4"), "--points 4: it needs --rates LOW..HIGH"),
        (("--slo", "ttft=1s", "--tp", "1.5"), "--tp = '1.5'"),
        (("--slo", "ttft=1s", "--tolerance", "2"), "tolerance = 2"),
        (("--slo", "ttft=1s", "--dp", "2"), "deployment.dp"),
        (("--slo", "ttft=1s", "--seed", "x"), "seed = x"),
        (("--slo", "ttft=1s", "--trace", "none.csv"), "isl cannot be given"),
        (("--slo", "ttft=1s", "--plot", "out.pdf"), "--plot out.pdf must end in .png or .svg"),
        (("--slo", "ttft=1s", "-o", "no/where.nc"), "there is no folder no"),
        (("--slo", "ttft=1s", "--policy", "order=last"), "policy.order = 'last'"),
        ((), "--slo is missing"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_bad_input_is_one_line(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*ASKED, *LOAD[:-2], *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("jaxroof capacity: ") and said in err
    assert not list(tmp_path.iterdir())


def test_what_is_missing_is_named(capsys):
    assert main(["capacity", "--model", "Llama-3.1-8B"]) == 2
    assert "--hardware is missing" in capsys.readouterr().err
    assert main([*ASKED, "--slo", "ttft=1s"]) == 2
    assert "isl is missing" in capsys.readouterr().err


def test_loads_in_equal_ratios():
    assert load_range("1..8", 4, "--rates") == [1.0, 2.0, 4.0, 8.0]
    assert load_range("1..4", 12, "--concurrency", whole=True) == [1.0, 2.0, 3.0, 4.0]
    assert load_range("0.5, 2", 12, "--rates") == [0.5, 2.0]
