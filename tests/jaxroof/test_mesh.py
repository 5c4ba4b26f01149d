"""The mesh of parallel degrees: what its axes multiply, and who names them."""

import re
from pathlib import Path

import pytest

from jaxroof import Deployment
from jaxroof.deployment import (
    SEQUENCE_WAYS,
    axes,
    dense_copies,
    devices,
    on_one_device,
    product,
    replica_devices,
    request_groups,
    sequence_ways,
    splits_requests,
    splits_tokens,
    stage_devices,
    token_groups,
)

ROOT = Path(__file__).parents[2]

NAMES_GROUPS = {
    "jaxroof/deployment/parallelism.py",  # the axis
    "jaxroof/memory/legality.py",  # the refusal of models without experts
    "sweeps/ask/layouts.py",  # layouts that are tried
    "sweeps/ask/training.py",  # layouts of training that are tried
    "sweeps/measure/validate/serving/serving_points.py",  # a column of measured files
    "sweeps/studies/compare/trust.py",  # what was measured
    "sweeps/entries/cases.py",  # an example
    "sweeps/reports/facts.py",  # names of axes in words
    "sweeps/ui/state.py",  # a control
}
"""Files that name one axis of the mesh, the groups of requests; the others ask for what it does."""


def test_roles_of_a_mesh_of_all_axes():
    mesh = Deployment(tp=2.0, cp=3.0, attention_dp=5.0, pp=7.0, dp=11.0, ep=4.0)
    assert stage_devices(mesh) == 2 * 3 * 5
    assert replica_devices(mesh) == 2 * 3 * 5 * 7
    assert devices(mesh) == 2 * 3 * 5 * 7 * 11
    assert request_groups(mesh) == 5
    assert token_groups(mesh) == 3 * 5
    assert sequence_ways(mesh) == 5 * 11
    assert dense_copies(mesh) == 3 * 5 * 11
    assert splits_requests(mesh) and splits_tokens(mesh)


def test_degrees_that_are_not_there_are_one():
    plain = Deployment(tp=2.0)
    assert stage_devices(plain) == replica_devices(plain) == 2
    assert request_groups(plain) == token_groups(plain) == sequence_ways(plain) == 1
    assert not splits_requests(plain) and not splits_tokens(plain)
    assert splits_tokens(Deployment(cp=1.0)) and not splits_requests(Deployment(cp=1.0))


def test_a_replica_on_one_device():
    mesh = Deployment(tp=2.0, cp=3.0, attention_dp=5.0, pp=2.0, stages=(3.0, 4.0), dp=11.0, ep=4.0, kv_bytes=1.0)
    alone = on_one_device(mesh)
    assert replica_devices(alone) == 1 and alone.stages is None and alone.ep is None
    assert alone.dp == 11 and alone.kv_bytes == 1.0


def test_axes_are_named_from_the_nearest_devices_outwards():
    assert product(axes("layer")) == "tp x cp x attention_dp"
    assert product(axes("replica")) == "tp x cp x attention_dp x pp"
    assert SEQUENCE_WAYS == "dp x attention_dp"


@pytest.mark.parametrize("package", ["jaxroof", "hwspaces", "workloads", "sweeps"])
def test_few_files_name_an_axis(package):
    files = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / package).rglob("*.py")}
    naming = {name for name, path in files.items() if re.search(r"\battention_dp\b", path.read_text(encoding="utf-8"))}
    assert naming == {name for name in NAMES_GROUPS if name.startswith(package)}
