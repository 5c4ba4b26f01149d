"""Cost and emissions of tokens, and throughput per device, per watt and per dollar."""

from collections.abc import Sequence

from jaxroof.chip.area import die_area
from jaxroof.chip.cost import capital_rate, device_cost, device_price, emission_rate, energy_price
from jaxroof.deployment import Deployment, charged_share, devices, replica_devices
from jaxroof.energy.energy import Joules
from jaxroof.hardware import Hardware, ridge
from jaxroof.jobs.scenario import Metric, Pool, higher, lower
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.step.step import dominant_bound


def step_joules(sums: dict[str, Scalar], step: str) -> Joules | None:
    """Energy of one micro-batch of an engine step in all stages; None where it is unknown."""
    if f"{step}_core_energy" not in sums:
        return None
    return Joules(sums[f"{step}_core_energy"], sums[f"{step}_other_energy"])


def clocks(hardware: Hardware, shares: dict[str, Scalar]) -> dict[str, Scalar]:
    """Clocks in Hz from their shares of the full clock, by name; nothing where the full clock is unknown."""
    full = hardware.cores.clock
    return {} if full is None else {name: share * full for name, share in shares.items()}


def binding(sums: dict[str, Scalar], step: str, time: Scalar, unlimited: Scalar | None = None) -> Array:
    """What binds an engine step, shape (): an index into `BOUNDS`.

    Args:
      sums: over the step's ops.
      time: s of the step, or of all its micro-batches, under the limit of electrical power.
      unlimited: s of the same without it; None: those of the step.
    """
    # Power binds where its limit made the step longer.
    return dominant_bound(sums[f"{step}_by_bound"], time > (sums[step] if unlimited is None else unlimited))


MILLION, BILLION = 1e6, 1e9
"""Tokens that prices are of."""

GRAMS = 1e3
"""g per kg."""


TOKENS = "output tokens, of a served stream in its steady part; of a single step, prompt and output tokens"
"""Which tokens figures per token are of."""

METRICS = {
    "ridge": Metric("1", "FLOP per byte of HBM traffic from which on the matrix units bind, attention precision"),
    "devices": lower("1", "devices of the deployment"),
    "rented_devices": lower("1", "devices that are paid for: those of whole servers"),
    "tokens_per_second": higher("1/s", f"tokens per second of all replicas: {TOKENS}"),
    "tokens_per_second_per_device": higher("1/s", f"tokens per second and device: {TOKENS}"),
    "power": lower("W", "mean electrical power of one device"),
    "joules_per_token": lower("J", f"energy of a replica's devices per token: {TOKENS}"),
    "tokens_per_joule": higher("1/J", f"tokens per joule of a replica, or per second and watt: {TOKENS}"),
    "tokens_per_joule_at_tdp": higher("1/J", f"tokens per second, device and watt of TDP: {TOKENS}"),
    "die_area": lower("m2", "area of all dies of a device, without memory stacks"),
    "device_cost": lower("1", "US dollars to make a device"),
    "device_price": lower("1", "US dollars that a device is bought for: cost to make times margin"),
    **{
        f"{kind}usd_per_million_tokens": lower("1", f"US dollars per million tokens {words}: {TOKENS}")
        for kind, words in (
            *(("", "at the device's price"), ("energy_", "for electricity")),
            ("capital_", "for owning devices, servers and their place"),
            ("owning_", "for owning and running the devices"),
        )
    },
    **{
        f"{kind}usd_per_million_prompt_tokens": lower("1", f"US dollars per million prompt tokens {words}")
        for kind, words in (
            *(("", "at the device's price"), ("energy_", "for electricity")),
            ("capital_", "for owning devices, servers and their place"),
            ("owning_", "for owning and running the devices"),
        )
    },
    "usd_per_thousand_requests": lower("1", "US dollars per thousand requests at the device's price"),
    "gco2_per_million_prompt_tokens": lower("1", "grams of CO2 equivalent per million prompt tokens, for electricity"),
    "joules_per_request": lower("J", "energy of a replica's devices per request"),
    "gco2_per_million_tokens": lower("1", f"grams of CO2 equivalent per million tokens, for electricity: {TOKENS}"),
}
"""Throughput, power and money of every job that makes tokens."""


def economics(
    hardware: Hardware, deployment: Deployment, rate: Scalar, joules_per_token: Scalar | None = None
) -> dict[str, Scalar]:
    """Throughput of all replicas and per device, and what tokens cost whoever rents or owns the devices.

    Args:
      rate: tokens/s of one replica: output tokens, or those of `jaxroof.jobs.step.step_tokens`.
      joules_per_token: of all devices of a replica and the same tokens; None: unknown.
    """
    metrics = {"ridge": ridge(hardware, deployment.attention_compute), **throughput(hardware, deployment, rate)}
    emitted = _emissions(hardware, joules_per_token)
    # Rented devices that a replica leaves idle are paid for as well.
    per_charged = metrics["tokens_per_second_per_device"] / charged_share(deployment)
    return metrics | _owning(hardware, per_charged, joules_per_token) | emitted


def throughput(hardware: Hardware, deployment: Deployment, rate: Scalar) -> dict[str, Scalar]:
    """Tokens/s of all replicas and per device, and per watt and dollar where the hardware has figures for them.

    Args:
      rate: tokens/s of one replica.
    """
    per_device = rate / replica_devices(deployment)
    metrics = {
        "devices": devices(deployment),
        "tokens_per_second": rate * deployment.dp,
        "tokens_per_second_per_device": per_device,
    }
    if hardware.power.tdp is not None:
        metrics["tokens_per_joule_at_tdp"] = per_device / hardware.power.tdp
    if hardware.price is not None:
        metrics["usd_per_million_tokens"] = usd_of_tokens(
            MILLION, hardware.price * charged_share(deployment), per_device
        )
    return metrics


def pooled_economics(pools: Sequence[Pool], rate: Scalar) -> dict[str, Scalar]:
    """Throughput of several pools together, per device, and per dollar where all have prices.

    Args:
      rate: tokens/s of all of them.
    """
    counts = [devices(pool.deployment) for pool in pools]
    # Each pool is charged for whole servers.
    charged = [count * charged_share(pool.deployment) for count, pool in zip(counts, pools, strict=True)]
    prices = [pool.hardware.price for pool in pools]
    metrics = {
        "devices": sum(counts),
        "tokens_per_second": rate,
        "tokens_per_second_per_device": rate / sum(counts),
    }
    if all(price is not None for price in prices):
        price = sum(count * price for count, price in zip(charged, prices, strict=True))
        metrics["usd_per_million_tokens"] = usd_of_tokens(MILLION, price, rate)
    return metrics


def usd_of_tokens(tokens: Scalar, price: Scalar, rate: Scalar) -> Scalar:
    """USD of `tokens` tokens from devices of `price` USD/s in all that make `rate` tokens/s."""
    # Price per token is price per second over tokens per second.
    return tokens * price / rate


def joules_of_tokens(tokens: Scalar, power: Scalar, rate: Scalar) -> Scalar:
    """J of `tokens` tokens from devices of `power` W in all that make `rate` tokens/s."""
    return tokens * power / rate


def _emissions(hardware: Hardware, joules_per_token: Scalar | None) -> dict[str, Scalar]:
    """Grams of CO2 equivalent of tokens; nothing where their joules or the grid are unknown."""
    if joules_per_token is None or hardware.costs is None:
        return {}
    # Energy at the plug: PUE is in the emission rate.
    return {"gco2_per_million_tokens": MILLION * GRAMS * joules_per_token * emission_rate(hardware)}


def _owning(hardware: Hardware, per_charged: Scalar, joules_per_token: Scalar | None) -> dict[str, Scalar]:
    """Die area, what a device costs, and what tokens cost its owner: capital, and energy where the joules are known."""
    if hardware.silicon is None:
        return {}
    metrics = {"die_area": die_area(hardware)}
    if hardware.costs is None:
        return metrics
    metrics |= {"device_cost": device_cost(hardware), "device_price": device_price(hardware)}
    if hardware.power.tdp is not None:
        # Capital is paid for every second, by tokens of that second; energy only for tokens that are made.
        capital = usd_of_tokens(MILLION, capital_rate(hardware), per_charged)
        metrics["capital_usd_per_million_tokens"] = capital
        if joules_per_token is not None:
            energy = MILLION * joules_per_token * energy_price(hardware)
            metrics |= {"energy_usd_per_million_tokens": energy, "owning_usd_per_million_tokens": capital + energy}
    return metrics
