"""What the README tells a newcomer to type."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=["sweep", "gradient"])
def test_python_examples_run(block, capsys):
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_first_example_is_ten_lines():
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 10


def test_the_two_commands_are_make_targets():
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"```sh\n(.*?)```", TEXT, re.S)[0]
    for target in re.findall(r"^make (\w+)", commands, re.M):
        assert re.search(rf"^{target}:", makefile, re.M)


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / link).exists(), link
