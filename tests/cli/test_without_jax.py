"""Verbs that answer at points import neither JAX nor xarray; those that tabulate them do not import JAX."""

import json
import subprocess
import sys

import pytest

AT_A_POINT = (
    "step --hardware H100-SXM --model Llama-3.1-70B --tp 4 --decode 32 --context 2000",
    "request --hardware H200-SXM --model DeepSeek-V3 --attention-dp 8 --ep 8 --isl 1024 --osl 64 --batch 32 --json",
    "collective --hardware H100-SXM --devices 8",
    "train --hardware H100-SXM --model Llama-2-7B --tp 2 --dp 4 --global-batch 32 --seq 2048",
    "train --hardware H100-SXM --model Llama-2-7B --global-batch 32 --seq 2048 --search --devices 8",
    "disaggregate --hardware H100-SXM --model Llama-3.1-8B --isl 1024 --osl 64 --batch 8",
    "colocate --hardware H100-SXM --model Llama-3.1-8B --isl 1024 --osl 64 --batch 8"
    " --neighbour model=Qwen3-8B --neighbour isl=512 --neighbour osl=64",
    "export perfetto --hardware H100-SXM --model Llama-3.1-8B --isl 512 --tp 2 -o {folder}/step.json",
    "export perfetto train --hardware H100-SXM --model Llama-2-7B --global-batch 8 --seq 512 --pp 2 -o {folder}/a.json",
    "export chakra --hardware H100-SXM --model Llama-3.1-8B --isl 512 --tp 2 -o {folder}/chakra",
    "export vidur --hardware H100-SXM --model Llama-3.1-8B --most-tokens 128 -o {folder}/vidur",
    "hardware H100-SXM",
    "models Llama-3.1-8B",
)

IN_TABLES = (
    "compare --static --hardware H100-SXM,MI300X --model Llama-3.1-8B --isl 512 --osl 64 --devices 1,2 --batch 1,8",
    "compare --hardware H100-SXM,MI300X --model Llama-3.1-8B --isl 512 --osl 64 --slo ttft=1s,tpot=30ms --simulate 0"
    " --devices 1,2",
    "sensitivity --hardware H100-SXM --model Llama-3.1-8B --decode 8 --context 100 --job step",
    "scenario run T1.1",
    "sweep {spec} -o {folder}/small.nc",
)

SPEC = """
hardware = ["H100-SXM", "MI300X"]
model = "Llama-3.1-8B"
workload = { batch = [1, 8], isl = 512, osl = 64 }
"""

PROGRAM = """
import contextlib, io, json, sys
from sweeps.cli import main
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(words.split()) == 0
    assert out.getvalue(), words
print(json.dumps([name for name in ("jax", "xarray") if name in sys.modules]))
"""


@pytest.mark.parametrize(("verbs", "allowed"), [(AT_A_POINT, []), (IN_TABLES, ["xarray"])], ids=["points", "tables"])
def test_what_is_imported(tmp_path, verbs, allowed):
    (tmp_path / "spec.toml").write_text(SPEC)
    words = [verb.format(spec=tmp_path / "spec.toml", folder=tmp_path) for verb in verbs]
    finished = subprocess.run([sys.executable, "-c", PROGRAM, json.dumps(words)], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout) == allowed
