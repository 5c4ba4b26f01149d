"""`jaxroof export vidur`: tables read as Vidur's loader reads them, against the steps that they were made of.

What is read is from microsoft/vidur, vidur/execution_time_predictor/sklearn_execution_time_predictor.py.
"""

import json

import pandas as pd
import pytest

from tests.commands import printed, refused

COMPUTE = (
    *("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj", "mlp_act", "input_layernorm"),
    *("post_attention_layernorm", "attn_rope", "add"),
)
"""Columns `time_stats.NAME.median` of mlp.csv that a model of `num_tokens` is fitted to each."""

HOST = ("schedule_median", "sampler_e2e_median", "prepare_inputs_e2e_median", "process_model_outputs_median")

OUTSIDE = {"embedding", "embedding_all_reduce", "final_norm", "head", "head_all_gather", "sample", "host"}
"""Ops of a step that are of no layer."""


class Loaded:
    """The rows that Vidur keeps for a model, a number of tensor-parallel workers and stages of its pipeline."""

    def __init__(self, folder, device, model, network, tp, sizes):
        place = folder / "compute" / device / model
        table = pd.read_csv(place / "mlp.csv").drop_duplicates()
        for column, size in sizes.items():
            table = table[table[column] == size]
        self.compute = table[table["num_tensor_parallel_workers"] == tp]
        table = pd.read_csv(place / "attention.csv").drop_duplicates()
        kept = (
            (table["n_embd"] == sizes["n_embd"])
            & (table["n_q_head"] == sizes["n_head"])
            & (table["n_kv_head"] == sizes["n_kv_head"])
            & (table["block_size"] == 16)
            & (table["num_tensor_parallel_workers"] == tp)
        )
        self.attention = table[kept].copy()
        sequences = self.attention[["prefill_chunk_size", "batch_size"]]
        self.attention["num_tokens"] = sequences.max(axis=1)
        is_decode = self.attention["prefill_chunk_size"] == 0
        self.prefill, self.decode = self.attention[~is_decode], self.attention[is_decode]
        self.width = sizes["n_embd"]
        links = folder / "network" / network
        self.sends = {}
        table = pd.read_csv(links / "send_recv.csv")
        for near in (1, 2):
            self.sends[near] = table[(table["collective"] == "send_recv") & (table["devices_per_node"] == near)]
        self.reduces = None
        if tp > 1:
            table = pd.read_csv(links / "all_reduce.csv")
            kept = (table["num_workers"] == tp) & (table["devices_per_node"] == tp)
            self.reduces = table[kept & (table["collective"] == "all_reduce")]
        table = pd.read_csv(folder / "cpu_overhead" / network / model / "cpu_overheads.csv")
        self.host = table[(table["model_name"] == model) & (table["tensor_parallel_degree"] == tp)]

    def fitted(self):
        """Every table with its features and the column that a model is fitted to."""
        for name in COMPUTE:
            yield self.compute, ["num_tokens"], f"time_stats.{name}.median"
        yield self.attention, ["num_tokens"], "time_stats.attn_kv_cache_save.median"
        yield self.prefill, ["kv_cache_size", "prefill_chunk_size"], "time_stats.attn_prefill.median"
        yield self.decode, ["batch_size", "kv_cache_size"], "time_stats.attn_decode.median"
        for table in self.sends.values():
            yield table, ["size"], "time_stats.send_recv.median"
        if self.reduces is not None:
            yield self.reduces, ["size"], "time_stats.all_reduce.median"
        for name in (*HOST, "ray_comm_time_mean"):
            yield self.host, ["batch_size"], name

    def layer(self, tokens: int, core: str, **at) -> float:
        """Time in ms of one layer of a step, as Vidur adds it up: without its overheads of launches and batching."""
        row = self.compute[self.compute["num_tokens"] == tokens].iloc[0]
        time = sum(row[f"time_stats.{name}.median"] for name in COMPUTE)
        table = self.prefill if core == "attn_prefill" else self.decode
        for column, value in at.items():
            table = table[table[column] == value]
        assert len(table) == 1
        time += table.iloc[0][f"time_stats.{core}.median"] + table.iloc[0]["time_stats.attn_kv_cache_save.median"]
        if self.reduces is not None:
            found = self.reduces[self.reduces["size"] / self.width / 2 == tokens]
            time += 2 * found.iloc[0]["time_stats.all_reduce.median"]
        return time


LLAMA = {"n_head": 32, "n_kv_head": 8, "n_embd": 4096, "n_expanded_embd": 14336, "vocab_size": 128256}
MIXTRAL = LLAMA | {"vocab_size": 32000}
DEEPSEEK = {"n_head": 128, "n_kv_head": 128, "n_embd": 7168, "n_expanded_embd": 2048, "vocab_size": 129280}
QWEN = {"n_head": 40, "n_kv_head": 8, "n_embd": 5120, "n_expanded_embd": 17408, "vocab_size": 151936}

AFTER = {"prefill_chunk_size": 256, "kv_cache_size": 2048}

MODELS = {
    "dense": ("H100-SXM", "Llama-3.1-8B", 32, LLAMA, "meta-llama/Llama-3.1-8B-Instruct", 2),
    "dense, one device": ("A100-SXM-80GB", "Qwen3-14B", 40, QWEN, "Qwen/Qwen3-14B", 1),
    "experts": ("MI300X", "Mixtral-8x7B", 32, MIXTRAL, "mistralai/Mixtral-8x7B-Instruct-v0.1", 4),
    "unlike layers": ("H200-SXM", "DeepSeek-V3", 61, DEEPSEEK, "deepseek-ai/DeepSeek-V3", 8),
}


@pytest.mark.parametrize(("hardware", "model", "layers", "sizes", "repository", "tp"), MODELS.values(), ids=MODELS)
def test_tables_are_what_the_loader_keeps_and_add_up_to_the_step(
    capsys, tmp_path, hardware, model, layers, sizes, repository, tp
):
    names = ("--device", "dev", "--network", "dev_node", "--repository", repository)
    asked = ("--hardware", hardware, "--model", model)
    printed(capsys, "export", "vidur", *asked, "--tp", f"1,{tp}" if tp > 1 else "1", *names, "-o", tmp_path / "p")
    loaded = Loaded(tmp_path / "p", "dev", repository, "dev_node", tp, sizes | {"use_gated_mlp": True})
    for table, features, column in loaded.fitted():
        assert len(table) >= 10  # folds of its cross-validation
        assert not table[features].duplicated().any() or column.endswith("kv_cache_save.median")
        assert table[column].notna().all() and (table[column] >= 0.0).all()
    for tokens, work, core, at in (
        (512, ("--prefill", "512"), "attn_prefill", {"prefill_chunk_size": 512, "kv_cache_size": 0}),
        (
            256,
            ("--prefill", "256", "--past", "2048"),
            "attn_prefill",
            {"prefill_chunk_size": 256, "kv_cache_size": 2048},
        ),
        (32, ("--decode", "32", "--context", "1025"), "attn_decode", {"batch_size": 32, "kv_cache_size": 1024}),
    ):
        step = json.loads(printed(capsys, "step", *asked, "--tp", tp, *work, "--json"))
        inside = 1e3 * sum(op["time_s"] for op in step["ops"] if op["name"] not in OUTSIDE)
        assert layers * loaded.layer(tokens, core, **at) == pytest.approx(inside, rel=1e-9), work
    outside = 1e3 * sum(op["time_s"] for op in step["ops"] if op["name"] in OUTSIDE)
    row = loaded.host[loaded.host["batch_size"] == 32].iloc[0]
    assert row["schedule_median"] + row["sampler_e2e_median"] == pytest.approx(outside, rel=1e-9)


def test_names_are_those_of_folders(capsys, tmp_path):
    said = printed(capsys, "export", "vidur", "--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "-o", tmp_path / "p")
    assert [line.removeprefix(f"{tmp_path}/p/") for line in said.splitlines()] == [
        "compute/h100-sxm/meta-llama/Llama-3.1-8B-Instruct/mlp.csv",
        "compute/h100-sxm/meta-llama/Llama-3.1-8B-Instruct/attention.csv",
        "cpu_overhead/h100-sxm_node/meta-llama/Llama-3.1-8B-Instruct/cpu_overheads.csv",
        "network/h100-sxm_node/send_recv.csv",
    ]


def test_refusals_are_one_line_and_leave_nothing(capsys, tmp_path):
    asked, out = ("--hardware", "H100-SXM", "--model", "Llama-3.1-8B"), ("-o", tmp_path / "p")
    for words, message in (
        ((*asked,), "-o is missing"),
        ((*asked[:2], *out), "--model is missing"),
        ((*asked, "--tp", "1,1", *out), "--tp 1,1 has a degree twice"),
        ((*asked, "--tp", "1.5", *out), "--tp = '1.5' must be a whole number"),
        ((*asked, "--tp", "3", *out), "tp"),
        ((*asked, "--most-tokens", "8", *out), "--most-tokens 8 must be from 64 to 1,048,576"),
        ((*asked, "--most-sequences", "x", *out), "--most-sequences"),
        ((*asked, "--device", "../up", *out), "--device '../up' must be of letters"),
        ((*asked, "--repository", "a/b/c", *out), "--repository 'a/b/c' must be of letters"),
        ((*asked, "--set", "deployment.imbalance=2", *out), "profiles take numbers of the hardware alone"),
        (("--hardware", "H100-SXM", "--model", "Whisper-large-v3", *out), "has an encoder"),
    ):
        assert message in refused(capsys, "export", "vidur", *words), words
    assert not list(tmp_path.iterdir())
    printed(capsys, "export", "vidur", *asked, *out)
    kept = tmp_path / "p" / "network" / "h100-sxm_node" / "send_recv.csv"
    kept.write_text("precious")
    assert "jaxroof did not write it" in refused(capsys, "export", "vidur", *asked, *out)
    assert kept.read_text() == "precious"
