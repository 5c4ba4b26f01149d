"""Regular expressions and wildcards of config files, matched in bounded time.

The expressions of a list become one nondeterministic automaton (Thompson 1968), whose sets of states are found as texts
need them and kept: a character costs one look-up once its set is known, and there is no backtracking. What is read:
literals, `.`, `[...]`, `\\d \\w \\s` and their opposites, `( )`, `(?: )`, `|`, `* + ? {m,n}`, `^`, `$`, and `(?= )` or
`(?! )` at the beginning. `$` is the end of the text. Anything else is refused by name.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

LONGEST = 2_000
"""Characters of an expression."""

DEEPEST = 30
"""Groups inside each other."""

MOST_REPEATS = 1_000
"""Repetitions that `{m,n}` may state."""

Test = Callable[[str], bool]
"""Whether a character is one of a class."""

_CLASSES: dict[str, Test] = {
    "d": str.isdecimal,
    "w": lambda character: character.isalnum() or character == "_",
    "s": str.isspace,
}
_CLASSES |= {"D": lambda one: not _CLASSES["d"](one), "W": lambda one: not _CLASSES["w"](one)}
_CLASSES |= {"S": lambda one: not _CLASSES["s"](one)}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


Guards = list[tuple[bool, tuple[Any, ...]]]
"""What has to follow at the beginning of a text (True), or must not (False)."""


def regular(text: str) -> tuple[Guards, tuple[Any, ...]]:
    """A regular expression; ValueError that says what of it is not read."""
    return _Parser(text).whole()


def wildcard(text: str) -> tuple[Guards, tuple[Any, ...]]:
    """A text with `*`, `?` and `[...]` as shells read them, which matches whole texts; ValueError as of `regular`."""
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text):,} characters; at most {LONGEST:,} are read")
    nodes: list[tuple[Any, ...]] = []
    at = 0
    while at < len(text):
        character, at = text[at], at + 1
        # A `]` right after `[` or `[!` is a member of the set, not its end.
        closed = text.find("]", at + 2 if text.startswith("!", at) else at + 1) if character == "[" else -1
        if character == "*":
            nodes.append(("repeat", ("test", lambda other: True), 0, None))
        elif character == "?":
            nodes.append(("test", lambda other: True))
        elif closed > 0:
            # Shells know no escapes between brackets, the parser does: backslashes are doubled.
            inner = text[at:closed].replace("\\", "\\\\")
            nodes.append(("test", _Parser(f"{'^' + inner[1:] if inner[0] == '!' else inner}]").characters()))
            at = closed + 1
        else:
            nodes.append(("test", character.__eq__))
    # A wildcard has to match the whole text, up to its end.
    return [], ("cat", [*nodes, ("$",)])


class _Parser:
    """Reads a regular expression from its beginning to its end."""

    def __init__(self, text: str):
        if len(text) > LONGEST:
            raise ValueError(f"it has {len(text):,} characters; at most {LONGEST:,} are read")
        self._text, self._at, self._depth = text, 0, 0

    def whole(self) -> tuple[Guards, tuple[Any, ...]]:
        """All of it."""
        guards: Guards = []
        # `^` before a look-ahead changes nothing, as every match starts at the beginning.
        if self._text.startswith(("^(?=", "^(?!")):
            self._at = 1
        while self._ahead("(?=", "(?!"):
            wanted = self._text[self._at + 2] == "="
            self._at += 3
            guards.append((wanted, self._group()))
            if self._ahead("*", "+", "?") or self._bounds() is not None:
                raise ValueError("a repeated look-ahead")
        body = self._choice()
        if self._at < len(self._text):
            raise ValueError("unbalanced )")
        # Guards hold for the whole expression here; Python would apply them to the first alternative alone.
        if guards and len(body[1]) > 1:
            raise ValueError("a look-ahead for one of several alternatives; put them in brackets")
        return guards, body

    def _group(self) -> tuple[Any, ...]:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} groups inside each other")
        tree = self._choice()
        if not self._taken(")"):
            raise ValueError("missing )")
        self._depth -= 1
        return tree

    def _choice(self) -> tuple[Any, ...]:
        alternatives = [self._sequence()]
        while self._taken("|"):
            alternatives.append(self._sequence())
        return ("or", alternatives)

    def _sequence(self) -> tuple[Any, ...]:
        parts = []
        while self._at < len(self._text) and not self._ahead("|", ")"):
            one = self._one()
            bounds = self._bounds()
            if bounds is None:
                parts.append(one)
                continue
            if one[0] in ("^", "$"):
                raise ValueError("nothing to repeat")
            self._taken("?")  # the shortest first: the same texts
            if self._ahead("+"):
                raise ValueError("a possessive repetition")
            if self._ahead("*", "?") or self._bounds() is not None:
                raise ValueError("multiple repeat")
            parts.append(("repeat", one, *bounds))
        return ("cat", parts)

    def _one(self) -> tuple[Any, ...]:
        character = self._next()
        if character in "^$":
            return (character,)
        if character == ".":
            return ("test", lambda other: other != "\n")
        if character == "(":
            return self._opened()
        if character == "[":
            return ("test", self.characters())
        if character in "*+?" or (character == "{" and self._is_bound()):
            raise ValueError("nothing to repeat")
        meant = self._escape() if character == "\\" else character
        return ("test", meant.__eq__ if isinstance(meant, str) else meant)

    def _opened(self) -> tuple[Any, ...]:
        if self._taken("?"):
            if self._taken("P<"):
                name, _, _ = self._text[self._at :].partition(">")
                if not name.isidentifier():
                    raise ValueError("a group without a name")
                self._at += len(name) + 1
            elif not self._taken(":"):
                kinds = {"=": "a look-ahead inside", "!": "a look-ahead inside", "<": "a look-behind"}
                kinds |= {"P": "a back-reference", ">": "an atomic group", "(": "a condition", "#": "a comment"}
                raise ValueError(kinds.get(self._text[self._at : self._at + 1], "a flag"))
        return self._group()

    def _escape(self) -> Test | str:
        """The class or the character after a backslash."""
        character = self._next()
        if character in _CLASSES:
            return _CLASSES[character]
        if character.isdecimal():
            raise ValueError("a back-reference")
        if character.isalpha() and character not in _CONTROLS:
            raise ValueError(f"\\{character}")
        return _CONTROLS.get(character, character)

    def characters(self) -> Test:
        """The set of characters between brackets, up to the second bracket."""
        negative, tests, singles = self._taken("^"), [], set()
        first = True
        while first or not self._ahead("]"):
            low, first = self._member(), False
            if not (self._ahead("-") and not self._ahead("-]")):
                singles.add(low) if isinstance(low, str) else tests.append(low)
                continue
            self._next()
            high = self._member()
            if not (isinstance(low, str) and isinstance(high, str) and low <= high):
                raise ValueError("a bad range of characters")
            tests.append(_between(low, high))
        self._next()
        return lambda other: (other in singles or any(test(other) for test in tests)) != negative

    def _member(self) -> Test | str:
        character = self._next()
        return self._escape() if character == "\\" else character

    def _bounds(self) -> tuple[int, int | None] | None:
        """Least and most repetitions, where a repetition is next; a brace that bounds nothing is a character."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._taken(sign):
                return bounds
        if not self._ahead("{"):
            return None
        inner, closed, _ = self._text[self._at + 1 :].partition("}")
        least, comma, most = inner.partition(",")
        # A brace around anything but `m`, `m,`, `,n` or `m,n` is a literal, as in Python's `re`.
        if not closed or not inner or not all(part.isdecimal() and part.isascii() for part in (least, most) if part):
            return None
        if not comma and not least:
            return None
        self._at += len(inner) + 2
        least, most = (part.lstrip("0") or part[:1] for part in (least, most))
        # Nine digits suffice to exceed the limit, and keep the conversion of long figures cheap.
        low, high = int(least[:9] or 0), int(most[:9]) if most else None if comma else int(least[:9])
        if max(low, high or 0) > MOST_REPEATS:
            raise ValueError(f"more than {MOST_REPEATS:,} repetitions")
        if high is not None and high < low:
            raise ValueError("more repetitions at least than at most")
        return low, high

    def _is_bound(self) -> bool:
        """Whether the brace that was taken begins a bound."""
        # The bound is read from the brace on; where there is none, the position returns behind the brace.
        self._at -= 1
        is_bound = self._bounds() is not None
        self._at += not is_bound
        return is_bound

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise ValueError("it ends too soon")
        self._at += 1
        return self._text[self._at - 1]

    def _taken(self, words: str) -> bool:
        present = self._text.startswith(words, self._at)
        self._at += len(words) * present
        return present

    def _ahead(self, *words: str) -> bool:
        return self._text.startswith(words, self._at)


def _between(low: str, high: str) -> Test:
    return lambda other: low <= other <= high


MOST_STATES = 100_000
"""States of all expressions of a list."""

MOST_WORK = 500_000
"""States that are looked at before a list is given up, half a second; published lists need less than 50,000."""


class Expressions:
    """Several expressions; a text matches if it matches any of them.

    Args:
      texts: the expressions.
      syntax: how they are read: `regular` or `wildcard`.

    Raises:
      ValueError: one line that names the first that is not read, and why.
    """

    def __init__(self, texts: Iterable[str], syntax: Callable[[str], tuple[Guards, tuple[Any, ...]]] = regular):
        self._automaton, self._guarded, self._work = _Automaton(), [], 0
        for text in texts:
            try:
                guards, body = syntax(text)
                # Expressions without look-aheads share one automaton, so a text is read once for all of them.
                if not guards:
                    self._automaton.add(body)
                    continue
                own = [(wanted, _Automaton(guard)) for wanted, guard in guards]
                self._guarded.append([*own, (True, _Automaton(body))])
            except ValueError as error:
                raise ValueError(f"{text[:100]!r} is not a pattern that is read: {error}") from None

    def __bool__(self) -> bool:
        """Whether there is any expression."""
        return bool(self._guarded or self._automaton)

    def match(self, text: str) -> bool:
        """True where one of them matches `text` from its beginning; ValueError where that takes too long."""
        return self._matches(self._automaton, text) or any(
            all(self._matches(automaton, text) == wanted for wanted, automaton in parts) for parts in self._guarded
        )

    def _matches(self, automaton: "_Automaton", text: str) -> bool:
        matched = automaton.matches(text)
        self._work += automaton.spent()
        if self._work > MOST_WORK:
            raise ValueError("the regular expressions or wildcards of a list take too long to match")
        return matched


@dataclasses.dataclass(eq=False, slots=True)
class _Set:
    """Places in the automaton that a text may have reached."""

    places: frozenset[int]
    accepted: bool  # whether what was read is enough
    accepted_at_end: bool  # whether it is where the text ends here
    then: dict[str, "_Set"]


class _Automaton:
    """Places and where they lead: ("test", Test, place), ("go", places), ("^", place), ("$", place), ("end",)."""

    def __init__(self, *trees: tuple[Any, ...]):
        self._places: list[tuple[Any, ...]] = [("end",)]
        self._starts: list[int] = []
        self._start: _Set | None = None  # once it is needed
        self._sets: dict[frozenset[int], _Set] = {}
        self._work = self._built = 0
        for tree in trees:
            self.add(tree)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def add(self, tree: tuple[Any, ...]) -> None:
        """Accept what an expression matches, too."""
        self._starts.append(self._made(tree, 0))
        self._start = None

    def spent(self) -> int:
        """Places that were looked at since the last time."""
        work, self._work = self._work, 0
        return work

    def matches(self, text: str) -> bool:
        """Whether a beginning of the text is accepted."""
        if self._start is None:
            self._start = self._reached(self._starts, begin=True)
        now = self._start
        for character in text:
            # An accepted beginning is enough, and no character leads out of an empty set.
            if now.accepted or not now.places:
                return now.accepted
            # The subset construction, on demand: a set and a character lead to one set, computed once.
            following = now.then.get(character)
            if following is None:
                tested = (self._places[place] for place in now.places)
                leads = [place[2] for place in tested if place[0] == "test" and place[1](character)]
                following = now.then[character] = self._reached(leads)
            now = following
        return now.accepted or now.accepted_at_end

    def _reached(self, places: list[int], begin: bool = False) -> _Set:
        """The set of places that can be reached from some without a character."""
        # `$` leads on only at the end of the text, so what is accepted there needs a closure of its own.
        ended = self._closed(places, begin, end=True)
        closure = self._closed(places, begin, end=False)
        # Work is counted in places that were looked at, plus a fixed cost of each call.
        self._work += len(ended) + len(closure) + 10
        if closure not in self._sets:
            self._sets[closure] = _Set(closure, 0 in closure, 0 in ended, {})
        return self._sets[closure]

    def _closed(self, places: list[int], begin: bool, end: bool) -> frozenset[int]:
        waiting, seen = list(places), set(places)
        while waiting:
            kind, *leads = self._places[waiting.pop()]
            # Without a character, `go` always leads on, `^` at the beginning of the text and `$` at its end.
            leads = leads[0] if kind == "go" else leads if (kind == "^" and begin) or (kind == "$" and end) else ()
            for lead in leads:
                if lead not in seen:
                    seen.add(lead)
                    waiting.append(lead)
        return frozenset(place for place in seen if self._places[place][0] in ("test", "$", "end"))

    def _made(self, tree: tuple[Any, ...], after: int) -> int:
        """The place from which `tree` leads to the place `after`."""
        self._built += 1
        if max(self._built, len(self._places)) > MOST_STATES:
            raise ValueError(f"more than {MOST_STATES:,} states")
        kind, *parts = tree
        if kind == "cat":
            # Built from the end: each part leads to the place after it.
            for part in reversed(parts[0]):
                after = self._made(part, after)
            return after
        if kind == "or":
            return self._added("go", [self._made(part, after) for part in parts[0]])
        if kind == "test":
            return self._added("test", parts[0], after)
        if kind != "repeat":
            return self._added(kind, after)
        part, least, most = parts
        if most is None:
            # No upper bound: a place that leads on, or through the part and back to itself.
            loop = self._added("go", [after])
            self._places[loop][1].append(self._made(part, loop))
            after = loop
        # From the end again: first the optional repetitions, each of which may be skipped, then the required ones.
        for _ in range((most or least) - least):
            after = self._added("go", [after, self._made(part, after)])
        for _ in range(least):
            after = self._made(part, after)
        return after

    def _added(self, *place: Any) -> int:
        self._places.append(place)
        return len(self._places) - 1
