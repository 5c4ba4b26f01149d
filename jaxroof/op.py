"""What one kernel of a step does: operations, bytes and messages, before any hardware is known."""

from jaxroof.shape import AttentionShape, ProductShape
from jaxroof.struct import Scalar, static, struct

KINDS = ("linear", "experts", "prefill_attention", "decode_attention", "elementwise", "collective")
"""Op kinds. An `Efficiency` has one entry for each. Beside them a "copy" moves bytes to or from outside memory."""

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "send_recv",
    "dispatch",
    "combine",
)
"""What a collective does. Dispatch and combine are the all-to-alls of low-latency expert kernels."""

BOUNDS = ("matrix", "vector", "exp", "hbm", "l2", "scratchpad", "link", "launch")
"""What can bind an op, in the order of the integer codes that cost functions return."""


@struct
class Op:
    """One kernel (or a few that always run together) as it runs on one device of the deployment.

    A quantity that the op does not use is None, so that no term is computed for it.
    """

    kind: str = static()  # one of KINDS, or "copy"
    precision: str | None = static(default=None)  # of the products, or converted to: a key of `Hardware.matrix`
    scaled: bool = static(default=False)  # a scale per block of operands is applied between matrix products
    count: Scalar  # how often the step runs it: layers
    kernels: Scalar  # kernels per run; 0 when the step has no work for it
    matrix_flops: Scalar | None = None  # FLOP per run on matrix units
    operand_bytes: Scalar | None = None  # B per matrix operand element, which sizes its tiles
    vector_flops: Scalar | None = None  # FLOP per run on vector units
    exps: Scalar | None = None  # exponentials per run
    bytes: Scalar | None = None  # B per run read and written, each operand once
    shape: ProductShape | AttentionShape | None = None  # what decides its tiles; None: a few bytes per operation
    reuse_bytes: Scalar | None = None  # B touched between two readings of its weights or cache; None: beyond any cache
    tier: str | None = static(default=None)  # of a copy: the field of `Memory` that it reads or writes
    collective: str | None = static(default=None)  # one of COLLECTIVES
    message_bytes: Scalar | None = None  # B per run of a copy, or of a collective's whole buffer, as nccl-tests counts
    participants: Scalar | None = None  # devices of the collective
    stride: Scalar | None = None  # devices from one participant to the next; 1: neighbours
