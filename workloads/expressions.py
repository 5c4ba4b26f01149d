"""Regular expressions and wildcards of config files, matched in bounded time.

The expressions of a list become one nondeterministic automaton (Thompson 1968), whose sets of states are found as texts
need them and kept: a character costs one look-up once its set is known, and there is no backtracking. What is read:
literals, `.`, `[...]`, `\\d \\w \\s` and their opposites, `( )`, `(?: )`, `|`, `* + ? {m,n}`, `^`, `$`, and `(?= )` or
`(?! )` at the beginning. `$` is the end of the text. Anything else is refused by name.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from workloads.expression_syntax import Guards, regular

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

    def __init__(self, texts: Iterable[str], syntax: Callable[[str], tuple[Guards, tuple]] = regular):
        self._automaton, self._guarded, self._work = _Automaton(), [], 0
        for text in texts:
            try:
                guards, body = syntax(text)
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
        found = automaton.matches(text)
        self._work += automaton.spent()
        if self._work > MOST_WORK:
            raise ValueError("the regular expressions or wildcards of a list take too long to match")
        return found


@dataclasses.dataclass(eq=False, slots=True)
class _Set:
    """Places in the automaton that a text may have reached."""

    places: frozenset[int]
    accepted: bool  # whether what was read is enough
    accepted_at_end: bool  # whether it is where the text ends here
    then: dict[str, "_Set"]


class _Automaton:
    """Places and where they lead: ("test", Test, place), ("go", places), ("^", place), ("$", place), ("end",)."""

    def __init__(self, *trees: tuple):
        self._places: list[tuple] = [("end",)]
        self._starts: list[int] = []
        self._start: _Set | None = None  # once it is needed
        self._sets: dict[frozenset[int], _Set] = {}
        self._work = self._built = 0
        for tree in trees:
            self.add(tree)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def add(self, tree: tuple) -> None:
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
            if now.accepted or not now.places:
                return now.accepted
            found = now.then.get(character)
            if found is None:
                tested = (self._places[place] for place in now.places)
                leads = [place[2] for place in tested if place[0] == "test" and place[1](character)]
                found = now.then[character] = self._reached(leads)
            now = found
        return now.accepted or now.accepted_at_end

    def _reached(self, places: list[int], begin: bool = False) -> _Set:
        """The set of places that can be reached from some without a character."""
        ended = self._closed(places, begin, end=True)
        found = self._closed(places, begin, end=False)
        self._work += len(ended) + len(found) + 10
        if found not in self._sets:
            self._sets[found] = _Set(found, 0 in found, 0 in ended, {})
        return self._sets[found]

    def _closed(self, places: list[int], begin: bool, end: bool) -> frozenset[int]:
        waiting, seen = list(places), set(places)
        while waiting:
            kind, *leads = self._places[waiting.pop()]
            leads = leads[0] if kind == "go" else leads if (kind == "^" and begin) or (kind == "$" and end) else ()
            for lead in leads:
                if lead not in seen:
                    seen.add(lead)
                    waiting.append(lead)
        return frozenset(place for place in seen if self._places[place][0] in ("test", "$", "end"))

    def _made(self, tree: tuple, after: int) -> int:
        """The place from which `tree` leads to the place `after`."""
        self._built += 1
        if max(self._built, len(self._places)) > MOST_STATES:
            raise ValueError(f"more than {MOST_STATES:,} states")
        kind, *parts = tree
        if kind == "cat":
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
            loop = self._added("go", [after])
            self._places[loop][1].append(self._made(part, loop))
            after = loop
        for _ in range((most or least) - least):
            after = self._added("go", [after, self._made(part, after)])
        for _ in range(least):
            after = self._made(part, after)
        return after

    def _added(self, *place: Any) -> int:
        self._places.append(place)
        return len(self._places) - 1
