"""Verbs of the `jaxroof` command, each with one line on its answer."""

VERBS = {
    "step": "one engine step: a table of its ops with time, share, work and what binds each",
    "collective": "an all-reduce or another collective: time and bus bandwidth by algorithm and message size",
    "request": "a static batch of requests: TTFT, TPOT, E2E latency, throughput, what fits",
    "train": "one iteration of training: time, MFU, messages, memory, cost; or the best layouts of many devices",
    "serve": "a request stream on a simulated engine: latency percentiles, goodput, queueing, use of the cache",
    "disaggregate": "prefill and decode on pools of their own: TTFT, TPOT, rates that match, the best split",
    "colocate": "two models on the same devices, in turns or side by side: latencies of each, alone and together",
    "scenario": "the suite of training and inference scenarios, each beside hand-worked values",
    "compare": "which accelerators, how many and which parallelism serve a model best: a ranking",
    "capacity": "the largest load at which each of many accelerators keeps an objective, and latency against load",
    "sensitivity": "which numbers matter and by how much: elasticities of every metric, at a point or over a sweep",
    "sweep": "a grid or sample of points from a TOML spec, into a netCDF file or a folder of shards",
    "status": "how far a folder of shards is, and whether it is whole",
    "query": "the points of a sweep that keep a condition, best first",
    "merge": "a folder of shards as one netCDF file",
    "optimize": "the best hardware, deployment and workload numbers under constraints, by gradients",
    "plot": "a picture of a sweep's netCDF file, or of one step's roofline",
    "bench": "measured kernels of the device that JAX sees, as surfaces that predict others",
    "hardware": "the accelerators of the catalogue",
    "models": "the models of the catalogue",
    "trace": "a request stream, from a trace file or distributions: rate, burstiness, lengths, shared prefixes",
    "calibrate": "an engine's overheads from one measured run of a server, or whether calibrated ones still hold",
    "surface": "kernels as a user measured them: tables from a benchmark's files, or what a file holds",
    "validate": "predictions against measured data",
}
"""Every verb and what it answers. Verb `x` lives in `sweeps.cli.x` as `arguments(parser)` and `run(options)`."""
