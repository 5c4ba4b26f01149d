"""Questions that can be asked at a point, one file each: its workload, terms, metrics and rules."""

from jaxroof.jobs.colocated import COLOCATED
from jaxroof.jobs.disaggregated import DISAGGREGATED
from jaxroof.jobs.job import Job, legality
from jaxroof.jobs.request import REQUEST
from jaxroof.jobs.scenario import Pool, Scenario, Tenant
from jaxroof.jobs.serve import SERVE
from jaxroof.jobs.step import STEP
from jaxroof.jobs.train import TRAIN

JOBS = {job.name: job for job in (REQUEST, STEP, TRAIN, DISAGGREGATED, COLOCATED, SERVE)}
"""Every job that a specification can name."""


def job_of(scenario: Scenario) -> Job:
    """The job whose kind of workload a scenario has."""
    return next(job for job in JOBS.values() if isinstance(scenario.workload, job.workload))


__all__ = ["JOBS", "Job", "Pool", "Scenario", "Tenant", "job_of", "legality"]
