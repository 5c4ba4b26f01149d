"""Engines that are compared under one stream of requests: each accelerator with the devices that the model needs."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

import hwspaces
import workloads
from hwspaces import formatted
from hwspaces.accelerators.prices import charged_devices, server_devices
from jaxroof.batch import Policy, Traffic
from jaxroof.deployment import charged_share, replica_devices
from jaxroof.jobs.serve import Objective, Service
from jaxroof.memory.capacity import kv_capacity_tokens, weight_bytes, weights_fit
from jaxroof.memory.legality import broken_rule
from sweeps.ask.cases import Case, require_precisions
from sweeps.ask.effects import Facts, given_paths, require_effect
from sweeps.ask.engines import chosen
from sweeps.ask.layouts import reach
from sweeps.run.simulated.grid import Metrics, outcomes
from sweeps.run.simulated.load import Load, load, require_prefix_cache
from sweeps.run.simulated.policies import chosen_policy, policy_values, require_lengths, require_priced
from sweeps.run.simulated.spec import ServeSpec
from workloads.streams.streams import mean_rate

MOST_DEVICES = 16
"""Tensor-parallel degree that is tried at most where none is given."""


@dataclasses.dataclass(frozen=True, eq=False)
class FleetPlace:
    """One deployment on one accelerator, charged by whole servers."""

    label: str  # the accelerator's name, and its deployment where there are several
    case: Case  # without a workload
    server: int = 1  # devices of one server

    @property
    def devices(self) -> int:
        """Devices of the one replica."""
        return int(replica_devices(self.case.scenario.deployment))

    @property
    def rented_devices(self) -> float:
        """Devices that the replica is charged for: its part of whole servers."""
        return self.devices * float(charged_share(self.case.scenario.deployment))

    @property
    def price(self) -> float:
        """US dollars per s of what is rented; NaN where the accelerator has no price."""
        price = self.case.scenario.hardware.price
        return math.nan if price is None else float(price) * self.rented_devices


@dataclasses.dataclass(frozen=True, eq=False)
class Fleet:
    """Deployments, the policy of their engines, and the requests that each of them is sent."""

    places: tuple[FleetPlace, ...]
    left_out: Mapping[str, str]  # accelerator -> why it cannot serve the model
    policy: Policy
    engine: str
    requests: Load
    traffic: Traffic  # of the requests: at their mean rate, or of one client
    rate: float | None  # requests per s of `traffic`; None: a closed loop
    spec: ServeSpec  # what was asked; its hardware is not read

    @property
    def model(self) -> workloads.ModelEntry:
        """The model that is served."""
        return self.places[0].case.model

    @property
    def notes(self) -> tuple[str, ...]:
        """What the requests' source says, and which figures of accelerators only the press gives."""
        devices = (one.case.hardware for one in self.places)
        press = (f"{device.name}: {text}" for device in devices for text in device.press)
        return tuple(dict.fromkeys((*self.requests.stream.notes, *press)))

    def traffic_at(self, amount: float) -> Traffic:
        """The same requests at `amount` requests per s, their times stretched; or from `amount` clients."""
        if self.rate is None:
            return dataclasses.replace(self.traffic, clients=float(amount))
        # One factor for all times keeps the pattern of arrivals, such as bursts.
        return dataclasses.replace(self.traffic, arrival=self.traffic.arrival * (self.rate / amount))

    def outcomes(
        self,
        amounts: Sequence[float] | np.ndarray,
        objective: Objective,
        progress: Callable[[int], None] = lambda points: None,
    ) -> Metrics:
        """Metrics of every deployment at a load of its own, shape [deployments], of `sweeps.run.simulated.grid`."""
        # Limits of the requests' own classes, where the load has some.
        limits = self.requests.objective(objective)
        points = [
            dataclasses.replace(
                place.case.scenario,
                workload=Service(traffic=self.traffic_at(float(amount)), policy=self.policy, objective=limits),
            )
            for place, amount in zip(self.places, amounts, strict=True)
        ]
        return outcomes(points, progress)


def fleet(
    asked: ServeSpec,
    hardware: str | Iterable[str],
    tp: int | Iterable[int] | None = None,
    node: int | None = None,
) -> Fleet:
    """Everything that is compared.

    Args:
      asked: model, deployment and load; its hardware is not read. `concurrency` makes a closed loop, whatever its
        number; `rate` is not read.
      hardware: accelerators; those that lack a precision or on which the model does not fit are left out.
      tp: tensor-parallel degrees, each of them on every accelerator; None: the smallest power of two at which weights
        and a KV cache for the longest request fit.
      node: devices of one server, which is rented whole; None: that of `hwspaces.accelerators.prices`.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed; also where nothing can serve.
    """
    # Loads and capacities are those of one replica.
    if float(asked.deployment.get("dp", 1)) != 1.0:
        raise ValueError("deployment.dp: a load is that of one replica; n replicas take n times as much")
    # A trace and arrivals have rates of their own; other requests are drawn at 1 per s and stretched.
    closed, plain = asked.concurrency is not None, asked.trace is None and asked.arrivals is None
    words = dataclasses.replace(asked, concurrency=1 if closed else None, rate=1.0 if plain and not closed else None)
    requests = load(words)
    rate = None if closed else 1.0 if plain else mean_rate(requests.stream)
    if rate is not None and not math.isfinite(rate):
        raise ValueError(f"{requests.stream.name}: its requests arrive at one time, so they have no rate to change")
    # The longest request, in tokens, decides which degrees are large enough.
    longest = float(np.max(requests.stream.isl + requests.stream.osl))
    degrees = None if tp is None else [tp] if isinstance(tp, int) else list(dict.fromkeys(tp))
    members, left_out = [], {}
    for name in dict.fromkeys([hardware] if isinstance(hardware, str) else hardware):
        try:
            members += _places(name, asked, degrees, longest, node)
        # A device that cannot serve the model is left out with the reason; the others are compared.
        except Unable as error:
            left_out[hwspaces.hardware(name).name] = str(error)
    if not members:
        first = next(iter(left_out), None)
        raise ValueError("hardware is empty" if first is None else f"{first}: {left_out[first]}")
    engine = chosen(asked.engine, asked.efficiency).engine.words
    policy = chosen_policy(engine, asked.policy)
    require_prefix_cache(asked.hit_rate, policy)
    _require_effect(asked, members, policy)
    for one in members:
        require_lengths(policy, one.case.scenario.deployment)
    return Fleet(tuple(members), left_out, policy, engine, requests, requests.traffic, rate, asked)


def _require_effect(asked: ServeSpec, places: Iterable[FleetPlace], policy: Policy) -> None:
    """ValueError, one line, for a setting that changes nothing at any deployment."""
    given = given_paths(asked, policy=asked.policy)
    require_effect(given, Facts(tuple(one.case.scenario for one in places), policy_values(policy)))


class Unable(Exception):
    """Why an accelerator cannot serve a model."""


def _places(
    name: str, asked: ServeSpec, degrees: list[int] | None, longest: float, node: int | None
) -> list[FleetPlace]:
    def at(degree: int | str) -> Case:
        settings = {**asked.deployment, "tp": degree}
        return dataclasses.replace(asked, hardware=name, deployment=settings, draft=None).case(check=False)

    # A degree of the deployment comes before those to be tried.
    given = [int(asked.deployment["tp"])] if "tp" in asked.deployment else degrees
    try:
        first = at(asked.deployment.get("tp", 1))
        require_priced(first.model.name, first.scenario.model, first.scenario.deployment)
        require_precisions(first.hardware, first.model, first.scenario.deployment)
    except ValueError as error:
        # Only a missing figure of the device leaves it out: any other error is the user's.
        if "figure" not in str(error):
            raise
        raise Unable(str(error)) from None
    # Powers of two up to what the widest link connects.
    most = min(MOST_DEVICES, reach(first.hardware.hardware))
    server = server_devices(first.hardware.name, node)
    tried = given or [2**i for i in range(int(most).bit_length()) if 2**i <= most]
    members, why = [], ""
    for degree in tried:
        case = at(degree)
        scenario = case.scenario
        place = scenario.hardware, scenario.model, scenario.deployment
        rule = broken_rule(*place)
        if rule is not None:
            why = rule
            continue
        # Tokens of KV cache beside the weights: at least those of the longest request.
        room = float(kv_capacity_tokens(*place))
        if not bool(weights_fit(*place)) or room < longest:
            weights = formatted(float(weight_bytes(scenario.model, scenario.deployment)), "B")
            of = formatted(float(scenario.hardware.memory.hbm.capacity), "B")
            why = f"tp {degree}: weights of {weights} in {of} per device leave KV cache for {room:,.0f} tokens, of "
            why += f"{longest:,.0f} that the longest request needs"
            continue
        label = case.hardware.name if given is None or len(given) == 1 else f"{case.hardware.name} tp{degree}"
        members.append(_charged(label, case, server))
        # Without a list of degrees the smallest that fits is taken.
        if given is None:
            break
    if not members:
        raise Unable(why)
    return members


def _charged(label: str, case: Case, server: int) -> FleetPlace:
    """The deployment, charged for its part of whole servers unless the deployment says what it is charged for."""
    deployment = case.scenario.deployment
    used = float(replica_devices(deployment))
    charged = float(charged_devices(used, server))
    if deployment.charged is None and charged != used:
        paid = dataclasses.replace(deployment, charged=charged)
        case = dataclasses.replace(case, scenario=dataclasses.replace(case.scenario, deployment=paid))
    return FleetPlace(label, case, server)
