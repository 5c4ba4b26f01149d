"""Launch flags and manifests that start what a row of a comparison describes."""

from sweeps.serving.launch.deployed import LaunchedPool as LaunchedPool
from sweeps.serving.launch.deployed import pools as pools
from sweeps.serving.launch.text import KINDS as KINDS
from sweeps.serving.launch.text import launch_text as launch_text
from sweeps.serving.launch.text import require_kind as require_kind
