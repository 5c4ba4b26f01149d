"""Many points at once: sweeps over hardware, models, deployments and workloads, as labelled datasets."""

from jaxroof.version import VERSION as __version__  # noqa: F401
from sweeps.ask.cases import Case as Case
from sweeps.ask.cases import case as case
from sweeps.data.querying.run import query as query
from sweeps.data.shards.merge import merge as merge
from sweeps.data.shards.read import open as open
from sweeps.entries.cases import request as request
from sweeps.entries.cases import step as step
from sweeps.entries.cases import train as train
from sweeps.entries.comparisons import compare as compare
from sweeps.entries.comparisons import compare_static as compare_static
from sweeps.entries.designs import fleet as fleet
from sweeps.entries.designs import optimize as optimize
from sweeps.entries.kernels import collective as collective
from sweeps.entries.kernels import price as price
from sweeps.entries.layouts import train_search as train_search
from sweeps.entries.result import Result as Result
from sweeps.entries.sensitivities import sensitivity as sensitivity
from sweeps.entries.services import capacity as capacity
from sweeps.entries.services import serve as serve
from sweeps.entries.services import service_capacity as service_capacity
from sweeps.reports.report import report as report
from sweeps.run.shards.api import sweep_to_folder as sweep_to_folder
from sweeps.run.shards.to_zarr import sweep_to_zarr as sweep_to_zarr
from sweeps.run.sweep import linear as linear
from sweeps.run.sweep import log as log
from sweeps.run.sweep import sweep as sweep
from sweeps.run.sweep import sweep_to_file as sweep_to_file
from sweeps.serving.curve import latency_curve as latency_curve
from sweeps.studies import adapters as adapters
from sweeps.studies.compare.comparison import Comparison as Comparison
from sweeps.studies.compare.static import StaticComparison as StaticComparison
from sweeps.studies.optimize.spec import problem as problem
from sweeps.studies.price.question import from_function as from_function
from sweeps.studies.price.question import from_stablehlo as from_stablehlo
