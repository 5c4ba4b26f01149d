"""Files that describe a model of one's own in keys of a Hugging Face config, to fill in."""

_BEGIN = """\
# A model of your own, in keys of a Hugging Face config. `model_type` says what its layers are: the architectures of
# `jaxroof models`. A key that nothing reads is refused.
name = "MyModel"
"""

_SIZES = """\
num_hidden_layers = {layers}
hidden_size = {hidden}
vocab_size = {vocabulary}
num_attention_heads = {heads}
"""

_END = """\
max_position_embeddings = 131072       # tokens of the longest sequence
tie_word_embeddings = false            # true: the output head is the table of tokens
torch_dtype = "bfloat16"               # of the weights

# Weights and activations in FP8, in blocks, as DeepSeek-V3 has them:
# [quantization_config]
# quant_method = "fp8"
# weight_block_size = [128, 128]
"""

_DENSE = f"""\
{_BEGIN}\
model_type = "llama"                   # grouped-query attention, gated feed-forward
{_SIZES.format(layers=32, hidden=4096, vocabulary=128256, heads=32)}\
num_key_value_heads = 8
head_dim = 128                         # else hidden_size / num_attention_heads
intermediate_size = 14336              # of the feed-forward
{_END}"""

_MOE = f"""\
{_BEGIN}\
model_type = "qwen3_moe"               # grouped-query attention, routed experts
{_SIZES.format(layers=48, hidden=2048, vocabulary=151936, heads=32)}\
num_key_value_heads = 4
head_dim = 128
num_experts = 128
num_experts_per_tok = 8
moe_intermediate_size = 768            # of one expert
intermediate_size = 6144               # of layers without experts
mlp_only_layers = []                   # layers without experts, by their number from 0
{_END}"""

_MLA = f"""\
{_BEGIN}\
model_type = "deepseek_v3"             # latent attention (MLA), routed and shared experts
{_SIZES.format(layers=61, hidden=7168, vocabulary=129280, heads=128)}\
kv_lora_rank = 512                     # of what is cached of keys and values
q_lora_rank = 1536                     # of the queries
qk_nope_head_dim = 128                 # of a head's query and key without positions
qk_rope_head_dim = 64                  # of its part with positions, cached once for all heads
v_head_dim = 128
n_routed_experts = 256
n_shared_experts = 1
num_experts_per_tok = 8
n_group = 8                            # groups of experts
topk_group = 4                         # of them, those that a token's experts are in
moe_intermediate_size = 2048           # of one expert
first_k_dense_replace = 3              # layers before the first one with experts
intermediate_size = 18432              # of those
num_nextn_predict_layers = 1           # modules that predict further tokens
{_END}"""

TEMPLATES = {"dense": _DENSE, "moe": _MOE, "mla": _MLA}
"""Kind of model -> a file, which `--model` reads as it is."""
