"""Many points at once: sweeps over hardware, models, deployments and workloads, as labelled datasets."""

TYPE_CHECKING = False  # of `typing`, which takes longer to import than anything else before a verb

if TYPE_CHECKING:
    from sweeps.api import linear as linear
    from sweeps.api import log as log
    from sweeps.api import sweep as sweep
    from sweeps.api import sweep_to_file as sweep_to_file
    from sweeps.cases import Case as Case
    from sweeps.cases import case as case
    from sweeps.comparison import Comparison as Comparison
    from sweeps.comparison import compare as compare
    from sweeps.elasticity.api import sensitivity as sensitivity
    from sweeps.optimization.search import optimize as optimize
    from sweeps.optimization.spec import problem as problem
    from sweeps.querying.run import query as query
    from sweeps.serving.capacity import capacity as capacity
    from sweeps.serving.curve import latency_curve as latency_curve
    from sweeps.serving.run import serve as serve
    from sweeps.shards.api import sweep_to_folder as sweep_to_folder
    from sweeps.shards.merge import merge as merge
    from sweeps.shards.read import open as open

_HOMES = {
    "linear": "sweeps.api",
    "log": "sweeps.api",
    "sweep": "sweeps.api",
    "sweep_to_file": "sweeps.api",
    "Case": "sweeps.cases",
    "case": "sweeps.cases",
    "Comparison": "sweeps.comparison",
    "compare": "sweeps.comparison",
    "capacity": "sweeps.serving.capacity",
    "latency_curve": "sweeps.serving.curve",
    "optimize": "sweeps.optimization.search",
    "problem": "sweeps.optimization.spec",
    "query": "sweeps.querying.run",
    "sensitivity": "sweeps.elasticity.api",
    "serve": "sweeps.serving.run",
    "sweep_to_folder": "sweeps.shards.api",
    "merge": "sweeps.shards.merge",
    "open": "sweeps.shards.read",
}

__all__ = list(_HOMES)


def __getattr__(name: str):
    """Import a public name when it is first used: `jaxroof --help` passes through here and must not wait for JAX."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sweeps' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
