"""One deployment of a model: everything that its engine and its spread over devices decide."""

from jaxroof.deployment.adapters import Adapted
from jaxroof.deployment.cache import CachePlacement
from jaxroof.deployment.communication import Communication
from jaxroof.deployment.drafting import Drafting
from jaxroof.deployment.kernels import KernelChoice
from jaxroof.deployment.limits import MemoryLimits
from jaxroof.deployment.parallelism import Parallelism
from jaxroof.deployment.precisions import Precisions
from jaxroof.struct import struct


@struct
class Deployment(MemoryLimits, KernelChoice, Precisions, Communication, CachePlacement, Adapted, Drafting, Parallelism):
    """`dp` independent replicas of a model, each on tp x cp x attention_dp x pp devices.

    Its fields are those of its concerns, from `Parallelism` to `MemoryLimits`.
    """
