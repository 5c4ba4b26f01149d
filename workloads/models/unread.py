"""Keys of a config that no reader asked for: those of weights' storage are refused, those of structure said aloud."""

import difflib
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from workloads.config import Config, shown

STORAGE = re.compile(
    r"quant|compress|(?<!activation_)sparsity|prun(e|ing)|gptq|awq|bnb|(^|_)bits?($|_)|^fp[48]|^int[48]", re.IGNORECASE
)
"""Names of keys that say how weights are stored, which changes every figure: one that is not read is refused."""

STRUCTURE = re.compile(
    "attn|attention|sparse|layer|head|expert|moe|mlp|ffn|feed_?forward|window|chunk|block|mamba|ssm|conv|state|recurr"
    "|lora|rank|mtp|nextn|draft|eagle|medusa|share|kv|cache|hidden|inner|intermediate|(^|_)dims?($|_)|width|size|depth"
    "|stage|group|router|gate|index|top_?k|embed|norm|bias|memory|engram|residual|hyper|loop|depthwise|adapter|^num_"
    "|^n_|^use_|^is_|^with_|^has_|^enable_|^add_|dtype",
    re.IGNORECASE,
)
"""Names of keys that say what a model consists of: one that is not read is said aloud."""

HARMLESS = (
    # training: initialisation, dropout, losses, recomputation
    r".*(dropout|pdrop|drop_path|_drop|dropout_prob|layerdrop)(_rate|_prob|_p)?",
    r".*(initializer|initialization|init_std|init_method|init_scale|_init|init_range).*",
    r".*(aux_?loss|z_loss|_loss|loss_).*|seq_aux|.*(jitter|router_noise).*|router_dtype|.*gradient_checkpointing",
    r"pretraining_tp|tensor_parallel.*|ep_size|pad_vocab_size_multiple|.*_lr|use_return_dict",
    r"problem_type|classifier.*|summary_.*|num_labels|id2label|label2id|finetuning_task",
    # sampling and generation
    r"num_beams|num_beam_groups|num_return_sequences|top_[kp]|typical_p|temperature|do_sample|.*_penalty",
    r".*no_repeat_ngram_size|(min|max)(_new)?_(length|tokens)|early_stopping|(forced|suppress|begin_suppress)_.*",
    r"use_cache|cache_implementation|output_.*|return_.*|remove_invalid_values|tf_legacy_loss|torchscript",
    r"is_decoder|cross_attention_hidden_size|tie_encoder_decoder|chunk_size_feed_forward|use_bfloat16",
    # tokens and the text around them
    r".*_(token|tokens?_id|token_ids?|token_index|id|ids|idx)|tokenizer.*|.*chat_template.*|.*prompt.*",
    # numbers inside a kernel that cost nothing: constants, scales, clamps, functions of activation
    r".*(eps|epsilon|theta|alpha|beta|factor|scale|scales|scaling|scaler|multiplier|temperature|coef|coeff)",
    r".*(softcap|softcapping|clip|clamp|limit|cap|temperature_tuning|tuning|floor_scale|attn_scale|slope).*",
    r".*(_act|_activation|act_fn|activation_function|hidden_act|activation|scoring_func|score_func(tion)?)",
    r".*_fn|.*_in_fp32|.*_fp32.*|fp32_.*|(router|moe_router|gate|ssm|mamba_ssm|mamba_ssm_cache)_dtype|softmax_.*|apply_query_key_layer_scaling|query_pre_attn_scalar",
    r"num_hash_layers|gate_lower_bound|sparse_score_type|sparse_local_block|sparse_disable_index_value|norm_topk_prob|.*topk_method|moe_router_(topk_scaling|score|enable|use|load|pre).*|use_grouped_topk",
    r"n_group|topk_group|num_expert_group|moe_token_dispatcher_type|moe_permute_fusion",
    # positions
    r".*(rope|rotary|rotate|position|mrope|yarn|longrope).*|use_pos_enc|max_seq_len|seq_length|seq_len",
    r"max_sequence_length|model_max_length|max_window_layers",
    # how it is run, and the file itself
    r".*(flash_?attn|flash_attention|attn_implementation|_implementation|attn_impl|_kernel_backend|fused_).*",
    r"use_(fused|triton|kernel|flash|sdpa|dynamic_ntk|logn).*|(attention|softmax)_backend|use_mamba_kernels",
    r"_.*|transformers_version|auto_map|architectures|model_type|dtype|torch_dtype|name|version|language",
    r"tie_(word_)?embeddings?(_all)?|time_step_.*|A_init_range|rescale_prenorm_residual|residual_in_fp32",
    r"norm_type|normalization_type|layer_norm_type|mm_.*|vision_.*|image_.*|video_.*|audio_.*|speech_.*",
    r"tokens_per_second|spatial_.*|temporal_.*|downsample_.*|projector_.*|multimodal_projector.*|ignore_index",
)
"""Expressions of names of keys that change no cost, each for the whole name."""

QUANTISATION = re.compile(r"((text|llm)_config\.)?(quantization|quantization_config|compression_config)\.")
"""Beginnings of paths inside of tables that say how weights are stored: every key there counts."""

HARMLESS_THERE = (
    r"quant_method|quantization_status|quantization_version|version|producer|transform_config|name|meta|fmt",
    r"damp.*|true_sequential|static_groups|mse|dataset|tokenizer|model_seqlen|block_name_to_quantize|nsamples",
    r"module_name_preceding_first_block|batch_size|pad_token_id|.*exllama.*|max_input_length|cache_block_outputs",
    r"use_cuda_fp16|model_name_or_path|model_file_base_name|is_marlin_format|pack_dtype|hyb_act|v2|backend",
    r"act_group_aware|observer.*|actorder|scale_fmt|scale_format|scale_dtype|zp_dtype|global_compression_ratio",
    r"iters|lr|minmax_lr|enable_.*|low_gpu_mem_usage|gradient_accumulate_steps|seqlen|autoround_version|amp.*",
    r"do_fuse|fuse_max_seq_len|modules_to_fuse|quantizer|packing_format|data_type|calib.*|algo_config|export",
    r"_.*|desc_act|activation_scale_ub|offload.*|quanto.*|symmetric|sym|ch_axis|round_method|qscheme|is_dynamic",
    r"mx_element_dtype|strategy|dynamic|checkpoint_format|global_sparsity|targets|ignore|registry_requires_subclass|pack_method|weight_format|min_kv_scale|.*observer.*|format",
    r"weight_merge_groups|softmax_quant_spec|quant_mode|enable_expr|has_.*|use_.*|.*_status|ignored_.*|block_structure",
)
"""Keys of such tables that change no stored size: how scales were found, what wrote them, how they are packed."""

OPERANDS = ("input_activations", "output_activations", "input_tensors", "output_tensors", "bias", "dynamic")
"""Tables of what is not stored: their type is read, and nothing else of them counts; `dynamic` is read by its rules."""

SUPERSEDED = {
    "num_key_value_heads": ("kv_lora_rank", "compress_ratios"),
    "head_dim": ("kv_lora_rank",),
    "intermediate_size": ("moe_intermediate_size", "num_local_experts", "num_experts", "n_routed_experts"),
    "intermediate_size_mlp": ("interleave_moe_layer_step",),
    "n_shared_experts": ("shared_expert_intermediate_size", "shared_intermediate_size")
    + ("moe_shared_expert_intermediate_size", "share_expert_dim"),
    "num_mtp_modules": ("num_nextn_predict_layers", "mtp_num_hidden_layers"),
    "mamba_expand": ("mamba_d_head", "mamba_head_dim", "mamba_headdim"),
    "expand": ("mamba_num_heads",),
    "decoder_sparse_step": ("mlp_only_layers", "mlp_layer_types"),
    "first_k_dense_replace": ("mlp_layer_types",),
    "moe_layer_freq": ("mlp_layer_types",),
    "qk_head_dim": ("qk_nope_head_dim",),
    "index_topk_freq": ("indexer_types",),
    "index_skip_topk_offset": ("indexer_types",),
}
"""Keys that say nothing more where one of others is there: what layers of that kind do not have, or have twice."""

ENCODERS = re.compile(
    r".*(vision|visual|image|video|audio|speech|sound|perceiver|projector|connector|talker|code2wav).*"
)
"""Tables of encoders and of what makes pictures or sound, which readers of their own look into."""

UNUSED: tuple[Any, ...] = (None, False, 0, 0.0, "", [], {})
"""Values that say that a model has nothing of the kind."""

_HARMLESS, _HARMLESS_THERE = re.compile("|".join(HARMLESS)), re.compile("|".join(HARMLESS_THERE))

MOST = 8
"""Keys that a note lists."""


def unread_notes(config: Config) -> tuple[str, ...]:
    """What to say of keys that were there and nobody asked for, after a model was read from `config`.

    Raises:
      ValueError: one line: a key that says how weights are stored, which would be passed over.
    """
    entries = []
    # Storage keys are refused, structural ones said, all others pass.
    for table, key, value in _unread(config):
        if _stored(table):
            entries.append(f"{table.path}{key} = {shown(value)}")
        elif STORAGE.search(key):
            raise table.error(f"{key} = {shown(value)} says how weights are stored, and is not read")
        elif STRUCTURE.search(key):
            entries.append(f"{table.path}{key} = {shown(value)}")
    if not entries:
        return ()
    entries = [entry + _meant(config, entry.partition(" = ")[0]) for entry in entries]
    more = f", and {len(entries) - MOST} more" if len(entries) > MOST else ""
    return (f"not read, whatever they change of the model: {', '.join(entries[:MOST])}{more}",)


def unknown_keys(config: Config, all_keys: bool) -> list[str]:
    """Keys that no reader asked for, a line each, with what was probably meant.

    Args:
      config: after a model was read from it, or as far as it could be.
      all_keys: also those that are like no key that is missing.
    """
    paths = [f"{table.path}{key}" for table, key, _ in _unread(config)]
    meant = {path: _meant(config, path, all_keys) for path in paths}
    return [f"there is no key {path}{words}" for path, words in meant.items() if words or all_keys]


def _meant(config: Config, path: str, all_keys: bool = False) -> str:
    """What was probably meant by a key that no reader asked for: one that was looked for and is not there."""
    around, dot, key = path.rpartition(".")
    prefix = around + dot
    asked = {one.removeprefix(prefix) for one in config.asked if one.startswith(prefix)}
    wanted = sorted(one for one in asked if "." not in one and not config.has(prefix + one))
    close = difflib.get_close_matches(key, wanted, n=1, cutoff=0.6 if all_keys else 0.85)
    return f"; did you mean {close[0]}?" if close else ""


def _stored(table: Config) -> bool:
    """Whether the table is one that says how weights are stored, or inside of one."""
    return QUANTISATION.match(table.path) is not None


def _unread(config: Config) -> Iterator[tuple[Config, str, object]]:
    """(table, key, value) of what nobody asked for, in the tables that readers looked into; harmless keys left out."""
    for key, value in config.values.items():
        # Encoders have readers of their own.
        if not isinstance(key, str) or ENCODERS.fullmatch(key):
            continue
        if config.looked_up(key):
            # Tables that a reader has looked into are searched for what it has passed over.
            table = config.own_table(key) if isinstance(value, Mapping) and key not in OPERANDS else None
            if table is not None and any(table.looked_up(own) for own in table.values):
                yield from _unread(table)
            continue
        # Zero, empty, superseded and harmless keys change nothing.
        if not (value in UNUSED or _superseded(config, key) or _harmless(_stored(config), key)):
            yield config, key, value


def _superseded(config: Config, key: str) -> bool:
    """Whether another key says what `key` says, or that it counts for nothing."""
    nested = config.nested()
    if nested is not None and key in nested.values:  # the language model's own table has it
        return True
    if key == "sliding_window" and config.value("use_sliding_window") is False:
        return True
    return any(config.value(other) not in UNUSED for other in SUPERSEDED.get(key, ()))


@functools.lru_cache(maxsize=4096)
def _harmless(quantisation: bool, key: str) -> bool:
    return (_HARMLESS_THERE if quantisation else _HARMLESS).fullmatch(key) is not None
