"""Tables of an efficiency file over others: those of a shipped file, and one of the same file."""

import dataclasses

import pytest

import hwspaces
from hwspaces.performance.efficiency import TABLES
from hwspaces.performance.efficiency_file import efficiency_text
from hwspaces.performance.kernel_tables import CLASSES
from jaxroof.numerics.tree import leaf_paths, leaves, structure
from sweeps.ask.axes import replaced


def test_a_file_over_a_shipped_one_says_what_differs(tmp_path):
    """Constants of `base` hold unless the file has others, or false; what is written so reads back."""
    whole = hwspaces.efficiency("learned-trtllm")
    linear = dataclasses.replace(whole.efficiency.linear, block4=None)
    mine = replaced(dataclasses.replace(whole.efficiency, linear=linear), "linear.wide.matrix", 0.5)
    sources = {f"{kind}.{name}": "mine" for kind in TABLES for name in CLASSES} | dict(whole.sources)
    text = efficiency_text(mine, sources, {"engine": "own"}, (), "Mine.", "learned-trtllm")
    (tmp_path / "mine.toml").write_text(text)
    found = hwspaces.efficiency(tmp_path / "mine.toml")
    assert "matrix = 0.5" in text and "block4 = false" in text and "[host]" not in text
    assert structure(found.efficiency) == structure(mine) and leaves(found.efficiency) == leaves(mine)
    assert found.sources["host.step_time"] == whole.sources["host.step_time"] and found.engine == "own"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('base = "learned-vlm"', "base = 'learned-vlm' is no shipped file; did you mean learned-vllm"),
        ('base = "pytorch"', "base = 'pytorch' has a base of its own"),
        ('base = "derated"\n[linear]\nwinograd = false', "linear: winograd = false, which the base does not have"),
        ('base = "derated"\n[linear]\nmatrix = false', "linear: matrix is missing"),
    ],
)
def test_a_wrong_base_is_refused_in_one_line(tmp_path, text, words):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ValueError) as error:
        hwspaces.efficiency(tmp_path / "mine.toml")
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_table_is_like_another_one_but_for_what_it_says(tmp_path):
    """Of shares and of kernels: constants and sources of the other table hold; a file may have a base beside."""
    half = hwspaces.efficiency("half")
    assert half.efficiency.experts == half.efficiency.linear
    (tmp_path / "mine.toml").write_text(
        'base = "learned-vllm"\n[convolution.wide]\nlike = "linear.wide"\nhull = false\nmatrix = 0.5\n'
        'sources.matrix = "mine"\n[elementwise.narrow]\nlike = "elementwise.wide"\n'
    )
    found, below = hwspaces.efficiency(tmp_path / "mine.toml"), hwspaces.efficiency("learned-vllm")
    own, linear = found.efficiency.convolution.wide, below.efficiency.linear.wide
    assert own == dataclasses.replace(linear, matrix=0.5, hull=None)
    assert found.sources["convolution.wide.matrix"] == "mine"
    assert found.sources["convolution.wide.small"] == below.sources["linear.wide.small"]
    assert found.efficiency.elementwise.narrow == below.efficiency.elementwise.wide


@pytest.mark.parametrize("name", ["tflite", "pytorch"])
def test_written_tables_that_are_like_others_read_back(tmp_path, name):
    whole, base = hwspaces.efficiency(name), "learned-vllm" if name == "pytorch" else None
    like = {"convolution.wide": "linear.wide"} if base else {"convolution": "linear", "depthwise": "experts"}
    classes = {".".join(path.split(".")[:2]): source for path, source in reversed(whole.sources.items())}
    text = efficiency_text(whole.efficiency, classes | whole.sources, {"engine": "own"}, (), "Mine.", base, like)
    (tmp_path / "mine.toml").write_text(text)
    found = hwspaces.efficiency(tmp_path / "mine.toml")
    assert structure(found.efficiency) == structure(whole.efficiency)
    assert leaves(found.efficiency) == leaves(whole.efficiency)
    assert text.count("\nlike = ") == len(like)
    leaf_sources = {path: whole.sources[path] for path in leaf_paths(whole.efficiency) if path in whole.sources}
    written = {path: text for path, text in leaf_sources.items() if not text.startswith("given in")}
    assert {path: found.sources[path] for path in written} == written and len(written) > 40


@pytest.mark.parametrize(
    ("like", "words"),
    [
        ('"linar"', "experts: like = 'linar' is no table of this file, such as \"linear\""),
        ("3", "experts: like = 3 is no table"),
        ('"linear.matrix"', "experts: like = 'linear.matrix' is no table"),
        ('"elementwise"', "experts: like = 'elementwise', which is like another table itself"),
        ('"experts"', "experts: like = 'experts', which is like another table itself"),
        ('"linear"\nwinograd = false', "experts: winograd = false, which linear does not have"),
        ('"linear"\nmatricks = 0.5', "experts: matricks = 0.5 is not known; did you mean matrix"),
    ],
)
def test_a_wrong_other_table_is_refused_in_one_line(tmp_path, like, words):
    (tmp_path / "mine.toml").write_text(
        'base = "derated"\n[elementwise]\nlike = "linear"\n[experts]\nlike = ' + like + "\n"
    )
    with pytest.raises(ValueError) as error:
        hwspaces.efficiency(tmp_path / "mine.toml")
    assert words in str(error.value) and "\n" not in str(error.value)
