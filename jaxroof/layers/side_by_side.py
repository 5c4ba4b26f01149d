"""Two mixers side by side: both read one norm's output, and the sum of what they give is one layer's."""

from collections.abc import Callable, Iterator
from typing import Any

from jaxroof.deployment import Deployment
from jaxroof.layers.protocol import MixerKind
from jaxroof.model import Mixer
from jaxroof.rule import Rule, heads_rule
from jaxroof.struct import Scalar, struct


@struct
class SideBySide:
    """An attention layer with a cache and a layer with a state, run one after the other on the same input.

    Source: Falcon-LLM Team, arXiv:2507.22448 (Falcon-H1), section 2.
    """

    attention: Mixer
    recurrence: Mixer

    @property
    def heads(self) -> Scalar:
        """Heads of the attention, which tensor-parallel devices split."""
        return self.attention.heads


def side_by_side(kind_of: Callable[[Mixer], MixerKind]) -> MixerKind:
    """What the cost model asks of two mixers, of what it asks of each, which `kind_of` gives."""

    def parts(mixer: SideBySide) -> list[tuple[Mixer, MixerKind]]:
        return [(part, kind_of(part)) for part in (mixer.attention, mixer.recurrence)]

    def merged(name: str) -> Callable[..., dict[str, Any]]:
        def union(mixer: SideBySide, *arguments: Any) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for part, kind in parts(mixer):
                found |= getattr(kind, name)(part, *arguments)
            return found

        return union

    def summed(name: str) -> Callable[[SideBySide, Deployment], Scalar]:
        def total(mixer: SideBySide, deployment: Deployment) -> Scalar:
            each = [(part, getattr(kind, name)) for part, kind in parts(mixer)]
            return sum(value(part, deployment) for part, value in each if value is not None)

        return total

    def rules(mixer: SideBySide, deployment: Deployment) -> Iterator[Rule]:
        yield heads_rule(deployment.tp, mixer.recurrence.heads, "state")
        for part, kind in parts(mixer):
            yield from kind.rules(part, deployment)

    return MixerKind(
        matrices=merged("matrices"),
        ops=merged("ops"),
        width=summed("width"),
        token_bytes=summed("token_bytes"),
        kept_tokens=lambda mixer, context: kind_of(mixer.attention).kept_tokens(mixer.attention, context),
        fixed_bytes=summed("fixed_bytes"),
        writes_scores=True,
        recurrent=True,
        rules=rules,
        adapted=merged("adapted"),
    )
