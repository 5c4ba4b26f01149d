"""Many points at once: sweeps over hardware, models, deployments and workloads, as labelled datasets."""

from jaxroof.version import VERSION as __version__  # noqa: F401
from sweeps.ask.cases import Case as Case
from sweeps.ask.cases import case as case
from sweeps.data.querying.run import query as query
from sweeps.data.shards.merge import merge as merge
from sweeps.data.shards.read import open as open
from sweeps.run.shards.api import sweep_to_folder as sweep_to_folder
from sweeps.run.shards.to_zarr import sweep_to_zarr as sweep_to_zarr
from sweeps.run.sweep import linear as linear
from sweeps.run.sweep import log as log
from sweeps.run.sweep import sweep as sweep
from sweeps.run.sweep import sweep_to_file as sweep_to_file
from sweeps.serving.capacity import capacity as capacity
from sweeps.serving.curve import latency_curve as latency_curve
from sweeps.serving.files import serve as serve
from sweeps.serving.service_capacity import service_capacity as service_capacity
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
