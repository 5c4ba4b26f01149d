"""Names and meanings of what pools and co-located models are measured by, and of their workloads' numbers."""

from jaxroof.disaggregation import BOTTLENECKS

PRODUCED: dict[str, tuple] = {
    "prefill_wait": ("s", "mean time of a request in the queue of the prefill pool", (), False),
    "transfer_bytes": ("B", "cache that one request hands over"),
    "transfer_time": ("s", "time that one request's cache is on its way", (), False),
    "transfer_exposed": ("s", "time between a prompt's computation and the arrival of its cache", (), False),
    "prefill_rate": ("1/s", "requests per second that the prefill pool can do", (), True),
    "decode_rate": ("1/s", "requests per second that the decode pool can do at its batch", (), True),
    "transfer_rate": ("1/s", "requests per second whose cache the links between the pools can carry", (), True),
    "request_rate": ("1/s", "requests per second that both pools and their links can do", (), True),
    "bottleneck": ("1", "what limits the rate of requests", BOTTLENECKS),
    "prefill_use": ("1", "rate of requests over what the prefill pool can do"),
    "decode_use": ("1", "rate of requests over what the decode pool can do"),
    "prefill_devices": ("1", "devices of the prefill pool", (), False),
    "decode_devices": ("1", "devices of the decode pool", (), False),
    "prefill_memory_use": ("1", "share of the usable memory of the prefill pool that is needed", (), False),
    "split_use": ("1", "requests per second over what the split can do at most", (), False),
    "limit_ratio": ("1", "largest of the latencies over their limits", (), False),
    "best_split": ("1", "place of the split that keeps every limit with most room to spare; -1: none does"),
}
"""Variable -> unit, long name, flags, whether higher is better."""

PRODUCTION = {
    "workload.prompts": "prompts of one prefill step",
    "workload.lanes": "links that carry one request's cache at once",
    "workload.layerwise": "1 where a layer's cache leaves as soon as it is computed",
}
"""What a leaf is, for axes and plots."""
