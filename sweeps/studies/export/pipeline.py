"""Pipeline schedules task by task: which device runs what, when, and how much it holds.

A task is (kind, chunk, micro-batch). Kinds: F forward; B a whole backward pass; I its gradient of the input; W its
gradient of the weights. Every device works through a list of tasks in order, and waits for what each of them needs.
An entry that is a tuple of two tasks runs both as one.

Source: those of `jaxroof.training.schedules.SCHEDULES`.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

Task = tuple[str, int, int]

Entry = Any
"""A task, or a tuple of two that run as one."""


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """Tasks of every device in order, and where the stages of the model are.

    A stage is the layers of one chunk. Micro-batches of direction 0 go from the first device to the last, chunk after
    chunk; those of direction 1, which only DualPipe has, go the other way, through the same stages on other devices.
    """

    lists: list[list[Entry]]
    chunks: int = 1  # of a device in one direction
    both_ends: bool = False  # chunk 1 is of direction 1

    @property
    def stages(self) -> int:
        """Stages of the model in one direction."""
        return len(self.lists) * self.chunks

    def tasks(self, device: int) -> list[Task]:
        """Tasks of a device in order."""
        return [task for entry in self.lists[device] for task in tasks_of(entry)]

    def way(self, device: int, chunk: int) -> tuple[int, int]:
        """Direction and stage of a chunk of a device."""
        # DualPipe: a device has a stage of one direction and the mirrored one of the other.
        if self.both_ends:
            return chunk, self.stages - 1 - device if chunk else device
        # Chunks go around the devices: chunk c of device d is stage c * devices + d.
        return 0, chunk * len(self.lists) + device

    def device(self, direction: int, stage: int) -> int:
        """The device that has a stage in a direction."""
        return self.stages - 1 - stage if direction else stage % len(self.lists)

    def needs(self, task: Task, device: int) -> list[tuple[Any, ...]]:
        """What a task waits for beside the ones before it: (kind F or B, direction, stage, micro-batch) each."""
        kind, chunk, batch = task
        direction, stage = self.way(device, chunk)
        if kind == "F":
            # A forward pass needs the activations of the stage before; the first stage has the input.
            return [("F", direction, stage - 1, batch)] if stage else []
        if kind == "W":
            return [("B", direction, stage, batch)]
        # A backward pass needs its own forward pass, and the gradient from the stage after it.
        after = [("B", direction, stage + 1, batch)] if stage < self.stages - 1 else []
        return [("F", direction, stage, batch), *after]

    def makes(self, task: Task, device: int) -> tuple[Any, ...]:
        """What a task makes that others need, as `needs` names it; weight gradients W make what nothing needs."""
        kind, chunk, batch = task
        # Other stages need the gradient of the input only, which is what I makes of a backward pass.
        return "B" if kind == "I" else kind, *self.way(device, chunk), batch


class Placed(NamedTuple):
    """A task with its time."""

    device: int
    task: Task
    start: float
    end: float
    number: int  # of its entry on the device


def pipeline(schedule: str, stages: int, chunks: int, micro_batches: int) -> Pipeline:
    """The pipeline of a schedule, one of `jaxroof.training.schedules.SCHEDULES`; one stage has no pipeline.

    Args:
      stages: devices; chunks: of layers per device, of the interleaved schedule.
    """
    if stages == 1 or schedule == "1f1b":
        return Pipeline(one_forward_one_backward(stages, micro_batches))
    if schedule == "interleaved":
        return Pipeline(interleaved(stages, chunks, micro_batches), chunks)
    if schedule == "dualpipe":
        return Pipeline(dual_pipe(stages, micro_batches), both_ends=True)
    return Pipeline({"gpipe": gpipe, "zero_bubble": zero_bubble}[schedule](stages, micro_batches))


def tasks_of(entry: Entry) -> tuple[Task, ...]:
    """Tasks of an entry."""
    return entry if isinstance(entry[0], tuple) else (entry,)


def gpipe(stages: int, micro_batches: int) -> list[list[Any]]:
    """All forward passes, then all backward passes."""
    tasks = [(kind, 0, batch) for kind in "FB" for batch in range(micro_batches)]
    return [list(tasks) for _ in range(stages)]


def one_forward_one_backward(stages: int, micro_batches: int) -> list[list[Any]]:
    """As many forward passes as there are later stages, then one of each in turn."""
    return [
        _in_turn(
            [("F", 0, batch) for batch in range(micro_batches)],
            [("B", 0, batch) for batch in range(micro_batches)],
            stages - 1 - device,
        )
        for device in range(stages)
    ]


def interleaved(stages: int, chunks: int, micro_batches: int) -> list[list[Any]]:
    """The same with `chunks` chunks per device: `stages` micro-batches go through one chunk after the other."""
    # Micro-batches in groups of as many as there are devices (arXiv:2104.04473, section 2.2).
    groups = [range(first, min(first + stages, micro_batches)) for first in range(0, micro_batches, stages)]
    forward = [("F", chunk, batch) for group in groups for chunk in range(chunks) for batch in group]
    backward = [("B", chunk, batch) for group in groups for chunk in reversed(range(chunks)) for batch in group]
    # Forward passes ahead of the first backward pass: two per later device, and one group per further chunk.
    return [_in_turn(forward, backward, 2 * (stages - 1 - device) + (chunks - 1) * stages) for device in range(stages)]


def zero_bubble(stages: int, micro_batches: int) -> list[list[Any]]:
    """1F1B where stage i makes its weight gradients i micro-batches late, and the last ones at the end."""
    lists = []
    for device, tasks in enumerate(one_forward_one_backward(stages, micro_batches)):
        later: list[Any] = []
        for kind, chunk, batch in tasks:
            later += [(kind, chunk, batch)] if kind == "F" else [("I", chunk, batch)]
            if kind == "B" and batch >= device:
                later.append(("W", chunk, batch - device))
        late = range(max(micro_batches - device, 0), micro_batches)
        lists.append(later + [("W", 0, batch) for batch in late])
    return lists


def dual_pipe(stages: int, micro_batches: int) -> list[list[Any]]:
    """Half of the micro-batches enter at each end; chunk 0 is the stage of the first half's way, 1 of the other's."""
    return [_from_both_ends(device, stages, micro_batches // 2) for device in range(stages)]


def _from_both_ends(device: int, stages: int, micro_batches: int) -> list[Any]:
    # The distance from the nearer end decides the numbers of tasks in every part of the schedule.
    half, depth = stages // 2, min(device, stages - 1 - device)
    near, far = (0, 1) if device < half else (1, 0)  # the end that is closer, and the other one
    started = {"F": [0, 0], "B": [0, 0]}
    late: list[Task] = []

    def task(kind: str, chunk: int) -> Task:
        batch = started[kind][chunk]
        started[kind][chunk] += 1
        return kind, chunk, batch

    def split(chunk: int) -> Task:
        _, _, batch = task("B", chunk)
        late.append(("W", chunk, batch))
        return "I", chunk, batch

    # DualPipe's parts in order (arXiv:2412.19437, section 3.2.1): forward passes that entered at the near end.
    rest = half - depth - 1
    tasks: list[Any] = [task("F", near) for _ in range(2 * rest)]
    for _ in range(depth + 1):
        tasks += [task("F", near), task("F", far)]
    # The first backward passes of the far direction, split so that their input gradients go on early.
    for _ in range(rest):
        tasks += [split(far), late.pop(0), task("F", far)]
    # The steady state: a forward pass of one direction runs together with a backward pass of the other.
    for turn in range(micro_batches - stages + depth + 1):
        pair = (task("F", near), task("B", far))
        # On the two devices in the middle, the first pair is two tasks one after the other.
        tasks += list(pair) if turn == 0 and depth == half - 1 else [pair]
        tasks.append((task("F", far), task("B", near)))
    # The far direction runs its last forward passes.
    for _ in range(rest):
        tasks += [task("B", far), (task("F", far), task("B", near))]
    # Backward passes of both directions in turn, the later ones split.
    for turn in range(2 * (depth + 1)):
        chunk = near if turn % 2 else far
        tasks.append(split(chunk) if turn > depth else task("B", chunk))
    # The near direction's last backward passes, with weight gradients that were put off.
    for _ in range(rest):
        tasks += [late.pop(0), split(near)]
    return tasks + late


def _in_turn(forward: list[Task], backward: list[Task], ahead: int) -> list[Any]:
    """`ahead` forward passes, then one of each in turn until both are done."""
    ahead = min(ahead, len(forward))
    tasks, rest = forward[:ahead], forward[ahead:]
    for index, task in enumerate(backward):
        tasks += [*rest[index : index + 1], task]
    return tasks


def placed(pipeline: Pipeline, durations: dict[str, float]) -> Iterator[Placed]:
    """Tasks with their times, each as early as it can be, messages taking none; those of a device in order.

    Of an entry of two tasks, the second follows the first, and what both make is there when the second ends.

    Args:
      durations: s of one chunk's task by kind.
    """
    done: dict[tuple[Any, ...], float] = {}  # what `Pipeline.needs` names -> when it is there
    clocks, places = [0.0] * len(pipeline.lists), [0] * len(pipeline.lists)
    waiting = sum(map(len, pipeline.lists))
    # Rounds over the devices, until every entry has a time or a round places none.
    while waiting:
        before = waiting
        for device, entries in enumerate(pipeline.lists):
            while places[device] < len(entries):
                together = tasks_of(entries[places[device]])
                needs = [result for task in together for result in pipeline.needs(task, device)]
                if any(result not in done for result in needs):
                    break
                clock = max([clocks[device], *(done[result] for result in needs)])
                for task in together:
                    start, clock = clock, clock + durations[task[0]]
                    yield Placed(device, task, start, clock, places[device])
                # Results are there when the last task of the entry ends.
                done |= {pipeline.makes(task, device): clock for task in together}
                clocks[device] = clock
                places[device] += 1
                waiting -= 1
        if waiting == before:
            raise RuntimeError("the schedule waits for itself")
