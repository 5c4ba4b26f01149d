"""Launches that kernels hide which start before the last has ended: by hand, and where there are none."""

import dataclasses

import pytest

import hwspaces
import workloads
from jaxroof import batch
from jaxroof.deployment import Deployment
from jaxroof.numerics.arrays import eager
from jaxroof.op import Kernel
from jaxroof.roofline import op_timing
from jaxroof.step.overlap import overlapped_ops


@pytest.fixture(scope="module")
def op():
    """A projection of one decoding step."""
    model = workloads.model("Llama-3.1-8B").model
    ops = overlapped_ops(model, Deployment(kv_bytes=2.0), batch.decode(8.0, 1024.0))
    return next(one for name, one in ops.items() if isinstance(one, Kernel) and "down" in name)


def timing(op, device, share):
    efficiency = hwspaces.efficiency("learned-vllm").efficiency
    host = dataclasses.replace(efficiency.host, early_launch=share)
    with eager():
        return op_timing(op, hwspaces.hardware(device).hardware, dataclasses.replace(efficiency, host=host))


def test_a_share_of_the_launch_is_hidden_where_results_have_a_memory(op):
    whole, early = timing(op, "B200-SXM", None), timing(op, "B200-SXM", 0.25)
    launch = whole.resources["launch"]
    assert launch > 0.0 and early.resources["launch"] == pytest.approx(0.75 * launch)
    assert early.total == pytest.approx(whole.total - 0.25 * launch)
    assert early.resources["hbm"] == whole.resources["hbm"]


def test_other_cores_and_lone_kernels_keep_it(op):
    assert timing(op, "H100-SXM", 0.25).total == timing(op, "H100-SXM", None).total
    alone = dataclasses.replace(op, reuse_bytes=op.bytes)
    assert timing(alone, "B200-SXM", 0.25).total == timing(alone, "B200-SXM", None).total
