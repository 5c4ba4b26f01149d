"""Times and algorithms of collectives over kinds, sizes of groups, strides and accelerators."""

from collections.abc import Iterator

from tests.golden.answers import Question, command

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv", "dispatch")
GROUPS = (
    "--hardware H100-SXM --devices 8",
    "--hardware H100-SXM --devices 64",
    "--hardware H100-SXM --devices 16 --stride 8",
    "--hardware MI300X --devices 4",
    "--hardware A100-PCIe-80GB --devices 8",
    "--hardware TPU-v5p --devices 256",
    "--hardware GB200 --devices 72 --efficiency datasheet",
    "--hardware L40S --devices 3 --efficiency derated",
)


def questions() -> Iterator[tuple[str, Question]]:
    """Every kind in every group."""
    for kind in KINDS:
        for group in GROUPS:
            words = f"collective --kind {kind} {group} --size 1KiB..1GiB --step 64"
            yield words, lambda words=words: command(words)
    for words in (
        "collective --hardware H100-SXM --kind point_to_point --devices 2",
        "collective --hardware H100-SXM --kind all_reduce --devices 1",
        "collective --hardware H100-SXM --kind all_reduce --devices 1.5",
        "collective --hardware T4 --kind all_reduce --devices 1000000",
        "collective --hardware H100-SXM --size 1GiB..1KiB --devices 8",
        "collective --hardware H100-SXM --devices 8 --set hardware.links.scale_up.bandwidth=1.8TB/s",
    ):
        yield words, lambda words=words: command(words)
