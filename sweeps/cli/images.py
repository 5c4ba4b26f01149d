"""Flags of a model's encoder: images of a size, or tokens."""

import argparse

from sweeps.cli.leaf_flags import Listed


def encoder_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the flags."""
    what = "size in pixels of the images in every prompt; several with commas, or given again"
    parser.add_argument("--image", metavar="WxH,..", action=Listed, help=what)
    parser.add_argument("--images", metavar="N", help="images of every such size in every prompt (default 1)")
    parser.add_argument(
        "--encoder-tokens", metavar="TOKENS", help="in place of --image: patches, frames or words that are encoded"
    )


def encoder_workload(options: argparse.Namespace, prompt: str) -> dict[str, str | None]:
    """The workload's encoder tokens, and its prompt with what images add to it.

    Args:
      prompt: name of the workload number, and of its flag, that counts prompt tokens.

    Raises:
      ValueError: one line, for a size that is none, or for flags that contradict each other.
    """
    # Without images an encoder may still have tokens, such as frames of audio.
    if options.image is None:
        if options.images is not None:
            raise ValueError("--images counts images of --image WxH, which is missing")
        return {"encoder_tokens": options.encoder_tokens}
    if options.encoder_tokens is not None:
        raise ValueError("--image and --encoder-tokens say the same in two ways: give one")
    from sweeps.cli.common import whole_number, whole_setting
    from workloads import model
    from workloads.models.images import image_sizes, prompt_images

    sizes = image_sizes(options.image, "--image")
    count = whole_setting(options, "images", 1)
    if getattr(options, prompt) is None:
        raise ValueError(f"--image needs --{prompt} TOKENS, the prompt's other tokens")
    # Text tokens of the prompt: what images add is known only from the model's own encoder.
    text = whole_number(f"--{prompt}", getattr(options, prompt))
    entry = model(options.model, weights=options.weights)
    if entry.images is None:
        raise ValueError(f"--image = {options.image!r}, but {entry.name} sees no images")
    tokens = prompt_images(entry.images, sizes, count)
    return {
        "encoder_tokens": f"{tokens.encoder:.0f}",
        "encoder_inputs": f"{tokens.inputs:.0f}",
        # The language model sees text and image tokens, the encoder its own patches.
        prompt: f"{text + tokens.language:.0f}",
    }
