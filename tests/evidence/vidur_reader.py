"""Vidur's own predictor and simulator on exported tables: `python -m tests.evidence.vidur_reader`.

Figures: docs/guide/exports.md. Runs where `vidur==0.0.26` of PyPI is installed beside jaxroof. That release takes its
tables from a hub: here it is handed the exported folder. It has no tables of the host and of the head, so that layers
are compared.
"""

import argparse
import contextlib
import io
import json
import lzma
import pathlib
import sys
import tempfile

import numpy as np

from sweeps.cli import main as jaxroof
from tests.evidence.harness import command

MODEL, DEVICE, NODE = "meta-llama/Llama-3-8B", "h100", "h100_dgx"
ASKED = ("--hardware", "H100-SXM", "--model", "Llama-3.1-8B")

OUTSIDE = {"embedding", "embedding_all_reduce", "final_norm", "head", "head_all_gather", "sample", "host"}
"""Ops of a step that are of no layer."""

REQUESTS = 200
"""Of 1,024 + 256 tokens, 8 per second."""

STEPS = (
    *((("prefill", new), ("past", past)) for new, past in ((64, 0), (320, 0), (1024, 512), (2048, 1024), (4000, 0))),
    *((("decode", number), ("context", past + 1)) for number, past in ((1, 200), (9, 900), (50, 1500), (128, 3000))),
)
"""Sizes between the rows of the tables."""


def printed(*words: str) -> str:
    """What a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = jaxroof(list(words))
    if status:
        raise SystemExit(f"jaxroof {' '.join(words)} ended with {status}")
    return out.getvalue()


def packed(tables: pathlib.Path, dataset: pathlib.Path, config: dict[str, str]) -> str:
    """A folder as that release downloads it: compressed tables and whose they are."""
    dataset.mkdir()
    for table in tables.glob("*.csv"):
        (dataset / f"{table.name}.xz").write_bytes(lzma.compress(table.read_bytes()))
    (dataset / "config.json").write_text(json.dumps(config))
    return str(dataset)


def configured(folder: pathlib.Path, tp: int):
    """Vidur's configuration of a stream of requests on one replica, and the predictor's part of it."""
    from vidur import config as vidur
    from vidur.execution_time_predictor import sklearn_execution_time_predictor as reader

    found = {
        "compute": packed(
            folder / "p/compute" / DEVICE / MODEL, folder / "compute", {"model": MODEL, "device_sku": DEVICE}
        ),
        "network": packed(folder / "p/network" / NODE, folder / "network", {"sku": NODE}),
    }
    reader.snapshot_download = lambda repo_id, **_: found[repo_id]
    return vidur.SimulationConfig(
        cluster_config=vidur.ClusterConfig(
            replica_config=vidur.ReplicaConfig(MODEL, num_pipeline_stages=1, tensor_parallel_size=tp),
            replica_scheduler_config=vidur.SarathiSchedulerConfig(),
        ),
        request_generator_config=vidur.SyntheticRequestGeneratorConfig(
            num_requests=REQUESTS,
            length_generator_config=vidur.FixedRequestLengthGeneratorConfig(prefill_tokens=1024, decode_tokens=256),
            interval_generator_config=vidur.PoissonRequestIntervalGeneratorConfig(qps=8.0),
        ),
        execution_time_predictor_config=vidur.RandomForrestExecutionTimePredictorConfig(
            model_profiling_dataset="compute",
            network_profiling_dataset="network",
            no_cache=True,
            cache_dir=str(folder / "cache"),
            prediction_max_tokens_per_request=4096,
            kv_cache_prediction_granularity=64,
            attention_decode_batching_overhead_fraction=0.0,  # in jaxroof's times already, like the next
            nccl_cpu_launch_overhead_ms=0.0,
            num_estimators=[250],
            max_depth=[32],
            min_samples_split=[2],
            k_fold_cv_splits=3,
        ),
        metrics_config=vidur.MetricsConfig(output_dir=str(folder), enable_chrome_trace=False, write_json_trace=False),
    )


def compared(predictor, tp: int) -> list[float]:
    """Relative deviations of its time of a step's layers."""
    from vidur.entities import Batch
    from vidur.types import ReplicaId

    found = []
    for work in STEPS:
        (kind, number), (_, past) = work
        queries, cached = ([number], [past]) if kind == "prefill" else ([1] * number, [past - 1] * number)
        batch = Batch(ReplicaId(0), [None] * len(queries), queries, cached)
        theirs = predictor.get_execution_time(batch, 0).model_time
        flags = [word for name, value in work for word in (f"--{name}", str(value))]
        step = json.loads(printed("step", *ASKED, "--tp", str(tp), *flags, "--json"))
        ours = sum(op["time_s"] for op in step["ops"] if op["name"] not in OUTSIDE)
        found.append(theirs / ours - 1.0)
        print(
            f"tp {tp}, {kind} {number} at {past}: {1e3 * theirs:.3f} ms by Vidur, {1e3 * ours:.3f} ms, {found[-1]:+.1%}"
        )
    return found


@command()
def main(options: argparse.Namespace) -> None:
    from vidur.execution_time_predictor import ExecutionTimePredictorRegistry
    from vidur.metrics.metrics_store import MetricsStore
    from vidur.simulator import Simulator

    MetricsStore.plot = lambda self: None  # pictures want a browser
    found = []
    for tp in (2, 1):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            names = ("--device", DEVICE, "--network", NODE, "--repository", MODEL)
            printed("export", "vidur", *ASKED, "--tp", str(tp), *names, "-o", str(folder / "p"))
            config = configured(folder, tp)
            settings, cluster = config.execution_time_predictor_config, config.cluster_config
            found += compared(
                ExecutionTimePredictorRegistry.get(
                    settings.get_type(),
                    predictor_config=settings,
                    replica_config=cluster.replica_config,
                    cache_config=cluster.cache_config,
                ),
                tp,
            )
            if tp == 1:
                simulator = Simulator(config)
                simulator.run()
    most = np.max(np.abs(found))
    print(f"layers by Vidur and by jaxroof differ by {np.mean(np.abs(found)):.1%} on average, {most:.1%} at most")
    latencies = simulator.metric_store._request_metrics_time_distributions
    for metric in ("PREFILL_TIME_E2E", "DECODE_TIME_EXECUTION_PLUS_PREEMPTION_NORMALIZED"):
        mean = np.mean(
            [time for kind, times in latencies.items() if kind.name == metric for _, time in times._data_series]
        )
        print(f"Vidur's simulation of {REQUESTS} requests, mean {metric.lower()}: {1e3 * mean:.2f} ms")


if __name__ == "__main__":
    sys.exit(main())
