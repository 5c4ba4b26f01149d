"""Problems of known kinds: convolutions, matrix products and other einsums."""

from collections.abc import Mapping

from jaxroof.nests import Problem, Tensor

TENSORS = ("Weights", "Inputs", "Outputs")
"""Names of the tensors of convolutions and matrix products; shipped architectures know them."""

CONVOLUTION, MATMUL = "NMCPQRSG", "MNK"
"""Dimensions of convolutions and matrix products, each a letter."""

Axes = tuple[tuple[tuple[int, str], ...], ...]
"""Axes of a tensor; each is a sum of terms, a coefficient and a dimension."""


def convolution(
    sizes: Mapping[str, int], stride: int = 1, dilation: int = 1, densities: Mapping[str, float] | None = None
) -> Problem:
    """A convolution: N images, M filters, C channels, P x Q outputs, R x S weights; G groups of M and C each."""
    group = "G" if sizes.get("G", 1) > 1 else ""
    row, column = ((stride, "P"), (dilation, "R")), ((stride, "Q"), (dilation, "S"))
    axes = (_plain(f"{group}MCRS"), (*_plain(f"N{group}C"), row, column), _plain(f"N{group}MPQ"))
    return einsum(sizes, dict(zip(TENSORS, axes, strict=True)), "Outputs", densities)


def matmul(m: int, n: int, k: int, densities: Mapping[str, float] | None = None) -> Problem:
    """A product of inputs [m, k] and weights [k, n]."""
    axes = {"Weights": _plain("KN"), "Inputs": _plain("MK"), "Outputs": _plain("MN")}
    return einsum({"M": m, "N": n, "K": k}, axes, "Outputs", densities)


def einsum(
    sizes: Mapping[str, int], axes: Mapping[str, Axes], output: str, densities: Mapping[str, float] | None = None
) -> Problem:
    """Any product of tensors, by the axes of each; densities are 1 where they are not given."""
    shares = densities or {}
    tensors = {
        name: Tensor(axes=each, output=name == output, density=shares.get(name, 1.0)) for name, each in axes.items()
    }
    return Problem(sizes={name: float(size) for name, size in sizes.items()}, tensors=tensors)


def _plain(dimensions: str) -> Axes:
    """An axis for each dimension."""
    return tuple(((1, name),) for name in dimensions)
