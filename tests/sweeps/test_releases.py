"""Releases of engines: rules up to a version, hosts beside the device, longer steps, and what verbs read of them."""

import dataclasses

import pytest

import hwspaces
import workloads
from hwspaces.engines.engine import entry
from hwspaces.engines.keys import numbers
from jaxroof.memory.capacity import kv_capacity_bytes, weight_bytes
from sweeps.ask.cases import case
from sweeps.ask.engines import chosen, policy
from sweeps.run.simulated.spec import serve_spec

PLACE = {"workload": {"batch": 1, "isl": 128, "osl": 2}}


def test_numbers_of_versions():
    assert numbers("0.5.6.post1") == [0, 5, 6] and numbers("1.0.0rc3") == [1, 0, 0] and numbers("") == []


@pytest.mark.parametrize(
    ("words", "hidden", "memory"),
    [("vllm@0.9", 0.0, 0.9), ("vllm@0.13.0", 0.0, 0.9), ("vllm@0.14", 1.0, 0.9), ("vllm@0.18.1", 1.0, 0.9)]
    + [("vllm@0.19", 1.0, 0.92), ("vllm@0.30", 1.0, 0.92), ("vllm", 1.0, 0.92)]
    + [("trtllm@1.0", 1.0, 0.9)],
)
def test_a_release_has_the_rules_of_all_before_it(words, hidden, memory):
    found = hwspaces.engine(words)
    assert policy(words).hidden_host == hidden and found.deployment["memory_utilization"] == memory


def test_the_newest_release_with_evidence_is_the_default_and_says_so():
    assert hwspaces.engine("vllm").text == "vllm 0.24 (newest with evidence)"
    assert hwspaces.engine("vllm@0.11").text == "vllm 0.11"
    found = case("request", "H100-SXM", "Llama-3.1-8B", **PLACE)
    assert found.engine.words == "vllm@0.24" and float(found.scenario.deployment.memory_utilization) == 0.92


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("MI300X", "0.5.4", 5e-3),
        ("MI300X", "0.5.9", 10.9e-3),
        ("MI300X", "0.5.12", 0.0),
        ("MI325X", "0.5.4", 5e-3),
        ("MI355X", "0.5.4", 5e-3),
        ("MI355X", "0.5.6.post1", 0.0),
        ("H100-SXM", "0.5.9", 0.0),
    ],
)
def test_steps_of_older_releases(name, version, expected):
    device = hwspaces.hardware(name)
    assert hwspaces.engine(f"sglang@{version}").longer_step(device.vendor, device.hardware.matrix) == expected
    assert hwspaces.engine("vllm@0.9").longer_step(device.vendor, device.hardware.matrix) == 0.0


def test_a_release_takes_longer_steps():
    """SGLang 0.5.9 on MI300X: 10.9 ms more; the same on H100, and other releases, are as they are."""
    asked = {"model": "Llama-3.1-8B", "efficiency": "learned-sglang"}
    times = {
        (name, engine): float(
            serve_spec(hardware=name, engine=engine, **asked).case().scenario.efficiency.host.step_time
        )
        for name in ("MI300X", "H100-SXM")
        for engine in ("sglang", "sglang@0.5.9", "sglang@0.5.12")
    }
    usual = times["H100-SXM", "sglang"]
    assert times.pop(("MI300X", "sglang@0.5.9")) == pytest.approx(usual + 10.9e-3)
    assert set(times.values()) == {usual}


def test_drafts_take_longer_steps_on_hopper_alone():
    """SGLang launches the kernels of drafting one by one there: 8 ms; steps without drafts are as they were."""
    engine = hwspaces.engine("sglang")
    devices = [hwspaces.hardware(name) for name in ("H200-SXM", "B200-SXM", "MI355X")]
    with_drafts, without = (
        [engine.longer_step(device.vendor, device.hardware.matrix, frozenset(modes)) for device in devices]
        for modes in (["drafting"], [])
    )
    assert with_drafts == [8e-3, 0.0, 0.0] and without == [0.0] * 3
    asked = {"model": "DeepSeek-R1", "hardware": "H200-SXM", "engine": "sglang"}
    plain, drafting = (
        serve_spec(**asked, deployment={"tp": 8} | more).case().scenario.efficiency.host.step_time
        for more in ({}, {"drafts": 2})
    )
    assert drafting - plain == pytest.approx(8e-3)


def test_modes_take_longer_steps_on_amd():
    """MI355X: 5.5 ms with data-parallel attention, 2 ms with drafts before 0.5.12; summed."""
    device = hwspaces.hardware("MI355X")
    modes = ["experts"], ["experts", "groups"], ["drafting", "groups"]
    newest, older = (
        [hwspaces.engine(name).longer_step(device.vendor, device.hardware.matrix, frozenset(one)) for one in modes]
        for name in ("sglang", "sglang@0.5.9")
    )
    assert newest == pytest.approx([0.0, 5.5e-3, 5.5e-3]) and older == pytest.approx([0.0, 5.5e-3, 7.5e-3])
    asked = {"model": "DeepSeek-R1", "hardware": "MI355X", "engine": "sglang"}
    plain, whole, spread = (
        serve_spec(**asked, deployment=degrees).case().scenario.efficiency.host.step_time
        for degrees in ({"tp": 8}, {"tp": 8, "ep": 8}, {"tp": 1, "attention_dp": 8, "ep": 8})
    )
    assert whole == plain and spread - plain == pytest.approx(5.5e-3)


def test_pools_hand_every_request_over():
    """100 ms of TensorRT-LLM and SGLang in both pools' front ends; nothing without a pool for prompts."""
    for engine, seconds in (("trtllm", 0.1), ("sglang", 0.1)):
        asked = {"model": "Llama-3.1-8B", "hardware": "H100-SXM", "engine": engine}
        alone = serve_spec(**asked).case().scenario.efficiency.host.request_time
        pooled = serve_spec(**asked, prefill={"dp": 2}).case().scenario
        for part in (pooled, pooled.prefill):
            assert part.efficiency.host.request_time - alone == pytest.approx(seconds)


def test_an_engine_brings_its_constants():
    assert chosen("trtllm", None).constants.name == "learned-trtllm"
    assert chosen(None, "learned-sglang").engine.name == "sglang"
    assert chosen("trtllm", "derated").constants.name == "derated"


def test_the_front_end_is_in_the_engines_own_constants_alone():
    """9.23 ms of the host; 10 ms more of SGLang."""

    def seconds(model, **words):
        return case("request", "H200-SXM", model, deployment={"tp": 8}, **PLACE, **words)

    def host(*args, **words):
        return float(seconds(*args, **words).scenario.efficiency.host.request_time)

    assert host("Llama-3.1-8B", efficiency="learned") == pytest.approx(9.23e-3)
    assert host("gpt-oss-120b", efficiency="learned") == pytest.approx(9.23e-3)
    assert host("Llama-3.1-8B", engine="sglang") == pytest.approx(19.23e-3)
    assert host("Llama-3.1-8B", engine="sglang", efficiency="datasheet") == 0.0


def test_memory_that_is_free():
    """TensorRT-LLM takes 0.9 of what all else leaves; 0.9 of all memory, less all else, is less."""
    hardware, model = hwspaces.hardware("H200-SXM").hardware, workloads.model("DeepSeek-R1").model
    found = case("request", "H200-SXM", "DeepSeek-R1", deployment={"tp": 8}, engine="trtllm", **PLACE)
    deployment = found.scenario.deployment
    assert (deployment.memory_of_free, deployment.memory_utilization) == (1.0, 0.9)
    of_all = dataclasses.replace(deployment, memory_of_free=0.0)
    room, less = (float(kv_capacity_bytes(hardware, model, each)) for each in (deployment, of_all))
    # the weights take 85 GB of each device, of which nine tenths count in place of all
    assert room - less == pytest.approx(0.1 * float(weight_bytes(model, deployment)), rel=0.1)


def test_precisions_that_an_engine_chooses():
    def deployment(model, hardware="H200-SXM", **words):
        degrees = {"attention_dp": 8, "ep": 8} if model.startswith("DeepSeek") else {}
        return case("request", hardware, model, deployment=degrees, **PLACE, **words).scenario.deployment

    assert deployment("DeepSeek-V3").dispatch_bytes == pytest.approx(1.0 + 4.0 / 128.0)
    assert deployment("DeepSeek-V3", weights="bf16", hardware="B300-SXM").dispatch_bytes == 2.0
    assert deployment("DeepSeek-V3", engine="trtllm").kv_bytes == 1.0  # beside weights of 8 bits
    assert deployment("DeepSeek-V3").kv_bytes == 2.0
    assert deployment("Llama-3.1-8B", engine="trtllm").kv_bytes == 2.0
    assert deployment("DeepSeek-V3", engine="trtllm", kv="bf16").kv_bytes == 2.0


def test_attention_is_multiplied_as_its_cache_is_stored_where_the_engine_does_so():
    """vLLM and SGLang beside weights of 8 bits; TensorRT-LLM's latent attention on Hopper converts the cache."""

    def found(engine, kv, model="DeepSeek-V3"):
        return case("request", "H200-SXM", model, deployment={"tp": 8}, engine=engine, kv=kv, **PLACE)

    assert found("vllm", "fp8").scenario.deployment.attention_compute == "fp8"
    assert "attention is multiplied in fp8, as its cache is stored" in found("sglang", "fp8").notes
    plain = (("vllm", "bf16", "DeepSeek-V3"), ("trtllm", "fp8", "DeepSeek-V3"), ("vllm", "fp8", "Llama-3.1-8B"))
    assert {found(*words).scenario.deployment.attention_compute for words in plain} == {"bf16"}
    assert any(note.endswith("--attention fp8 multiplies it as it is") for note in found("trtllm", None).notes)


def test_an_engine_of_one_vendor_is_refused_elsewhere():
    with pytest.raises(ValueError, match="MI300X: TensorRT-LLM runs on devices of NVIDIA alone"):
        case("request", "MI300X", "Llama-3.1-8B", engine="trtllm", **PLACE)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("vllm@", "'' is no version; give one such as vllm@0.24"),
        ("vllm@new", "'new' is no version"),
        ("x@1", "engine = 'x@1' is not known; known: vllm, sglang, trtllm"),
    ],
)
def test_names_that_are_no_engine(words, said):
    with pytest.raises(ValueError, match=said):
        hwspaces.engine(words)


RULE = {"rule": "chunks", "fields": ["chunked"], "engine": "it splits prompts", "source": "scheduler.py, v1"}
PLAIN = {"title": "X", "newest": "1", "evidence": "none", "efficiency": "derated"}


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"memory": {}}, "there is no key memory"),
        ({"launch": {"version": "1"}}, "launch: source is missing"),
        ({"launch": {"images": {"AMD": 1}}}, "launch.images = {'AMD': 1} must be a table of texts"),
        ({"launch": {"command": "vllm serve"}}, "launch.command = 'vllm serve' must be a list of texts"),
        ({"launch": {"imagess": {}}}, "launch: there is no key imagess; did you mean images"),
        ({"policy": {"token_budgets": 1}}, "there is no policy.token_budgets"),
        ({"policy": {"chunked": 2}}, "policy.chunked = 2 must be 0 or 1"),
        ({"policy": {"chunked": 1}}, "policy.chunked has no source"),
        ({"rules": [RULE]}, "read is missing"),
        ({"rules": [RULE | {"fields": ["chunks"]}]}, "rules.0.fields: there is no policy.chunks; did you mean chunked"),
        ({"rules": [RULE | {"fields": "chunked"}]}, "rules.0.fields = 'chunked' must be a list of texts"),
        ({"rules": [RULE | {"engine": 1}]}, "rules.0.engine = 1 must be a text"),
        ({"rules": [RULE | {"value": "1"}]}, "rules.0: there is no key value"),
        ({"rules": [{"rule": "order", "fields": []}]}, "rules.0: engine is missing"),
        ({"rules": ["order"]}, "rules.0 = 'order' must be a table"),
        ({"collectives": {"kernels": ["three_shot"]}}, "'three_shot' must be one_shot or two_shot"),
        ({"collectives": {"kernels": [], "largest": "8 MiB"}}, "collectives.source is missing"),
        ({"collectives": {"source": "ours"}}, "collectives.largest is missing"),
        ({"runs": [{"vendor": "AMD", "devices": "MI300X"}]}, "runs.devices = 'MI300X' must be a list of names"),
        ({"runs": [{"gpus": []}]}, "runs: there is no key gpus"),
        ({"deployment": {"memory_utilization": 1.5}}, "deployment.memory_utilization = 1.5 must be"),
        ({"precisions": {"attention": "fp8"}}, "precisions.attention = 'fp8' must be cache or weights"),
        ({"host": {"time": "1 s"}}, "host: there is no key time"),
        ({"releases": {"1.0": {"source": "a"}}}, "releases.1.0.date = None must be a date"),
        ({"slower": [{"vendor": "AMD"}]}, "slower: with is missing"),
    ],
)
def test_a_wrong_file_is_one_line(tables, said):
    with pytest.raises(ValueError, match=said):
        entry("x", PLAIN | tables, "1")
