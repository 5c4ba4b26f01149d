"""Weight-only execution: formats whose precision a device lacks, by hand and against formats that say it themselves."""

import dataclasses

import pytest

from jaxroof.batch import decode, prefill
from jaxroof.deployment import Deployment
from jaxroof.efficiency import datasheet
from jaxroof.model import WeightFormat
from jaxroof.step.forward import as_run, converted_precisions
from jaxroof.step.step import step_time

FP8 = WeightFormat(bytes=1.0, compute="fp8", fallback="bf16")
CALIBRATED = dataclasses.replace(FP8, calibrated=True)
BLOCKS = dataclasses.replace(FP8, scaled=True)
NVFP4 = WeightFormat(bytes=0.5625, compute="fp4", fallback="bf16")
CONVERTED = WeightFormat(bytes=1.0, compute="bf16", dequantised=True)


def with_down(model, weights):
    block = model.blocks[0]
    layer = dataclasses.replace(block.feedforward, down=weights)
    return dataclasses.replace(model, blocks=(dataclasses.replace(block, feedforward=layer), *model.blocks[1:]))


def lacking(chip, *precisions):
    return dataclasses.replace(chip, matrix={k: v for k, v in chip.matrix.items() if k not in precisions})


@pytest.mark.parametrize("weights", [FP8, CALIBRATED, BLOCKS])
@pytest.mark.parametrize("batch", [prefill(1.0, 300.0), decode(5.0, 100.0)])
def test_fp8_without_its_units_costs_what_weight_only_8_bits_cost(dense, chip, weights, batch):
    ampere = lacking(chip, "fp8")
    found, right = (
        step_time(ampere, with_down(dense, each), Deployment(), batch, datasheet()) for each in (weights, CONVERTED)
    )
    assert float(found) == float(right)


def test_stored_bytes_stay_and_the_kernel_converts(dense, chip):
    run = as_run(with_down(dense, NVFP4), lacking(chip, "fp4", "fp8")).blocks[0].feedforward.down
    assert (run.bytes, run.compute, run.dequantised, run.scaled, run.calibrated) == (0.5625, "bf16", True, False, False)


def test_a_model_that_the_device_multiplies_is_itself(dense, chip):
    model = with_down(dense, FP8)
    whole = dataclasses.replace(chip, matrix={**chip.matrix, "fp8": 1e15})
    assert as_run(model, whole) is model
    assert converted_precisions(model, whole) == ()
    assert converted_precisions(model, lacking(chip, "fp8")) == (("fp8", "bf16"),)


def test_a_format_without_fallback_is_refused(dense, chip):
    int8 = WeightFormat(bytes=1.0, compute="int8")
    with pytest.raises(ValueError, match="no matrix peak for int8"):
        step_time(lacking(chip, "int8"), with_down(dense, int8), Deployment(), prefill(1.0, 7.0), datasheet())
