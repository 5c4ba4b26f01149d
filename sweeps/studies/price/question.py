"""A traced function as a question: its ops, its answer on one accelerator, sweeps over many, and elasticities."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import hwspaces
from jaxroof.energy.energy import power_known
from jaxroof.jobs.function import FUNCTION, FunctionWork, function_ops
from jaxroof.jobs.scenario import Scenario
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.struct import given
from jaxroof.op import AnyOp, Ops
from sweeps.ask.names import variable
from sweeps.run.answer import OpAnswer, op_answer
from sweeps.run.evidence import Beyond, ops_beyond

if TYPE_CHECKING:
    import xarray as xr

    from workloads.traced.function import Traced

USUAL_POLICY = "framework"
"""Fusion where nobody says otherwise: the kernels that engines run, as `jaxroof step` prices them."""


Device = str | hwspaces.HardwareEntry
"""An accelerator by its name or file, or an entry of the catalogue, whose figures may have been changed."""


@dataclasses.dataclass(frozen=True)
class FunctionAnswer:
    """Metrics of one run of a function by name, bounds as text; and its ops, in the order they first run."""

    metrics: dict[str, float | bool | str]
    ops: tuple[OpAnswer, ...]
    beyond: Beyond  # how far its time is beyond the evidence of its constants


@dataclasses.dataclass(frozen=True, eq=False)
class PricedFunction:
    """A function of JAX arrays that can be priced: traced once, for all sizes of its symbols.

    Attributes:
      traced: its kernels under a fusion policy.
      usual: sizes of symbols where a question does not say them.
    """

    traced: "Traced"
    usual: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def policy(self) -> str:
        """Its fusion policy and the rule of it, in words."""
        from workloads.traced.fusion import POLICIES

        return f"{self.traced.policy}: {POLICIES[self.traced.policy]}"

    def notes(
        self,
        hardware: Device | Sequence[Device],
        over: Mapping[str, Sequence[float]] | None = None,
        efficiency: str | None = None,
    ) -> tuple[str, ...]:
        """What a reader of an answer on these accelerators should know.

        Args:
          hardware: as `sweep` takes it.
          over: values of symbols: whether fusion would be another one at their ends is among the notes.
          efficiency: as `answer` takes it.
        """
        from sweeps.studies.price.notes import efficiency_notes, fusion_notes, precision_notes

        return (
            *self.traced.notes,
            *precision_notes(self.traced, _entries(hardware)),
            *(f"{device.name}: {text}" for device in _entries(hardware) for text in device.press),
            *fusion_notes(self.traced, over or {}),
            *efficiency_notes(self.traced, hwspaces.efficiency(efficiency).efficiency),
        )

    def decided_at(self, **sizes: float) -> "PricedFunction":
        """The same function where fusion is decided at these sizes: which arrays are large, and which are alike."""
        decided = given(self.traced.decided, "graph of the function, whose fusion could be decided again")
        numbers = {name: self._size(name, value) for name, value in sizes.items()}
        return dataclasses.replace(self, traced=decided(numbers))

    def ops(self, hardware: Device = "H100-SXM", **sizes: float) -> Ops:
        """Its ops by name on an accelerator, where symbols have these sizes."""
        with eager():
            return function_ops(self.scenario(hardware, None, sizes))

    def scenario(self, hardware: Device, efficiency: str | None, sizes: Mapping[str, float]) -> Scenario:
        """One run of the function on an accelerator; ValueError in one line for a name or a size that cannot be."""
        device, constants = _entry(hardware), hwspaces.efficiency(efficiency)
        # Hardware without the arithmetic of a kernel is refused by name, before anything is priced.
        self.traced.require_arithmetic(device.hardware.matrix, device.name)
        return self._at(device.hardware, constants.efficiency, self._sizes(sizes))

    def answer(self, hardware: Device, efficiency: str | None = None, **sizes: float) -> FunctionAnswer:
        """Metrics and ops of one run on an accelerator: in float64, on NumPy.

        Args:
          hardware: a name of the catalogue, a TOML file, or an entry of `hwspaces.hardware` or `hwspaces.overridden`.
          efficiency: "learned" (default), "datasheet", or a TOML file.
          sizes: of every symbol that had none when the function was traced.

        Raises:
          ValueError: one line that names what is wrong.
        """
        return answered(self.scenario(hardware, efficiency, sizes))

    def sweep(
        self,
        hardware: Device | Sequence[Device],
        over: Mapping[str, Iterable[float]] | None = None,
        efficiency: str | None = None,
        settings: Mapping[str, Iterable[Any]] | None = None,
        breakdown: bool = False,
        metrics: Sequence[str] | None = None,
        elasticities: Sequence[str] = (),
        dtype: str = "float64",
    ) -> "xr.Dataset":
        """Metrics over a grid of accelerators, sizes, and leaves of the hardware, as a labelled dataset.

        Args:
          hardware: accelerators, each as `answer` takes it.
          over: values of symbols, by name: an axis each.
          efficiency: as `answer` takes it.
          settings: values of leaves by dotted path, in SI units or text with a unit: an axis each.
          breakdown: also the costs of every op.
          metrics: those that are wanted; None: all, or the time where `elasticities` are asked for.
          elasticities: dotted paths, "hardware.memory.hbm.bandwidth" or "hardware.memory": of the metrics in their
            numbers at every point, as `elasticity_of_<metric>` with a dimension `knob`. Then no breakdown.
          dtype: "float64" or "float32".

        Raises:
          ValueError: one line that names what is wrong.
        """
        from sweeps.run.precision import precision
        from sweeps.studies.price import grid

        devices = _entries(hardware)
        if len({device.name for device in devices}) < len(devices) or not devices:
            raise ValueError(f"hardware must be different accelerators: {', '.join(device.name for device in devices)}")
        # The first accelerator is checked with the base scenario below.
        for device in devices[1:]:
            self.traced.require_arithmetic(device.hardware.matrix, device.name)
        sizes = {name: [self._size(name, value) for value in values] for name, values in (over or {}).items()}
        # The base has the first value of every axis; axes then replace its accelerator, sizes and leaves.
        base = self.scenario(devices[0], efficiency, {name: values[0] for name, values in sizes.items()})
        grid.require_metrics(base, metrics)
        axes = grid.axes(base, devices, sizes, settings or {})
        names = ", ".join(device.name for device in devices)
        attributes = {"function": self.traced.name, "fusion": self.policy, "hardware": names}
        attributes["notes"] = "; ".join(self.notes(devices, sizes, efficiency))
        # JAX has one precision at a time, which the whole evaluation needs.
        with precision(dtype):
            if elasticities:
                return grid.slopes(base, axes, elasticities, metrics or ("time",), attributes)
            return grid.evaluated(base, axes, metrics, breakdown, dtype, attributes)

    def elasticities(
        self,
        hardware: Device,
        efficiency: str | None = None,
        metric: str = "time",
        paths: Sequence[str] | None = None,
        **sizes: float,
    ) -> dict[str, float]:
        """d ln metric / d ln x of every number of the hardware and every size, by dotted path.

        Args:
          metric: one of the answer's that is a real number.
          paths: of the numbers; None: the hardware's that are not 0, and the sizes.

        Raises:
          ValueError: one line that names what is wrong.
        """
        from sweeps.run.evaluate import at_base
        from sweeps.studies.sensitivity.gradient import changes, metric_names
        from sweeps.studies.sensitivity.knobs import knobs

        scenario = self.scenario(hardware, efficiency, sizes)
        known = metric_names(FUNCTION, scenario)
        if metric not in known:
            raise ValueError(f"metric = {metric!r} is no real number of a function; those are {', '.join(known)}")
        own = tuple(f"workload.sizes.{name}" for name in self.traced.symbols)
        # Knobs of the hardware that are not 0, which have a logarithm, then every size.
        wanted = tuple(knob.path for knob in knobs(scenario, ("hardware",))) + own if paths is None else tuple(paths)
        value, slopes = at_base(changes(FUNCTION, (metric,), wanted), scenario)[metric]
        # Slopes are dy by d ln x; over y they are elasticities, d ln y / d ln x.
        return {path: float(slope) / float(value) for path, slope in slopes.items()}

    def _at(self, hardware: Any, efficiency: Any, sizes: Mapping[str, float]) -> Scenario:
        work = FunctionWork(sizes=dict(sizes), function=self.traced)
        nothing: Any = None  # a function has no model
        return Scenario(hardware=hardware, model=nothing, deployment=nothing, workload=work, efficiency=efficiency)

    def _sizes(self, given: Mapping[str, float]) -> dict[str, float]:
        for name in given:
            self._known(name)
        # Sizes of this question go before those that the function was traced with.
        sizes = {**self.usual, **given}
        missing = [name for name in self.traced.symbols if name not in sizes]
        if missing:
            raise ValueError(f"the size {missing[0]} of {self.traced.name} has no value: give {missing[0]}=N")
        numbers = {name: self._size(name, sizes[name]) for name in self.traced.symbols}
        with eager():
            self.traced.require_sizes(numbers)
        return numbers

    def _known(self, name: str) -> None:
        if name not in self.traced.symbols:
            known = ", ".join(self.traced.symbols) or "none"
            raise ValueError(f"{self.traced.name} has no symbolic size {name}; it has {known}")

    def _size(self, name: str, value: Any) -> float:
        self._known(name)
        # A size is a dimension of an array: whole, and at least 1.
        number = hwspaces.quantity(value, "1", name)
        if number < 1.0 or number != int(number):
            raise ValueError(f"{name} = {value!r} must be a whole number of at least 1")
        return number


def from_function(
    function: Callable[..., Any],
    *args: Any,
    fusion: str = USUAL_POLICY,
    sizes: Mapping[str, float] | None = None,
    trips: float | None = None,
    fused_loops: bool = False,
) -> PricedFunction:
    """A function of JAX arrays as a question: traced, never run.

    Args:
      function: any composition of JAX: Flax, Equinox, gradients, updates of optimisers, loops, `shard_map`.
      args: arrays, or trees of `jax.ShapeDtypeStruct`s. Shapes may have symbols of `jax.export.symbolic_shape`, so
        that one trace serves all sizes.
      fusion: one of `workloads.traced.fusion.POLICIES`; `Function.policy` says what that is.
      sizes: of symbols, where none are given later; fusion is decided there.
      trips: how often loops run that do not say so.
      fused_loops: loops without matrix products are one kernel each, as libraries have them for selective scans.

    Raises:
      ValueError: one line, for a primitive that nothing is known of, a loop without trips, an unknown policy.
    """
    from workloads.traced.function import traced

    how: dict[str, Any] = {"policy": fusion, "trips": trips, "fused_loops": fused_loops}
    trace = traced(function, *args, sizes=sizes, **how)
    return PricedFunction(trace, dict(sizes or {}))


def from_stablehlo(
    path: str | os.PathLike[str], fusion: str = USUAL_POLICY, trips: float | None = None, fused_loops: bool = False
) -> PricedFunction:
    """A model in StableHLO as a question: the function `main` of a module, as `jax.jit(f).lower(...).as_text()`,
    torch_xla and others write it.

    Args:
      path: a file of its text, or of a portable artifact's bytecode.
      fusion, trips, fused_loops: as `from_function` takes them.

    Raises:
      ValueError: one line, for a file that is no such module, sizes that are not known, an operation that nothing is
        known of or that sends messages, a loop without trips, an unknown policy.
    """
    from workloads.traced.stablehlo import traced_module

    return PricedFunction(traced_module(path, trips, policy=fusion, fused_loops=fused_loops))


def answered(scenario: Scenario) -> FunctionAnswer:
    """The answer to a scenario of a function."""
    with eager():
        # Terms by op are summed into tables and totals, of which the metrics are functions.
        ops = function_ops(scenario)
        sums = {name: sum(terms().values()) for name, terms in FUNCTION.sums(scenario).items()}
        tables = {name: terms() for name, terms in FUNCTION.tables(scenario).items()}
        metrics = FUNCTION.metrics(scenario, sums, tables)
        judged = ops_beyond(ops, scenario.hardware, scenario.efficiency)
    # W; None where the hardware has no figures of energy, and ops then have none.
    power = scenario.hardware.power.static if power_known(scenario.hardware) else None
    rows = tuple(_row(name, op, tables, power) for name, op in ops.items())
    return FunctionAnswer({name: _plain(name, value) for name, value in metrics.items()}, rows, judged)


def _row(name: str, op: AnyOp, tables: Mapping[str, Mapping[str, Any]], static: Any) -> OpAnswer:
    # The order is that of `op_answer`'s arguments, energy last and only where it is known.
    fields = ("time", "flops", "bytes", "bound", "algorithm", *(() if static is None else ("energy",)))
    answer = op_answer(name, op, *(tables[f"op_{field}"][name] for field in fields))
    if answer.energy is None or answer.time == 0.0:
        return answer
    # Mean power in W while the op runs: its dynamic energy over its time, and static power beside.
    return dataclasses.replace(answer, power=answer.energy / answer.time + float(static))


def _plain(name: str, value: Any) -> float | bool | str:
    flags = variable(name).flags
    # A metric with named values, such as a bound, is an index into their names.
    if flags:
        return flags[int(value)]
    value = np.asarray(value)
    return bool(value) if value.dtype == bool else float(value)


def _entry(device: Device) -> hwspaces.HardwareEntry:
    return hwspaces.hardware(device) if isinstance(device, str) else device


def _entries(hardware: Device | Sequence[Device]) -> list[hwspaces.HardwareEntry]:
    if isinstance(hardware, str | hwspaces.HardwareEntry):
        return [_entry(hardware)]
    return [_entry(device) for device in hardware]
