"""Launch flags of a row are flags that the engines declare, with the row's numbers; what has none is said."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sweeps.ask.engines import ENGINES
from sweeps.serving.launch import KINDS, launch_text, pools
from sweeps.serving.launch.kubernetes import slug
from sweeps.serving.launch.yaml_text import yaml_text
from tests.launch_rows import DENSE, DRAFTED, EXPERTS, LARGE, ROWS, SPLIT, WHOLE, Parser, commands, declared, fits, row

START = {
    "vllm": ["vllm", "serve"],
    "sglang": ["python3", "-m", "sglang.launch_server"],
    "trtllm": ["trtllm-serve", "serve"],
}
POSITIONAL = {"vllm": ("model",), "sglang": (), "trtllm": ("model",)}
IMPOSSIBLE = {("trtllm", "amd")}


def parsed(kind, words):
    """Values of a command's flags; a flag that the engine does not declare is an error."""
    listed = declared(kind)
    found = Parser(listed["flags"], POSITIONAL[kind]).given(words)
    for flag, schema in listed.get("json", {}).items():
        value = found.get(flag.lstrip("-").replace("-", "_"))
        assert value is None or fits(value, schema)
    return found


def started(kind, record):
    """Values of the flags of every command, and files of settings as plain data."""
    found, files = commands(launch_text(kind, record))
    values = []
    for words in found:
        first = words.index(START[kind][0])
        assert words[first : first + len(START[kind])] == START[kind]
        values.append(parsed(kind, words[first + len(START[kind]) :]))
    settings = {name: yaml.safe_load(text) for name, text in files.items()}
    for content in settings.values():
        assert fits(content, declared("trtllm")["config"])
    return values, settings


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("kind", ENGINES)
def test_flags_are_those_that_the_engine_declares_and_use_the_rows_devices(kind, name):
    if (kind, name) in IMPOSSIBLE:
        with pytest.raises(ValueError, match="TensorRT-LLM runs on NVIDIA GPUs only"):
            launch_text(kind, ROWS[name])
        return
    values, settings = started(kind, ROWS[name])
    made = [pool for pool in pools(ROWS[name]) for _ in range(1 if kind == "trtllm" else pool.hosts)]
    assert len(values) == len(made)
    for found, pool in zip(values, made, strict=True):
        names = {"vllm": "tensor_parallel_size pipeline_parallel_size data_parallel_size max_model_len".split()}
        names["sglang"], names["trtllm"] = (
            "tp_size pp_size - context_length".split(),
            "tp_size pp_size - max_seq_len".split(),
        )
        tp, pp, dp = (found.get(flag, 1) for flag in names[kind][:3])
        assert tp * pp * dp == pool.devices
        assert found[names[kind][3]] == pool.context >= pool.longest == 2548
        assert found["model_path" if kind == "sglang" else "model"] == pool.repository and "/" in pool.repository
        if kind == "trtllm":
            assert found["extra_llm_api_options"] in settings


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("vllm", ["m", "--tp-size", "2"]),
        ("vllm", ["m", "--max-num-seqs", "many"]),
        ("vllm", ["m", "--kv-cache-dtype", "fp7"]),
        ("sglang", ["--model-path", "m", "--max-num-seqs", "2"]),
        ("trtllm", ["m", "--backend", "torch"]),
    ],
)
def test_the_parser_refuses_what_the_engine_does_not_declare(kind, words):
    with pytest.raises(ValueError, match="unrecognized|invalid"):
        parsed(kind, words)


def test_a_dense_model_on_three_engines():
    (vllm,), _ = started("vllm", DENSE)
    assert vllm == {
        **{"model": "meta-llama/Llama-3.3-70B-Instruct", "tensor_parallel_size": 2, "max_model_len": 11264},
        **{"max_num_seqs": 128, "max_num_batched_tokens": 4096, "gpu_memory_utilization": 0.92},
        **{"enable_chunked_prefill": True, "enable_prefix_caching": True},
    }
    (sglang,), _ = started("sglang", DENSE)
    assert sglang == {
        **{"model_path": "meta-llama/Llama-3.3-70B-Instruct", "tp_size": 2, "context_length": 11264},
        **{"max_running_requests": 128, "chunked_prefill_size": 4096, "enable_mixed_chunk": True},
        "mem_fraction_static": 0.865,  # the share that leaves the room that was simulated
    }
    (trtllm,), settings = started("trtllm", DENSE)
    assert trtllm == {
        **{"model": "meta-llama/Llama-3.3-70B-Instruct", "backend": "pytorch", "tp_size": 2, "max_batch_size": 128},
        **{"max_num_tokens": 4096, "max_seq_len": 11264, "extra_llm_api_options": "trtllm.yaml"},
    }
    assert settings["trtllm.yaml"] == {
        **{"enable_attention_dp": False, "enable_chunked_prefill": True},
        "kv_cache_config": {"enable_block_reuse": True, "free_gpu_memory_fraction": 0.92},
        "scheduler_config": {"capacity_scheduler_policy": "MAX_UTILIZATION"},  # vLLM's scheduler reserves nothing
    }


def test_groups_of_attention_data_parallelism_share_the_limits():
    """500 sequences and 16,384 tokens of 8 groups: 62.5, so 63 sequences, and 2,048 tokens of each."""
    (vllm,), _ = started("vllm", EXPERTS)
    assert (vllm["data_parallel_size"], vllm["tensor_parallel_size"]) == (8, 1) and vllm["enable_expert_parallel"]
    assert (vllm["max_num_seqs"], vllm["max_num_batched_tokens"]) == (63, 2048)
    assert vllm["speculative_config"] == {"method": "mtp", "num_speculative_tokens": 2}
    (sglang,), _ = started("sglang", EXPERTS)  # which divides them itself
    assert (sglang["tp_size"], sglang["dp_size"], sglang["ep_size"]) == (8, 8, 8) and sglang["enable_dp_attention"]
    assert (sglang["max_running_requests"], sglang["chunked_prefill_size"]) == (500, 16384)
    assert (sglang["speculative_algorithm"], sglang["speculative_num_steps"]) == ("EAGLE", 2)
    assert sglang["speculative_num_draft_tokens"] == 3 and "enable_mixed_chunk" not in sglang
    (trtllm,), settings = started("trtllm", EXPERTS)
    assert (trtllm["tp_size"], trtllm["ep_size"]) == (8, 8)
    assert (trtllm["max_batch_size"], trtllm["max_num_tokens"]) == (63, 2048)
    assert settings["trtllm.yaml"]["enable_attention_dp"] is True
    assert settings["trtllm.yaml"]["speculative_config"] == {"decoding_type": "MTP", "num_nextn_predict_layers": 2}
    assert settings["trtllm.yaml"]["kv_cache_config"]["dtype"] == "fp8"


def test_every_setting_that_has_a_flag_is_one():
    (vllm,), _ = started("vllm", DRAFTED)
    drafted = {"method": "draft_model", "model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 3}
    assert vllm["speculative_config"] == drafted and vllm["quantization"] == vllm["kv_cache_dtype"] == "fp8"
    assert vllm["no_enable_prefix_caching"] and "enable_prefix_caching" not in vllm
    assert (vllm["block_size"], vllm["max_num_queued_reqs"], vllm["max_cudagraph_capture_size"]) == (32, 64, 256)
    assert (vllm["watermark"], vllm["gpu_memory_utilization"], vllm["pipeline_parallel_size"]) == (0.01, 0.85, 2)
    (sglang,), _ = started("sglang", DRAFTED)
    assert sglang["disable_radix_cache"] and sglang["kv_cache_dtype"] == "fp8_e4m3" and sglang["quantization"] == "fp8"
    assert (sglang["page_size"], sglang["max_queued_requests"], sglang["cuda_graph_max_bs_decode"]) == (32, 64, 256)
    assert sglang["speculative_algorithm"] == "STANDALONE"
    assert sglang["speculative_draft_model_path"] == drafted["model"]
    (_,), settings = started("trtllm", DRAFTED)
    content = settings["trtllm.yaml"]
    assert content["kv_cache_config"] == {
        **{"enable_block_reuse": False, "free_gpu_memory_fraction": 0.85, "dtype": "fp8", "tokens_per_block": 32}
    }
    assert content["cuda_graph_config"] == {"enable_padding": True, "max_batch_size": 256}
    assert content["speculative_config"]["speculative_model"] == drafted["model"]
    assert content["disable_overlap_scheduler"] is True


def test_prompts_that_are_not_split():
    given = row("H100-SXM", "Llama-3.1-8B", {"tp": 1}, policy={"chunked": 0})
    assert started("vllm", given)[0][0]["no_enable_chunked_prefill"]
    sglang = started("sglang", given)[0][0]
    assert (sglang["chunked_prefill_size"], sglang["max_prefill_tokens"]) == (-1, 8192)
    assert started("trtllm", given)[1]["trtllm.yaml"]["enable_chunked_prefill"] is False
    for kind, name in (("vllm", "max_num_batched_tokens"), ("trtllm", "max_num_tokens")):
        assert started(kind, given)[0][0][name] == 8192
        assert started(kind, given | {"longest": 9000})[0][0][name] == 9000
        said = "tokens of a step are 9000, not the row's 8192: prompts are not split"
        assert said in launch_text(kind, given | {"longest": 9000})


FEW = {"max_sequences": 128}
"""Sequences that leave room for a cache beside the weights: the sampler of 1,024 takes what they leave."""


def lengths(record, max_len=None):
    """Tokens of the longest request that each pool of a row is started for."""
    return [pool.context for pool in pools(record, max_len)]


def test_the_longest_request_is_what_the_model_and_the_cache_allow():
    """Qwen3-8B has 40,960 positions. 2 x H100 hold 22,6.. tokens beside Llama-3.3-70B: two requests of 11,264."""
    small = row("H100-SXM", "Qwen3-8B", {"tp": 1})
    assert lengths(small) == [40960] and lengths(DENSE) == [11264]
    beyond = small | {"longest": 81080}
    assert lengths(beyond) == [40960]
    said = "the longest request has 81080 tokens; the engine takes 40960 at most: Qwen/Qwen3-8B has 40960 positions"
    assert said in launch_text("vllm", beyond)
    assert lengths(DENSE | {"longest": 12000}) == [12000]  # of which the cache holds one
    assert lengths(DENSE, 3000) == [3000] and "the engine takes 1000 at most: as asked for" in launch_text(
        "vllm", DENSE, 1000
    )
    assert lengths(row("H100-SXM", "Qwen3-8B", {"tp": 1}, policy={"chunked": 0})) == [8192]  # what a step takes whole
    assert len(set(lengths(SPLIT))) == 1


@pytest.mark.parametrize(
    ("record", "max_len", "said"),
    [
        (row("H100-SXM", "Qwen3-8B", {"pp": 500}), None, "pp = 500 exceeds the 36 layers"),
        (row("H100-SXM", "Qwen3-8B", {"pp": 1e8}), None, "pp = 1e\\+08 exceeds the 36 layers"),
        (row("H100-SXM", "Llama-3.3-70B", {"tp": 3}), None, "tp = 3 does not divide the 64 attention heads"),
        (row("H100-SXM", "Llama-3.3-70B", {"tp": 1}), None, "weights of 141 GB per device leave no KV cache"),
        (row("H100-SXM", "Llama-3.3-70B", {"tp": 2}, policy=FEW) | {"longest": 30000}, None, "one sequence of 30000"),
        (row("H100-SXM", "Llama-3.3-70B", {"tp": 2}, policy=FEW), 30000, "does not hold one sequence of 30000"),
        (row("H100-SXM", "Qwen3-8B", {"tp": 1}), 40961, "max_len = 40,961 exceeds the 40,960 positions of Qwen3-8B"),
        (row("H100-SXM", "BERT-large", {"tp": 1}), None, "is an encoder"),
    ],
)
def test_what_no_engine_starts_is_refused(record, max_len, said):
    for kind in KINDS:
        with pytest.raises(ValueError, match=said):
            launch_text(kind, record, max_len)


def test_control_characters_of_a_row_are_escapes():
    text = launch_text("vllm", row("H100-SXM", "Qwen3-8B", {"tp": 1}) | {"rank": "\x1b[31m1"})
    spec = DENSE["spec"] | {"slo": "ttft=1s\x1b[31m\u202e"}
    for found in (text, *(launch_text(kind, DENSE | {"spec": spec}) for kind in KINDS)):
        assert "\\x1b[31m" in found and all(letter.isprintable() or letter == "\n" for letter in found)


def test_the_header_names_versions_the_row_and_what_it_predicts():
    lines = launch_text("vllm", DENSE).splitlines()
    assert lines[0].startswith("# jaxroof ") and "vLLM 0.33.0, flags of vllm/engine/arg_utils.py" in lines[0]
    assert lines[1] == "# row 1: Llama-3.3-70B on 3 replicas of 2 x H100-SXM as tp2"
    assert lines[2].startswith("# load: prompts of 2048 tokens, outputs of 500 tokens, 9.3 requests/s per replica, slo")
    assert lines[3] == "# predicted: TTFT p99 812 ms, TPOT mean 24 ms, 1.23 USD per million tokens"
    assert all(version in launch_text(kind, DENSE) for kind, version in (("sglang", "0.5.23"), ("trtllm", "1.2.1")))


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_no_flag_is_said(kind):
    given = row(
        *("B200-SXM", "Llama-3.1-8B", {"tp": 2, "overlap": "gemm"}),
        policy={"swap": 1, "swap_time": 1e-6, "order": "decode_first", "acceptance": 0.5},
        weights="nvfp4",
        kv="int8",
        communication="fp8",
        overrides={"hardware.cores.count": "264"},
    )
    comments = [line for line in launch_text(kind, given).splitlines() if line.startswith("# note: ")]
    given["spec"]["deployment"] |= {"sequence_parallel": True}
    assert any("sequence_parallel = True has no flag" in line for line in launch_text(kind, given).splitlines())
    for words in ("swap = 1 has no flag", "swap_time = 1e-06 has no flag", "overlap = gemm", "communication = fp8"):
        assert any(words in line for line in comments), words
    for words in ("hardware.cores.count = 264", "decode_first steps", "weights of nvfp4", "probability 0.5"):
        assert any(words in line for line in comments), words
    int8 = any("KV cache of int8 has no" in line for line in comments)
    assert int8 == (kind in ("sglang", "trtllm"))  # vLLM has int8_per_token_head, and the row's engine is vLLM
    assert any("simulated with the scheduler of vLLM" in line for line in comments) == (kind in ("sglang", "trtllm"))


def test_a_model_without_a_known_repository_is_said():
    text = launch_text("vllm", row("H100-SXM", "GPT-3-2.7B", {"tp": 1}))
    assert "# note: no repository of GPT-3-2.7B is known: put the path of its checkpoint there" in text


def test_the_name_that_was_asked_for_is_the_repository():
    (found,), _ = started("vllm", row("H100-SXM", "Qwen/Qwen3-32B-FP8", {"tp": 1}, weights="fp8"))
    assert found["model"] == "Qwen/Qwen3-32B-FP8" and "quantization" not in found


@pytest.mark.parametrize("kind", ["vllm", "sglang", "trtllm"])
def test_replicas_beyond_one_host_have_a_command_for_each(kind):
    values, _ = started(kind, LARGE)
    text = launch_text(kind, LARGE)
    assert "a replica takes 8 devices of each of 2 hosts" in text and "start 2 such replicas" in text
    if kind == "trtllm":
        assert len(values) == 1 and values[0]["gpus_per_node"] == 8
        assert "srun --nodes 2 --ntasks 16 --ntasks-per-node 8" in text
        return
    assert [found["node_rank"] for found in values] == [0, 1] and {found["nnodes"] for found in values} == {2}
    if kind == "vllm":
        assert [found.get("headless", False) for found in values] == [False, True]


@pytest.mark.parametrize("kind", ["vllm", "sglang", "trtllm"])
def test_pools_for_prefill_and_decode_have_a_command_each(kind):
    values, settings = started(kind, SPLIT)
    text = launch_text(kind, SPLIT)
    assert "prefill: 3 replicas of 2 x H100-SXM as tp2 ep2; decode: 2 replicas of 4 x H200-SXM as tp4 ep4" in text
    assert "a router in front of both pools is needed" in text
    if kind == "sglang":
        assert [found["disaggregation_mode"] for found in values] == ["prefill", "decode"]
    elif kind == "trtllm":
        assert all(content["cache_transceiver_config"] == {"backend": "DEFAULT"} for content in settings.values())
        assert [found["extra_llm_api_options"] for found in values] == ["prefill_trtllm.yaml", "decode_trtllm.yaml"]
    else:
        assert {found["kv_transfer_config"]["kv_connector"] for found in values} == {"NixlConnector"}


def worker(kind, component):
    """Values of the flags of a Dynamo worker."""
    made = component["podTemplate"]["spec"]["containers"][0]
    flags = declared("dynamo").get(kind, {}) | ({} if kind == "trtllm" else declared(kind)["flags"])
    assert made["command"] == ["python3", "-m", f"dynamo.{kind}"]
    return Parser(flags).given(made["args"]), made["resources"]["limits"]


@pytest.mark.parametrize("kind", ENGINES)
def test_a_dynamo_graph_has_a_frontend_and_workers_with_declared_flags(kind):
    given = DENSE | {"spec": DENSE["spec"] | {"engine": kind, "policy": FEW | {"chunked": 1}, "hardware": "H200-SXM"}}
    text = launch_text("dynamo", given)
    found = yaml.safe_load(text)
    versions = {"vllm": "vLLM 0.31.0", "sglang": "SGLang 0.5.21", "trtllm": "TensorRT-LLM 1.3.0rc29"}
    assert versions[kind] in text.splitlines()[0] and "Dynamo 1.6.1" in text.splitlines()[0]
    assert (found["apiVersion"], found["kind"]) == ("nvidia.com/v1beta1", "DynamoGraphDeployment")
    assert found["spec"]["backendFramework"] == kind
    front, served = found["spec"]["components"]
    assert all(set(each) <= set(declared("dynamo")["component"]) for each in (front, served))
    assert (front["type"], served["type"], served["replicas"]) == ("frontend", "worker", 3)
    values, limits = worker(kind, served)
    assert limits == {"nvidia.com/gpu": "2"} and values["model_path" if kind == "sglang" else "model"]
    image = served["podTemplate"]["spec"]["containers"][0]["image"]
    assert image.startswith("nvcr.io/nvidia/ai-dynamo/") and image.endswith("-runtime:1.6.1")


@pytest.mark.parametrize("kind", ENGINES)
def test_a_disaggregated_row_is_a_graph_of_two_pools(kind):
    given = SPLIT | {"spec": SPLIT["spec"] | {"engine": kind, "policy": {"chunked": 1}}}
    _, prefill, decode = yaml.safe_load(launch_text("dynamo", given))["spec"]["components"]
    assert [(each["type"], each["replicas"]) for each in (prefill, decode)] == [("prefill", 3), ("decode", 2)]
    for component, role, devices in ((prefill, "prefill", "2"), (decode, "decode", "4")):
        values, limits = worker(kind, component)
        assert values["disaggregation_mode"] == role and limits == {"nvidia.com/gpu": devices}


def test_dynamo_drafts_and_hosts():
    given = EXPERTS | {"spec": EXPERTS["spec"] | {"engine": "trtllm"}}
    values, _ = worker("trtllm", yaml.safe_load(launch_text("dynamo", given))["spec"]["components"][1])
    settings = values["override_engine_args"]
    assert fits(
        settings, declared("trtllm")["config"] | {"speculative_config": declared("dynamo")["speculative_config"]}
    )
    assert settings["speculative_config"] == {"decoding_type": "MTP", "max_draft_len": 2}
    assert values["enable_attention_dp"] and values["tensor_parallel_size"] == 8 and values["max_batch_size"] == 63
    large = yaml.safe_load(launch_text("dynamo", LARGE))["spec"]["components"][1]
    assert large["multinode"] == {"nodeCount": 2} and worker("sglang", large)[1] == {"nvidia.com/gpu": "8"}


def manifest(record):
    """Objects of a Kubernetes manifest by kind."""
    return {part["kind"]: part for part in yaml.safe_load_all(launch_text("kubernetes", record))}


def test_a_kubernetes_manifest_serves_the_replicas():
    found = manifest(DENSE)
    assert set(found) == {"Deployment", "Service"}
    spec = found["Deployment"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["replicas"] == 3 and spec["selector"]["matchLabels"] == labels
    (made,) = spec["template"]["spec"]["containers"]
    assert made["image"] == "vllm/vllm-openai:v0.33.0" and made["command"] == ["vllm", "serve"]
    assert made["resources"] == {"limits": {"nvidia.com/gpu": "2"}}
    values = parsed("vllm", made["args"])
    assert (values["host"], values["port"], values["tensor_parallel_size"]) == ("0.0.0.0", 8000, 2)
    service = found["Service"]["spec"]
    assert service["selector"].items() <= labels.items() and service["ports"][0]["targetPort"] == 8000
    assert all(isinstance(word, str) for word in made["args"])


@pytest.mark.parametrize(
    ("text", "name"),
    [("Qwen/Qwen2.5-72B", "qwen2-5-72b"), ("x/4-bit_Model.", "bit-model"), ("x/...", "model"), ("a" * 60, "a" * 50)],
)
def test_names_are_those_that_kubernetes_takes(text, name):
    assert slug(text) == name


def test_settings_in_a_file_are_a_mounted_config_map():
    found = manifest(WHOLE | {"longest": 2548})
    content = yaml.safe_load(found["ConfigMap"]["data"]["trtllm.yaml"])
    assert fits(content, declared("trtllm")["config"])
    assert content["scheduler_config"] == {"capacity_scheduler_policy": "GUARANTEED_NO_EVICT"}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (made,) = pod["containers"]
    assert parsed("trtllm", made["args"])["extra_llm_api_options"] == "/etc/jaxroof/trtllm.yaml"
    mounts = {each["name"]: each["mountPath"] for each in made["volumeMounts"]}
    assert mounts["settings"] == "/etc/jaxroof" and {each["name"] for each in pod["volumes"]} == set(mounts)


def test_a_replica_beyond_one_host_is_a_leader_worker_set():
    found = manifest(LARGE)
    assert set(found) == {"LeaderWorkerSet", "Service"}
    spec = found["LeaderWorkerSet"]["spec"]
    assert spec["replicas"] == 2 and spec["leaderWorkerTemplate"]["size"] == 2
    leader, follower = (spec["leaderWorkerTemplate"][f"{name}Template"] for name in ("leader", "worker"))
    for template in (leader, follower):
        (made,) = template["spec"]["containers"]
        assert made["resources"]["limits"] == {"nvidia.com/gpu": "8"}
        words = [word.replace("$(LWS_WORKER_INDEX)", "1") for word in made["args"]]
        assert parsed("sglang", words)["dist_init_addr"] == "$(LWS_LEADER_ADDRESS):20000"
    selector = found["Service"]["spec"]["selector"].items()
    assert selector <= leader["metadata"]["labels"].items() and not selector <= follower["metadata"]["labels"].items()
    with pytest.raises(ValueError, match="started by MPI: emit dynamo or trtllm"):
        manifest(LARGE | {"spec": LARGE["spec"] | {"engine": "trtllm", "policy": {"chunked": 1}}})


@pytest.mark.parametrize(
    ("hardware", "resource", "image"),
    [
        ("MI300X", "amd.com/gpu", "vllm/vllm-openai-rocm:v0.33.0"),
        ("TPU-v6e", "google.com/tpu", "IMAGE"),
        ("Gaudi3", "habana.ai/gaudi", "IMAGE"),
        ("Trainium2", "aws.amazon.com/neuron", "IMAGE"),
        ("Arc-Pro-B60", "gpu.intel.com/xe", "IMAGE"),
    ],
)
def test_devices_of_every_vendor_have_their_resource(hardware, resource, image):
    given = row(hardware, "Llama-3.1-8B", {"tp": 1})
    (made,) = manifest(given)["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert made["resources"]["limits"] == {resource: "1"} and made["image"] == image
    assert ("put one in place of IMAGE" in launch_text("kubernetes", given)) == (image == "IMAGE")


@pytest.mark.parametrize(
    ("kind", "record", "words"),
    [
        ("vlm", DENSE, "there are no launch flags of vlm; did you mean vllm"),
        ("vllm", {}, "the row has no spec"),
        ("vllm", DENSE | {"longest": None}, "the row has no longest"),
        ("vllm", DENSE | {"longest": 2.5}, "longest = 2.5 must be a whole number of at least 1"),
        ("vllm", DENSE | {"replicas": 0}, "replicas = 0 must be a whole number"),
        ("vllm", DENSE | {"spec": {**DENSE["spec"], "hardware": "H1000"}}, "H1000"),
        ("vllm", DENSE | {"spec": {**DENSE["spec"], "engin": "vllm"}}, "there is no key engin; did you mean engine"),
        ("vllm", DENSE | {"spec": {**DENSE["spec"], "policy": {"budget": 1}}}, "there is no policy.budget"),
        ("vllm", row("H100-SXM", "Llama-3.1-8B", {"tp": "two"}), "deployment.tp = 'two' must be a whole number"),
        ("vllm", row("H100-SXM", "Llama-3.1-8B", {"tp": 1, "cp": 2}), "cp = 2: flags of context parallelism"),
        ("vllm", row("H100-SXM", "Llama-3.1-8B", {"pp": 12}), "12 devices do not fill hosts of 8 H100-SXM"),
        ("vllm", row("H100-SXM", "gpt-oss-120b", {"tp": 2, "ep": 4}), "ep = 4 does not divide"),
        ("vllm", row("H200-SXM", "DeepSeek-V3", {"tp": 2, "attention_dp": 4, "ep": 4}), "ep = 4: vLLM spreads"),
        (
            "trtllm",
            row("H200-SXM", "DeepSeek-V3", {"tp": 2, "attention_dp": 4, "ep": 8}),
            "tp = 2 with attention_dp = 4",
        ),
        ("sglang", row("TPU-v6e", "Llama-3.1-8B", {"tp": 1}), "TPU-v6e: SGLang on TPUs is another program"),
        ("vllm", row("H100-SXM", "Llama-3.1-8B", {}, policy={"token_budget": 8}), "must be at least max_sequences"),
        ("dynamo", row("MI300X", "Llama-3.1-8B", {"tp": 1}), "MI300X: Dynamo's images are for NVIDIA GPUs"),
        ("kubernetes", SPLIT, "a disaggregated row needs a router between its pools: emit dynamo"),
        (
            "kubernetes",
            row("Ascend-950DT", "Llama-3.1-8B", {"tp": 1}),
            "the Kubernetes resource of Huawei is not known",
        ),
        ("vllm", SPLIT | {"prefill": 3}, "prefill = 3 must be a pool"),
        ("vllm", row("H100-SXM", "Llama-3.1-8B", {"memory_utilization": "much"}), "deployment.memory_utilization"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_line(kind, record, words):
    with pytest.raises(ValueError, match=words.replace(".", r"\.").replace("(", r"\(")) as refusal:
        launch_text(kind, record)
    assert "\n" not in str(refusal.value)


TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=8)
PLAIN = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS, st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN)
def test_yaml_text_is_read_as_what_was_written(value):
    found = yaml.safe_load(yaml_text(value))
    assert json.dumps(found, sort_keys=True) == json.dumps(value, sort_keys=True)
