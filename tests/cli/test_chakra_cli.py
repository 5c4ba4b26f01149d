"""`jaxroof export chakra`: traces as the protobuf library reads them, run by every rank, against jaxroof's answers."""

import collections
import heapq
import json

import pytest

from tests.commands import printed, refused

pytest.importorskip("google.protobuf", reason="pip install protobuf reads traces independently")

from tests.chakra_schema import ENUMS, read

TYPES = {number: word for word, number in ENUMS["NodeType"].items()}
COLLECTIVES = {number: word for word, number in ENUMS["CollectiveCommType"].items()}

VALUES = {
    **{"is_cpu_op": "bool_val", "num_ops": "int64_val", "matrix_ops": "int64_val", "tensor_size": "uint64_val"},
    **{"comm_type": "int64_val", "comm_size": "int64_val", "pg_name": "string_val"},
    **dict.fromkeys(("comm_src", "comm_dst", "comm_tag"), "int32_val"),
}
"""Attribute -> the field that Chakra's own feeder reads of it: another one would be read as 0."""


class Rank:
    """The trace of one rank."""

    def __init__(self, path):
        self.metadata, self.nodes = read(path)
        self.types = [TYPES[node.type] for node in self.nodes]
        self.attributes = []
        for node in self.nodes:
            assert all(attr.WhichOneof("value") == VALUES[attr.name] for attr in node.attr)
            self.attributes.append({attr.name: getattr(attr, VALUES[attr.name]) for attr in node.attr})

    def total(self, name: str, kinds=("COMP_NODE", "COMM_COLL_NODE", "COMM_SEND_NODE", "MEM_LOAD_NODE")) -> int:
        return sum(each.get(name, 0) for each, kind in zip(self.attributes, self.types, strict=True) if kind in kinds)


def exported(capsys, folder, *flags):
    """Traces by rank, and groups of ranks, of a command."""
    printed(capsys, "export", "chakra", *flags, "-o", folder)
    groups = json.loads((folder / "comm_group.json").read_text())
    ranks = [Rank(folder / f"rank.{rank}.et") for rank in range(len(list(folder.iterdir())) - 1)]
    return ranks, groups


def run(ranks, groups) -> float:
    """Time in us in which all ranks run their graphs: kernels one after the other, and messages of one group too, a
    node when what it waits for is done. A collective starts when its whole group is there, a message when both ends
    are.
    """
    followers = [collections.defaultdict(list) for _ in ranks]
    missing = [[len(node.data_deps) for node in rank.nodes] for rank in ranks]
    for own, rank in zip(followers, ranks, strict=True):
        for node in rank.nodes:
            for dep in node.data_deps:
                own[dep].append(node.id)
    ready = [(0.0, node, rank) for rank, own in enumerate(missing) for node, count in enumerate(own) if not count]
    heapq.heapify(ready)
    after = collections.defaultdict(float)  # rank and node -> when all that it waits for is done
    free = collections.defaultdict(float)  # unit of a rank -> when
    met = collections.defaultdict(dict)  # what ranks meet at -> rank -> node, when it is ready, its unit and content
    issued, left, last = collections.Counter(), sum(map(len, missing)), 0.0
    while ready:
        time, node, rank = heapq.heappop(ready)
        kind, about = ranks[rank].types[node], ranks[rank].attributes[node]
        key, needed, unit, content = (rank, node), 1, (rank, about["is_cpu_op"]), None
        if kind == "COMM_COLL_NODE":
            group = tuple(groups[about["pg_name"]])
            assert rank in group
            key, needed, unit = (group, issued[rank, group]), len(group), (rank, group)
            issued[rank, group] += 1
            content = COLLECTIVES[about["comm_type"]], about["comm_size"], ranks[rank].nodes[node].name
        elif kind in ("COMM_SEND_NODE", "COMM_RECV_NODE"):
            ends = about["comm_src"], about["comm_dst"]
            assert ends[kind == "COMM_RECV_NODE"] == rank and ends[0] != ends[1]
            key, needed, unit, content = (*ends, about["comm_tag"]), 2, (rank, kind), about["comm_size"]
        assert rank not in met[key]
        met[key][rank] = node, time, unit, content
        if len(met[key]) < needed:
            continue
        assert len({content for *_, content in met[key].values()}) == 1
        start = max(max(time, free[unit]) for _, time, unit, _ in met[key].values())
        for each, (place, _, unit, _) in met.pop(key).items():
            end = free[unit] = start + ranks[each].nodes[place].duration_micros
            left, last = left - 1, max(last, end)
            for follower in followers[each][place]:
                after[each, follower] = max(after[each, follower], end)
                missing[each][follower] -= 1
                if not missing[each][follower]:
                    heapq.heappush(ready, (after[each, follower], follower, each))
    assert not left, "ranks wait for each other"
    return last


LLAMA = ("--hardware", "H100-SXM", "--model", "Llama-3.1-8B")
MIXTRAL = ("--hardware", "H100-SXM", "--model", "Mixtral-8x7B")

STEPS = {
    "one device": (1, (*LLAMA, "--prefill", "512")),
    "tensors": (4, (*LLAMA, "--decode", "32", "--context", "1000", "--tp", "4")),
    "parts of sequences": (2, (*LLAMA, "--prefill", "2048", "--tp", "2", "--sequence-parallel")),
    "stages": (4, (*LLAMA, "--prefill", "512", "--decode", "8", "--context", "900", "--tp", "2", "--pp", "2")),
    "uneven stages": (3, (*LLAMA, "--prefill", "512", "--pp", "3", "--stages", "8,12,12")),
    "replicas": (4, (*LLAMA, "--prefill", "512", "--tp", "2", "--dp", "2")),
    "ring": (4, (*LLAMA, "--prefill", "8192", "--cp", "4")),
    "experts": (8, (*MIXTRAL, "--decode", "64", "--context", "2000", "--tp", "2", "--attention-dp", "4", "--ep", "8")),
    "halves": (4, (*MIXTRAL, "--prefill", "4096", "--tp", "2", "--attention-dp", "2", "--ep", "4")
               + ("--overlap", "two_batch")),
}  # fmt: skip


@pytest.mark.parametrize(("number", "flags"), STEPS.values(), ids=STEPS)
def test_ranks_run_the_step(capsys, tmp_path, number, flags):
    step = json.loads(printed(capsys, "step", *flags, "--json"))
    ranks, groups = exported(capsys, tmp_path / "t", *flags)
    assert len(ranks) == number
    for rank in ranks:
        assert rank.metadata.version == "0.0.4"
        assert {attr.name: attr.string_val for attr in rank.metadata.attr}["source"].startswith("jaxroof ")
        for place, node in enumerate(rank.nodes):
            assert node.id == place and all(dep < place for dep in node.data_deps)  # no cycles
    # work and messages: every op of the step runs on the devices of its stage, in every replica
    pp = {"stages": 2, "uneven stages": 3}.get({flags: name for name, (_, flags) in STEPS.items()}[flags], 1)
    copies = number // pp
    flops = sum(op["flops_per_device"] for op in step["ops"])
    assert sum(rank.total("num_ops") for rank in ranks) == pytest.approx(copies * flops, rel=1e-6)
    moved = sum(op["bytes_per_device"] for op in step["ops"])
    assert sum(rank.total("tensor_size") for rank in ranks) == pytest.approx(copies * moved, rel=1e-6)
    sent = sum(
        size["comm_size"] * (len(groups[size["pg_name"]]) if size.get("comm_type") == 2 else 1)  # parts of a gather
        for rank in ranks
        for size, kind in zip(rank.attributes, rank.types, strict=True)
        if kind in ("COMM_COLL_NODE", "COMM_SEND_NODE")
    )
    messages = sum(op["message_bytes_per_device"] for op in step["ops"])
    assert sent == pytest.approx(copies * messages, rel=1e-6)
    # time: without overlap one run follows the other; of a ring both ends send at once. Each duration is whole us.
    time = run(ranks, groups)
    whole = 1e6 * sum(op["time_s"] for op in step["ops"] if op["name"] != "hidden")
    whole *= step["metrics"].get("slowdown", 1.0)
    if "--overlap" in flags:
        assert 0.5 * whole < time < whole
    else:
        assert time == pytest.approx(whole, abs=3.0)


TRAINING = {
    "one device": (1, ("--recompute", "selective")),
    "1f1b": (8, ("--tp", "2", "--pp", "2", "--dp", "2")),
    "gpipe": (4, ("--pp", "4", "--schedule", "gpipe", "--recompute", "full")),
    "interleaved": (4, ("--pp", "2", "--dp", "2", "--schedule", "interleaved:2", "--zero", "1")),
    "zero-bubble": (2, ("--pp", "2", "--schedule", "zero-bubble")),
    "dualpipe": (4, ("--pp", "4", "--schedule", "dualpipe")),
    "zero 3": (4, ("--dp", "4", "--zero", "3")),
    "zero 2": (4, ("--dp", "2", "--tp", "2", "--zero", "2", "--sequence-parallel")),
    "contexts": (4, ("--cp", "2", "--dp", "2")),
}


@pytest.mark.parametrize(("number", "flags"), TRAINING.values(), ids=TRAINING)
def test_ranks_run_the_iteration(capsys, tmp_path, number, flags):
    flags = (*LLAMA, "--global-batch", "8", "--seq", "2048", *flags)
    record = json.loads(printed(capsys, "train", *flags, "--json"))
    ranks, groups = exported(capsys, tmp_path / "t", "train", *flags)
    assert len(ranks) == number
    for rank in ranks:
        assert all(dep < node.id for node in rank.nodes for dep in node.data_deps)
    # matrix FLOP of all ranks: HFU is their time at peak over the iteration's, both passes and recomputation
    metrics = record["metrics"]
    peak = 989.4e12  # FLOP/s: NVIDIA H100 datasheet, bf16 dense
    matrix = metrics["hfu"] * metrics["iteration_time"] * peak * number
    assert sum(rank.total("matrix_ops") for rank in ranks) == pytest.approx(matrix, rel=1e-3)
    time = run(ranks, groups)
    # Answers are of the fullest stage everywhere, DualPipe's in a closed form, and slower where messages run beside
    # kernels; the graph of interleaved chunks waits for every message.
    slack = 0.2 if {"dualpipe", "--zero", "interleaved:2"} & {*flags} else 0.06
    assert time == pytest.approx(1e6 * metrics["iteration_time"], rel=slack)


def test_messages_of_tensor_parallel_training_by_hand(capsys, tmp_path):
    """Llama-3.1-8B, 2 sequences of 1,024 tokens: 2 all-reduces per layer and pass, embedding, loss; 4096 wide, bf16."""
    flags = (*LLAMA, "--global-batch", "2", "--seq", "1024", "--tp", "2")
    ranks, groups = exported(capsys, tmp_path / "t", "train", *flags)
    assert groups == {"1": [0, 1]}
    names = collections.Counter(
        node.name for node, kind in zip(ranks[0].nodes, ranks[0].types, strict=True) if kind == "COMM_COLL_NODE"
    )
    assert names["attention_all_reduce"] == names["feedforward_all_reduce_backward"] == 2 * 32
    layer = [
        about["comm_size"]
        for about, node in zip(ranks[0].attributes, ranks[0].nodes, strict=True)
        if node.name == "attention_all_reduce"
    ]
    assert set(layer) == {1024 * 4096 * 2}


def test_groups_are_numbered_in_the_order_that_ranks_meet_them(capsys, tmp_path):
    """So that one command writes the same files every time."""
    flags = (*MIXTRAL, "--global-batch", "8", "--seq", "2048", "--tp", "2", "--dp", "4", "--ep", "4", "--pp", "2")
    ranks, groups = exported(capsys, tmp_path / "t", "train", *flags)
    met = dict.fromkeys(each["pg_name"] for rank in ranks for each in rank.attributes if "pg_name" in each)
    assert list(met) == list(groups) == [str(number + 1) for number in range(len(groups))]
    assert len(groups) > 12


def test_refusals_are_one_line_and_leave_nothing(capsys, tmp_path):
    out = ("-o", tmp_path / "t")
    training = (*LLAMA, "--global-batch", "16", "--seq", "2048")
    for words, message in (
        ((*LLAMA, *out), "a step needs --prefill TOKENS"),
        ((*LLAMA, "--isl", "512"), "-o is missing"),
        (("train", *LLAMA, "--seq", "8", *out), "--global-batch is missing"),
        (("--tp", "2", "train", *training, *out), "train stands before its flags: --tp is before it"),
        (
            ("--attention-dp", "2", "train", *training, *out),
            "train stands before its flags: --attention-dp is before it",
        ),
        (("tran", *training, *out), "tran"),
        (
            ("train", *training, "--offloat", "1", *out),
            "--offloat is not an argument here; did you mean --offload or --lora?",
        ),
        ((*LLAMA, "--decod", "8", *out), "--decod is not an argument here; did you mean --decode"),
        (("train", *training, "--pp", "64", *out), "pp = 64 exceeds the 32 layers"),
        (("train", *LLAMA, "--global-batch", "65536", "--seq", "64", *out), "nodes of 1 ranks are too many"),
        ((*LLAMA, "--isl", "512", "-o", tmp_path / "no" / "such"), "cannot be written"),
    ):
        assert message in refused(capsys, "export", "chakra", *words), words
    assert not list(tmp_path.iterdir())


def test_traces_are_written_again_and_beside_nothing_else(capsys, tmp_path):
    flags = (*LLAMA, "--isl", "64", "-o", tmp_path / "t")
    printed(capsys, "export", "chakra", *flags, "--tp", "2")
    printed(capsys, "export", "chakra", *flags, "--tp", "2")
    assert "rank.1.et in it, which is no rank of this trace" in refused(capsys, "export", "chakra", *flags)
    (tmp_path / "t" / "rank.0.et").write_bytes(b"precious")
    assert "jaxroof did not write it" in refused(capsys, "export", "chakra", *flags, "--tp", "2")
    assert (tmp_path / "t" / "rank.0.et").read_bytes() == b"precious"
