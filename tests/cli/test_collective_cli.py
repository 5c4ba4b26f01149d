"""`jaxroof collective`: sizes, tables, JSON and pictures, and what it refuses."""

import json
import subprocess
import sys

import numpy as np
import pytest

from sweeps.cli import main
from sweeps.studies.collective import message_sizes

ASKED = ("collective", "--hardware", "H100-SXM", "--devices", "8")


def test_ranges_of_sizes():
    assert message_sizes("1KiB..1MiB").tolist() == [1024.0 * 4**i for i in range(6)]
    assert message_sizes("64MB").tolist() == [64e6]
    assert len(message_sizes("1KiB..1GiB", "2")) == 21
    assert np.all(message_sizes("1KiB .. 5KiB") == [1024.0, 4096.0])


def test_json_has_every_algorithm_and_the_chosen_one(capsys):
    assert main([*ASKED, "--size", "1KiB..1GiB", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    first, *_, last = found["sizes"]
    assert (first["algorithm"], last["algorithm"]) == ("one_shot", "in_switch")
    assert "one_shot" not in last["times_s"] and last["time_s"] == last["times_s"]["in_switch"]
    # nccl-tests: 2 x 7/8 of the message per time
    assert last["bus_bandwidth_Bps"] == pytest.approx(1.75 * 2**30 / last["time_s"], rel=1e-6)


def test_the_table_and_the_picture(capsys, tmp_path):
    picture = tmp_path / "all_to_all.png"
    words = ("--kind", "all_to_all", "--stride", "4", "--size", "1MiB", "-o", str(picture))
    assert main([*ASKED, *words, "-v"]) == 0
    printed = capsys.readouterr().out
    assert "All-to-all of 8 x H100-SXM, every 4th device" in printed and "us *" in printed and "1 MiB" in printed
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--size", "1GiB..1KiB"), "the range ends before it begins"),
        (("--size", "1KiB.."), "must be a size or a range A..B"),
        (("--size", "3 parsec"), "parsec"),
        (("--kind", "gossip"), "--kind gossip is not known; "),
        (("--stride", "1.5"), "must be a whole number"),
        (("--step", "1"), "--step = '1' must be larger than 1"),
        (("--size", "1KiB..1GiB", "--step", "1.001"), "at most 200"),
        (("-o", "picture.gif"), "must end in .png or .svg"),
        (("--set", "model.hidden=3"), "depends on hardware.links alone"),
        (("--efficiency", "none"), "neither a known efficiency"),
    ],
)
def test_bad_words_are_refused_in_one_line(capsys, words, message):
    assert main([*ASKED, *words]) == 2
    out, err = capsys.readouterr()
    assert not out and message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--devices", "8"), "--hardware is missing"),
        (("--hardware", "H100-SXM"), "--devices is missing"),
        (("--hardware", "H100-SXM", "--devices", "1"), "must be at least 2"),
        (("--hardware", "H100-SXM", "--devices", "100000"), "join 4096, and 100000 are spanned"),
        (("--hardware", "Q100", "--devices", "8"), "'Q100' is neither in the catalogue"),
    ],
)
def test_what_is_missing_or_impossible_is_said(capsys, words, message):
    assert main(["collective", *words]) == 2
    assert message in capsys.readouterr().err


def test_help_does_not_import_jax():
    code = "import sys; from sweeps.cli import main\ntry: main(['collective', '--help'])\nexcept SystemExit: pass\n"
    done = subprocess.run([sys.executable, "-c", code + "assert 'jax' not in sys.modules"], capture_output=True)
    assert done.returncode == 0, done.stderr
