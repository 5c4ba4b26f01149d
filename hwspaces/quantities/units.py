"""Plain Python values of what NumPy, JAX or a range holds, so that a number may come from any loop or array."""

import difflib
import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def plain(value: Any) -> Any:
    """A value whose numbers, texts and lists are Python's own, inside of mappings, lists and tuples too.

    Args:
      value: a range and an array of one dimension or more become lists, an array without dimensions (`np.int64(8)`,
        `jnp.float32(2)`) one number. What is neither is returned as it is.
    """
    if value is None:
        return None
    if isinstance(value, str | int | float | bool):
        return value.item() if hasattr(value, "item") else value  # np.float64 and np.str_ are of Python's types too
    if isinstance(value, dict | MappingProxyType):
        return {plain(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | range):
        return [plain(part) for part in value]
    # Named tuples are types of their own and stay what they are.
    if type(value) is tuple:
        return tuple(plain(part) for part in value)
    # Arrays of NumPy and JAX are told by what they can do: neither has to be imported for it.
    if hasattr(value, "__array__") and isinstance(getattr(value, "ndim", None), int):
        if value.ndim == 0 and hasattr(value, "item"):
            return value.item()
        return value.tolist() if hasattr(value, "tolist") else value.__array__().tolist()
    return value


def plain_arguments(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """`function` with every argument made `plain`."""

    @functools.wraps(function)
    def called(*args: Parameters.args, **keys: Parameters.kwargs) -> Returned:
        plain_args: Any = map(plain, args)
        plain_keys: Any = {name: plain(value) for name, value in keys.items()}
        return function(*plain_args, **plain_keys)

    return called


# Units: text such as "8TB/s" and keys such as `bandwidth_TBps` to SI numbers, and SI numbers to text.


_SI = {"p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SI |= {"P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
# Bytes, FLOP and their rates are written with large prefixes, times and lengths with small ones.
_LARGE = {p: s for p, s in _SI.items() if s >= 1.0}
_SMALL = {p: s for p, s in _SI.items() if s <= 1.0}
_ONLY = {"": 1.0}

# SI unit -> (how text writes it, how a key's suffix writes it, prefixes, its size), one row per spelling.
_SPELLINGS = {
    # Only bytes have binary prefixes; a bit is an eighth of a byte.
    "B": [("B", "B", _LARGE | _BINARY, 1.0), ("b", "b", _LARGE, 0.125), ("bit", "bit", _LARGE, 0.125)],
    "B/s": [
        ("B/s", "Bps", _LARGE | _BINARY, 1.0),
        ("Bps", "Bps", _LARGE | _BINARY, 1.0),
        ("b/s", "bps", _LARGE, 0.125),
        ("bps", "bps", _LARGE, 0.125),
        ("bit/s", "bps", _LARGE, 0.125),
    ],
    "FLOP/s": [
        ("FLOP/s", "FLOPs", _LARGE, 1.0),
        ("FLOPs", "FLOPs", _LARGE, 1.0),
        ("FLOPS", "FLOPS", _LARGE, 1.0),
        ("OP/s", "OPs", _LARGE, 1.0),
        ("OPs", "OPs", _LARGE, 1.0),
        ("OPS", "OPS", _LARGE, 1.0),
    ],
    "s": [
        ("s", "s", _SMALL, 1.0),
        ("min", "min", _ONLY, 60.0),
        ("h", "h", _ONLY, 3600.0),
        # 365.25 days of 86,400 s.
        ("year", "year", _ONLY, 31557600.0),
    ],
    "m": [("m", "m", _SMALL, 1.0)],
    "m2": [("mm2", "mm2", _ONLY, 1e-6), ("m2", "m2", _ONLY, 1.0), ("um2", "um2", _ONLY, 1e-12)],
    "m2/B": [
        ("mm2/MiB", "mm2_per_MiB", _ONLY, 1e-6 / 2.0**20),
        ("m2/B", "m2_per_B", _ONLY, 1.0),
        ("um2/B", "um2_per_B", _ONLY, 1e-12),
    ],
    "m2 s/B": [("mm2/GBps", "mm2_per_GBps", _ONLY, 1e-15), ("m2 s/B", "m2_s_per_B", _ONLY, 1.0)],
    "m s/B": [("mm/GBps", "mm_per_GBps", _ONLY, 1e-12), ("m s/B", "m_s_per_B", _ONLY, 1.0)],
    "1/m2": [("1/cm2", "per_cm2", _ONLY, 1e4), ("1/m2", "per_m2", _ONLY, 1.0), ("1/um2", "per_um2", _ONLY, 1e12)],
    "W": [("W", "W", _SI, 1.0)],
    "W/m2": [("W/mm2", "W_per_mm2", _ONLY, 1e6), ("W/m2", "W_per_m2", _ONLY, 1.0)],
    "V": [("V", "V", {"": 1.0, "m": 1e-3}, 1.0)],
    "1/V": [("1/V", "per_V", _ONLY, 1.0)],
    "J": [("J", "J", _SI, 1.0)],
    "J/m2": [("nJ/mm2", "nJ_per_mm2", _ONLY, 1e-3), ("J/m2", "J_per_m2", _ONLY, 1.0)],
    "J/B": [("J/B", "J_per_B", _SI, 1.0)],
    "J/FLOP": [("J/FLOP", "J_per_FLOP", _SI, 1.0)],
    "Hz": [("Hz", "Hz", _LARGE, 1.0)],
    "FLOP": [("FLOP", "FLOP", _LARGE, 1.0)],
    "1/s": [("1/s", "per_s", _ONLY, 1.0), ("/s", "per_s", _ONLY, 1.0), ("Hz", "Hz", _LARGE, 1.0)],
    "USD/s": [
        ("USD/h", "USD_per_h", _ONLY, 1 / 3600.0),
        ("USD/s", "USD_per_s", _ONLY, 1.0),
        ("USD/year", "USD_per_year", _LARGE, 1 / 31557600.0),
    ],
    "USD": [("USD", "USD", _ONLY, 1.0)],
    "USD/B": [("USD/GB", "USD_per_GB", _ONLY, 1e-9), ("USD/B", "USD_per_B", _ONLY, 1.0)],
    "USD/m2": [("USD/mm2", "USD_per_mm2", _ONLY, 1e6), ("USD/m2", "USD_per_m2", _ONLY, 1.0)],
    "USD/J": [
        ("USD/kWh", "USD_per_kWh", _ONLY, 1.0 / 3.6e6),
        ("USD/J", "USD_per_J", _ONLY, 1.0),
        ("USD/W/year", "USD_per_W_year", _ONLY, 1.0 / 31557600.0),
    ],
    "kg/J": [
        ("gCO2/kWh", "gCO2_per_kWh", _ONLY, 1e-3 / 3.6e6),
        ("kgCO2/kWh", "kgCO2_per_kWh", _ONLY, 1.0 / 3.6e6),
        ("kg/J", "kg_per_J", _ONLY, 1.0),
    ],
    "clock": [("clock", "", _ONLY, 1.0)],  # cycles of it
    "clock/B": [("clock/B", "", _ONLY, 1.0)],
    "B/clock": [("B/clock", "bytes_per_clock", _ONLY, 1.0)],
    "B/clock/core": [("B/clock/core", "bytes_per_clock_per_core", _ONLY, 1.0)],
    "1/clock/core": [("1/clock/core", "per_clock_per_core", _ONLY, 1.0)],
    "B/core": [("B/core", "B_per_core", _LARGE | _BINARY, 1.0)],
    "1": [("1", "", _ONLY, 1.0), ("", "", _ONLY, 1.0), ("%", "", _ONLY, 0.01)],
}

# The one table of units: SI unit -> {text: size in SI units}, and key suffix -> {SI unit: size}.
TEXT_UNITS: dict[str, dict[str, float]] = {}
KEY_UNITS: dict[str, dict[str, float]] = {}
for _unit, _rows in _SPELLINGS.items():
    TEXT_UNITS[_unit] = {}
    for _text, _suffix, _prefixes, _size in _rows:
        for _prefix, _scale in _prefixes.items():
            TEXT_UNITS[_unit][_prefix + _text] = _scale * _size
            if _suffix:
                # One suffix may be of several units, such as GHz: the plain key says which is meant.
                KEY_UNITS.setdefault(_prefix + _suffix, {}).setdefault(_unit, _scale * _size)

PLAIN = ("1", "1/s")
"""Units that text need not say: counts and shares, and their rates."""

_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf|infinity))\s*(.*?)\s*", re.I)
_SHOWN_UNITS = 6


def quantity(text_or_number: str | int | float, unit: str, where: str) -> float:
    """The quantity in the SI unit `unit`, a positive finite float.

    Args:
      text_or_number: a number, taken as SI already, or text such as "8TB/s", "80 GiB", "989.4 TFLOP/s", "2us",
        "700 W", "4.25 USD/h". Decimal prefixes are powers of ten, binary ones (Ki, Mi, ...) powers of two;
        a lower-case b is a bit. Text says its unit, but for those of `PLAIN`.
      unit: SI unit wanted: a key of `TEXT_UNITS`; "1" is dimensionless.
      where: what the message of an error begins with: the file and the field, or the flag.

    Returns:
      Value in `unit`.

    Raises:
      ValueError: one line, when the value is no number, not positive and finite, of another unit, or text without
        one.
    """
    units = TEXT_UNITS[_known_unit(unit, where)]
    if not isinstance(text_or_number, str):
        return positive(text_or_number, where)
    match = _NUMBER.fullmatch(text_or_number)
    if match is None:
        raise ValueError(f"{where} = {text_or_number!r} is not a number with a unit, such as {_example(unit)}")
    number, symbol = match.groups()
    # The micro sign and the Greek letter are two characters that look alike.
    symbol = symbol.replace("µ", "u").replace("μ", "u")
    if symbol not in units and symbol:
        raise ValueError(f"{where} = {text_or_number!r} has the unit {symbol!r}; allowed: {_allowed(unit, symbol)}")
    if not symbol and unit not in PLAIN:
        raise ValueError(f"{where} = {text_or_number!r} has no unit; write one, such as {_example(unit)}")
    return positive(float(number.replace("_", "")) * units.get(symbol, 1.0), where, shown=text_or_number)


def is_zero(value: object, unit: str = "1") -> bool:
    """Whether it is zero, as a number or as text with a unit of the dimension of `unit`."""
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value)
        return match is not None and match[2] in ("", *TEXT_UNITS[unit]) and float(match[1].replace("_", "")) == 0.0
    value = plain(value)
    return isinstance(value, int | float) and not isinstance(value, bool) and value == 0


SMALLEST, LARGEST = 1e-30, 1e30
"""What a figure in SI units may be: products of some of them still fit into float32."""


def positive(value: object, where: str, scale: float = 1.0, shown: object = None) -> float:
    """`value * scale` as a float when it is positive and finite and `value` no bool; else ValueError of one line."""
    value = plain(value)
    shown = value if shown is None else shown
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where} = {shown!r} is not a number; it must be a positive finite number")
    try:
        # Whole numbers of Python may be too large for a float.
        scaled = float(value) * scale
    except OverflowError:
        scaled = math.inf
    if not math.isfinite(scaled) or scaled <= 0:
        raise ValueError(f"{where} = {shown!r} must be a positive finite number")
    if not SMALLEST <= scaled <= LARGEST:
        raise ValueError(f"{where} = {shown!r} must be from {SMALLEST:g} to {LARGEST:g} in SI units")
    return scaled


def from_key(key: str, value: Any, where: str, units: Mapping[str, str] | None = None) -> tuple[str, float]:
    """The plain key and the SI value of a key that ends in its unit, such as `bandwidth_TBps = 3.35`.

    Args:
      key: name, underscore, unit: `capacity_GB` (1e9) and `capacity_GiB` (2**30) differ; the name alone of a text.
      value: positive finite number; or text with its unit, such as "3.35 TB/s", of a known plain key.
      where: what the message of an error begins with: the file and the table.
      units: SI unit of every known plain key; None takes any key and any unit.

    Returns:
      (plain key, value in SI units): ("bandwidth", 3.35e12).

    Raises:
      ValueError: one line, when the unit is missing or of another dimension, when the key is not among `units`,
        or when the value is no positive finite number.
    """
    place = f"{where}: {key}"
    # A text says its unit itself.
    if units is not None and isinstance(value, str) and units.get(key, "1") != "1":
        return key, quantity(value, units[key], place)
    parts = key.split("_")
    # Suffixes may have underscores, such as mm2_per_MiB: every place between words is tried, shortest key first.
    for i in range(1, len(parts)):
        plain, suffix = "_".join(parts[:i]), "_".join(parts[i:])
        sizes = KEY_UNITS.get(suffix)
        if sizes is None or (units is not None and plain not in units):
            continue
        if units is None:
            return plain, positive(value, place, next(iter(sizes.values())))
        if units[plain] in sizes:
            return plain, positive(value, place, sizes[units[plain]])
        raise ValueError(f"{place} = {value!r} has the unit {suffix}; allowed: {_allowed_keys(plain, units[plain])}")
    if units is None:
        raise ValueError(f"{place} = {value!r} has no unit suffix; write one, such as bandwidth_TBps or capacity_GiB")
    if key in units:
        raise ValueError(f"{place} = {value!r} has no unit; allowed: {_allowed_keys(key, units[key])}")
    # Text says its unit itself, and its key has none.
    known = [k + ("" if isinstance(value, str) else _usual_suffix(u)) for k, u in units.items()]
    raise ValueError(f"{place} = {value!r} is not known{nearest(key, known)}")


def formatted(value: float, unit: str, digits: int = 3) -> str:
    """`value`, in the SI unit `unit`, as text for people: "3.35 TB/s", "61.3 us", "141 GB", "4.25 USD/h".

    Args:
      value: any float; a value that is not finite is written as Python writes it.
      unit: SI unit; one that the table does not know is appended as it is, with no prefix.
      digits: significant digits.
    """
    if unit == "USD/s":
        return f"{_significant(value * 3600.0, digits)} USD/h"
    # Units without prefixes are written in their first spelling, such as mm2 for areas.
    if unit in _SPELLINGS and _SPELLINGS[unit][0][2] is _ONLY and unit not in ("1", ""):
        text, _, _, size = _SPELLINGS[unit][0]
        return f"{_significant(value / size, digits)} {text}"
    if unit in ("1", ""):
        return _significant(value, digits)
    if unit not in _SPELLINGS or not math.isfinite(value) or value == 0.0:
        return f"{value:.{digits}g} {unit}"
    prefixes = {p: s for p, s in _SPELLINGS[unit][0][2].items() if p in _SI and p != "K"}
    # Rounded before the prefix is chosen: 999.9 GB with three digits is 1 TB.
    magnitude = float(f"{abs(value):.{digits}g}")
    prefix = max((p for p, s in prefixes.items() if s <= magnitude), key=prefixes.__getitem__, default=None)
    prefix = min(prefixes, key=prefixes.__getitem__) if prefix is None else prefix
    return f"{_significant(value / prefixes[prefix], digits)} {prefix}{unit}"


def nearest(name: str, known: Iterable[str], n: int = 3) -> str:
    """The end of an error message: "; did you mean ...?" with the nearest known names, else all of them."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=n, cutoff=0.5)
    return f"; did you mean {' or '.join(close)}?" if close else f"; known: {', '.join(known)}"


def require_keys(table: Iterable[str], known: Iterable[str], where: str = "") -> None:
    """ValueError of one line, which begins with `where`, for a key that there is not; it names the nearest ones."""
    known = list(known)
    for key in table:
        if key not in known:
            raise ValueError(f"{where}{': ' if where else ''}there is no key {key}{nearest(key, known)}")


def _significant(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    # The `g` format writes 1234 with three digits as 1.23e+03; below 1e9 it is written out.
    return text if "e" not in text or abs(value) >= 1e9 or abs(value) < 1e-4 else f"{float(text):.0f}"


def _known_unit(unit: str, where: str) -> str:
    if unit not in TEXT_UNITS:
        raise ValueError(f"{where}: {unit!r} is not a unit{nearest(unit, TEXT_UNITS)}")
    return unit


def _allowed(unit: str, symbol: str = "") -> str:
    """Units of the dimension of `unit`, the nearest to `symbol` first."""
    known = [u for u in TEXT_UNITS[unit] if u]
    near = [u for u in known if u.lower() == symbol.lower()] or difflib.get_close_matches(symbol, known, n=2)
    usual = near + [u for u in _usual_units(unit) if u not in near]
    return ", ".join(usual[:_SHOWN_UNITS])


def _usual_units(unit: str) -> list[str]:
    text, _, prefixes, _ = _SPELLINGS[unit][0]
    usual = [p for p in ("", "G", "T", "P", "Gi", "Ti", "m", "u", "n") if p in prefixes]
    return [p + text for p in usual] + [row[0] for row in _SPELLINGS[unit][1:] if row[0]]


def _usual_suffix(unit: str) -> str:
    _, suffix, prefixes, _ = _SPELLINGS[unit][0]
    if not suffix:
        return ""
    prefix = {"B": "G", "B/s": "G", "FLOP/s": "T", "s": "u", "Hz": "M", "B/core": "Ki"}.get(unit, "")
    return f"_{prefix if prefix in prefixes else ''}{suffix}"


def _allowed_keys(plain: str, unit: str) -> str:
    keys = [k for k, sizes in KEY_UNITS.items() if unit in sizes]
    if not keys:
        return plain
    usual = [k for k in keys if k[:1] in "GTuM" or len(keys) < _SHOWN_UNITS] or keys
    return ", ".join(f"{plain}_{k}" for k in usual[:_SHOWN_UNITS])


def _example(unit: str) -> str:
    examples = {"B": "80GiB", "B/s": "3.35TB/s", "FLOP/s": "989TFLOP/s", "s": "20ms", "W": "700W", "USD/s": "4.25USD/h"}
    return examples.get(unit, f"1{unit}" if unit != "1" else "8")
