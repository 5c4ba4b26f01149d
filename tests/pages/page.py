"""Blocks of a page: commands and Python that are run in their order, and texts and pictures that they make.

Commands (`sh`) and Python are run as they are. A comment above a block says what it is otherwise:

    <!-- output -->                             what the first command of the block above prints, or its Python prints
    <!-- output of jaxroof step ... -->         what this command prints
    <!-- output within 3 %, from "^ttft", to "^memory", keep "^(ttft|tpot) ", lines 7 of jaxroof step ... -->
    <!-- picture run.png -->                    the picture below is this file, which a command above has written
    <!-- picture a.png of jaxroof plot a.nc -o a.png -->
    <!-- picture a.png of explorer ?tp=2 -->    the page of `jaxroof ui` in a browser, by the query of its URL
    <!-- picture a.png of jaxroof report a.nc -o a.html -->    as a browser shows it
    <!-- output refused of jaxroof price ... -->  the error of this command, which ends with status 2
    <!-- file mymodule.py -->                   the block below is this file, for the commands after it
    <!-- slow -->                               commands or Python that take more than ten seconds
    <!-- not run: it needs a cluster -->        commands or Python that are not run, and why

`slow` is a block that takes more than ten seconds: `make docs-check` looks at it, and the test suite does not. `within`
is the tolerance of numbers when the page is checked; by default their last printed digit may differ by one.
Patterns are regular expressions: `from` and `to` find the first and the last line that is shown; of these, `keep` and
`drop` choose; `cut "A" to "B"` puts ... in place of the line with A and those after it, up to the line with B; `lines`
is how many are shown; `width` is their longest, and longer ones end in ...; `narrow` takes away what columns of a table
are wider than the lines that are shown.
"""

import dataclasses
import pathlib
import re
import shlex

ROOT = pathlib.Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "docs" / "index.md",
    *(page for room in ("guide", "learn", "reference") for page in sorted((ROOT / "docs" / room).glob("*.md"))),
)

COMMENT = re.compile(r"<!-- (output|picture|file|slow|not run:)(?![\w-])(.*?) -->\n+", re.S)
FENCED = re.compile(r"```(\w*)\n(.*?)```\n", re.S)
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
OPTION = re.compile(
    r"""within (?P<within>[\d.]+) %|cut "(?P<cut>[^"]*)" to "(?P<until>[^"]*)"|"""
    r"""(?P<name>from|to|keep|drop) "(?P<text>[^"]*)"|(?P<count>lines|width) (?P<number>\d+)|"""
    r"""(?P<flag>slow|refused|narrow)\b"""
)


@dataclasses.dataclass(frozen=True)
class Shown:
    """Which lines of an output a page shows: patterns, which lines contain."""

    first: str | None = None
    last: str | None = None
    keep: str = ""
    drop: str | None = None
    cuts: tuple[tuple[str, str], ...] = ()  # of the first line that is left out, and of the next one that is not
    lines: int | None = None  # at most
    width: int | None = None  # of a line, at most
    narrow: bool = False  # two blanks between columns

    def of(self, output: str) -> str:
        """The lines of `output`, with one empty line where there were several.

        Raises:
          ValueError: one line, for a pattern that no line has.
        """
        lines = [line.rstrip() for line in output.rstrip("\n").splitlines()]
        if self.first is not None:
            lines = lines[_place(lines, self.first) :]
        if self.last is not None:
            lines = lines[: _place(lines, self.last) + 1]
        lines = [line for line in lines if not line or re.search(self.keep, line)]
        lines = [line for line in lines if self.drop is None or not re.search(self.drop, line)]
        for pattern, until in self.cuts:
            start = _place(lines, pattern)
            end = start + _place(lines[start:], until)
            lines[start:end] = ["..."]
        lines = [_ended(line, self.width) for line in lines[: self.lines]]
        if self.narrow:
            lines = _narrowed(lines)
        text = "\n".join(lines).strip("\n") + "\n"
        return re.sub(r"\n{3,}", "\n\n", text)


@dataclasses.dataclass(frozen=True)
class Block:
    """One block that is made, or run."""

    page: pathlib.Path
    kind: str  # "output", "picture", "file" or "run"
    span: tuple[int, int]  # of its text in the page
    text: str  # as the page has it; of a picture its path
    commands: tuple[str, ...]  # that make it or are it, without line breaks
    code: str | None  # Python that prints it or is it
    shown: Shown = Shown()
    slow: bool = False
    refused: bool = False  # the output is the error of the command
    within: float | None = None  # share by which numbers may differ; None: one in the last digit
    file: str = ""  # of a picture or file
    query: str | None = None  # of the explorer's URL, whose page the picture is

    @property
    def sources(self) -> set[str]:
        """Commands and Python that make it or are it."""
        return {*self.commands, *([] if self.code is None else [self.code])}

    @property
    def line(self) -> int:
        """Line of the page at which its text begins."""
        return self.page.read_text(encoding="utf-8")[: self.span[0]].count("\n") + 1


def blocks(page: pathlib.Path) -> list[Block]:
    """Blocks of a page that are made or run, in their order.

    Raises:
      ValueError: one line that names page and comment: nothing below it, or nothing above it that makes it.
    """
    text = page.read_text(encoding="utf-8")
    comments, made = _comments(page, text), list[Block]()
    fenced = {found.start(): (None, found) for found in FENCED.finditer(text)}
    for _, (comment, below) in sorted((fenced | comments).items()):
        if comment is None or comment[1] == "slow":
            made += _run(page, below, slow=comment is not None)
        elif comment[1] != "not run:":
            made.append(_made(page, text, comment, below))
    # Commands and Python are slow also where they stand, if what they print is.
    slow = {each for block in made if block.kind == "output" and block.slow for each in block.sources}
    return [dataclasses.replace(block, slow=block.slow or not slow.isdisjoint(block.sources)) for block in made]


def _comments(page: pathlib.Path, text: str) -> dict[int, tuple[re.Match[str], re.Match[str]]]:
    """Comments and the block below each, by the place of that."""
    found = {}
    for comment in COMMENT.finditer(text):
        below = (IMAGE if comment[1] == "picture" else FENCED).match(text, comment.end())
        if below is None:
            raise ValueError(f"{page.name}: no block below {comment[0].strip()}")
        found[below.start()] = comment, below
    return found


def _run(page: pathlib.Path, found: re.Match[str], slow: bool) -> list[Block]:
    """A block without an origin, where it has commands or Python."""
    commands = _commands(found[2]) if found[1] == "sh" else ()
    code = found[2] if found[1] == "python" else None
    if not commands and code is None:
        return []
    return [Block(page, "run", found.span(2), found[2], commands, code, slow=slow)]


def _made(page: pathlib.Path, text: str, comment: re.Match[str], below: re.Match[str]) -> Block:
    """The block below a comment that says what makes it."""
    kind, words = comment[1], re.sub(r"\s*\n\s*", " ", comment[2]).strip()
    said, _, command = words.partition("of jaxroof ")
    said, shot, query = said.partition(" of explorer ")
    commands = tuple(f"jaxroof {part}".strip() for part in command.split("; jaxroof ")) if command else ()
    code = None
    if kind == "output" and not commands:
        commands, code = _above(text[: comment.start()])
        if not commands and code is None:
            raise ValueError(f"{page.name}: no command above <!-- {kind} {words} -->")
    group = 1 if kind == "picture" else 2
    return Block(
        page=page,
        kind=kind,
        span=below.span(group),
        text=below[group],
        commands=commands,
        code=code,
        file=said.split()[0] if kind != "output" else "",
        query=query if shot else None,
        **_options(said if kind == "output" else "", page),
    )


def unmarked(page: pathlib.Path) -> list[str]:
    """Output blocks and pictures of a page that no comment says the origin of: their first lines, or paths."""
    text = page.read_text(encoding="utf-8")
    said = _comments(page, text)
    printed = [found for found in FENCED.finditer(text) if found[1] in ("", "text") and not _commands(found[2])]
    outputs = [found[2].splitlines()[0] for found in printed if found.start() not in said]
    return outputs + [found[1] for found in IMAGE.finditer(text) if found.start() not in said]


def words_of(command: str) -> tuple[list[str], str | None]:
    """Arguments of a command after `jaxroof`, and the file that its output goes to."""
    words = shlex.split(command, comments=True)[1:]
    return (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, None)


def _above(text: str) -> tuple[tuple[str, ...], str | None]:
    """The command of the last block of a text, or its Python."""
    fenced = list(FENCED.finditer(text))
    if not fenced:
        return (), None
    language, body = fenced[-1][1], fenced[-1][2]
    if language == "python":
        return (), body
    return _commands(body)[:1], None


def _commands(body: str) -> tuple[str, ...]:
    lines = [line.removeprefix("$ ") for line in body.replace("\\\n", " ").splitlines()]
    return tuple(" ".join(line.split()) for line in lines if line.startswith("jaxroof "))


def _options(words: str, page: pathlib.Path) -> dict:
    shown: dict = {}
    found: dict = {}
    cuts = []
    for option in OPTION.finditer(words):
        if option["within"]:
            found["within"] = float(option["within"]) / 100.0
        elif option["cut"] is not None:
            cuts.append((option["cut"], option["until"]))
        elif option["flag"] == "narrow":
            shown["narrow"] = True
        elif option["flag"]:
            found[option["flag"]] = True
        elif option["count"]:
            shown[option["count"]] = int(option["number"])
        else:
            shown[{"from": "first", "to": "last"}.get(option["name"], option["name"])] = option["text"]
    if rest := OPTION.sub("", words).replace(",", " ").split():
        raise ValueError(f"{page.name}: {' '.join(rest)!r} of <!-- output {words} --> is not known")
    return {"shown": Shown(**shown, cuts=tuple(cuts)), **found}


def _ended(line: str, width: int | None) -> str:
    """A line of at most `width` characters, which says by ... that it went on."""
    if width is None or len(line) <= width:
        return line
    return line[: width - 3].rsplit(" ", 1)[0].rstrip(" ,;:") + " ..."


def _narrowed(lines: list[str]) -> list[str]:
    """Lines without the third and further blanks that all lines of a table, which have two in a row, share."""
    table = [line for line in lines if "  " in line]
    widest = max(map(len, table), default=0)
    blank = [all(line[at : at + 1] in ("", " ") for line in table) for at in range(widest)]
    kept = [at for at in range(widest) if not all(blank[max(at - 2, 0) : at + 1]) or at < 2]

    def narrowed(line: str) -> str:
        if line and set(line) == {"─"}:
            return line[: len(kept)]
        return "".join(line[at : at + 1] for at in kept).rstrip() if line in table else line

    return [narrowed(line) for line in lines]


def _place(lines: list[str], pattern: str) -> int:
    found = next((at for at, line in enumerate(lines) if re.search(pattern, line)), None)
    if found is None:
        raise ValueError(f"no line of the output has {pattern!r}: {lines[:3]}")
    return found
