"""Many points at once: sweeps over hardware, models, deployments and workloads, as labelled datasets."""

TYPE_CHECKING = False  # of `typing`, which takes longer to import than anything else before a verb

if TYPE_CHECKING:
    from sweeps.ask.cases import Case as Case
    from sweeps.ask.cases import case as case
    from sweeps.data.querying.run import query as query
    from sweeps.data.shards.merge import merge as merge
    from sweeps.data.shards.read import open as open
    from sweeps.run.shards.api import sweep_to_folder as sweep_to_folder
    from sweeps.run.sweep import linear as linear
    from sweeps.run.sweep import log as log
    from sweeps.run.sweep import sweep as sweep
    from sweeps.run.sweep import sweep_to_file as sweep_to_file
    from sweeps.serving.capacity import capacity as capacity
    from sweeps.serving.curve import latency_curve as latency_curve
    from sweeps.serving.files import serve as serve
    from sweeps.studies import adapters as adapters
    from sweeps.studies.compare.compare import compare as compare
    from sweeps.studies.compare.comparison import Comparison as Comparison
    from sweeps.studies.compare.static import StaticComparison as StaticComparison
    from sweeps.studies.compare.static import compare_static as compare_static
    from sweeps.studies.fleet.answer import fleet as fleet
    from sweeps.studies.optimize.search import optimize as optimize
    from sweeps.studies.optimize.spec import problem as problem
    from sweeps.studies.price.question import from_function as from_function
    from sweeps.studies.price.question import from_stablehlo as from_stablehlo
    from sweeps.studies.sensitivity.api import sensitivity as sensitivity

_HOMES = {
    "linear": "sweeps.run.sweep",
    "log": "sweeps.run.sweep",
    "sweep": "sweeps.run.sweep",
    "sweep_to_file": "sweeps.run.sweep",
    "Case": "sweeps.ask.cases",
    "case": "sweeps.ask.cases",
    "Comparison": "sweeps.studies.compare.comparison",
    "compare": "sweeps.studies.compare.compare",
    "StaticComparison": "sweeps.studies.compare.static",
    "compare_static": "sweeps.studies.compare.static",
    "capacity": "sweeps.serving.capacity",
    "latency_curve": "sweeps.serving.curve",
    "fleet": "sweeps.studies.fleet.answer",
    "from_function": "sweeps.studies.price.question",
    "from_stablehlo": "sweeps.studies.price.question",
    "optimize": "sweeps.studies.optimize.search",
    "problem": "sweeps.studies.optimize.spec",
    "query": "sweeps.data.querying.run",
    "sensitivity": "sweeps.studies.sensitivity.api",
    "serve": "sweeps.serving.files",
    "sweep_to_folder": "sweeps.run.shards.api",
    "merge": "sweeps.data.shards.merge",
    "open": "sweeps.data.shards.read",
}

_MODULES = {"adapters": "sweeps.studies.adapters"}

__all__ = [name for homes in (_HOMES, _MODULES) for name in homes]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `jaxroof --help` passes through here and must not wait for JAX."""
    if name not in __all__:
        raise AttributeError(f"module 'sweeps' has no attribute {name!r}")
    import importlib

    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    return getattr(importlib.import_module(_HOMES[name]), name)
