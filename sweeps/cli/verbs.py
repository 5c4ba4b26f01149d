"""Verbs of the `jaxroof` command in groups of tasks, each with one line on its answer."""

GROUPS = {
    "price": {
        "request": "a static batch of requests: TTFT, TPOT, throughput, cost, what fits",
        "step": "one engine step: its ops with time, share, work and what binds each",
        "train": "one iteration of training: time, MFU, memory, cost; or the best layouts",
        "price": "any function of JAX arrays, or a model in StableHLO: ops, time, over sizes",
        "collective": "an all-reduce or another collective, by algorithm and message size",
        "disaggregate": "prefill and decode on pools of their own: latencies, the best split",
        "colocate": "two models on the same devices, in turns or side by side",
        "map": "loop nests of a layer or a network on an accelerator: the best mappings",
        "scenario": "the suite of 28 scenarios, each beside expected values",
    },
    "serve": {
        "serve": "a request stream on a simulated engine: percentiles of latency, goodput",
        "capacity": "the largest load within an SLO, on each of many accelerators",
        "trace": "a request stream: rate, burstiness, lengths, shared prefixes",
    },
    "choose": {
        "compare": "which accelerators, how many and which parallelism serve a model best",
        "fleet": "accelerators of several kinds for a day's traffic at the least cost",
        "emit": "launch flags of an engine, or a manifest, for a row of a comparison",
    },
    "design": {
        "sweep": "a grid or sample of points from a TOML file, into netCDF or Zarr",
        "optimize": "the best hardware, deployment and workload under constraints",
        "sensitivity": "which numbers matter and by how much: elasticities of every metric",
        "space": "design spaces of hardware that could be built: knobs and laws",
        "status": "how far a folder of shards is, and whether it is whole",
        "query": "the points of a sweep that keep a condition, best first",
        "merge": "a folder of shards as one netCDF file",
    },
    "measure": {
        "calibrate": "an engine's overheads from one measured run of a server",
        "bench": "kernels of the device that JAX sees, measured as surfaces",
        "surface": "kernels as a user measured them: import from a benchmark's files",
        "validate": "predictions against measured data",
    },
    "show": {
        "report": "saved answers as one page for a colleague: charts, tables, CSV, offline",
        "ui": "a page in the browser with sliders, and the answer beside them",
        "hardware": "accelerators of the catalogue, or everything about one",
        "models": "models of the catalogue, or everything about one",
        "plot": "a picture of a sweep's file, a step's roofline or power, or dies",
        "export": "a step or an iteration for Perfetto, Chakra, Timeloop or Vidur",
    },
    "": {
        "completion": "completion of verbs, flags and names in bash, zsh or fish",
    },
}
"""Group -> verb -> what it answers; those of no name are not listed. Verb `x` lives in `sweeps.cli.x` as
`arguments(parser)` and `run(options)`; its main flags and examples are in `sweeps.cli.examples`."""

VERBS = {verb: summary for verbs in GROUPS.values() for verb, summary in verbs.items()}
"""Every verb and what it answers."""
