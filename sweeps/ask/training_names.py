"""Names and meanings of what a training iteration is measured by."""

KINDS = {
    "tp": "tensor-parallel devices",
    "pp": "pipeline stages",
    "dp": "copies of the weights",
    "ep": "expert-parallel devices",
    "cp": "context-parallel devices",
}
"""Between whom messages are."""

TRAINED: dict[str, tuple] = {
    "iteration_time": ("s", "time of one training iteration", (), False),
    "hfu": ("1", "hardware FLOP utilisation: matrix work at peak, recomputation included, over time", (), True),
    "model_flops_per_second": ("FLOP/s", "FLOP that the model needs, per second and device", (), True),
    "micro_batches": ("1", "micro-batches of one replica and iteration"),
    "micro_batch_forward_time": ("s", "forward pass of one micro-batch on the fullest stage", (), False),
    "micro_batch_backward_time": ("s", "backward pass of one micro-batch on the fullest stage", (), False),
    "recompute_time": ("s", "time of an iteration in forward passes that are run again", (), False),
    "optimizer_time": ("s", "time of the update of weights and optimiser states", (), False),
    "bubble_time": ("s", "time of an iteration in which a pipeline stage idles", (), False),
    "bubble_share": ("1", "share of an iteration in which a pipeline stage idles", (), False),
    "communication_exposed": ("s", "time of an iteration that kernels wait for messages", (), False),
    "communication_hidden": ("s", "time of an iteration's messages that run behind kernels"),
    **{
        f"{kind}_exposed": ("s", f"time of an iteration that kernels wait for messages between {words}", (), False)
        for kind, words in KINDS.items()
    },
    **{
        f"{kind}_hidden": ("s", f"time of an iteration's messages between {words} that run behind kernels")
        for kind, words in KINDS.items()
    },
    "weights_memory": ("B", "16-bit weights on the fullest device", (), False),
    "gradients_memory": ("B", "gradients on the fullest device", (), False),
    "optimizer_memory": ("B", "optimiser states on the fullest device", (), False),
    "activations_memory": ("B", "activations of all micro-batches in flight on the fullest device", (), False),
    "buffers_memory": ("B", "buffers of framework, messages and gathered layers on the fullest device", (), False),
    "training_memory": ("B", "memory that training needs on the fullest device", (), False),
    "training_tokens_per_second": ("1/s", "tokens trained on per second, all devices", (), True),
    "training_tokens_per_second_per_device": ("1/s", "tokens trained on per second and device", (), True),
    "joules_per_billion_tokens": ("J", "energy of all devices per billion tokens trained on", (), False),
    "usd_per_billion_tokens": ("1", "US dollars per billion tokens trained on at the devices' price", (), False),
    "training_time": ("s", "time to train on all tokens", (), False),
    "training_usd": ("1", "US dollars to train on all tokens at the devices' price", (), False),
    "training_energy": ("J", "energy of all devices to train on all tokens", (), False),
}
"""Metric -> unit, meaning, flags and whether higher is better, as `sweeps.ask.names.Variable` takes them."""
