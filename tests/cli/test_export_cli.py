"""`jaxroof export`: what its files hold, what they add up to, and refusals."""

import itertools
import json
import re

import pytest

from tests.commands import printed, refused
from workloads.nests import timeloop_problem

LLAMA = ("--hardware", "H100-SXM", "--model", "Llama-3.1-8B")
PROMPTS = (*LLAMA, "--batch", "4", "--isl", "1024", "--tp", "2")


def spans(path):
    """Spans of a trace in order, and the names of their tracks by thread."""
    events = json.loads(path.read_text())["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    return [event for event in events if event["ph"] == "X"], tracks


STEPS = {
    "prompts": ("--prefills", "4", "--prefill", "1024", "--tp", "2"),
    "decode": ("--decode", "64", "--context", "2048"),
    "mixed, products hide messages": ("--prefill", "512", "--decode", "8", "--context", "900", "--tp", "4")
    + ("--overlap", "gemm"),
    "halves": ("--prefills", "2", "--prefill", "2048", "--tp", "2", "--overlap", "two_batch"),
    "stages": ("--prefill", "4096", "--pp", "2"),
    "copies of a cache": ("--decode", "64", "--context", "2048", "--offloaded", "0.5")
    + ("--set", "hardware.memory.host.bandwidth=50GB/s", "--set", "hardware.memory.host.capacity=1TB"),
    "slowed by power": ("--prefill", "16384", "--set", "hardware.power.tdp=450W"),
}


@pytest.mark.parametrize("flags", STEPS.values(), ids=STEPS)
def test_spans_follow_each_other_and_add_up_to_the_step(capsys, tmp_path, flags):
    step = json.loads(printed(capsys, "step", *LLAMA, *flags, "--json"))
    printed(capsys, "export", "perfetto", *LLAMA, *flags, "-o", tmp_path / "t.json")
    found, tracks = spans(tmp_path / "t.json")
    about = json.loads((tmp_path / "t.json").read_text())["otherData"]
    assert set(tracks.values()) == {"kernels", "collectives and copies", "host"}
    end = 0.0
    for event in found:
        assert event["ts"] == end and event["dur"] >= 0.0  # to the bit: readers nest or drop spans that overlap
        end = event["ts"] + event["dur"]
    assert end == pytest.approx(1e6 * step["metrics"]["step_time"], abs=1e-3)
    slowdown = step["metrics"].get("slowdown", 1.0)
    hidden = -slowdown * sum(op["time_s"] for op in step["ops"] if op["name"] == "hidden")
    assert about["hidden by overlap (us)"] == pytest.approx(1e6 * hidden, abs=1e-3)
    gone = sum(event["args"].get("hidden (us)", 0.0) for event in found)
    assert gone == pytest.approx(1e6 * hidden, abs=1e-3 * len(found))  # each is rounded to the ns
    assert (hidden > 0.0) == bool({"--overlap", "--offloaded"} & {*flags})
    assert slowdown > 1.01 or "hardware.power.tdp=450W" not in flags
    copies = {tracks[event["tid"]] for event in found if event["name"] == "cache_copy"}
    assert copies == ({"collectives and copies"} if "--offloaded" in flags else set())


def test_ops_are_those_of_the_step_with_their_work_on_their_tracks(capsys, tmp_path):
    step = json.loads(printed(capsys, "step", *LLAMA, *STEPS["prompts"], "--json"))
    said = printed(capsys, "export", "perfetto", *PROMPTS, "-o", tmp_path / "t.json")
    assert said.startswith(f"{tmp_path}/t.json: ") and "prefill of 4 x 1,024 tokens" in said
    found, tracks = spans(tmp_path / "t.json")
    names = [event["name"] for event in found]
    assert names[:3] == ["embedding", "embedding_all_reduce", "attention_norm"] and names[-1] == "host"
    assert names.index("feedforward_all_reduce") < names.index("attention_norm", 3) < names.index("final_norm")
    for op in step["ops"]:
        runs = [event for event in found if event["name"] == op["name"]]
        assert len(runs) == op["count"] and {event["args"]["bound by"] for event in runs} == {op["bound"]}
        assert sum(event["dur"] for event in runs) == pytest.approx(1e6 * op["time_s"], abs=1e-3 * len(runs))
        track = tracks[runs[0]["tid"]]
        if op["name"] == "host":
            assert track == "host"
        elif "all_reduce" in op["name"] or "all_gather" in op["name"]:
            assert track == "collectives and copies" and runs[0]["args"]["algorithm"] == op["algorithm"]
            sent = sum(event["args"]["message bytes"] for event in runs)
            assert sent == pytest.approx(op["message_bytes_per_device"])
        else:
            assert track == "kernels"
            for field, word in (("flops", "FLOP"), ("bytes", "bytes")):
                assert sum(event["args"][word] for event in runs) == pytest.approx(op[f"{field}_per_device"])


def test_refusals_of_a_timeline_are_one_line_and_leave_nothing(capsys, tmp_path):
    out = ("-o", tmp_path / "t.json")
    for words, message in (
        ((*LLAMA, *out), "a step needs --prefill TOKENS"),
        ((*PROMPTS, "--prefill", "7", *out), "--isl and --prefill are one number: give one of them"),
        ((*PROMPTS, "--prefills", "7", *out), "--batch and --prefills are one number: give one of them"),
        ((*LLAMA, "--isl", "many", *out), "--isl = 'many'"),
        ((*LLAMA, "--isl", "8", "-o", tmp_path / "t.txt"), "must end in .json"),
        (("--hardware", "H1000", *LLAMA[2:], "--isl", "8", *out), "H1000"),
    ):
        assert message in refused(capsys, "export", "perfetto", *words)
    assert "-o is missing" in refused(capsys, "export", "perfetto", *PROMPTS)
    assert "-o is missing" in refused(capsys, "export", "timeloop", *PROMPTS, "-o", "")
    assert "invalid choice: 'chart'" in refused(capsys, "export", "chart")
    assert not list(tmp_path.iterdir())


SCHEDULES = {
    "1f1b": ("--pp", "4", "--tp", "2", "--dp", "2", "--zero", "1"),
    "gpipe": ("--pp", "4", "--schedule", "gpipe"),
    "zero-bubble": ("--pp", "4", "--schedule", "zero-bubble"),
    "interleaved": ("--pp", "4", "--schedule", "interleaved:2", "--tp", "2"),
    "dualpipe": ("--pp", "4", "--schedule", "dualpipe"),
    "one stage": ("--dp", "4", "--zero", "3", "--recompute", "full"),
    "states in host memory": ("--dp", "2", "--offload", "optimizer") + ("--host-bandwidth", "55GB/s"),
}


@pytest.mark.parametrize("flags", SCHEDULES.values(), ids=SCHEDULES)
def test_every_device_is_busy_or_idle_for_the_iteration(capsys, tmp_path, flags):
    flags = (*LLAMA, "--global-batch", "16", "--seq", "4096", *flags)
    metrics = json.loads(printed(capsys, "train", *flags, "--json"))["metrics"]
    printed(capsys, "export", "perfetto", "train", *flags, "-o", tmp_path / "t.json")
    written = json.loads((tmp_path / "t.json").read_text())
    events, about = written["traceEvents"], written["otherData"]
    devices = {event["pid"] for event in events}
    assert devices == set(range(1, (4 if "--pp" in flags else 1) + 1))
    slowdown, number = metrics.get("slowdown", 1.0), metrics["micro_batches"]
    chunks = 2 if "interleaved:2" in flags else 1
    for device in devices:
        own = [event for event in events if event["pid"] == device and event["ph"] == "X" and event["tid"] == 1]
        end = 0.0
        for event in own:
            assert event["ts"] == end and event["dur"] >= 0.0
            end = event["ts"] + event["dur"]
        assert end == pytest.approx(1e6 * metrics["iteration_time"], abs=0.01)
        idle = sum(event["dur"] for event in own if event["name"] == "idle")
        stretch = about["schedule stretched by"]
        if stretch == 1.0:
            assert idle == pytest.approx(1e6 * slowdown * metrics["bubble_time"], abs=0.1)
        assert stretch == pytest.approx(1.0, abs=0.05) and (idle > 0.0) == ("--pp" in flags)
        forward = [event["dur"] for event in own if event["name"].startswith("forward")]
        assert len(forward) == number * chunks
        each = 1e6 * slowdown * stretch * metrics["micro_batch_forward_time"] / chunks
        assert forward == pytest.approx([each] * len(forward), rel=1e-5)
        beside = [event for event in events if event["pid"] == device and event["ph"] == "X" and event["tid"] == 2]
        hidden = sum(metrics[f"{kind}_hidden"] for kind in ("tp", "pp", "dp", "ep", "cp"))
        assert sum(event["dur"] for event in beside) == pytest.approx(1e6 * slowdown * hidden, abs=0.1)
        for before, after in itertools.pairwise(beside):  # Perfetto drops spans that cross each other
            assert after["ts"] >= before["ts"] + before["dur"]


def test_arrows_lead_from_a_stage_to_the_next_one(capsys, tmp_path):
    """2 stages, 4 micro-batches: each goes there and back once; an arrow's ends are inside of one pass each."""
    flags = (*LLAMA, "--global-batch", "4", "--seq", "2048", "--pp", "2", "-o", tmp_path / "t.json")
    printed(capsys, "export", "perfetto", "train", *flags)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    starts, ends = ({event["id"]: event for event in events if event["ph"] == ph} for ph in "sf")
    assert len(starts) == 2 * 4 and starts.keys() == ends.keys()

    def inside(arrow):
        (found,) = [
            event["name"]
            for event in events
            if event["ph"] == "X" and (event["pid"], event["tid"]) == (arrow["pid"], arrow["tid"])
            if event["ts"] < arrow["ts"] < event["ts"] + event["dur"]
        ]
        return found, arrow["pid"]

    for number, start in starts.items():
        (source, first), (target, second) = inside(start), inside(ends[number])
        assert source == target and start["ts"] < ends[number]["ts"] and ends[number]["bp"] == "e"
        assert (first, second) == ((1, 2) if source.startswith("forward") else (2, 1))


def test_refusals_of_an_iteration_are_one_line(capsys, tmp_path):
    training, out = (*LLAMA, "--global-batch", "16", "--seq", "2048"), ("-o", tmp_path / "t.json")
    for words, message in (
        ((*LLAMA, "--seq", "64", *out), "--global-batch is missing"),
        ((*training, "--pp", "3", "--schedule", "interleaved:2", *out), "schedule = interleaved does not run"),
        ((*training, "--isl", "3", *out), "--isl"),
        (training, "-o is missing"),
        ((*training, "-o", tmp_path / "t.et"), "must end in .json"),
    ):
        assert message in refused(capsys, "export", "perfetto", "train", *words)
    assert not list(tmp_path.iterdir())


def exported(capsys, folder, *flags):
    """Files of a step's products with the problems that the reader finds in them, and their counts."""
    printed(capsys, "export", "timeloop", *flags, "-o", folder)
    counts = {path: re.search(r"^# count: (\S+) per", path.read_text(), re.M) for path in sorted(folder.iterdir())}
    return {path.stem: (timeloop_problem(str(path)), float(found[1])) for path, found in counts.items()}


def test_products_come_back_as_they_were(capsys, tmp_path):
    """Llama-3.1-8B: width 4096, 32 heads and 8 of keys and values of 128, feed-forward 14336, 32 layers."""
    found = exported(capsys, tmp_path / "p", *PROMPTS)
    rows = 4 * 1024
    assert {name: tuple(problem.sizes.values()) for name, (problem, _) in found.items()} == {
        "qkv_proj": (rows, (32 + 2 * 8) * 128 / 2, 4096),  # M, N, K; half of the outputs on each of 2 devices
        "o_proj": (rows, 4096, 32 * 128 / 2),
        "up_proj": (rows, 2 * 14336 / 2, 4096),
        "down_proj": (rows, 4096, 14336 / 2),
        "head": (4, 128256 / 2, 4096),
    }
    assert {name: count for name, (_, count) in found.items()} == {name: 32 if name != "head" else 1 for name in found}
    for problem, _ in found.values():
        axes = {name: tuple(term for axis in tensor.axes for term in axis) for name, tensor in problem.tensors.items()}
        assert axes == {
            "Inputs": ((1, "M"), (1, "K")),
            "Weights": ((1, "K"), (1, "N")),
            "Outputs": ((1, "M"), (1, "N")),
        }
        assert [name for name, tensor in problem.tensors.items() if tensor.output] == ["Outputs"]


@pytest.mark.parametrize("flags", [PROMPTS, (*LLAMA, *STEPS["halves"]), (*LLAMA, *STEPS["decode"])])
def test_products_have_the_work_of_the_step(capsys, tmp_path, flags):
    """2 FLOP per MAC; the ops of the step that are products have no others."""
    found = exported(capsys, tmp_path / "p", *flags)
    printed(capsys, "export", "perfetto", *flags, "-o", tmp_path / "t.json")
    spans_, _ = spans(tmp_path / "t.json")
    work = sum(event["args"]["FLOP"] for event in spans_ if event["name"] in found)
    assert sum(2.0 * count * problem.macs for problem, count in found.values()) == pytest.approx(work, rel=1e-12)


def test_equal_products_of_several_layers_are_one(capsys, tmp_path):
    """DeepSeek-V3: 3 dense layers and 58 with experts have the same attention."""
    found = exported(capsys, tmp_path / "p", "--hardware", "H200-SXM", "--model", "DeepSeek-V3", "--isl", "512")
    assert found["0_o_proj"][1] == 61 and "1_o_proj" not in found
    assert found["0_down_proj"][1] == 3 and found["1_shared_down_proj"][1] == 58
    assert "# 0.o_proj, 1.o_proj; fp8\n" in (tmp_path / "p" / "0_o_proj.yaml").read_text()


def test_experts_are_products_of_each_matrix_with_rows_rounded(capsys, tmp_path):
    """Qwen3-30B-A3B: 100 tokens, as 100^0.8 on their own, go to 8 of 128 experts each: 118 are met, 6.8 rows each."""
    model = ("--hardware", "H100-SXM", "--model", "Qwen3-30B-A3B", "--isl", "100")
    problem, count = exported(capsys, tmp_path / "p", *model)["expert_up_proj"]
    text = (tmp_path / "p" / "expert_up_proj.yaml").read_text()
    exact = float(re.search(r"^# rounded from \(M, N, K\) = \(([\d.]+), 1536, 2048\)$", text, re.M)[1])
    assert tuple(problem.sizes.values()) == (7.0, 1536.0, 2048.0) and 6.5 < exact < 7.0
    assert exact * count == pytest.approx(48 * 800, rel=1e-8) and count <= 48 * 128


def test_products_are_written_again_and_beside_nothing_else(capsys, tmp_path):
    out = ("-o", tmp_path / "p")
    first = exported(capsys, tmp_path / "p", *PROMPTS)
    assert exported(capsys, tmp_path / "p", *PROMPTS).keys() == first.keys()
    (tmp_path / "p" / "head.yaml").write_text("precious")
    before = {path.name: path.read_bytes() for path in (tmp_path / "p").iterdir()}
    other = (*LLAMA, "--isl", "64")
    assert "jaxroof did not write it" in refused(capsys, "export", "timeloop", *other, *out)
    assert {path.name: path.read_bytes() for path in (tmp_path / "p").iterdir()} == before
    printed(capsys, "export", "timeloop", *other, *out, "--force")
    (tmp_path / "p" / "mine.txt").write_text("precious")
    assert "has mine.txt in it" in refused(capsys, "export", "timeloop", *PROMPTS, *out)
    assert "cannot be written" in refused(capsys, "export", "timeloop", *PROMPTS, "-o", tmp_path / "no" / "such")
    assert [path.name for path in tmp_path.iterdir()] == ["p"]
