"""Laws in specifications: a sweep, a sample and an optimisation obey them, and a number cannot be set twice."""

import numpy as np
import pytest

import sweeps

POINT = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "workload": {"batch": 4, "isl": 512, "osl": 16}}
PEAK = {"hardware.matrix.bf16": "cores.count * cores.clock * cores.matrix_flops_per_clock.bf16"}
COUNTS = [66, 132, 264]


def test_a_linked_grid_is_the_grid_of_what_follows():
    linked = sweeps.sweep(POINT, axes={"hardware.cores.count": COUNTS}, laws=PEAK)
    for count in COUNTS:
        free = {"hardware.cores.count": count, "hardware.matrix.bf16": count * 1.83e9 * 4096}
        one = sweeps.sweep(POINT, set=free)
        assert linked.ttft.sel(cores_count=count).item() == pytest.approx(one.ttft.item(), rel=1e-6)


def test_compiled_and_eager_grids_agree():
    from sweeps.ask.spec import spec
    from sweeps.run.asked import asked
    from sweeps.run.engine import Plan

    question = asked(spec({**POINT, "axes": {"hardware.cores.count": COUNTS}, "laws": PEAK}))
    values = {}
    for name in ("numpy", "xla", "llvm"):
        pieces = Plan(question.question, question.axes, compiler=name).pieces()
        values[name] = next(piece.values for piece in pieces if piece.name == "ttft")
    np.testing.assert_allclose(values["xla"], values["numpy"], rtol=1e-5)
    np.testing.assert_allclose(values["llvm"], values["numpy"], rtol=1e-5)


def test_a_workload_may_follow_from_a_deployment():
    work = {"isl": 512, "osl": 16}
    laws = {"workload.batch": "16 * deployment.tp"}
    linked = sweeps.sweep({**POINT, "workload": work}, deployment={"tp": [1, 4]}, laws=laws)
    one = sweeps.sweep({**POINT, "workload": {**work, "batch": 64}}, deployment={"tp": 4})
    assert linked.tpot.sel(tp=4).item() == one.tpot.item()


def test_a_workload_may_follow_from_the_hardware():
    work = {"isl": 512, "osl": 16}
    laws = {"workload.batch": "hardware.cores.count / 33"}
    linked = sweeps.sweep({**POINT, "workload": work}, axes={"hardware.cores.count": COUNTS}, laws=laws)
    one = sweeps.sweep({**POINT, "workload": {**work, "batch": 8}}, set={"hardware.cores.count": 264})
    assert linked.tpot.sel(cores_count=264).item() == pytest.approx(one.tpot.item(), rel=1e-6)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"axes": {"hardware.matrix.bf16": ["1 PFLOP/s", "2 PFLOP/s"]}}, "is given besides"),
        ({"set": {"hardware.matrix.bf16": "1 PFLOP/s"}}, "is given besides"),
        ({"laws": {"hardware.matrix.bf16": "deployment.tp * cores.clock"}}, "deployment.tp is not a figure"),
        ({"laws": {"hardware.matrix.bf16": 3}}, "must be an expression"),
        ({"laws": {"workload.nothing": "3"}}, "workload.nothing"),
    ],
)
def test_wrong_laws_are_refused(more, said):
    with pytest.raises(ValueError, match=said):
        sweeps.sweep({**POINT, "laws": PEAK} | more)
