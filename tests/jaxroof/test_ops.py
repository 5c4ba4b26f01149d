"""Ops' account of themselves: nothing is decided by their names, and nothing about their time by what they are for."""

import ast
import dataclasses
import itertools
from pathlib import Path

import jax
import pytest

import workloads
from jaxroof import Adapters, Deployment, LoRA, MemoryLevel, Training, datasheet, decode, mixed, prefill
from jaxroof.op import PARALLELISMS, PHASES, ROLES, Collective, Kernel, unlabelled
from jaxroof.roofline import op_time
from jaxroof.step.forward import step_ops
from jaxroof.step.overlap import HIDDEN
from jaxroof.step.step import HOST, times_of
from jaxroof.training import iteration_cost, training_memory
from jaxroof.training import memory as memory_of_training
from jaxroof.training import state as state_of_training
from jaxroof.training import terms as terms_of_training
from jaxroof.training import terms as training_flops

ROOT = Path(__file__).parents[2]
STEP = mixed(prefill(2.0, 512.0, 128.0), decode(16.0, 700.0))
MODELS = ("Llama-3.1-8B", "DeepSeek-V3", "Qwen3-Next-80B-A3B", "Mixtral-8x7B")
SPREADS = {
    "halves of all-reduces behind products": Deployment(tp=4.0, sequence_parallel=True, overlap="gemm", drafts=1.0),
    "adapters": Deployment(tp=2.0, overlap="gemm", adapters=Adapters(rank=16.0, loaded=4.0)),
    "two halves of a batch": Deployment(tp=2.0, attention_dp=2.0, ep=4.0, overlap="two_batch"),
    "a cache outside": Deployment(tp=2.0, cp=2.0, pp=2.0, offloaded=0.25),
}
TRAININGS = {
    "ring": (Deployment(tp=2.0, cp=2.0, dp=2.0, ep=2.0), Training(global_batch=8.0, seq=1024.0, recompute=1.0)),
    "adapters": (
        Deployment(tp=2.0, attention_dp=2.0, ep=2.0, sequence_parallel=True, overlap="gemm"),
        Training(global_batch=8.0, seq=1024.0, lora=LoRA(rank=8.0, targets=("q", "down"))),
    ),
    "unfused": (
        Deployment(tp=2.0, cp=2.0, context_kind="all_gather", attention_kernel="unfused"),
        Training(global_batch=8.0, seq=1024.0, zero=3.0, dropout=1.0),
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return workloads.model(request.param).model


def renamed(named: dict) -> dict:
    """The same in the same order under names that say nothing."""
    return {f"x{place}": one for place, one in enumerate(named.values())}


@pytest.fixture
def hosted(chip):
    """The chip of round numbers with host memory and an efficiency."""
    memory = dataclasses.replace(chip.memory, host=MemoryLevel(bandwidth=5e10, capacity=1e12))
    precisions = dict.fromkeys(("fp8", "bf16", "fp16"), chip.matrix["bf16"])
    return dataclasses.replace(chip, memory=memory, matrix=precisions | chip.matrix)


@pytest.mark.parametrize("spread", SPREADS)
def test_names_decide_nothing_of_a_step(hosted, model, spread):
    deployment = SPREADS[spread]
    ops = step_ops(model, deployment, STEP)
    known, blank = (times_of(some, hosted, deployment, STEP, datasheet()) for some in (ops, renamed(ops)))
    assert float(known[HIDDEN]) < 0.0
    assert list(known)[-2:] == list(blank)[-2:] == [HIDDEN, HOST]
    assert [float(time) for time in known.values()] == [float(time) for time in blank.values()]


@pytest.mark.parametrize("kind", TRAININGS)
def test_names_decide_nothing_of_training(hosted, model, kind, monkeypatch):
    deployment, training = TRAININGS[kind]

    def answers() -> list[float]:
        found = (
            iteration_cost(hosted, model, deployment, training, datasheet()),
            training_flops.model_floor(hosted, model, deployment, training),
            training_memory(model, deployment, training),
        )
        return [float(leaf) for leaf in jax.tree.leaves(found)]

    known = answers()
    for module in (terms_of_training, training_flops):
        passed = module.forward_pass
        monkeypatch.setattr(module, "forward_pass", lambda *of, passed=passed: type(p := passed(*of))(*map(renamed, p)))
    for module in (memory_of_training, state_of_training):
        held = module.block_matrices
        monkeypatch.setattr(module, "block_matrices", lambda *of, held=held: renamed(held(*of)))
    assert answers() == known


def test_every_op_says_what_it_is(model):
    for deployment, batch in itertools.product(SPREADS.values(), (STEP, prefill(1.0, 64.0), decode(4.0, 64.0))):
        for name, op in step_ops(model, deployment, batch).items():
            assert op.role in ROLES and op.phase in PHASES, name
            assert name.startswith(op.layer), name
            if isinstance(op, Collective):
                assert op.parallelism in PARALLELISMS, name


def test_what_an_op_is_for_says_nothing_of_its_time(hosted):
    op = Kernel(count=2.0, kernels=1.0, kind="elementwise", bytes=1e9, layer="1.", role="norm", phase="decode")
    assert unlabelled(op) == Kernel(count=2.0, kernels=1.0, kind="elementwise", bytes=1e9)
    assert op_time(op, hosted, datasheet()) == op_time(unlabelled(op), hosted, datasheet())


TAKEN_APART = {"startswith", "endswith", "partition", "rpartition", "split", "removeprefix", "removesuffix", "replace"}


@pytest.mark.parametrize("path", sorted((ROOT / "jaxroof").rglob("*.py")), ids=lambda path: path.stem)
def test_no_name_is_taken_apart(path):
    """No method that looks at the letters of a text is called on a name, and no text is looked for in one."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        looked_at = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKEN_APART:
            looked_at = node.func.value
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In) and isinstance(node.left, ast.Constant):
            looked_at = node.comparators[0]
        assert not (isinstance(looked_at, ast.Name) and "name" in looked_at.id), f"{path}:{node.lineno}"
