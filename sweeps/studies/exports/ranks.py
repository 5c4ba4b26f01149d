"""Ranks of a deployment, numbered as `jaxroof.deployment.Parallelism` says, and the groups that they talk in."""

import itertools

from jaxroof.deployment import Deployment, degree, devices, stage_devices
from sweeps.studies.exports.runs import Run


class Ranks:
    """Ranks: tp fastest, then cp, attention_dp, pp and dp.

    Attributes:
      number: of all ranks.
      stage: of one stage of one replica.
      pp: devices of the pipeline.
    """

    def __init__(self, deployment: Deployment):
        self.number, self.stage = round(float(devices(deployment))), round(float(stage_devices(deployment)))
        self.pp, self._tp = round(float(degree(deployment.pp))), round(float(deployment.tp))

    def of_pipeline(self, device: int) -> list[int]:
        """Ranks that are one device of the pipeline, in every replica."""
        return [rank for rank in range(self.number) if self.pipeline(rank) == device]

    def pipeline(self, rank: int) -> int:
        """The device of the pipeline that a rank is."""
        return rank // self.stage % self.pp

    def partner(self, rank: int, device: int) -> int:
        """The rank that has a rank's place in another device of its pipeline."""
        return rank + (device - self.pipeline(rank)) * self.stage

    def group(self, rank: int, run: Run) -> tuple[int, ...]:
        """Ranks of a collective in which a rank takes part, in order.

        Those with the same weights are all replicas' ranks of its place in a stage, for weights of experts, or, for
        others, of its place among the tensor-parallel ones. Other groups are inside of a stage.
        """
        if run.role == "replica":
            inside = self.stage if run.name.startswith("expert_") else self._tp
            return tuple(
                other
                for other in range(self.number)
                if self.pipeline(other) == self.pipeline(rank) and other % inside == rank % inside
            )
        place = rank % self.stage // run.stride % run.participants
        first = rank - place * run.stride
        return tuple(first + index * run.stride for index in range(run.participants))

    def neighbours(self, rank: int, run: Run) -> tuple[int, int]:
        """The ranks before and after a rank in a ring."""
        group = self.group(rank, run)
        place = group.index(rank)
        return group[place - 1], group[(place + 1) % len(group)]


class Groups:
    """Groups of ranks by number: 1 and up, as 0 stands for all ranks in ASTRA-sim."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._next = itertools.count(1)

    def number(self, ranks: tuple[int, ...]) -> int:
        """The number of a group."""
        if ranks not in self._numbers:
            self._numbers[ranks] = next(self._next)
        return self._numbers[ranks]

    def listed(self) -> dict[str, list[int]]:
        """Ranks of every group by its number."""
        return {str(number): list(ranks) for ranks, number in self._numbers.items()}
