"""Kernels that bring tokens to their experts and results back, forwarded inside of nodes: what their cores pass on."""

from jaxroof.efficiency.timing import factor, fixed_time
from jaxroof.numerics.struct import Scalar, number, part, share, struct


@struct
class Forwarding:
    """One direction of the exchange."""

    kernel_time: Scalar = fixed_time("fixed time of the kernel", "launch, prologue and epilogue")
    hops: Scalar = factor("hops over scale-up links that the kernel waits for", "barriers and flags of its peers")
    share: Scalar = share("share of the scale-up link's bandwidth that its rows reach")
    token_time: Scalar = fixed_time("time of a core per token that it looks at", "whether and to whom it goes")
    row_time: Scalar = fixed_time("time of a core per row that it handles, beside its bytes", default=0.0)
    core_rate: Scalar = number("B/s", "rows that one core passes on", "read, sent and received")
    node_rows: Scalar = factor("rows that a copy for a whole node counts as", "it is staged, sent and handed on")
    own_rows: Scalar = factor(
        "rows that a core handles per token beside its copies", "such as the sum of its results", default=0.0
    )
    row_rate: Scalar | None = number(
        "B/s", "rate of a row that is alone", "what a few tokens wait for; None: no wait", default=None
    )


@struct
class ExpertExchange:
    """Kernels that send a token once to every device that needs it, and once to every node: DeepEP's normal mode.

    Source: deepseek-ai/DeepEP, csrc/kernels/{intranode,internode}.cu, for what the kernels do.
    """

    dispatch: Forwarding = part("dispatch")
    combine: Forwarding = part("combine")
    cores: Scalar = number("1", "cores that the kernels take", "half of them send, half receive", most=1024.0)
    notify_time: Scalar = fixed_time("time in which nodes tell each other how many rows will come")
    peer_time: Scalar = fixed_time("the same per device of the group")
