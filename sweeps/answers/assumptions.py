"""Assumptions of a case: what they are about, and which of them change its times and prices."""

from typing import Any

from jaxroof.deployment import devices
from sweeps.answers.shared import THROTTLED
from sweeps.ask.cases import Case

LONGEST = 28
"""Characters of what an assumption is about."""


def mattering(case: Case, metrics: dict[str, Any], notes: tuple[str, ...]) -> tuple[str, ...]:
    """What the notes are about that change times or prices of the answer.

    Others are about links that carry nothing here, energies where power is no limit, and costs of making a device that
    has a price.
    """
    topics = [_topic(note) for note in notes]
    return tuple(dict.fromkeys(topic for topic in topics if _matters(case, metrics, topic)))


def _topic(note: str) -> str:
    """The number that a note is about, such as links.scale_out, or its first words."""
    head, separator, _ = note.partition(": ")
    if separator and len(head) <= LONGEST:
        return head
    words = head.split()
    while len(" ".join(words)) > LONGEST:
        words.pop()
    return " ".join(words)


def _matters(case: Case, metrics: dict[str, Any], topic: str) -> bool:
    hardware, count = case.scenario.hardware, devices(case.scenario.deployment)
    if topic.startswith("links."):
        within, beyond = hardware.links.scale_up, topic.startswith("links.scale_out")
        return bool(count > (within.devices if beyond and within is not None else 1.0))
    if topic.startswith(("energy.", "power.")):
        return any(value > THROTTLED for name, value in metrics.items() if name.endswith("slowdown"))
    # Costs of making and owning decide only where nobody rents the device out.
    return topic != "costs" or "usd_per_million_tokens" not in metrics
