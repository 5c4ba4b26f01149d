"""Time of one iteration of learning from feedback: rollout, scoring, training, and new weights for engines."""

from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.jobs.composition import Requests
from jaxroof.jobs.request import request_cost
from jaxroof.memory.capacity import parameter_count
from jaxroof.model import Model
from jaxroof.numerics.smooth import ceiling
from jaxroof.numerics.struct import Array, Scalar, struct


@struct
class Scorer:
    """A model that reads whole answers and judges them: a reward model, a reference, or a critic."""

    model: Model
    deployment: Deployment
    batch: Scalar  # answers that one replica reads at once


@struct
class FeedbackCost:
    """Parts of one iteration."""

    rollout: Scalar  # s, prompts and answers
    scoring: Scalar  # s, of all scorers after each other
    training: Scalar  # s
    sync: Scalar  # s, the new weights' way to the engines
    total: Scalar  # s


def rollout_time(
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    requests: Requests,
    efficiency: Efficiency,
    prompts: Scalar,
) -> Array:
    """Time in s to answer `prompts` prompts, shape (): static batches of `requests.batch` on `deployment.dp` replicas.

    ceil(prompts / (batch dp)) batches, each as long as its E2E latency; answers are equally long.
    """
    # Static batches: the last one, if it is partly full, takes as long as a full one.
    batches = ceiling(prompts / (requests.batch * deployment.dp))
    return batches * request_cost(hardware, model, deployment, requests, efficiency).e2e


def scoring_time(
    hardware: Hardware, scorer: Scorer, requests: Requests, efficiency: Efficiency, prompts: Scalar
) -> Array:
    """Time in s in which `scorer` reads `prompts` prompts with their answers, shape (): prefill without decoding."""
    # Scoring reads prompt and answer in one prefill and generates nothing.
    read = Requests(batch=scorer.batch, isl=requests.isl + requests.osl, osl=1.0, cached=0.0)
    batches = ceiling(prompts / (scorer.batch * scorer.deployment.dp))
    return batches * request_cost(hardware, scorer.model, scorer.deployment, read, efficiency).ttft


def sync_time(model: Model, element_bytes: Scalar, bandwidth: Scalar) -> Scalar:
    """Time in s in which every engine gets the new weights, shape (): parameters * element_bytes / bandwidth.

    Engines receive at the same time, as in a broadcast.

    Args:
      element_bytes: B per parameter that is sent.
      bandwidth: B/s into the devices of one engine together.
    """
    # A broadcast: all engines receive at once, so the time is that of one.
    return parameter_count(model) * element_bytes / bandwidth


def feedback_cost(
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    requests: Requests,
    efficiency: Efficiency,
    *,
    prompts: Scalar,
    scorers: tuple[Scorer, ...],
    train_time: Scalar,
    sync_bandwidth: Scalar,
    sync_bytes: Scalar = 2.0,
) -> FeedbackCost:
    """Time of one iteration, its parts after each other on the same devices. Differentiable in every leaf.

    Args:
      hardware, model, deployment, requests, efficiency: of the rollout, as `request_cost` takes them.
      prompts: of one iteration.
      scorers: what reads the answers; empty: rules do, in no time.
      train_time: s of the update, as `jaxroof.training` has it.
      sync_bandwidth: B/s into the devices of one engine together.
      sync_bytes: B per parameter that is sent.

    Source: Sheng et al., arXiv:2409.19256 (HybridFlow), section 2: generation, preparation and learning stages.
    """
    rollout = rollout_time(hardware, model, deployment, requests, efficiency, prompts)
    # Stages follow one another on the same devices (colocated RLHF): times add.
    scoring = sum((scoring_time(hardware, scorer, requests, efficiency, prompts) for scorer in scorers), start=0.0)
    sync = sync_time(model, sync_bytes, sync_bandwidth)
    return FeedbackCost(
        rollout=rollout, scoring=scoring, training=train_time, sync=sync, total=rollout + scoring + train_time + sync
    )
