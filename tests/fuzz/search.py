"""Looking for inputs that a loader reads wrongly: at random, or guided by the lines that inputs reach."""

import json
import pathlib
import random
import sys
import time

from tests.fuzz.target import Finding, Target, finding, varied

OURS = ("workloads", "hwspaces", "sweeps")
"""Packages whose lines guide the search."""


class Record:
    """What was tried and found so far, in a file."""

    def __init__(self, path: pathlib.Path):
        self.path, self.inputs, self.refused, self.began = path, 0, 0, time.monotonic()
        self.found: dict[str, Finding] = {}
        self.saved = 0.0

    def tried(self, target: Target, data: bytes) -> None:
        """Try one input."""
        self.inputs += 1
        wrong = finding(target, data)
        if wrong is not None and (wrong.place not in self.found or len(data) < len(self.found[wrong.place].data)):
            self.found[wrong.place] = wrong
            self.save()
        if time.monotonic() - self.saved > 1.0:
            self.save()

    def save(self) -> None:
        """Write it down: the search may end at any moment."""
        self.saved = time.monotonic()
        found = {key: [one.text, one.data[:20_000].decode("latin-1")] for key, one in self.found.items()}
        seconds = self.saved - self.began
        self.path.write_text(json.dumps({"inputs": self.inputs, "seconds": seconds, "found": found}))


def at_random(target: Target, seconds: float, record: Record, seed: int) -> None:
    """Variations of the valid documents."""
    rng, seeds = random.Random(seed), target.seeds()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        record.tried(target, varied(target, rng.choice(seeds), rng))
    record.save()


def guided(target: Target, seconds: float, record: Record, seed: int, corpus: pathlib.Path) -> None:
    """Variations of what reached new lines before, by libFuzzer through Atheris. Does not return."""
    import atheris

    corpus.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(target.seeds()):
        (corpus / f"seed{i}").write_bytes(data)

    def mutator(data: bytes, most: int, state: int) -> bytes:
        rng = random.Random(state)
        return atheris.Mutate(data, most) if rng.random() < 0.15 else varied(target, data, rng)[:most]

    longest = 1000 + 2 * max(map(len, target.seeds()))
    words = [sys.argv[0], str(corpus), f"-max_total_time={int(seconds)}", f"-seed={seed}", f"-max_len={longest}"]
    words += ["-timeout=60", "-rss_limit_mb=6000", "-verbosity=0", "-print_final_stats=0", "-len_control=0"]
    atheris.Setup(words, lambda data: record.tried(target, data), custom_mutator=mutator)
    atheris.Fuzz()
