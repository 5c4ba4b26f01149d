"""Numbers that cannot be, settings that change nothing, limits without a unit: refused alike however they are given."""

import dataclasses

import pytest

import hwspaces
import sweeps
import workloads
from hwspaces import quantity
from jaxroof.jobs import Scenario
from jaxroof.jobs.colocated import Colocated
from jaxroof.jobs.composition import Requests
from jaxroof.jobs.scenario import Pool
from jaxroof.training import Training
from sweeps.ask.cases import case, model_deployment
from sweeps.ask.deployments import with_settings
from sweeps.ask.effects import NEEDS, facts, require_effect
from sweeps.ask.leaves import along_range, leaf_number, leaves
from sweeps.ask.spec import content, read
from sweeps.cli import main
from sweeps.run.simulated.objective import parse_slo
from sweeps.studies.optimize.goals import constraints
from sweeps.studies.optimize.spec import read as read_design

DENSE, ROUTED, STATES = "Llama-3.1-8B", "Qwen3-30B-A3B", "Mamba2-2.7B"

GROUPS = {"attention_dp": 2}
USED = {
    "deployment.exchange": ("low_latency", ROUTED, GROUPS),
    "deployment.dispatch_bytes": (1.0, ROUTED, GROUPS),
    "deployment.imbalance": (1.3, ROUTED, {"tp": 2, "ep": 2}),
    "deployment.redundant_experts": (2.0, ROUTED, {"tp": 2, "ep": 2}),
    "deployment.alike": (0.9, ROUTED, {}),
    "deployment.popularity": (1.01, ROUTED, {"tp": 2, "ep": 2}),
    "deployment.context_kind": ("all_gather", DENSE, {"cp": 2}),
    "deployment.sequence_parallel": (True, DENSE, {"tp": 2}),
    "deployment.overlap": ("gemm", DENSE, {"tp": 2}),
    "deployment.reserved_cores": (0.2, DENSE, {"tp": 2, "overlap": "two_batch"}),
    "deployment.communication_bytes": (1.0, DENSE, {"tp": 2}),
    "deployment.kv_bytes": (1.0, DENSE, {}),
    "deployment.block_tokens": (16.0, DENSE, {}),
    "deployment.state_bytes": (2.0, STATES, {}),
    "deployment.offload_to": ("storage", DENSE, {"offloaded": 0.5}),
    "deployment.prefetched": (0.5, DENSE, {"offloaded": 0.5}),
    "deployment.score_kernels": (3.0, DENSE, {"attention_kernel": "unfused"}),
    "workload.acceptance": (0.8, DENSE, {"drafts": 2}),
    "workload.cores": (0.3, DENSE, {}),
    "workload.zero": (1.0, DENSE, {"dp": 2}),
    "workload.overlap": (0.5, DENSE, {"dp": 2}),
    "workload.host_bandwidth": (5e10, DENSE, {}),
    "policy.acceptance": (0.8, DENSE, {"drafts": 2}),
    "policy.draft_limit": (4.0, DENSE, {"drafts": 2}),
    "policy.draft_lengths": ("1:2,4:0", DENSE, {"drafts": 2}),
    "deployment.drafter": ("ngram", DENSE, {"drafts": 2}),
    "deployment.match": (0.5, DENSE, {"drafts": 2, "drafter": "ngram"}),
    "deployment.lookup_time": (1e-4, DENSE, {"drafts": 2, "drafter": "ngram"}),
    "policy.decode_sequences": (8.0, DENSE, {}),
    "policy.swap_time": (1e-6, DENSE, {}),
    "policy.graph_limit": (64.0, DENSE, {}),
}
"""Leaf -> a value that asks for something, and the model and deployment in which it has an effect."""

TRAINING = Training(global_batch=8.0, seq=64.0)
WORK = {
    "workload.zero": (TRAINING, {}),
    "workload.overlap": (TRAINING, {}),
    "workload.cores": (Colocated(batch=1.0, isl=8.0, osl=8.0), {"sharing": 1.0}),
    "workload.host_bandwidth": (TRAINING, {"offload": 1.0}),
}
"""Leaf -> a workload without effect, and what gives it one."""

BESIDE = {"policy.swap_time": {"policy.swap": (1.0,)}, "policy.graph_limit": {"policy.graph_step": (8.0,)}}
"""Leaf of a policy -> the numbers beside it that give it an effect."""


def scenario(model: str, settings: dict, work) -> Scenario:
    """A scenario of structs, which nothing has checked."""
    entry = workloads.model(model)
    return Scenario(
        hardware=hwspaces.hardware("H200-SXM").hardware,
        model=entry.model,
        deployment=with_settings(model_deployment(entry, None), settings),
        workload=work,
        efficiency=hwspaces.efficiency("datasheet").efficiency,
    )


def pooled(found: Scenario) -> Scenario:
    """The scenario with a pool for prompts."""
    pool = Pool(hardware=found.hardware, deployment=found.deployment, efficiency=found.efficiency)
    return dataclasses.replace(found, prefill=pool)


WITH = {"policy.decode_sequences": pooled}
"""Leaf -> the scenario in which it has an effect, of one without."""


def said(path: str, found: Scenario, beside: dict) -> str:
    """What a setting is refused with; "" where it is not."""
    try:
        require_effect([path], facts(found, beside=beside))
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("path", NEEDS)
def test_a_setting_is_refused_where_it_changes_nothing_and_nowhere_else(path):
    """Where it has an effect, where it has none, and the neutral value there."""
    value, model, settings = USED[path]
    root, _, name = path.partition(".")
    work, used = WORK.get(path, (Requests(batch=1.0, isl=8.0, osl=8.0, cached=0.0), {}))
    beside = {path: (value,)} if root == "policy" else {}

    def asked(model: str, settings: dict, work, extra: dict, place=lambda found: found) -> str:
        own = settings | ({name: value} if root == "deployment" else {})
        work = dataclasses.replace(work, **({name: value} if root == "workload" else {}))
        return said(path, place(scenario(model, own, work)), beside | extra)

    here = WITH.get(path, lambda found: found)
    assert asked(model, settings, dataclasses.replace(work, **used), BESIDE.get(path, {}), here) == ""
    useless = STATES if path in ("deployment.kv_bytes", "deployment.block_tokens") else DENSE
    refusal = asked(useless, {}, work, {})
    assert refusal.startswith(f"{path} = ") and refusal.endswith(f" has no effect here: it needs {NEEDS[path].words}")
    assert said(path, scenario(useless, {}, work), {}) == ""


def test_a_setting_has_to_have_an_effect_somewhere_not_everywhere():
    """Overlap at one point of an axis, experts in one of the models; a value of 1 is never refused."""
    source = {
        "job": "step",
        "hardware": "H200-SXM",
        "workload": {"decode": 8, "context": 100},
        "efficiency": "datasheet",
        "output": {"variables": ["legal"], "illegal": "mask"},
    }
    deployments = [{"tp": 2}, {"tp": 2, "overlap": "two_batch", "reserved_cores": 0.1}]
    sweeps.sweep({**source, "model": DENSE, "deployments": deployments})
    models = {**source, "model": [DENSE, ROUTED], "deployment": {"imbalance": 1.3, "ep": 2, "tp": 2}}
    sweeps.sweep(models)
    sweeps.sweep({**source, "model": DENSE, "deployment": {"imbalance": 1, "ep": 1, "exchange": "all_to_all"}})
    with pytest.raises(ValueError, match=r"deployment.imbalance = 1.3 has no effect here: it needs a model with exp"):
        sweeps.sweep({**models, "model": DENSE})
    with pytest.raises(ValueError, match=r"deployment.reserved_cores = 0.1 has no effect"):
        sweeps.sweep({**source, "model": DENSE, "deployments": [{"tp": 2}, {"tp": 4, "reserved_cores": 0.1}]})


USELESS = ("--reserved-cores", "0.2")
MACHINE = ("--hardware", "H100-SXM", "--model", DENSE)


@pytest.mark.parametrize(
    "words",
    [
        ("step", *MACHINE, "--decode", "8", "--context", "100", *USELESS),
        ("request", *MACHINE, "--isl", "100", "--osl", "8", *USELESS),
        ("serve", *MACHINE, "--isl", "100", "--osl", "8", "--rate", "1", *USELESS),
        ("capacity", *MACHINE, "--isl", "100", "--osl", "8", "--slo", "ttft=1s", *USELESS),
        ("compare", *MACHINE, "--isl", "9", "--osl", "8", "--slo", "ttft=1s", "--set", "deployment.reserved_cores=0.2"),
        ("compare", *MACHINE, "--static", "--isl", "100", "--osl", "8", "--set", "deployment.reserved_cores=0.2"),
        ("sensitivity", *MACHINE, "--isl", "100", "--osl", "8", *USELESS),
    ],
    ids=lambda words: words[0],
)
def test_every_verb_refuses_what_changes_nothing(words, capsys):
    assert main(list(words)) == 2
    line = f"jaxroof {words[0]}: deployment.reserved_cores = 0.2 has no effect here: it needs deployment.overlap"
    assert capsys.readouterr().err.startswith(line)


BEYOND = {
    "deployment.imbalance": "0.1",
    "deployment.alike": "1.5",
    "deployment.popularity": "2.5",
    "deployment.memory_utilization": "1.1",
    "deployment.prefetched": "2",
    "deployment.reserved_cores": "1",
    "deployment.offloaded": "1",
    "workload.zero": "4",
}


RANGES = [path for path, leaf in leaves().items() if leaf.range and path.startswith(("deployment.", "workload."))]


@pytest.mark.parametrize("path", [path for path in RANGES if not path.endswith("*")])
def test_numbers_beyond_their_range_are_refused(path):
    declared = leaves()[path]
    with pytest.raises(ValueError, match=f"^{path} = .* must be {declared.range}"):
        leaf_number(path, BEYOND.get(path, "1.5"))
    inside = declared.least or (1.0 if declared.whole else 0.5)
    assert leaf_number(path, inside) == inside


WHOLE = [path.replace("*", "0") for path, declared in leaves().items() if declared.whole]


@pytest.mark.parametrize("path", [path for path in WHOLE if not path.startswith("policy.")])
def test_counts_are_whole(path):
    assert leaf_number(path, 3) == 3.0
    with pytest.raises(ValueError, match=f"{path} = 1.5 must be a whole number"):
        leaf_number(path, 1.5)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"workload": {"batch": [1.5, 2], "isl": 64, "osl": 8}}, "workload.batch = 1.5 must be a whole number"),
        ({"workload": {"batch": 1, "isl": 64.5, "osl": 8}}, "workload.isl = 64.5 must be a whole number"),
        ({"deployment": {"imbalance": 0.1}}, "deployment.imbalance = 0.1 must be at least 1"),
        ({"deployment": {"tp": [1, 1.5]}}, "deployment.tp = 1.5 must be a whole number"),
        ({"set": {"workload.acceptance": 1.5}}, "workload.acceptance = 1.5 must be a probability: at most 1"),
        ({"axes": {"workload.acceptance": [0.5, 1.5]}}, "workload.acceptance = 1.5 must be a probability: at most 1"),
        (
            {"workload": {"batch": {"from": 1, "to": 3, "n": 9}, "isl": 64, "osl": 8}},
            "workload.batch: 9 steps from 1 to 3 repeat whole numbers; ask for fewer",
        ),
    ],
)
def test_impossible_numbers_of_a_specification(table, message):
    source = {"hardware": "H100-SXM", "model": DENSE, "workload": {"isl": 64, "osl": 8}} | table
    with pytest.raises(ValueError, match=message):
        sweeps.sweep(source)


def test_a_range_of_a_count_takes_whole_numbers_in_a_grid_and_in_a_sample():
    """2 to 65 in ratios, and draws; of hardware too, whose other figures stay where they are."""
    work = {"isl": 64, "osl": 8, "batch": {"from": 2, "to": 65, "n": 6, "scale": "log"}}
    source = {"hardware": "H100-SXM", "model": DENSE, "workload": work, "output": {"variables": ["fits"]}}
    assert sweeps.sweep(source).batch.values.tolist() == [2.0, 4.0, 8.0, 16.0, 32.0, 65.0]
    drawn = sweeps.sweep({**source, "mode": "sample", "sample": {"points": 8, "seed": 1}}).batch.values
    assert (drawn == drawn.round()).all() and drawn.min() >= 2.0
    assert along_range("hardware.cores.count", drawn + 0.25).tolist() == drawn.tolist()
    assert along_range("hardware.cores.clock", drawn + 0.5).tolist() == (drawn + 0.5).tolist()


@pytest.mark.parametrize("text", ["30", "8e12", "-1"])
@pytest.mark.parametrize("unit", ["s", "B", "B/s", "FLOP/s", "W", "USD/s"])
def test_text_says_its_unit(text, unit):
    with pytest.raises(ValueError, match=f"flag = '{text}' has no unit; write one, such as "):
        quantity(text, unit, "flag")
    assert quantity(30.0, unit, "flag") == quantity("30", "1", "flag") == quantity("30", "1/s", "flag") == 30.0


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "--model", DENSE, "--isl", "8", "--osl", "8", "--slo", "tpot=30"),
        ("compare", "--static", "--model", DENSE, "--isl", "8", "--osl", "8", "--slo", "tpot=30"),
        ("serve", *MACHINE, "--isl", "8", "--osl", "8", "--rate", "1", "--slo", "ttft=1s,tpot=30"),
        ("capacity", *MACHINE, "--isl", "8", "--osl", "8", "--slo", "tpot=30"),
        ("disaggregate", *MACHINE, "--isl", "8", "--osl", "8", "--devices", "4", "--slo", "tpot=30"),
    ],
    ids=lambda words: words[0],
)
def test_limits_of_times_need_a_unit(words, capsys):
    assert main(list(words)) == 2
    assert "slo tpot = '30' has no unit; write one, such as 20ms" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--set", "hardware.memory.hbm.bandwidth=8"), "hardware.memory.hbm.bandwidth = '8' has no unit"),
        (("--delay", "150"), "workload.delay = '150' has no unit; write one, such as 20ms"),
    ],
)
def test_flags_of_times_and_rates_need_a_unit(flags, message, capsys):
    assert main(["request", *MACHINE, "--isl", "8", "--osl", "8", *flags]) == 2
    assert message in capsys.readouterr().err


def test_files_give_limits_of_times_with_a_unit_and_python_in_seconds(tmp_path):
    """TOML's bare number is refused, the same dictionary in Python is in s."""
    file = tmp_path / "spec.toml"
    head = f'hardware = "H100-SXM"\nmodel = "{DENSE}"\n'
    file.write_text(f'job = "serve"\n{head}slo = {{ ttft = 1 }}\n')
    with pytest.raises(ValueError, match=r'spec.toml: slo.ttft = 1 has no unit; write one, such as "20ms"'):
        read(file)
    file.write_text(f'{head}[optimize]\nminimize = "tpot"\n[constraints]\nttft = {{ max = 0.5 }}\n')
    with pytest.raises(ValueError, match=r"constraints.ttft.max = 0.5 has no unit"):
        read_design(file)
    file.write_text(f'{head}[constraints]\nttft = {{ max = "500ms" }}\n')
    assert constraints(content(file)["constraints"])[0].limit == constraints({"ttft": {"max": 0.5}})[0].limit == 0.5
    assert parse_slo({"ttft": 0.5}) == parse_slo("ttft=500ms")


def test_python_refuses_the_same():
    words = {"workload": {"isl": 64, "osl": 8, "batch": 1.5}}
    with pytest.raises(ValueError, match=r"workload.batch = 1.5 must be a whole number"):
        case("request", "H100-SXM", DENSE, **words)
    with pytest.raises(ValueError, match=r"workload.acceptance = 0.8 has no effect here: it needs deployment.drafts"):
        case("request", "H100-SXM", DENSE, workload={"isl": 64, "osl": 8, "acceptance": 0.8})
