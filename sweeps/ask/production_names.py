"""Names and meanings of what pools and co-located models are measured by."""

from jaxroof.jobs.disaggregated import BOTTLENECKS

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
    "ttft_alone": ("s", "time to first token without the neighbour", (), False),
    "tpot_alone": ("s", "time per output token without the neighbour", (), False),
    "neighbour_ttft": ("s", "time to first token of the neighbour", (), False),
    "neighbour_tpot": ("s", "time per output token of the neighbour", (), False),
    "neighbour_e2e": ("s", "end-to-end latency of the neighbour", (), False),
    "neighbour_ttft_alone": ("s", "time to first token of the neighbour on its own", (), False),
    "neighbour_tpot_alone": ("s", "time per output token of the neighbour on its own", (), False),
    "neighbour_tokens_per_second": ("1/s", "output tokens per second of the neighbour", (), True),
    "neighbour_weight_bytes": ("B", "weights of the neighbour per device"),
    "neighbour_sequence_capacity": ("1", "the neighbour's sequences whose KV cache fits in its share", (), True),
    "bandwidth_share": ("1", "share of the memory bandwidth that decode steps get beside the neighbour's", (), True),
    "cache_left": ("B", "memory per device that both models leave for KV cache", (), True),
    "kv_blocks_left": ("1", "blocks of KV cache that fit beside the weights", (), True),
    "cache_waste": ("1", "share of a sequence's blocks of KV cache that is empty", (), False),
    "cache_waste_mean": ("1", "tokens of room that a sequence of any length leaves empty, on average", (), False),
    "split_use": ("1", "requests per second over what the split can do at most", (), False),
    "limit_ratio": ("1", "largest of the latencies over their limits", (), False),
    "best_split": ("1", "place of the split that keeps every limit with most room to spare; -1: none does"),
}
"""Variable -> unit, long name, flags, whether higher is better."""
