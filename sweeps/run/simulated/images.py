"""Images in every request of a simulated engine: the tokens that they add to prompts, and those that are encoded."""

import dataclasses
from typing import Any

import numpy as np

from hwspaces.quantities.leaves import declared_quantity
from jaxroof.batch import Encode
from sweeps.ask.leaves import leaf
from sweeps.run.simulated.spec import ServeSpec
from workloads import model
from workloads.models.images import image_sizes, prompt_images
from workloads.streams.stream import ALONE, LARGEST_TOKENS, Stream


@dataclasses.dataclass(frozen=True)
class Images:
    """Images of one request."""

    sizes: tuple[tuple[int, int], ...]  # pixels
    count: int  # of every size
    encode: Encode  # all of them together
    language: float  # tokens that they take in the prompt

    @property
    def text(self) -> str:
        """They in words: "2 images of 1036x1036 and 640x480 each"."""
        number, sizes = self.count * len(self.sizes), [f"{width}x{height}" for width, height in self.sizes]
        words = sizes[0] if len(sizes) == 1 else f"{', '.join(sizes[:-1])} and {sizes[-1]}"
        return f"{number:,} image{'s' * (number > 1)} of {words}"

    def record(self) -> dict[str, Any]:
        """They as plain data."""
        sizes, encode = [list(size) for size in self.sizes], self.encode
        encoder = {"encoder_tokens": encode.tokens, "encoder_inputs": encode.sequences}
        return {"sizes": sizes, "count": self.count, **encoder, "prompt_tokens": self.language}

    def added(self, stream: Stream) -> Stream:
        """The stream with these images in every prompt, behind what prompts share.

        Raises:
          ValueError: one line, for prompts that are too long to be.
        """
        isl = stream.isl + self.language
        if np.max(isl) > LARGEST_TOKENS:
            raise ValueError(
                f"image: {self.text} make prompts of {np.max(isl):,.0f} tokens; at most {LARGEST_TOKENS:,} are possible"
            )
        notes = stream.notes
        if (stream.group != ALONE).any():
            notes = (*notes, "images stand behind what prompts share: the prefix cache has none of them")
        return dataclasses.replace(stream, isl=isl, source=f"{stream.source}; {self.text}", notes=notes)


def images_of(asked: ServeSpec) -> Images | None:
    """The images of every request; None where they are text.

    Raises:
      ValueError: one line: a size or number that cannot be, a model that sees no images, turns of conversations.
    """
    if asked.image is None:
        if asked.images is not None:
            raise ValueError(f"images = {asked.images} counts images of image = WIDTHxHEIGHT, which is missing")
        return None
    sizes = image_sizes(str(asked.image))
    if asked.sessions is not None:
        raise ValueError(
            f"image = {asked.image!r} cannot be given with sessions: turns begin with earlier ones, whose images are "
            "not known to be kept"
        )
    count = 1 if asked.images is None else int(declared_quantity(asked.images, leaf("workload.images"), "images"))
    entry = model(asked.model, weights=asked.weights)
    if entry.images is None:
        raise ValueError(f"image = {asked.image!r}, but {entry.name} sees no images")
    tokens = prompt_images(entry.images, sizes, count)
    encode = Encode(sequences=tokens.inputs, tokens=float(round(tokens.encoder)))
    return Images(sizes, count, encode, float(round(tokens.language)))
