"""Measured collectives from CSV files of aiconfigurator's or vidur's form, and what ran behind each of them."""

import dataclasses
import itertools
from pathlib import Path

import hwspaces
from hwspaces import engine, engine_names
from hwspaces.accelerators.hosts import hosts
from hwspaces.engines.collectives import OwnCollectives
from jaxroof.collectives import LIBRARIES
from jaxroof.hardware import Link, Links
from jaxroof.numerics.struct import given
from sweeps.measure.validate.exchange_rows import TABLES, MeasuredExchange, exchanges, measured_links
from sweeps.measure.validate.measured_csv import POSITIVE, CsvRow, LeftOut, header, records, require_some, rows

BENCHMARK_COLUMNS = ("gpu", "backend", "kernel_source", "num_gpus", "message_size", "latency_us")
TABLE_COLUMNS = ("gpu", "backend", "op_name", "dtype", "num_gpus", "message_bytes", "latency_us", "mode")
PROFILE_COLUMNS = ("topology", "collective", "num_workers", "devices_per_node", "message_bytes", "latency_us")

NAMES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "broadcast": "broadcast",
    "send_recv": "send_recv",
}
"""How files call a collective -> `jaxroof.op.COLLECTIVES`."""


@dataclasses.dataclass(frozen=True)
class Topology:
    """Machines of a profile."""

    device: str  # name in the catalogue
    board: str | None = None  # device whose scale-up link joins pairs to a server
    node_bandwidth: float | None = None  # B/s between nodes, shared by a node's devices; None: a NIC for each


TOPOLOGIES = {
    "a100_dgx": Topology("A100-SXM-80GB", node_bandwidth=1e10),
    "h100_dgx": Topology("H100-SXM"),
    "a100_x4_nvlink": Topology("A100-SXM-80GB"),
    "a100_pairwise_nvlink": Topology("A100-SXM-80GB", board="L40S", node_bandwidth=1e10),
}
"""Topology of a profile -> its machines. The bandwidth between A100 nodes is ours: their profile gives none, and its
send-receives across nodes level off at 9 GB/s, whatever the NICs of the catalogue do."""

PCIE = "PCIe"
PROFILED = "profiled"
GRAPH, EAGER, STREAM, CALLED = "cudagraph", "eager", "stream", "called"

ANY = "one of four"
"""Kind of rows that are the median of an all-reduce, all-gather, reduce-scatter and all-to-all of one size."""

CALL_TIME = 29e-6
"""s that the host takes for one collective of torch.distributed: ours, of its smallest messages on H100 and H200."""


NCCL = "nccl"

LIKE_NCCL = (NCCL, "rccl", "oneccl")
"""Collective libraries; RCCL and oneCCL are taken to do as NCCL does."""


def families() -> tuple[str, ...]:
    """Libraries and engines whose collectives are measured."""
    return *LIKE_NCCL, *engine_names()


def own_collectives(family: str, version: str = "") -> OwnCollectives:
    """Kernels that a family has beside the library's, in a release."""
    return OwnCollectives() if family in LIKE_NCCL else engine(family).collectives.released(version)


IN_SWITCH_TYPES = ("half", "float16", "bfloat16", "float", "float32")
"""Element types that switches add up; NVLS takes no 8-bit integers."""

EAGER_COPIES = 2.0
"""How often an eager run moves the message through device memory beside the collective: one clone, read and written."""

COPY_SHARE = 0.87
"""Share of device memory bandwidth that such a copy reaches; ours, from eager against graph runs of 0.1 to 1 GiB."""


@dataclasses.dataclass(frozen=True)
class MeasuredCollective:
    """One measured collective that can be predicted."""

    device: str  # canonical name in the catalogue
    family: str  # one of `families`
    mode: str  # stream, cudagraph, eager; profiled: as a profiler saw it, host delays and all
    version: str  # of the library or engine; of a profile its topology
    kind: str  # one of `jaxroof.op.COLLECTIVES`
    dtype: str
    participants: float
    message_bytes: float
    seconds: float
    links: Links
    memory_bandwidth: float  # B/s
    algorithms: tuple[str, ...]
    crosses: bool  # whether the group leaves its scale-up domain
    file: str
    line: int  # of the file
    exchange: MeasuredExchange | None = None  # of tokens with experts; None: of nothing that nodes forward


def collectives(path: str | Path) -> tuple[list[MeasuredCollective], list[LeftOut]]:
    """Rows of a CSV or parquet file, or of every file of a known form in a folder.

    Raises:
      ValueError: one line that names file, row, column and value: a missing or empty file, missing columns, text
        that is no positive number, or that there is nothing to predict.
    """
    path, measured, left_out, known = Path(path), [], [], False
    for file in sorted((*path.rglob("*.csv"), *path.rglob("*.parquet"))) if path.is_dir() else [path]:
        # The form of a file shows in its columns. Of a folder, files of no known form are passed over.
        names = header(file)
        read = next((read for columns, read in FORMS.items() if set(names) >= set(columns)), None)
        if read is not None:
            known, (some, left) = True, records(rows(file, ()), read)
            measured, left_out = measured + list(itertools.chain(*some)), left_out + left
        # A single file of an unknown form is an error, since nothing else was given.
        elif file is path:
            forms = " nor ".join(", ".join(columns) for columns in FORMS)
            raise ValueError(f"{path}: the columns are neither {forms}; it has {', '.join(names)}")
    if not known:
        raise ValueError(f"{path}: no CSV file of measured collectives in this folder")
    require_some(path, measured, left_out)
    return measured, left_out


def algorithms(family: str, dtype: str, over_pcie: bool) -> tuple[str, ...]:
    """Algorithms that a family may use for elements of `dtype`.

    Raises:
      ValueError: one line, when the family is not known.
    """
    if family not in families():
        raise ValueError(f"library {family!r} is not known; known: {', '.join(families())}")
    library = LIBRARIES[NCCL]
    # Switches that reduce must know the type that they add up.
    if dtype not in IN_SWITCH_TYPES:
        library = tuple(name for name in library if name != "in_switch")
    own = own_collectives(family)
    return library + (own.kernels if own.bridged or not over_pcie else ())


def launch_time(row: "MeasuredCollective") -> float:
    """Host time in s that one run takes, whatever its size; 0 where none is part of the measured time.

    It is that of the engine's release, or of a call of torch.distributed, on the processors of the device's host.
    """
    if row.exchange is not None:
        time = row.exchange.call_time
    elif row.mode == CALLED:
        time = CALL_TIME
    else:
        time = own_collectives(row.family, row.version).launch_time if row.mode == EAGER else 0.0
    host = hosts().get(row.device)
    return time if host is None else time / host.launch_speed


def _benchmark_row(row: CsvRow) -> list[MeasuredCollective]:
    """A row of the newer tables, whose sizes are elements; one of NCCL's is the median of four collectives."""
    dtype = row.get("allreduce_dtype") or row.get("nccl_dtype", "")
    if dtype not in ELEMENT_BYTES:
        raise ValueError(f"element type {dtype!r} is not known; known: {', '.join(ELEMENT_BYTES)}")
    size = row.numbers(("message_size",), POSITIVE)["message_size"] * ELEMENT_BYTES[dtype]
    kernel, nccl = row["kernel_source"], row["backend"] == NCCL
    called = kernel.startswith("torch.")
    # Engines may run another one's kernels, as the name of the kernels says.
    family = "trtllm" if kernel == "TRTLLM" else row["backend"]
    mode = STREAM if nccl else next((mode for mode in (EAGER,) if kernel.endswith(mode)), GRAPH)
    words = {"backend": family, "mode": mode, "dtype": dtype, "message_bytes": str(size), "op_name": "all_reduce"}
    (one,) = _table_row(CsvRow(row.file, row.line, {**row, **words}))
    if called:
        return [dataclasses.replace(one, mode=CALLED)]
    return [dataclasses.replace(one, kind=ANY) if nccl else one]


ELEMENT_BYTES = {"half": 2.0, "float16": 2.0, "bfloat16": 2.0, "int8": 1.0, "float": 4.0, "float32": 4.0}
"""Element type -> B."""


def _exchange_row(row: CsvRow) -> list[MeasuredCollective]:
    """Both directions of an exchange of tokens with experts, or one."""
    entry, found = _device(row["gpu"]), []
    links, scale_up = entry.hardware.links, _scale_up(entry.name, entry.hardware.links)
    for one, seconds in exchanges(row):
        found.append(
            MeasuredCollective(
                device=entry.name,
                family=row.get("backend", ""),
                mode=row.get("comm_backend") or one.mode,
                version=row.get("version", ""),
                kind=one.kind,
                dtype=row.get("comm_dtype", ""),
                participants=one.devices,
                message_bytes=one.message_bytes,
                seconds=seconds,
                links=measured_links(links, one),
                memory_bandwidth=entry.hardware.memory.hbm.bandwidth,
                algorithms=EXCHANGES,
                crosses=one.devices > scale_up.devices,
                file=row.file,
                line=row.line,
                exchange=one,
            )
        )
    return found


EXCHANGES = ("direct", "hierarchical", "expert_kernel", "forwarded")
"""Algorithms of an exchange of tokens with experts."""


def _table_row(row: CsvRow) -> list[MeasuredCollective]:
    values = row.numbers(("num_gpus", "message_bytes", "latency_us"), POSITIVE)
    entry = _device(row["gpu"])
    # The family is the same with and without this ending.
    family = row["backend"].removesuffix("_custom")
    allowed = algorithms(family, row["dtype"], entry.technologies.get("scale_up", "").startswith(PCIE))
    if row["mode"] not in (STREAM, GRAPH, EAGER):
        raise ValueError(f"mode {row['mode']!r} is not known; known: {STREAM}, {GRAPH}, {EAGER}")
    # Tables are of the devices' own links, as the catalogue has them.
    links = entry.hardware.links
    scale_up = _scale_up(entry.name, links)
    one = MeasuredCollective(
        device=entry.name,
        family=family,
        mode=row["mode"],
        version=row.get("version", ""),
        kind=_kind(row["op_name"]),
        dtype=row["dtype"],
        participants=values["num_gpus"],
        message_bytes=values["message_bytes"],
        seconds=1e-6 * values["latency_us"],
        links=links,
        memory_bandwidth=entry.hardware.memory.hbm.bandwidth,
        algorithms=allowed,
        crosses=values["num_gpus"] > scale_up.devices,
        file=row.file,
        line=row.line,
    )
    return [one]


def _profile_row(row: CsvRow) -> list[MeasuredCollective]:
    values = row.numbers(("num_workers", "devices_per_node", "message_bytes", "latency_us"), POSITIVE)
    # The first word names the machines; what follows is not needed.
    name, _, _ = row["topology"].partition(" ")
    if name not in TOPOLOGIES:
        raise ValueError(f"topology {name!r} is not known; known: {', '.join(TOPOLOGIES)}")
    machines = TOPOLOGIES[name]
    entry = _device(machines.device)
    links, node = entry.hardware.links, values["devices_per_node"]
    scale_up = _scale_up(entry.name, links)
    # Devices that NVLink joins: a pair where machines are made of pairs, else the whole node.
    domain = min(node, 2.0) if machines.board else node
    links = dataclasses.replace(links, scale_up=dataclasses.replace(scale_up, devices=domain))
    # Pairs reach each other over the link of another board, whose slowdown on shared ways counts as oversubscription.
    if machines.board and node > 2.0:
        board = _scale_up(machines.board, _device(machines.board).hardware.links)
        crossing = given(board.transport, f"transport of {machines.board}").crossing
        board = dataclasses.replace(board, devices=node, oversubscription=crossing)
        links = dataclasses.replace(links, scale_out=board)
    elif machines.node_bandwidth is not None:
        network = given(links.scale_out, f"scale-out link of {entry.name}")
        # The devices of a node share its network; a link's bandwidth is per device, in B/s.
        network = dataclasses.replace(network, bandwidth=machines.node_bandwidth / node)
        links = dataclasses.replace(links, scale_out=network)
    one = MeasuredCollective(
        device=entry.name,
        family=NCCL,
        mode=PROFILED,
        version=name,
        kind=_kind(row["collective"]),
        dtype="half",
        participants=values["num_workers"],
        message_bytes=values["message_bytes"],
        seconds=1e-6 * values["latency_us"],
        links=links,
        memory_bandwidth=entry.hardware.memory.hbm.bandwidth,
        algorithms=algorithms(NCCL, "half", False),
        crosses=values["num_workers"] > domain,
        file=row.file,
        line=row.line,
    )
    return [one]


def _device(name: str) -> hwspaces.HardwareEntry:
    try:
        return hwspaces.hardware(name)
    except ValueError as error:
        raise ValueError(f"GPU {error}") from None


def _scale_up(name: str, links: Links) -> Link:
    # Without a link between devices nothing can be predicted: the row is left out.
    if links.scale_up is None:
        raise ValueError(f"{name} has no link to other devices in the catalogue")
    return links.scale_up


def _kind(name: str) -> str:
    if name not in NAMES:
        raise ValueError(f"collective {name!r} is not known; known: {', '.join(NAMES)}")
    return NAMES[name]


FORMS = {
    TABLE_COLUMNS: _table_row,
    PROFILE_COLUMNS: _profile_row,
    **dict.fromkeys(TABLES, _exchange_row),
    (*BENCHMARK_COLUMNS, "nccl_dtype"): _benchmark_row,
    (*BENCHMARK_COLUMNS, "allreduce_dtype"): _benchmark_row,
}
"""Columns of a file -> the collectives of one of its rows."""
