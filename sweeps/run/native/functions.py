"""Logarithm, exponential and power of vectors as LLVM's text: for all lanes at once, without calls of a C library.

All are worked out in double precision, so that single precision is rounded once. Their errors are below 1 unit in the
last place, and results that a double holds exactly are exact: a whole power of a whole number is a whole number.
"""

import dataclasses
import functools
import math
import struct

OWN = frozenset({"log", "exp", "pow"})
"""What is here. LLVM's intrinsics of these names call the C library once for each lane."""

# ln 2 as a double with 11 zeros at its end, so that whole multiples are exact, and the rest.
LN2 = float.fromhex("0x1.62E42FEFA3800p-1"), float.fromhex("0x1.EF35793C76730p-45")
MAGIC = 1.5 * 2.0**52
"""Added to a small number it leaves the nearest whole number in the last bits of the sum."""

LEAST, MOST = -746.0, 711.0
"""Exponents beyond which exp is 0 or infinite in double precision."""

BITS, ONE, HALVES = 52, 1023 << 52, 0x3FE6A09E << 32
"""Of a double: bits of its fraction; 1.0 and about sqrt(1/2) as whole numbers."""


def text(name: str, lanes: int, element: str) -> str:
    """The function `@own.name` of vectors of `lanes` floats: `element` is "float" or "double"."""
    body = _Body(lanes)
    given = [_Vector(body, f"%{argument}") for argument in ("x", "y")[: 2 if name == "pow" else 1]]
    form, double = f"<{lanes} x {element}>", f"<{lanes} x double>"
    if element == "float":
        given = [body.vector(f"fpext {form} {one.name} to {double}") for one in given]
    if name == "pow":
        result = _power(given[0], given[1], element == "double").name
    elif name == "log":
        result = _logarithm(given[0]).name
    else:
        result = _exponential(given[0], given[0].of(0.0)).name
    if element == "float":
        result = body.vector(f"fptrunc {double} {result} to {form}").name
    arguments = ", ".join(f"{form} %{argument}" for argument in ("x", "y")[: len(given)])
    lines = "\n".join(f"  {line}" for line in body.lines)
    return f"define internal {form} @own.{name}({arguments}) {{\n{lines}\n  ret {form} {result}\n}}"


class _Body:
    """Lines of a function."""

    def __init__(self, lanes: int):
        self.lanes, self.lines = lanes, list[str]()

    def vector(self, right: str, kind: str = "double") -> "_Vector":
        """A new value."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {right}")
        return _Vector(self, name, kind)


@dataclasses.dataclass(frozen=True, eq=False)
class _Vector:
    """A value of a body, for formulas: of doubles, of whole numbers (i64) or of truth values (i1)."""

    body: _Body
    name: str
    kind: str = "double"

    @property
    def form(self) -> str:
        return f"<{self.body.lanes} x {self.kind}>"

    def of(self, other: "_Vector | float") -> "_Vector":
        """A constant in all lanes, of the same kind; a vector as it is."""
        if isinstance(other, _Vector):
            return other
        # Doubles are given by their bits, which loses no digit.
        digits = f"0x{struct.unpack('<Q', struct.pack('<d', other))[0]:016X}" if self.kind == "double" else other
        return _Vector(self.body, f"splat ({self.kind} {digits})", self.kind)

    def with_(self, operation: str, other: "_Vector | float", kind: str | None = None) -> "_Vector":
        """`operation self, other`."""
        return self.body.vector(f"{operation} {self.form} {self.name}, {self.of(other).name}", kind or self.kind)

    def __add__(self, other: "_Vector | float") -> "_Vector":
        return self.with_("fadd" if self.kind == "double" else "add", other)

    def __sub__(self, other: "_Vector | float") -> "_Vector":
        return self.with_("fsub" if self.kind == "double" else "sub", other)

    def __mul__(self, other: "_Vector | float") -> "_Vector":
        return self.with_("fmul", other)

    def __rmul__(self, other: float) -> "_Vector":
        return self.with_("fmul", other)

    def __truediv__(self, other: "_Vector") -> "_Vector":
        return self.with_("fdiv", other)

    def __and__(self, other: "_Vector | float") -> "_Vector":
        return self.with_("and", other)

    def __or__(self, other: "_Vector") -> "_Vector":
        return self.with_("or", other)

    def __lt__(self, other: "_Vector | float") -> "_Vector":
        return self.with_("fcmp olt", other, "i1")

    def __gt__(self, other: "_Vector | float") -> "_Vector":
        return self.with_("fcmp ogt", other, "i1")

    def is_(self, other: "_Vector | float") -> "_Vector":
        return self.with_("fcmp oeq", other, "i1")

    def bits(self) -> "_Vector":
        """The bits of doubles as whole numbers, and back."""
        kind = "i64" if self.kind == "double" else "double"
        return self.body.vector(f"bitcast {self.form} {self.name} to <{self.body.lanes} x {kind}>", kind)

    def where(self, yes: "_Vector | float", no: "_Vector") -> "_Vector":
        """Of truth values: `yes` where they are true, else `no`."""
        right = f"select {self.form} {self.name}, {no.form} {no.of(yes).name}, {no.form} {no.name}"
        return self.body.vector(right, no.kind)

    def called(self, name: str, *others: "_Vector | float") -> "_Vector":
        """An intrinsic function of doubles."""
        own = ", ".join(f"{self.form} {self.of(one).name}" for one in (self, *others))
        return self.body.vector(f"call {self.form} @llvm.{name}.v{self.body.lanes}f64({own})")


def declarations(lanes: int) -> list[str]:
    """Intrinsic functions that `text` uses."""
    form = f"<{lanes} x double>"
    numbers = {"fma": 3, "fabs": 1, "floor": 1}
    return [f"declare {form} @llvm.{name}.v{lanes}f64({', '.join([form] * n)})" for name, n in numbers.items()]


def _fma(a: _Vector, b: _Vector | float, c: _Vector | float) -> _Vector:
    """a b + c, rounded once."""
    return a.called("fma", b, c)


def _polynomial(x: _Vector, coefficients: list[float]) -> _Vector:
    """c[0] + c[1] x + c[2] x^2 ..., from the last one on."""
    first = x.of(coefficients[-1])
    return functools.reduce(lambda total, c: _fma(total, x, c), coefficients[-2::-1], first)


def _parts(x: _Vector) -> tuple[_Vector, _Vector]:
    """e and m of x = 2^e m, with m from sqrt(1/2) to sqrt(2); x above 0 and finite."""
    # A number below the least normal one is scaled, and its exponent corrected.
    denormal = x < 2.0**-1022
    bits = denormal.where(x * 2.0**54, x).bits() + (ONE - HALVES)
    m = ((bits & ((1 << BITS) - 1)) + HALVES).bits()
    # An exponent in the last bits of 2^52 is that number plus the exponent.
    e = (bits.with_("lshr", BITS) + struct.unpack("<q", struct.pack("<d", 2.0**52))[0]).bits() - (2.0**52 + 1023)
    return denormal.where(e - 54.0, e), m


def _logarithm(x: _Vector) -> _Vector:
    """ln x = e ln 2 + ln(1 + f), ln(1 + f) = 2 artanh(s) with s = f / (2 + f)."""
    e, m = _parts(x)
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    # 2 artanh(s) = 2 s + s R with R = 2/3 z + 2/5 z^2 ... and 2 s = f - s f: so s R - s f + f, where f is exact.
    rest = z * _polynomial(z, [2.0 / n for n in range(3, 23, 2)])
    half = 0.5 * f * f
    # 2 s + s R = f - (half - s (half + R)), as half = f^2 / 2 and s f = half - s half.
    fine = _fma(s, half + rest, e * LN2[1])
    own = _fma(e, LN2[0], f - (half - fine))
    inside = (x > 0.0) & (x < math.inf)
    # 0 has -inf, infinity itself, negative numbers and NaN have NaN.
    outside = x.is_(0.0).where(-math.inf, (x > 0.0).where(x, x.of(math.nan)))
    return inside.where(own, outside)


def _exponential(x: _Vector, rest: _Vector) -> _Vector:
    """exp(x + rest) = 2^k exp(r), with r from -ln(2)/2 to ln(2)/2; rest is below the last digit of x."""
    outside = (x > MOST) | (x < LEAST)
    rest = outside.where(0.0, rest)
    x = (x > MOST).where(MOST, (x < LEAST).where(LEAST, x))
    whole = _fma(x, 1.0 / math.log(2.0), MAGIC)
    k = whole - MAGIC
    high, low = _fma(k, -LN2[0], x), _fma(k, -LN2[1], rest)
    r = high + low
    rest = high - r + low
    # exp(r) = 1 + r + r^2 / 2! + ... + r^13 / 13!, what 1 + r loses in rounding added last.
    first = r + 1.0
    lost = r - (first - 1.0) + _fma(r * r, _polynomial(r, [1.0 / math.factorial(n) for n in range(2, 14)]), rest)
    # 2^k by halves, since it may be beyond the range of a double where the result is not.
    number = whole.bits() - (struct.unpack("<q", struct.pack("<d", MAGIC))[0] - 2048)  # k + 2048
    half = number.with_("lshr", 1)
    other = number - half
    factors = [(part - (1024 - 1023)).with_("shl", BITS).bits() for part in (half, other)]
    return (first + lost) * factors[0] * factors[1]


def _precise_logarithm(x: _Vector) -> tuple[_Vector, _Vector]:
    """ln x as a sum of two doubles, to 2^-65 of it; x above 0 and finite."""
    e, m = _parts(x)
    f = m - 1.0
    # s = f / d, d = 2 + f, each with what its rounding loses.
    d = f + 2.0
    inverse = d.of(1.0) / d
    s = f * inverse
    s_rest = inverse * (_fma(s, -1.0 * d, f) - s * (f - (d - 2.0)))
    z = s * s
    z_rest = _fma(s, s, -1.0 * z) + 2.0 * s * s_rest
    # u = z / 3 + z^2 / 5 + ...: only the first term needs more digits than a double has.
    third = 1.0 / 3.0
    first = z * third
    first_rest = _fma(z, third, -1.0 * first) + _fma(z_rest, third, z * (third * 2.0**-54))  # 1/3 - fl(1/3)
    more = z * z * _polynomial(z, [1.0 / n for n in range(5, 27, 2)])
    u = first + more
    u_rest = first - u + more + first_rest
    # ln(1 + f) = 2 s + 2 s u.
    s, s_rest = 2.0 * s, 2.0 * s_rest
    v = s * u
    v_rest = _fma(s, u, -1.0 * v) + _fma(s, u_rest, s_rest * u)
    own = s + v
    own_rest = s - own + v + (v_rest + s_rest)
    # e ln 2 is larger than the rest, or 0.
    outer = e * LN2[0]
    high = outer + own
    return high, outer - high + own + _fma(e, LN2[1], own_rest)


def _power(x: _Vector, y: _Vector, exact: bool) -> _Vector:
    """x^y = exp(y ln|x|) with a sign, and the special cases of C's `pow`; `exact` to double precision."""
    size = x.called("fabs")
    ends = size.is_(0.0) | size.is_(math.inf)
    if exact:
        high, low = _precise_logarithm(size)
        high = ends.where(size.is_(0.0).where(-math.inf, size), high)
        exponent = y * high
        own = _exponential(exponent, _fma(y, high, -1.0 * exponent) + y * low)
    else:
        exponent = y * _logarithm(size)
        own = _exponential(exponent, x.of(0.0))
    unknown = x.with_("fcmp uno", y, "i1")
    # Of negative numbers, and of -0, odd powers are negative; broken ones of negative numbers are NaN.
    half, negative = 0.5 * y, x.bits().with_("icmp slt", 0, "i1")
    is_whole = y.called("floor").is_(y)
    odd = is_whole & half.called("floor").with_("fcmp one", half, "i1") & negative
    own = odd.where(-1.0 * own, own)
    broken = (x < 0.0) & is_whole.with_("xor", _Vector(x.body, "splat (i1 true)", "i1")) & (x > -math.inf)
    own = (unknown | broken).where(math.nan, own)
    # x^0 and 1^y are 1 whatever the other is; so is (-1)^infinity.
    one = y.is_(0.0) | x.is_(1.0) | (x.is_(-1.0) & y.called("fabs").is_(math.inf))
    return one.where(1.0, own)
