"""Readers of files that describe a workload rather than list requests: ServeGen and inference-perf."""

import functools

import numpy as np
import pytest

from tests.stream_checks import lawful
from tests.trace_files import columns, refused, written
from workloads.streams.stream import kept
from workloads.streams.tree import paths
from workloads.traces import read_trace

SERVEGEN = "0,2.0,1.5,Gamma,0.4444,1.125\n600,0,0,,0,0\n1200,0.5,2.0,Weibull,0.5,1.0\n"
HISTOGRAMS = {
    "0": {"input_tokens": "{10: 0.5, 20: 0.5}", "output_tokens": "{0: 0.25, 7: 0.75}"},
    "1200": {"input_tokens": "{99: 1.0}", "output_tokens": "{3: 1.0}"},
}
PERF = (
    "load:\n  type: constant\n  interval: 5\n  stages:\n  - rate: 2\n    duration: 3\n  - rate: 1\n    duration: 2\n"
    "server:\n  type: vllm\ndata:\n  type: shared_prefix\n  shared_prefix:\n    num_unique_system_prompts: 2\n"
    "    num_users_per_system_prompt: 2\n    system_prompt_len: 100\n    question_len: 50\n    output_len: 5\n"
    "    enable_multi_turn_chat: false\n"
)


@pytest.fixture
def write(tmp_path):
    """Writes a file and gives its path."""
    return functools.partial(written, tmp_path)


def test_servegen_draws_what_its_windows_say(write, tmp_path):
    path = write("chunk-4-trace.csv", SERVEGEN)
    write("chunk-4-dataset.json", HISTOGRAMS)
    found, same, other = (read_trace(path, seed=seed) for seed in (1, 1, 2))
    assert columns(found) == columns(same) != columns(other)
    counts = np.histogram(found.arrival, [0, 600, 1200, 1800])[0]
    assert counts.tolist() == [1200, 0, 300]  # rate times 600 s, exactly: they are whole
    assert set(found.isl[:1200]) == {10, 20} and set(found.isl[1200:]) == {99}
    assert set(found.osl[:1200]) == {1, 7} and (found.osl[:1200] == 7).mean() == pytest.approx(0.75, abs=0.05)
    assert "lengths of 0 tokens count as 1" in found.notes[1]
    part = read_trace(str(tmp_path), span=(1200.0, 1500.0))
    assert len(part) == 150 and part.arrival[-1] < 300 and set(part.isl) == {99}


def test_servegen_without_histograms_says_how_many_it_leaves_out(write):
    write("chunk-4-dataset.json", {"1200": HISTOGRAMS["1200"], "0": {"input_tokens": "{}", "output_tokens": "{}"}})
    found = read_trace(write("chunk-4-trace.csv", SERVEGEN))
    assert len(found) == 300 and "about 1200 requests left out" in found.notes[1]


@pytest.mark.parametrize(
    ("trace", "dataset", "said"),
    [
        (SERVEGEN.replace("Gamma", "Gama"), HISTOGRAMS, "row 1: pattern is 'Gama'; did you mean Gamma"),
        (SERVEGEN.replace("0.5,2.0", "-0.5,2.0"), HISTOGRAMS, "row 3: rate is -0.5"),
        (SERVEGEN.replace("600,0,0", "0,0,0"), HISTOGRAMS, "row 2: start is 0; it must be above the row before it"),
        (SERVEGEN + "1800,1\n", HISTOGRAMS, "row 4: it has 2 values; there are 6 columns"),
        (SERVEGEN, {"0": {**HISTOGRAMS["0"], "output_tokens": "{7: 0.5}"}}, "0: output_tokens: shares sum to 0.5"),
        (SERVEGEN, {"0": {**HISTOGRAMS["0"], "output_tokens": "{__import__('os')}"}}, "it must be TOKENS: SHARE"),
        (SERVEGEN, {"x": HISTOGRAMS["0"]}, "'x' is not a time"),
    ],
)
def test_wrong_servegen_data_are_one_line(write, trace, dataset, said):
    write("chunk-4-dataset.json", dataset)
    assert said in refused(read_trace, write("chunk-4-trace.csv", trace))


def test_inference_perf_goes_through_its_prompts_in_turn(write):
    found = read_trace(write("c.yaml", PERF), seed=3)
    assert found.arrival[5] == pytest.approx(3.0) and found.arrival[7] == pytest.approx(10.0)  # stages fill their time
    assert found.arrival[6] > 8.0 and len(found) == 8  # 3 s, 5 s of pause, 2 s
    assert set(found.isl) == {150.0} and set(found.osl) == {5.0}
    # Two system prompts of 100 tokens, and two prompts behind each.
    roots = paths(found.group, found.parent, found.base)[0][:, 0]
    assert len(set(roots)) == 2 and len(set(found.group)) == 4 and set(found.base[found.parent >= 0]) == {100.0}
    assert found.group[:4].tolist() == found.group[4:].tolist()
    firsts = [np.argmax(roots == g) for g in set(roots)]
    assert [found.shared[i] for i in range(4)] == [0.0 if i in firsts else 100.0 for i in range(4)]
    assert found.shared[4:].tolist() == [150.0] * 4  # every prompt a second time
    assert kept(lawful(found))[:4].tolist() == [150.0] * 4
    turns = read_trace(write("d.yaml", PERF.replace("chat: false", "chat: true")))
    assert turns.isl[4:].tolist() == [205.0] * 4 and turns.shared[4:].tolist() == [155.0] * 4
    assert kept(lawful(turns))[:4].tolist() == [154.0] * 4  # all but the last token of an answer


def test_inference_perf_with_random_lengths_and_in_blis_form(write):
    lengths = "{min: 10, max: 20, mean: 15, std: 100}"
    config = "load: {type: poisson, stages: [{rate: 100, duration: 10}]}\n"
    config += f"data:\n  type: random\n  input_distribution: {lengths}\n  output_distribution: {lengths}\n"
    found = read_trace(write("r.yml", config))
    assert len(found) == 1000 and found.isl.min() == 10 and found.isl.max() == 20 and found.arrival[-1] < 10
    shared = PERF.partition("  shared_prefix:\n")[2].replace("    ", "  ")
    short = read_trace(write("s.yaml", f"stages: [{{rate: 2, duration: 3}}]\nshared_prefix:\n{shared}"))
    assert len(short) == 6 and set(short.isl) == {150.0}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("type: constant", "type: concurrent"), "its arrivals depend on the server"),
        (("type: constant", "type: poison"), "load: type is 'poison'; did you mean poisson"),
        (("rate: 2", "rate: -2"), "stages[0]: rate is -2; it must be a number of at least 0"),
        (("question_len: 50", "question_len: 5.5"), "question_len is 5.5; it must be a whole number"),
        (("question_len: 50", "multimodal: {}"), "multimodal is not known here"),
        (("question_len: 50", "output_len: 50"), "output_len is there twice"),
        (("question_len: 50", "question_len: *x"), "found undefined alias"),
        (("question_len: 50", "question_len: !!python/name:os.system"), "not YAML: could not determine a constructor"),
        (("question_len: 50", "question_len: [1"), "not YAML"),
        (("rate: 2", "rate: 0.1"), ""),
    ],
)
def test_wrong_configs_are_one_line(write, change, said):
    path = write("c.yaml", PERF.replace(*change))
    if said:
        assert said in refused(read_trace, path)
    else:
        assert len(read_trace(path)) == 2  # the first stage has none


def test_yaml_without_its_package_says_how_to_get_it(write, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "yaml", None)
    assert "pip install 'pyyaml" in refused(read_trace, write("c.yaml", PERF))
