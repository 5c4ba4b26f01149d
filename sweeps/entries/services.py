"""Services in Python: the simulation of one deployment under a load, and the largest load that keeps limits."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hwspaces.quantities.units import plain_arguments
from sweeps.ask.keys import takes
from sweeps.entries.result import Result
from sweeps.entries.words import ServedEntryWords, fields
from sweeps.run.simulated.objective import SHARE
from sweeps.run.simulated.routes import router_names
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving import capacity as searches
from sweeps.serving import service_capacity as rates
from sweeps.serving.files import dataset, routers_dataset
from sweeps.serving.routers import routed
from sweeps.serving.run import Simulation, simulation

if TYPE_CHECKING:
    from typing import Unpack

    import matplotlib.figure
    import pandas as pd
    import xarray as xr

    from sweeps.ask.keywords import CapacityKeys, ServeKeys


class ServeResult(Result):
    """A simulation of one deployment under one load; of several routers one each.

    Attributes:
      simulations: by router.
    """

    def __init__(self, simulations: Mapping[str, Simulation]):
        self.simulations = dict(simulations)

    @property
    def metrics(self) -> dict[str, float]:
        """Figures of the run by name, in SI units; of several routers those of the first one."""
        return next(iter(self.simulations.values())).metrics

    @property
    def dataset(self) -> "xr.Dataset":
        """Figures without dimension; latencies and outcome along `request`, what the engine did along `iteration`.

        With several routers, figures and requests along `router`.
        """
        first = next(iter(self.simulations.values()))
        if len(self.simulations) == 1:
            return dataset(first)
        return routers_dataset(dataclasses.replace(first.spec, router=",".join(self.simulations)), self.simulations)

    def table(self) -> "pd.DataFrame":
        """Every request with its latencies and outcome; of several routers the figures of each."""
        data, along = self.dataset, "request" if len(self.simulations) == 1 else "router"
        columns = [name for name in data.data_vars if data[name].dims == (along,)]
        return data[columns].to_dataframe()

    def plot(self) -> "matplotlib.figure.Figure":
        """Latencies, the queue, steps and cache over time; of several routers where their prompt tokens came from."""
        from sweeps.show.routers import routers
        from sweeps.show.serving_run import serving_run

        return (serving_run if len(self.simulations) == 1 else routers)(self.dataset)

    def _record(self) -> dict[str, Any]:
        from sweeps.answers import routers, serve

        (first, *others) = self.simulations.values()
        return routers.record(self.simulations) if others else serve.record(first)

    def _say(self) -> None:
        from sweeps.answers import routers, serve

        (first, *others) = self.simulations.values()
        return routers.show(self.simulations) if others else serve.show(first)


class CapacityResult(Result, searches.Search):
    """Capacities of accelerators, and the curve that the search started from."""

    @property
    def dataset(self) -> "xr.Dataset":
        """Latencies and throughput over accelerator and load, and the capacity of every accelerator."""
        return searches.dataset(self)

    def table(self) -> "pd.DataFrame":
        """A row for every accelerator: its capacity, what stops a larger one, latencies and costs there."""
        import pandas as pd

        return pd.DataFrame(self.record()["rows"])

    def plot(self) -> "matplotlib.figure.Figure":
        """Capacities, and latencies and throughput over the load."""
        from sweeps.show.load import load

        return load(self.dataset)

    def _record(self) -> dict[str, Any]:
        from sweeps.answers.capacity import record

        return record(self)

    def _say(self) -> None:
        from sweeps.answers.capacity import show

        show(self)


class ServiceCapacityResult(Result, rates.ServiceCapacity):
    """Capacity of one service, and the simulation at it."""

    @property
    def dataset(self) -> "xr.Dataset":
        """The simulation at the capacity, as of `sweeps.serve`."""
        return dataset(self.simulation)

    def table(self) -> "pd.DataFrame":
        """Every request of the simulation at the capacity."""
        return ServeResult({"": self.simulation}).table()

    def plot(self) -> "matplotlib.figure.Figure":
        """The simulation at the capacity."""
        return ServeResult({"": self.simulation}).plot()

    def _record(self) -> dict[str, Any]:
        from sweeps.answers.service_capacity import record

        return record(self)

    def _say(self) -> None:
        from sweeps.answers.service_capacity import show

        show(self)


@takes(ServedEntryWords)
@plain_arguments
def serve(
    hardware: str,
    model: str,
    *,
    progress: Callable[[int, int], None] = lambda done, requests: None,
    **words: "Unpack[ServeKeys]",
) -> ServeResult:
    """A simulated engine under a stream of requests: latencies, goodput and its timeline, as `jaxroof serve` has it.

    Args:
      hardware, model: names of the catalogues, or files.
      rate, isl, osl: requests per second, prompt and output tokens: numbers, or "lognormal:mean=1024,sigma=0.8".
        In their place: trace, arrivals, concurrency, traffic.
      slo: what a good request keeps: "ttft=500ms,tpot=40ms".
      router: several with commas between are compared.
      progress: called now and then with the requests that are over and with all.

    Raises:
      ValueError: one line that names the key, its value and what is allowed.

    Example:
      found = sweeps.serve("H100-SXM", "Llama-3.1-8B", rate=8, isl=1024, osl=256, slo="ttft=500ms,tpot=40ms")
      found.metrics["ttft_p99"]  # s; found.table() has every request, found.dataset iterations as well
    """
    spec = serve_spec(hardware=hardware, model=model, **fields(words))
    if len(router_names(spec.router)) > 1:
        return ServeResult(routed(spec, lambda name, *done: progress(*done)))
    return ServeResult({spec.router or "": simulation(spec, progress)})


@takes(ServedEntryWords)
@plain_arguments
def capacity(
    model: str,
    hardware: str | Iterable[str],
    slo: str | Mapping[str, Any],
    *,
    share: float | str = SHARE,
    rates: Sequence[float] | None = None,
    concurrencies: Sequence[float] | None = None,
    closed: bool = False,
    tp: int | Sequence[int] | None = None,
    node: int | None = None,
    tolerance: float = searches.TOLERANCE,
    begun: Callable[[int], Callable[[int], None]] = lambda simulations: lambda done: None,
    **words: "Unpack[CapacityKeys]",
) -> CapacityResult:
    """The largest load at which each of many accelerators keeps its limits, as `jaxroof capacity` finds it.

    Args:
      model: a name of the catalogue, or a file.
      hardware: accelerators, or "all": every one that is rented out.
      slo: "ttft=500ms,tpot=40ms" by a `share` of the requests, "ttft_p99=1s,tpot_mean=30ms" by the run.
      rates: requests per second of the curve that the search starts from; None: by what the accelerators can do.
      concurrencies: clients in their place; `closed`: as many as it takes.
      tp: tensor-parallel degree, or several; None: the smallest power of two at which the model fits.
      node, tolerance: devices of one server, which is rented whole; of the capacity, relative.
      begun: called with the number of simulations to come; returns what is called with those that are done.
      isl, osl, trace, requests, deployment, policy ...: as of `sweeps.serve`.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.

    Example:
      found = sweeps.capacity("Llama-3.1-8B", ["H100-SXM", "L40S"], "ttft=1s,tpot=50ms", isl=1024, osl=128)
      found.table()[["hardware", "capacity", "usd_per_million_tokens"]]
    """
    if isinstance(hardware, str):
        from hwspaces import rented_names

        hardware = rented_names() if hardware == "all" else [name.strip() for name in hardware.split(",")]
    loads: dict[str, Any] = {"rates": rates, "concurrencies": concurrencies, "closed": closed}
    how: dict[str, Any] = {"share": share, "tp": tp, "node": node, "tolerance": tolerance, "begun": begun}
    return CapacityResult.of(searches.capacity(model, hardware, slo, **loads, **how, **fields(words)))


@takes(ServedEntryWords)
@plain_arguments
def service_capacity(
    model: str,
    hardware: str,
    slo: str | Mapping[str, Any],
    *,
    share: float | str = SHARE,
    tolerance: float = rates.TOLERANCE,
    begun: Callable[[int], Callable[[int], None]] = lambda simulations: lambda done: None,
    **words: "Unpack[CapacityKeys]",
) -> ServiceCapacityResult:
    """The largest rate at which a whole service keeps its limits, as `jaxroof capacity --router` finds it.

    All replicas are simulated together, at rates that close in on the largest.

    Args:
      model, slo, share, begun: as of `sweeps.capacity`.
      hardware: accelerator of the replicas; with `prefill`, of those that decode.
      tolerance: of the rate, relative.
      router, prefill, tiers, deployment, isl, osl, requests ...: as of `sweeps.serve`. Where nothing says how many
        requests there are, 1,000 for every replica that decodes, and 8,000 at most.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.

    Example:
      sweeps.service_capacity("Llama-3.1-8B", "H100-SXM", "ttft=500ms,tpot=40ms", isl=1024, osl=128,
        deployment={"dp": 4}, router="least_requests").load
    """
    how: dict[str, Any] = {"share": share, "tolerance": tolerance, "begun": begun}
    return ServiceCapacityResult.of(rates.service_capacity(model, hardware, slo, **how, **fields(words)))
