"""Workers of a service that encode images alone, from a user's words: their devices, times, and what they send.

A worker is one device with the encoder alone. It encodes the images of one request in

    time = encoder's kernels + time of the host per step

and sends their vectors, tokens / merged x hidden x bytes of an activation, over the slower of both ends' links. Engines
hold no encoder's weights then, and do none of its work.
"""

import dataclasses
import re
from typing import Any

from jaxroof.batch import Encode
from jaxroof.energy.energy import Joules, power_known
from jaxroof.energy.governor import power_limit, time_within
from jaxroof.hardware import on_host
from jaxroof.jobs import Scenario
from jaxroof.jobs.scenario import Pool
from jaxroof.jobs.splits import lane_time
from jaxroof.model import Model
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import given
from jaxroof.prices.tables import Parts
from sweeps.ask.cases import Case, require_precisions
from sweeps.ask.deployments import pool_of
from sweeps.run.simulated.load import Load
from sweeps.run.simulated.spec import ServeSpec

ENCODERS = re.compile(r"(\d{1,6})(?:x(\S+))?")
"""Words of a user: how many, and of which accelerator."""


@dataclasses.dataclass(frozen=True)
class EncoderPool:
    """Workers that are alike."""

    hardware: str  # name
    pool: Pool  # of `dp` devices
    time: float  # s of the images of one request
    transfer: float  # s that their vectors are on their way

    @property
    def workers(self) -> int:
        """How many."""
        return int(self.pool.deployment.dp)


def encoder_pool(asked: ServeSpec, given_load: Load, case: Case) -> EncoderPool | None:
    """The workers that are asked for; None: images are encoded where prompts are computed.

    Raises:
      ValueError: one line: text that says no number, an accelerator that there is not, requests without images, or
        replicas that start and stop.
    """
    if asked.encoders is None:
        return None
    text, scenario = str(asked.encoders), case.scenario
    words = ENCODERS.fullmatch(text.strip())
    if words is None or not int(words[1]):
        raise ValueError(f"encoders = {text!r} must be a number of devices, or N x an accelerator: 2, 2xL40S")
    if given_load.images is None:
        raise ValueError(f"encoders = {text!r} has no effect: requests have no images (image = WIDTHxHEIGHT)")
    if asked.autoscale is not None:
        raise ValueError("encoders cannot be given with autoscale")
    settings: dict[str, Any] = {"dp": int(words[1])} | ({} if words[2] is None else {"hardware": words[2]})
    constants = dataclasses.replace(case.efficiency, efficiency=scenario.efficiency)
    entry = case.model
    found = pool_of(settings, entry, case.hardware, constants, scenario.deployment, asked.prices, "encoders")
    require_precisions(found.hardware, entry, found.pool.deployment)
    receiver = scenario.prefill or Pool(
        hardware=scenario.hardware, deployment=scenario.deployment, efficiency=scenario.efficiency
    )
    encode = given_load.images.encode
    with eager():
        time = encoding_time(found.pool, scenario.model, encode)
        message = vector_bytes(scenario.model, found.pool, encode)
        if any(
            pool.hardware.links.scale_up is None and pool.hardware.links.scale_out is None
            for pool in (found.pool, receiver)
        ):
            raise ValueError(f"encoders = {text!r}: the hardware has no links to send vectors over")
        transfer = float(maximum(*(lane_time(pool, message) for pool in (found.pool, receiver))))
    return EncoderPool(found.hardware.name, found.pool, time, transfer)


def encoding_time(pool: Pool, model: Model, encode: Encode) -> float:
    """s in which one device encodes the images of one request, under the limit of its power."""
    hardware = pool.hardware
    spent = Parts(hardware, model, pool.deployment, pool.efficiency).encoder(1.0, encode)
    time = spent[0] + on_host(pool.efficiency.host.step_time, hardware)
    limit = power_limit(hardware) if power_known(hardware) else None
    return float(time if limit is None else time_within(limit, time, Joules(spent[1], spent[2])))


def vector_bytes(model: Model, pool: Pool, encode: Encode) -> float:
    """B of the vectors that the images of one request become for the decoder."""
    encoder = given(model.encoder, "encoder")
    return float(encode.tokens / encoder.merged * model.hidden * pool.deployment.activation_bytes)


def without_encoder(scenario: Scenario) -> Scenario:
    """The scenario of engines whose prompts come with the vectors of their images."""
    work = scenario.workload
    if work is not None:
        work = dataclasses.replace(work, traffic=dataclasses.replace(work.traffic, encode=None))
    return dataclasses.replace(scenario, model=dataclasses.replace(scenario.model, encoder=None), workload=work)
