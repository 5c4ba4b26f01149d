"""A sweep cut into shards, each of which any process computes by itself, to the same bits."""

import dataclasses
import hashlib
import math
import pathlib
import platform
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from hwspaces.files import unfinished
from jaxroof.numerics.arrays import jax
from jaxroof.version import VERSION
from sweeps.ask.axes import Axis, Choice
from sweeps.ask.spec import Spec, as_tables, spec
from sweeps.data.conditions import NONE, Groups, conditions
from sweeps.data.keep import keepers
from sweeps.data.keep.rows import COMPUTED
from sweeps.data.pieces import Box, Output, Piece
from sweeps.data.shards import encode, folder, manifest
from sweeps.data.shards.encode import Stored
from sweeps.data.store import blanks, coordinates, dimensions, fill
from sweeps.run.engine import LEAST
from sweeps.run.precision import precision
from sweeps.run.sweep import planned, working

SHARD_BYTES = 64_000_000
"""B of one shard's values: what an interruption costs at most, and what is read to look at one of its points."""

KEPT_POINTS = 1 << 25
"""Points of a shard of which little is kept: a second of computing or so."""

MOST_SHARDS = 1 << 20
"""Shards of a sweep at most: each is a file, and a line of the manifest."""
PRUNED_SHARDS = 32
"""Shards of a large sweep of which most points need not be computed."""

FRAME = "frame.nc"
"""Name of the file with the labels along every axis."""


class ShardWork:
    """A sweep and its shards.

    Args:
      source: the specification as a dictionary.
      shard_points: about how many points a shard has; None: what makes it a reasonable file.
      compiling: called before each program is compiled with its number, from 1, and the number of programs.

    Raises:
      ValueError: one line: whatever is wrong with the specification.
    """

    def __init__(
        self,
        source: Mapping[str, Any],
        shard_points: int | None = None,
        compiling: Callable[[int, int], None] = lambda number, total: None,
    ):
        self.spec: Spec = _with_flag(spec(as_tables(source)))
        self.stored = Stored.checked(self.spec.output)
        # The plan compiles its programs here, which has to happen in the sweep's precision.
        self.precision = working(self.spec)
        with precision(self.precision):
            self.asked, self.plan = planned(self.spec, compiling, shard_points or math.inf)
        labels = xr.Dataset(coords=coordinates(self.plan.axes, self.plan.outputs))
        names = conditions(labels, self.spec.per)
        # Of what is kept it is recorded even where nothing is a condition: then it was kept of all points together.
        per = {"per": ", ".join(names) or NONE} if self.spec.keep else {}
        self.attributes = self.asked.attributes | per
        sizes = {axis.name: axis.size for axis in self.plan.axes}
        groups = Groups.of(labels, sizes, names)
        self.keep = keepers(self.spec.keep, self.plan, self.spec.job, groups)
        self.pruning = self._pruning(groups)
        self.shard_points = shard_points or self._fitting()
        # A shard has at most so many points: where they are too many, not even their list is made.
        if self.plan.points > MOST_SHARDS * max(self.shard_points, LEAST):
            raise ValueError(
                f"{self.plan.points:,} points in shards of {self.shard_points:,} are more than {MOST_SHARDS:,} files; "
                "give larger ones: --shard-points N, in Python shard_points"
            )
        self.boxes = list(self.plan.boxes(self.shard_points))

    def compute(
        self, place: pathlib.Path, number: int, progress: Callable[[int], None] = lambda points: None
    ) -> tuple[pathlib.Path, float]:
        """One shard, computed: the file that it is in, not under its name yet, and s that it took.

        JAX has to be in the sweep's `precision`, a setting of the whole process that no thread may change alone.
        """
        begun = time.perf_counter()
        dataset = self.dataset(number, progress)
        # Under a temporary name: an interruption leaves no shard that looks complete.
        part = unfinished.begun(place / manifest.file_name(number))
        encode.write(part, dataset, self.stored)
        return part, time.perf_counter() - begun

    def dataset(self, number: int, progress: Callable[[int], None] = lambda points: None) -> xr.Dataset:
        """One shard, computed, in memory: with `keep`, points that are best or counts of points; else every value."""
        box = self.boxes[number]
        return self._kept(box, progress) if self.keep else self._raw(box, progress)

    def finish(self, place: pathlib.Path, number: int, part: pathlib.Path, seconds: float) -> manifest.Shard:
        """One shard, on the disk under its name: its line of the manifest."""
        begun, file = time.perf_counter(), manifest.file_name(number)
        size, checksum = folder.adopted(part, place / file)
        box = self.boxes[number]
        return manifest.Shard(
            number=number,
            file=file,
            bytes=size,
            sha256=checksum,
            points=box.points,
            seconds=round(seconds + time.perf_counter() - begun, 6),
            # Values that do not vary within the sweep's outer axes are stored by the first box alone.
            names=() if self.keep else tuple(name for name in self.plan.outputs if name in box.names),
            runs=tuple(manifest.runs(positions) for positions in box.positions),
        )

    @property
    def header(self) -> dict[str, Any]:
        """Manifest's content before the first shard: everything that the result depends on."""
        return {
            "question_sha256": _question_hash(self.asked.attributes, self.plan.axes),
            "spec": dict(self.spec.source),
            "spec_sha256": self.asked.attributes["spec_sha256"],
            "keep": [str(keeper) for keeper in self.keep],
            "stored": {"compression": self.stored.compression, "digits": self.stored.digits},
            "software": {"jaxroof": VERSION, "jax": jax.__version__, "numpy": np.__version__, **self.plan.software},
            "hardware": hardware_kind(),
            "dtype": self.spec.dtype,
            "seed": self.spec.seed if self.spec.mode == "sample" else None,
            "shards": len(self.boxes),
            "points": self.plan.points,
            "shard_points": self.shard_points,
            "axes": [[axis.name, axis.size] for axis in self.plan.axes],
            "outputs": [_described(output) for output in self.plan.outputs.values()],
        }

    def write_frame(self, place: pathlib.Path) -> dict[str, Any]:
        """Write the labels along every axis; returns the file's name, size and checksum."""
        # The labels are shared by all shards and stored once, in a file of their own.
        labels = coordinates(self.plan.axes, self.plan.outputs)
        part = unfinished.begun(place / FRAME)
        encode.write(part, xr.Dataset(coords=labels, attrs=self.attributes), Stored())
        size, checksum = folder.adopted(part, place / FRAME)
        return {"file": FRAME, "bytes": size, "sha256": checksum}

    def _pruning(self, groups: Groups) -> Any:
        """The search that leaves out what cannot be kept; None where every point is computed."""
        # It is made of loops of machine code, whose library is an extra.
        compiler = getattr(self.plan, "compiler", None)  # a plan of simulations has none
        if not self.spec.prune or compiler is None or compiler.name != "llvm":
            return None
        from sweeps.run.pruned.search import pruning

        return pruning(self.plan, self.keep, groups)

    def _fitting(self) -> int:
        if self.pruning is not None:
            return max(KEPT_POINTS, self.plan.points // PRUNED_SHARDS)
        if self.keep:
            return KEPT_POINTS
        # Mean B per point: outputs over fewer axes count less.
        bytes_per_point = sum(
            np.prod(output.shape) * output.dtype.itemsize for output in self.plan.outputs.values()
        ) / max(1, self.plan.points)
        return max(1, int(SHARD_BYTES / max(bytes_per_point, 1e-3)))

    def _raw(self, box: Box, progress: Callable[[int], None]) -> xr.Dataset:
        """Every value of a box."""
        # Positions in the sweep that this box owns, by axis.
        place = {axis.name: positions for axis, positions in zip(self.plan.axes, box.positions, strict=True)}
        outputs = {name: _inside(output, place) for name, output in self.plan.outputs.items() if name in box.names}
        labels = xr.Dataset(coords=coordinates(self.plan.axes, self.plan.outputs))
        labels = labels.isel({name: positions for name, positions in place.items() if name in labels.dims})
        # Labels along axes that none of the stored variables has would only enlarge the file.
        used = {dim for output in outputs.values() for dim in dimensions(output)}
        labels = labels.drop_vars([name for name, label in labels.coords.items() if not used.issuperset(label.dims)])
        dataset = xr.Dataset(blanks(outputs), labels.coords, {"title": self.asked.attributes["title"]})
        return fill(dataset, (_moved(piece, place, self.plan.outputs) for piece in self.plan.pieces(progress, [box])))

    def _kept(self, box: Box, progress: Callable[[int], None]) -> xr.Dataset:
        """Kept points or counts of a box."""
        # Every keeper has a running state, to which one chunk is added after the other.
        states = [keeper.begun() for keeper in self.keep]
        computed, told = None, _Told(progress)
        if self.pruning is not None:
            computed = self.pruning().added(box, states, told)
        if computed is None:
            # Points that were told already are not told again.
            for chunk, arrays in self.plan.values(told.again, [box]):
                for state in states:
                    state.add(chunk, arrays)
        points = {} if self.pruning is None else {COMPUTED: box.points if computed is None else computed}
        return xr.merge([state.dataset() for state in states]).assign_attrs(points)


class _Told:
    """Points that are told once, where they are looked at twice."""

    def __init__(self, progress: Callable[[int], None]):
        self._progress, self._told, self._again = progress, 0, 0

    def __call__(self, points: int) -> None:
        self._told += points
        self._progress(points)

    def again(self, points: int) -> None:
        """Some points of all, from the beginning."""
        self._again += points
        fresh = min(points, max(0, self._again - self._told))
        self._progress(fresh)


def _with_flag(checked: Spec) -> Spec:
    """The specification with what says whether a point can be: nothing is kept for being best that can not."""
    # Without `variables` all of them are computed, the flag included.
    if not checked.keep or checked.variables is None or "feasible" in checked.variables:
        return checked
    return dataclasses.replace(checked, variables=(*checked.variables, "feasible"))


def hardware_kind() -> str:
    """The kind of machine that results come from: the same software gives the same bits on all machines of a kind."""
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        return f"{device.platform} {device.device_kind}"
    instructions = "unknown"
    try:
        flags = set(pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
        # The widest vector instructions of the CPU, as results depend on how code is vectorised.
        instructions = next((name for name in ("avx512f", "avx2", "avx", "sve", "asimd") if name in flags), "plain")
    except OSError:
        pass
    return f"cpu {platform.machine()} {instructions}"


def _described(output: Output) -> dict[str, Any]:
    return {
        "name": output.name,
        "dims": list(output.dims),
        "shape": list(output.shape),
        "dtype": output.dtype.str,
        "ops": list(output.ops),
        "complete": output.complete,
    }


def _question_hash(attributes: Mapping[str, Any], axes: tuple[Axis, ...]) -> str:
    """A hash of every number that the result depends on: the scenario that axes start from, and the axes."""
    digest = hashlib.sha256(attributes["base_scenario_sha256"].encode())
    for axis in axes:
        for path, column in axis.columns.items():
            # A choice counts with its items, in text, and with the item's number at every position.
            items, index = (column.items, column.index) if isinstance(column, Choice) else ((), column)
            digest.update(repr((axis.name, path, items)).encode())
            digest.update(np.ascontiguousarray(index).tobytes())
    return digest.hexdigest()


def _inside(output: Output, place: Mapping[str, np.ndarray]) -> Output:
    """The variable over a box alone."""
    shape = tuple(
        len(place[dim]) if dim in place else size for dim, size in zip(output.dims, output.shape, strict=True)
    )
    return Output(output.name, output.dims, shape, output.dtype, output.ops, output.complete)


def _moved(piece: Piece, place: Mapping[str, np.ndarray], outputs: Mapping[str, Output]) -> Piece:
    """The piece with positions in the sweep made positions in a box."""
    index = []
    for dim, part in zip(outputs[piece.name].dims, piece.index, strict=True):
        if dim in place:
            # Positions of a piece are a slice where they are in a row, or else an array.
            first = part.start if isinstance(part, slice) else part[0]
            length = part.stop - part.start if isinstance(part, slice) else len(part)
            # Positions of a box rise along every axis, so that a binary search finds the first.
            low = int(np.searchsorted(place[dim], first))
            part = slice(low, low + length)
        index.append(part)
    return Piece(piece.name, tuple(index), piece.values)
