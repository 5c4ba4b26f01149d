"""Laws: figures that follow from other figures by expressions, such as a peak from cores, clock and width."""

import dataclasses
import graphlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hwspaces.quantities.expression import Expression, Function
from hwspaces.quantities.leaves import leaf_unit
from hwspaces.quantities.units import nearest
from jaxroof.chip.area import die_area, dies
from jaxroof.energy.technology import clock_at, leakage, peak_power, static_power
from jaxroof.hardware import Hardware
from jaxroof.numerics.tree import leaf_at, replaced

BASE = "base."
"""Beginning of names that stand for figures of the device that a design starts from: constants."""

SILICON = ("matrix", "cores", "memory", "links", "silicon")
"""Parts of `Hardware` that areas depend on."""

FUNCTIONS: Mapping[str, Function] = {
    "die_area": Function(die_area, "m2", (), SILICON),
    # The first kind of dies is the one with cores.
    "core_area": Function(lambda hardware: dies(hardware)[0].area, "m2", (), SILICON),
    "clock_at": Function(clock_at, "Hz", ("V", "V", "Hz", "V", "1")),
    "leakage": Function(leakage, "W", ("m2", "V", "V", "W/m2", "1/V")),
    "static_power": Function(static_power, "W", ("W", "m2", "Hz", "1", "J/m2", "1", "W", "W")),
    "peak_power": Function(peak_power, "W", ("W", "W", "W", "1", "1", "1", "W")),
}
"""Functions that laws may call: of a whole device, and laws of `jaxroof.energy.technology`."""


@dataclasses.dataclass(frozen=True)
class Law:
    """One figure that follows from others. Two laws are equal where they say the same: programs are kept by them."""

    path: str  # of the figure
    text: str  # the expression as written
    reads: tuple[tuple[str, str], ...]  # name in the expression -> path of the figure
    constants: tuple[tuple[str, float], ...]  # name in the expression -> SI value
    expression: Expression = dataclasses.field(compare=False, repr=False)

    def value(self, tree: Any) -> Any:
        """The figure in its SI unit from the others in `tree`."""
        paths, constants = dict(self.reads), dict(self.constants)

        def number(name: str) -> Any:
            return constants[name] if name in constants else leaf_at(tree, paths[name])

        return self.expression.value(number, getattr(tree, "hardware", tree))

    def depends_on(self, path: str) -> bool:
        """Whether its value changes with the figure at `path`."""
        # A function of the whole device reads every figure of some of its parts.
        return path in dict(self.reads).values() or path.startswith(tuple(f"{part}." for part in self.expression.reads))


def hardware_laws(
    texts: Mapping[str, str],
    hardware: Hardware,
    where: str,
    constants: Mapping[str, tuple[float, str]] | None = None,
) -> tuple[Law, ...]:
    """Laws among the figures of a device, in the order in which they are applied.

    Args:
      texts: path of a figure, with or without a leading `hardware.`, -> expression. Names in it are such paths,
        `base.` and a path for the figure as `hardware` has it, and names of `constants`.
      hardware: the device, which has every figure that is set or read.
      where: what the message of an error begins with.
      constants: SI value and unit of each, by name.

    Raises:
      ValueError: one line: an unknown figure or function, units that do not agree, a circle.
    """
    constants = constants or {}

    def unit_of(name: str) -> str:
        if name in constants:
            return constants[name][1]
        # `base.` and `hardware.` stand before the same paths.
        plain = name.removeprefix(BASE).removeprefix("hardware.")
        try:
            unit = leaf_unit(plain)
        except ValueError as error:
            # What is no path may be a misspelt constant of a technology.
            known = nearest(name, constants) if constants and "did you mean" not in str(error) else ""
            raise ValueError(f"{error}{known}") from None
        # The schema knows more figures than one device has: a tier that it lacks has none.
        if leaf_at(hardware, plain) is None:
            raise ValueError(f"{name} is unknown of this device")
        return unit

    def held(name: str) -> float | None:
        if name in constants:
            return constants[name][0]
        # Figures of the base are numbers from here on; other paths are read whenever the law is applied.
        return float(leaf_at(hardware, name.removeprefix(BASE))) if name.startswith(BASE) else None

    laws = []
    for path, text in texts.items():
        try:
            unit = unit_of(path)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        expression = expressed(text, unit_of, f"{where}: {path}", unit)
        laws.append(_law(path, expression, held, "hardware."))
    return in_order(laws, where)


def expressed(text: object, unit_of: Callable[[str], str], where: str, unit: str) -> Expression:
    """The expression that a user wrote for a figure of SI unit `unit`; ValueError of one line."""
    if not isinstance(text, str):
        raise ValueError(f"{where} = {text!r} is not an expression, such as 'cores.count * cores.clock'")
    return Expression(text, unit_of, FUNCTIONS, where, unit)


def scenario_laws(
    texts: Mapping[str, str], scenario: Any, unit_of: Callable[[str], str], where: str
) -> tuple[Law, ...]:
    """Laws for numbers of a scenario outside of its hardware; names are whole paths. As `hardware_laws`.

    Args:
      unit_of: SI unit of a path.
    """

    def unit(name: str) -> str:
        if leaf_at(scenario, name.removeprefix(BASE)) is None:
            raise ValueError(f"there is no number {name}")
        return unit_of(name.removeprefix(BASE))

    def held(name: str) -> float | None:
        return float(leaf_at(scenario, name.removeprefix(BASE))) if name.startswith(BASE) else None

    laws = [_law(path, expressed(text, unit, f"{where}: {path}", unit(path)), held) for path, text in texts.items()]
    return in_order(laws, where)


def _law(path: str, expression: Expression, held: Callable[[str], float | None], root: str = "") -> Law:
    """The law of an expression.

    Args:
      held: the value of a name that is a constant, None of the others.
      root: what paths may begin with beside those of the tree that obeys the law.
    """
    constants = {name: value for name in expression.names if (value := held(name)) is not None}
    reads = {name: name.removeprefix(root) for name in expression.names if name not in constants}
    return Law(path.removeprefix(root), expression.text, (*reads.items(),), (*constants.items(),), expression)


def in_order(laws: Iterable[Law], where: str) -> tuple[Law, ...]:
    """The laws, those that others read first; ValueError of one line for a circle."""
    by_path = {law.path: law for law in laws}
    # A law is applied after those that set what it reads.
    graph = {path: [other for other in by_path if law.depends_on(other)] for path, law in by_path.items()}
    try:
        return tuple(by_path[path] for path in graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        circle = " <- ".join(error.args[1])
        raise ValueError(f"{where}: figures follow from each other in a circle: {circle}") from None


def merged(laws: Iterable[Law], others: Iterable[Law], where: str) -> tuple[Law, ...]:
    """Both, those of `others` where they set the same figure, in the order in which they are applied."""
    return in_order(({law.path: law for law in laws} | {law.path: law for law in others}).values(), where)


def obeying(tree: Any, laws: Iterable[Law]) -> Any:
    """A copy of `tree` with every figure that a law sets; a figure that is not there is left out."""
    for law in laws:
        if leaf_at(tree, law.path) is not None:
            tree = replaced(tree, law.path, law.value(tree))
    return tree


def lawful(scenario: Any) -> Any:
    """A copy of a scenario that obeys its laws: those of its devices, then its own. Pure."""
    changed = {}
    if scenario.hardware.laws:
        changed["hardware"] = obeying(scenario.hardware, scenario.hardware.laws)
    # A pool of prefill workers has a device of its own, and so laws of its own.
    pool = scenario.prefill
    if pool is not None and pool.hardware.laws:
        changed["prefill"] = dataclasses.replace(pool, hardware=obeying(pool.hardware, pool.hardware.laws))
    # Laws of the scenario come last: they read figures of devices that obey theirs.
    scenario = dataclasses.replace(scenario, **changed) if changed else scenario
    return obeying(scenario, scenario.laws)


def law_that_sets(laws: Iterable[Law], path: str) -> Law | None:
    """The law that sets the figure at `path`, if there is one."""
    return next((law for law in laws if law.path == path), None)
