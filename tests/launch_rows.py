"""Rows of served comparisons, written by hand, and parsers of the flags that engines declare."""

import argparse
import json
import shlex
import tomllib
from pathlib import Path

LISTS = Path(__file__).parent / "sweeps" / "launch_flags"

LOAD = {"isl": "2048", "osl": "500", "rate": 9.3, "requests": 1000, "seed": 0, "slo": "ttft=1s,tpot=30ms"}
PREDICTED = {"ttft_p99": 0.8125, "tpot_mean": 0.024, "usd_per_million_tokens": 1.234, "longest": 2548}


def row(hardware, model, deployment, engine="vllm", policy=None, replicas=1, **spec):
    """A row; `spec` holds its other keys of the simulation."""
    asked = {"hardware": hardware, "model": model, "engine": engine, "deployment": deployment, "policy": policy or {}}
    record = {"rank": 1, "hardware": hardware, "replicas": replicas, "prefill": None, **PREDICTED}
    return {**record, "spec": {"weights": None, "kv": None, "draft": None, **asked, **LOAD, **spec}}


DENSE = row("H100-SXM", "Llama-3.3-70B", {"tp": 2}, policy={"token_budget": 4096, "max_sequences": 128}, replicas=3)
EXPERTS = row(
    "H200-SXM",
    "DeepSeek-V3",
    {"tp": 1, "attention_dp": 8, "ep": 8, "drafts": 2},
    engine="sglang",
    policy={"token_budget": 16384, "max_sequences": 500, "acceptance": 0.7},
    kv="fp8",
)
DRAFTED = row(
    "H100-SXM",
    "Llama-3.3-70B",
    {"tp": 4, "pp": 2, "drafts": 3, "memory_utilization": 0.85},
    policy={"prefix_caching": 0, "block_size": 32, "max_waiting": 64, "graph_limit": 256, "watermark": 0.01},
    weights="fp8",
    kv="fp8",
    draft="Llama-3.2-1B",
)
LOOKED_UP = row(
    "H100-SXM",
    "Llama-3.1-8B",
    {"drafts": 4, "drafter": "ngram", "match": 0.5},
    policy={"max_sequences": 128, "acceptance": "0.7,0.6,0.5,0.4", "draft_lengths": "1:4,16:2,64:0"},
)
WHOLE = row("B200-SXM", "gpt-oss-120b", {"tp": 2, "ep": 2}, engine="trtllm")
SPLIT = row("H200-SXM", "gpt-oss-120b", {"tp": 4, "ep": 4}) | {
    "prefill": {"deployment": {"tp": 2, "ep": 2}, "replicas": 3, "hardware": "H100-SXM"},
    "decode_replicas": 2,
}
LARGE = row("H200-SXM", "DeepSeek-V3", {"tp": 1, "attention_dp": 16, "ep": 16}, engine="sglang", replicas=2)
ROWS = {
    "dense": DENSE,
    "experts": EXPERTS,
    "drafted": DRAFTED,
    "looked_up": LOOKED_UP,
    "whole": WHOLE,
    "split": SPLIT,
    "large": LARGE,
    "amd": row("MI300X", "Llama-3.1-8B", {"tp": 1}),
}


def declared(engine):
    """What the list of an engine says."""
    return tomllib.loads((LISTS / f"{engine}.toml").read_text())


class Parser(argparse.ArgumentParser):
    """A parser of declared flags: an unknown one, and a value of another kind, is a ValueError."""

    def __init__(self, flags, positional=()):
        super().__init__(allow_abbrev=False, add_help=False)
        for name in positional:
            self.add_argument(name)
        for flag, kind in flags.items():
            name = flag.lstrip("-").replace("-", "_")
            if kind == "flag":
                self.add_argument(flag, action="store_true", dest=name)
            elif isinstance(kind, list):
                self.add_argument(flag, choices=kind, dest=name)
            else:
                self.add_argument(
                    flag, type={"int": int, "float": float, "str": str, "json": json.loads}[kind], dest=name
                )

    def error(self, message):
        raise ValueError(message)

    def given(self, words):
        """Values of the flags that are there, by name."""
        return {
            name: value
            for name, value in vars(self.parse_args(words)).items()
            if value is not None and value is not False
        }


def fits(value, schema):
    """Whether plain data has only declared fields with values of their kinds."""
    if isinstance(schema, dict):
        return isinstance(value, dict) and all(name in schema and fits(value[name], schema[name]) for name in value)
    if isinstance(schema, list):
        return value in schema
    return type(value) is {"bool": bool, "int": int, "float": float, "str": str, "list": list}[schema]


def commands(text):
    """Words of every command of a shell text, and the files that it writes, by name."""
    found, files, lines = [], {}, iter(text.replace("\\\n", " ").splitlines())
    for line in lines:
        if line.startswith("cat > "):
            name, content = shlex.split(line)[2], []
            for inner in lines:
                if inner == "END":
                    break
                content.append(inner)
            files[name] = "\n".join(content)
        elif words := shlex.split(line, comments=True):
            found.append(words)
    return found, files
