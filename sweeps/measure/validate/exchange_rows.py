"""Measured exchanges of tokens with experts from tables of aiconfigurator's form: one row for each direction."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping

from hwspaces import efficiency
from jaxroof.efficiency import ExpertExchange
from jaxroof.fanout import Fanout, distinct_devices
from jaxroof.hardware import Links
from jaxroof.numerics.struct import given
from sweeps.measure.validate.measured_csv import NOT_NEGATIVE, POSITIVE, CsvRow

NODE = 8.0
"""Devices of a node in the tables; their groups are whole nodes."""

GROUPS_REACHED = 4.0
"""Nodes that a token reaches at most in the normal mode's benchmark: num_topk_groups of DeepEP's test_internode.py."""

FP8_SCALED, FP8, BF16, FP4 = 1.0 + 4.0 / 128.0, 1.0, 2.0, 0.5 + 1.0 / 16.0
"""B per element: 8 bits with a scale of 4 B per 128 elements, or without; 16 bits; 4 bits with one of 1 B per 16."""

CONGESTED_NODES, CONGESTED_BANDWIDTH = 8.0, 1.7e10
"""Nodes on which the normal mode was measured over a network of so many B/s per device: ours, as its largest messages
level off there, at a third of the rate on two and four nodes. Low-latency rows of as many nodes and the published
tables of DeepEP, up to 32 nodes, reach the whole rate: this belongs to those runs and to no device."""

HEADER = 16.0
"""B before a row of low-latency kernels: deepseek-ai/DeepEP, csrc/kernels/internode_ll.cu (int4 of the source)."""

A2A_BYTES = {"default": BF16, "bfloat16": BF16, "fp8": FP8, "nvfp4": FP4, "fp4": FP4}
"""comm_dtype -> B per element that is sent to experts."""

LOW_LATENCY, NORMAL = "low_latency", "normal"

CALLS = {
    "deepep_ht": (272.0, 98.0, 0.62),
    "deepep_ll": (62.0, 53.0, 0.55),
    "deepep_v2_context": (390.0, 154.0, 0.5),
    "deepep_v2_generation": (231.0, 168.0, 0.31),
    "trtllm_deepep_ht": (74.0, 44.0, 0.83),
    "trtllm_deepep_ll": (72.0, 33.0, 0.83),
}
"""comm_backend of an engine that was measured call by call -> us of the host per dispatch and per combine, and the
share of tuned kernels' speed that its own settings reach. Ours, fitted to H100 and H200 and judged on B200:
docs/evidence/collectives.md."""


@dataclasses.dataclass(frozen=True)
class MeasuredExchange:
    """One direction of one measured exchange."""

    mode: str  # LOW_LATENCY or NORMAL
    back: bool
    devices: float
    tokens: float  # of one device
    experts: float
    choices: float
    row_bytes: float  # B of one token as it is sent
    cores: float | None  # that the kernels take; None: as the engine has it
    notice: float = 0.0  # s of it in which nodes tell each other how many rows will come
    call_time: float = 0.0  # s that the host takes where it launches every call
    tuned: float = 1.0  # share of the speed of kernels whose chunks are tuned that the engine's settings reach

    @property
    def kind(self) -> str:
        """One of `jaxroof.op.COLLECTIVES`."""
        if self.mode == NORMAL:
            return "all_to_all"
        return "combine" if self.back else "dispatch"

    @property
    def fanout(self) -> Fanout | None:
        """Who needs a token; low-latency kernels do not ask."""
        if self.mode == LOW_LATENCY:
            return None
        nodes = self.devices / NODE
        limited = nodes > GROUPS_REACHED
        return Fanout(
            holders=self.devices,
            experts=self.experts,
            choices=self.choices,
            groups=nodes if limited else None,
            reached=GROUPS_REACHED if limited else None,
            token_bytes=self.row_bytes,
            back=self.back,
        )

    @property
    def message_bytes(self) -> float:
        """B that one device sends, its own rows with them."""
        if self.mode == LOW_LATENCY:
            return self.tokens * self.choices * (self.row_bytes + (0.0 if self.back else HEADER))
        return self.tokens * float(distinct_devices(self.devices, self.experts, self.choices)) * self.row_bytes

    @property
    def kernels(self) -> ExpertExchange | None:
        """What moves the rows in the normal mode, with as many cores as the row says."""
        if self.mode == LOW_LATENCY:
            return None
        kernels = shipped()
        return kernels if self.cores is None else dataclasses.replace(kernels, cores=self.cores)


@functools.cache
def shipped() -> ExpertExchange:
    """Constants of the normal mode's kernels; all engines of the tables run one library's."""
    return given(efficiency("learned-sglang").efficiency.collective.exchange, "kernels of an exchange of tokens")


def measured_links(links: Links, one: MeasuredExchange) -> Links:
    """The device's links as the row's runs had them."""
    if one.mode != NORMAL or one.devices != NODE * CONGESTED_NODES or links.scale_out is None:
        return links
    return dataclasses.replace(links, scale_out=dataclasses.replace(links.scale_out, bandwidth=CONGESTED_BANDWIDTH))


def exchanges(row: CsvRow) -> Iterator[tuple[MeasuredExchange, float]]:
    """What a row of one of the three tables has timed, and its seconds: one direction or both.

    Raises:
      ValueError: one line, as `CsvRow.numbers`.
    """
    return next(read for columns, read in TABLES.items() if row.keys() >= set(columns))(row)


def _low_latency(row: CsvRow) -> Iterator[tuple[MeasuredExchange, float]]:
    values = row.numbers(LOW_LATENCY_COLUMNS[1:], POSITIVE)
    for back, name in ((False, "dispatch"), (True, "combine")):
        yield _one(LOW_LATENCY, back, values, NODE * values["node_num"]), 1e-6 * values[f"{name}_avg_t_us"]


def _normal(row: CsvRow) -> Iterator[tuple[MeasuredExchange, float]]:
    values = row.numbers(NORMAL_COLUMNS[1:], NOT_NEGATIVE)
    for back, name in ((False, "dispatch"), (True, "combine")):
        one = _one(NORMAL, back, values, NODE * values["node_num"], cores=values[f"{name}_sms"])
        notice = 1e-6 * values[f"{name}_notify_us"]
        # What a step waits for: the notice of how many rows will come, then the rows.
        yield dataclasses.replace(one, notice=notice), 1e-6 * values[f"{name}_transmit_us"] + notice


def _all_to_all(row: CsvRow) -> Iterator[tuple[MeasuredExchange, float]]:
    values = row.numbers(A2A_NUMBERS, NOT_NEGATIVE)
    values |= {"num_token": values["num_tokens"], "num_topk": values["topk"]}
    back = row["phase"] == "combine"
    mode = LOW_LATENCY if "ll" in row["comm_backend"].split("_") else NORMAL
    if row["comm_dtype"] not in A2A_BYTES:
        raise ValueError(f"comm_dtype {row['comm_dtype']!r} is not known; known: {', '.join(A2A_BYTES)}")
    # 0 cores: the kernels' own choice.
    one = _one(mode, back, values, values["ep_size"], A2A_BYTES[row["comm_dtype"]], values["sms"] or None)
    *times, tuned = CALLS.get(row["comm_backend"], (0.0, 0.0, 1.0))
    one = dataclasses.replace(one, call_time=1e-6 * times[back], tuned=tuned)
    yield one, 1e-6 * (values["transmit_us"] + values["notify_us"])


def _one(
    mode: str,
    back: bool,
    values: Mapping[str, float],
    devices: float,
    dispatch_bytes: float = FP8_SCALED,
    cores: float | None = None,
) -> MeasuredExchange:
    return MeasuredExchange(
        mode=mode,
        back=back,
        devices=devices,
        tokens=values["num_token"],
        experts=values["num_experts"],
        choices=values["num_topk"],
        # Tokens at `dispatch_bytes` per element, results at 16 bits.
        row_bytes=values["hidden_size"] * (BF16 if back else dispatch_bytes),
        cores=cores,
    )


SHAPE = ("node_num", "hidden_size", "num_token", "num_topk", "num_experts")
LOW_LATENCY_COLUMNS = ("gpu", *SHAPE, "dispatch_avg_t_us", "combine_avg_t_us")
NORMAL_COLUMNS = (
    *("gpu", *SHAPE, "dispatch_sms", "dispatch_transmit_us", "dispatch_notify_us"),
    *("combine_sms", "combine_transmit_us", "combine_notify_us"),
)
A2A_NUMBERS = ("ep_size", "hidden_size", "num_tokens", "topk", "num_experts", "sms", "transmit_us", "notify_us")
A2A_COLUMNS = ("gpu", "comm_backend", "phase", "comm_dtype", *A2A_NUMBERS)

TABLES: Mapping[tuple[str, ...], Callable[[CsvRow], Iterator[tuple[MeasuredExchange, float]]]] = {
    LOW_LATENCY_COLUMNS: _low_latency,
    NORMAL_COLUMNS: _normal,
    A2A_COLUMNS: _all_to_all,
}
"""Columns of a table -> what a row of it has timed."""
