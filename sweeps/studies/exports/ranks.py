"""Ranks of a deployment, numbered as `jaxroof.deployment.Parallelism` says, and the groups that they talk in."""

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
            stages = range(self.pipeline(rank) * self.stage, self.number, self.pp * self.stage)  # in every replica
            return tuple(first + place for first in stages for place in range(rank % inside, self.stage, inside))
        place = rank % self.stage // run.stride % run.participants
        first = rank - place * run.stride
        return tuple(first + index * run.stride for index in range(run.participants))

    def neighbours(self, rank: int, run: Run) -> tuple[int, int]:
        """The ranks before and after a rank in a ring."""
        group = self.group(rank, run)
        place = group.index(rank)
        return group[place - 1], group[(place + 1) % len(group)]
