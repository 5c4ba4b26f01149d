"""Figures of whole networks in docs/evidence/networks.md, on a few rows of every library."""

import numpy as np
import pytest

import hwspaces
from tests.evidence import networks
from tests.evidence.network_rows import ENGINES, FITTED, SOURCES, is_fitted, rows

FEW = [
    ("resnet50", "T4", "PyTorch", "fp16", 128),
    ("resnet50", "RTX-4090", "PyTorch", "fp16", 512),
    ("efficientnet_b0", "A100-SXM-80GB", "PyTorch", "fp16", 256),
    ("resnet50", "V100-SXM", "TensorRT 4", "fp32", 32),
    ("mobilenet_v2", "A100-SXM-80GB", "TensorRT", "int8", 1),
    ("bert_large", "T4", "TensorRT", "int8", 32),
    ("efficientnet_lite3", "Cortex-A76", "TFLite", "int8", 1),
    ("mobilenet_v2", "Cortex-A76", "TFLite", "fp32", 1),
    ("mnasnet", "Raspberry-Pi-4", "ncnn", "fp32", 1),
    ("efficientnet_lite1", "Adreno-640", "TFLite GPU", "fp16", 1),
    ("vgg16", "Edge-TPU", "Edge TPU", "int8", 1),
    ("mobilenet_v1", "Edge-TPU", "Edge TPU", "int8", 1),
]


@pytest.fixture(scope="module")
def found():
    chosen = [row for row in rows() if (row.network, row.device, row.engine, row.precision, row.batch) in FEW]
    return networks.scored([row for row in chosen if not row.training])


def test_times_are_near_the_published_ones(found):
    """Half of 30 % and more of the rows that nothing was fitted to."""
    errors = [abs(one.error) for one in found]
    assert len(found) >= len(FEW) and np.median(errors) < 0.15 and max(errors) < 0.45
    assert {one.row.engine for one in found} == set(ENGINES) - {"MXNet", "XNNPACK"}


def test_columns_of_kernels_give_the_time_of_the_function(found):
    for one in found[:3]:
        assert networks.predicted(one.row) == pytest.approx(one.predicted, rel=1e-9)


def test_nn_meters_networks_are_ranked_as_it_ranks_them():
    _, rank = networks.nn_meter_rank()
    assert rank >= 0.9


def test_every_row_has_a_source_and_every_library_rows_that_judge():
    for row in rows():
        assert row.source in SOURCES and row.time > 0.0
        assert ENGINES[row.engine][1] in FITTED
    for name in FITTED:
        judged = {is_fitted(row) for row in rows() if ENGINES[row.engine][1] == name}
        assert judged == {True, False}


def test_a_launch_by_the_host_binds_small_batches():
    """175 operators, 30 to 60 us each, whatever the GPU: published times of batches of 1 and 8 are the same."""
    row = next(row for row in rows() if (row.network, row.device, row.batch) == ("resnet50", "V100-SXM", 1))
    launch = hwspaces.efficiency("pytorch").efficiency.host.kernel_time
    kernels = sum(float(op.count * op.kernels) for op in networks.network_of(row).ops().values())
    assert networks.predicted(row) == pytest.approx(launch * kernels)
