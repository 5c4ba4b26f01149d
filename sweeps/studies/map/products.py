"""Matrix products of an engine step as problems of Timeloop, version 0.4, one file for each that is different."""

import os
import pathlib
from typing import Any, NamedTuple

from jaxroof.jobs import job_of
from jaxroof.nests import NestProblem
from jaxroof.op import PRODUCTS, Kernel
from jaxroof.step.placed import device_ops
from jaxroof.version import VERSION
from sweeps.ask.cases import Case
from sweeps.studies.export.folder import written as files_of_folder
from workloads.nests.checks import checked_problem, matmul

NOISE = 1e-6
"""Share of a dimension up to which a comment does not say that it is rounded."""

TENSORS = {"Inputs": "MK", "Weights": "KN", "Outputs": "MN"}
"""Dimensions of the tensors of a product (M, K) (K, N); the last one is the output."""


class MappedProduct(NamedTuple):
    """One matrix product and how often a step has it."""

    sizes: tuple[int, ...]  # M, N, K
    exact: tuple[float, ...]  # the same before they are rounded
    precision: str | None  # of its arithmetic
    times: float  # per step on one device: runs of its ops times matrices of each
    ops: tuple[str, ...]  # by name


def products(case: Case) -> list[MappedProduct]:
    """Products with weights in a step on one device, in the order that they first run; equal ones are one.

    Of a grouped product each matrix is one, with the mean rows. Attention to a cache, which has no weights, is not
    among them.

    Args:
      case: one step.
    """
    (place, batch), *_ = job_of(case.scenario).steps(case.scenario).values()
    by_size: dict[tuple[Any, ...], MappedProduct] = {}
    for name, op in device_ops(place.hardware, place.model, place.deployment, batch).items():
        # Only matrix products that launch kernels; attention kernels are of other kinds.
        if not isinstance(op, Kernel) or op.kind not in PRODUCTS or op.shape is None or not op.kernels:
            continue
        shape = op.shape
        # One matrix of a grouped product, with the mean rows of all of them.
        exact = (float(shape.rows / shape.matrices), float(shape.outputs), float(shape.inputs))
        sizes = tuple(max(1, round(size)) for size in exact)
        # Products of the same sizes and precision become one entry, whose counts add up.
        before = by_size.get((sizes, op.precision), MappedProduct(sizes, exact, op.precision, 0.0, ()))
        times = before.times + float(op.count) * float(shape.matrices)
        by_size[sizes, op.precision] = before._replace(times=times, ops=(*before.ops, name))
    return list(by_size.values())


def problem(product: MappedProduct) -> NestProblem:
    """The loop nest of a product; ValueError of one line where it is larger than any that is read."""
    m, n, k = product.sizes
    return checked_problem(matmul(m, n, k), product.ops[0])


def product_text(product: MappedProduct, what: str) -> str:
    """The file of a product: its problem, under comments that say how often it runs and in which ops."""
    sizes = ", ".join(f"{name}: {size}" for name, size in zip("MNK", product.sizes, strict=True))
    lines = [f"# Timeloop problem, jaxroof {VERSION}: {what}", f"# {', '.join(product.ops)}; {product.precision}"]
    lines += [f"# count: {product.times:.10g} per step and device"]
    # A mean number of rows need not be whole: the comment gives the sizes before rounding.
    if any(abs(size - exact) > NOISE * exact for size, exact in zip(product.sizes, product.exact, strict=True)):
        lines += [f"# rounded from (M, N, K) = ({', '.join(f'{size:.10g}' for size in product.exact)})"]
    lines += ["problem:", "  version: 0.4", "  shape:", "    name: product", "    dimensions: [M, N, K]"]
    lines += ["    data_spaces:"]
    for name, dimensions in TENSORS.items():
        lines += [f"    - name: {name}", f"      projection: [{', '.join(f'[[{each}]]' for each in dimensions)}]"]
    return "\n".join([*lines, "      read_write: true", f"  instance: {{{sizes}}}", ""])


def written(folder: str | os.PathLike[str], case: Case, what: str, force: bool = False) -> list[pathlib.Path]:
    """Write the products of a step into a folder, each as NAME.yaml of its first op; none appears before all are done.

    Args:
      folder: that holds nothing else; it is made where there is none.
      case: one step.
      what: what the step works on, in words.
      force: replace files of these names that jaxroof did not write.

    Raises:
      ValueError: one line, for a step without products, or a folder or file that must not or cannot be written.
    """
    texts = {}
    for product in products(case):
        problem(product)
        name = f"{product.ops[0].replace('.', '_')}.yaml"
        texts[name] = [product_text(product, f"{case.model.name}, {what}").encode()]
    if not texts:
        raise ValueError(f"{case.model.name} has no matrix product in {what}")
    return files_of_folder(folder, texts, ("problem",), "product of this step", force)
