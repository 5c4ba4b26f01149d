"""`jaxroof export`: what its files hold, what they add up to, and refusals."""

import json

import pytest

from sweeps.cli import main

LLAMA = ("--hardware", "H100-SXM", "--model", "Llama-3.1-8B")
PROMPTS = (*LLAMA, "--batch", "4", "--isl", "1024", "--tp", "2")


def printed(capsys, *words):
    status = main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert status == 0, err
    return out


def refused(capsys, *words):
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("jaxroof export: ")
    return err


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
    "halves": ("--prefill", "4096", "--tp", "2", "--overlap", "two_batch"),
    "stages": ("--prefill", "4096", "--pp", "2"),
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
        assert event["ts"] == pytest.approx(end, abs=1e-6) and event["dur"] >= 0.0  # us: both are whole ns
        end = event["ts"] + event["dur"]
    assert end == pytest.approx(1e6 * step["metrics"]["step_time"], abs=1e-3)
    slowdown = step["metrics"].get("slowdown", 1.0)
    hidden = -slowdown * sum(op["time_s"] for op in step["ops"] if op["name"] == "hidden")
    assert about["hidden by overlap (us)"] == pytest.approx(1e6 * hidden, abs=1e-3)
    gone = sum(event["args"].get("hidden (us)", 0.0) for event in found)
    assert gone == pytest.approx(1e6 * hidden, abs=1e-3 * len(found))  # each is rounded to the ns
    assert (hidden > 0.0) == ("--overlap" in flags) and (slowdown > 1.01 or "--set" not in flags)


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
    assert "--output" in refused(capsys, "export", "perfetto", *PROMPTS)
    assert "invalid choice: 'chart'" in refused(capsys, "export", "chart")
    assert not list(tmp_path.iterdir())
