"""The reader of modules of StableHLO."""

from tests.fuzz.documents import Words
from tests.fuzz.sensible import require_sensible
from tests.fuzz.target import Target, in_file
from tests.stablehlo_modules import COUNTED, TORCH


def targets() -> list[Target]:
    """What reads modules."""
    words = ("stablehlo.tanh", "tensor<?xf32>", "complex<f32>", "i4", "f8E4M3FN", "chlo.erf", "func.call", "@main")
    return [Target("stablehlo", in_file("own.mlir", _read), lambda: [COUNTED.encode(), TORCH.encode()], Words, words)]


def _read(path: str) -> None:
    from jaxroof.op import Kernel
    from workloads.traced.stablehlo import traced_module

    ops = traced_module(path).ops().values()
    require_sensible([op.bytes for op in ops if isinstance(op, Kernel)], beyond=1e40)
