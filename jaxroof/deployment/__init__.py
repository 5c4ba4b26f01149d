"""Deployments of a model on devices: one file for each concern, all of whose fields `Deployment` has."""

from jaxroof.deployment.deployment import ADAPTED as ADAPTED
from jaxroof.deployment.deployment import Adapters as Adapters
from jaxroof.deployment.deployment import Deployment as Deployment
from jaxroof.deployment.deployment import drafted_part as drafted_part
from jaxroof.deployment.deployment import drafted_tokens as drafted_tokens
from jaxroof.deployment.deployment import tokens_per_sequence as tokens_per_sequence
from jaxroof.deployment.parallelism import DEGREES as DEGREES
from jaxroof.deployment.parallelism import GROUPS as GROUPS
from jaxroof.deployment.parallelism import SEQUENCE_WAYS as SEQUENCE_WAYS
from jaxroof.deployment.parallelism import axes as axes
from jaxroof.deployment.parallelism import charged_share as charged_share
from jaxroof.deployment.parallelism import degree as degree
from jaxroof.deployment.parallelism import dense_copies as dense_copies
from jaxroof.deployment.parallelism import devices as devices
from jaxroof.deployment.parallelism import expert_tp as expert_tp
from jaxroof.deployment.parallelism import largest_stage as largest_stage
from jaxroof.deployment.parallelism import on_one_device as on_one_device
from jaxroof.deployment.parallelism import pipelined_parts as pipelined_parts
from jaxroof.deployment.parallelism import product as product
from jaxroof.deployment.parallelism import replica_devices as replica_devices
from jaxroof.deployment.parallelism import request_groups as request_groups
from jaxroof.deployment.parallelism import sequence_ways as sequence_ways
from jaxroof.deployment.parallelism import splits_requests as splits_requests
from jaxroof.deployment.parallelism import splits_tokens as splits_tokens
from jaxroof.deployment.parallelism import stage_devices as stage_devices
from jaxroof.deployment.parallelism import token_groups as token_groups
