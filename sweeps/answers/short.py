"""The short form of an answer on the screen: what its verb says of it, or the first lines and rows of the whole."""

import dataclasses
import re
import textwrap

from sweeps.answers.answer import Block, Renderer, Table, Text
from sweeps.answers.brief import WIDTH, Brief
from sweeps.ask.text import escaped

LABELLED = re.compile(r"([a-z]{2,9})  +(\S.*)")
"""A line whose first word says what it is, such as "status  1,000 finished"; one blank would begin a sentence."""


class Short:
    """Collects the short form of an answer, or the blocks of one that has none, and shows it on a screen at the end."""

    def __init__(self) -> None:
        self._blocks = list[Block]()
        self._brief: Brief | None = None

    def show(self, block: Block) -> None:
        """One block more."""
        self._blocks.append(block)

    def take(self, brief: Brief) -> None:
        """The short form, in the words of its verb."""
        self._brief = brief

    def found(self) -> Brief:
        """The short form of what was said so far."""
        found = self._brief or _first_lines(self._blocks)
        notes = found.notes or tuple(text for label, text in _lines(self._blocks) if label == "note")
        # The names of files that were written are part of every answer.
        files = tuple(one for one in _lines(self._blocks) if one[0] == "file")
        facts = found.facts if self._brief is None else (*files, *found.facts)
        return dataclasses.replace(found, notes=notes, facts=facts)

    def end(self, screen: Renderer, width: int = WIDTH, notes: bool = False) -> None:
        """Show the short form on a screen of `width` columns; nothing where nothing was said.

        Args:
          notes: show the notes below it, whole.
        """
        if not self._blocks and self._brief is None:
            return
        found = self.found()
        for block in found.blocks(width):
            screen.show(block)
        if notes:
            screen.show(Text(""))
            for note in found.notes:
                screen.show(Text(textwrap.fill(escaped(note), min(width, WIDTH), subsequent_indent="  ")))


def _lines(blocks: list[Block]) -> list[tuple[str, str]]:
    """Label and text of every line that is not empty."""
    found = []
    for block in blocks:
        if isinstance(block, Text):
            for line in filter(str.strip, block.text.split("\n")):
                labelled = None if block.label else LABELLED.fullmatch(line)
                found.append((labelled[1], labelled[2]) if labelled else (block.label, line.strip()))
    return found


def _first_lines(blocks: list[Block]) -> Brief:
    """The first lines of an answer, and its first table."""
    lines = [line for line in _lines(blocks) if line[0] != "note"]
    table = next((block for block in blocks if isinstance(block, Table)), None)
    # A heading is the first line, before any table, and has no label.
    heads = isinstance(blocks[0], Text) and bool(lines) and not lines[0][0]
    asked = lines.pop(0)[1] if heads else ""
    return Brief(asked=asked, facts=tuple(lines), table=table)
