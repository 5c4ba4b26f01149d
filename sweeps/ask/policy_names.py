"""What the numbers of an engine's policy are, for axes and plots."""

POLICIES = {
    "policy.order": "which work goes first",
    "policy.queue": "which waiting request is next",
    "policy.token_budget": "tokens of one step",
    "policy.max_sequences": "sequences that run at once",
    "policy.chunked": "1 where prompts are split over steps",
    "policy.block_size": "tokens of one block of the KV cache",
    "policy.watermark": "share of the KV blocks that an admission leaves free",
    "policy.reserve": "1 where blocks for the whole output are taken at admission",
    "policy.swap": "1 where a preempted sequence's cache is kept in host memory",
    "policy.swap_time": "time to move one token's cache to or from host memory",
    "policy.prefix_caching": "1 where prompts find their beginning in the cache",
    "policy.max_waiting": "requests that wait at most",
    "policy.graph_step": "multiples that decoding batches are padded to",
    "policy.graph_limit": "largest batch that is padded",
    "policy.hidden_host": "1 where the host works while the device does",
    "policy.acceptance": "probability that a drafted token is right",
}
"""Leaf -> what it is."""
