"""Facts that stand in the way of model types that attend in code of their own; each code has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PretrainedConfig


def own_attention_faults(config: PretrainedConfig) -> list[str]:
    """What a config asks of such a model that is not supported; empty for any other type."""
    checks = {"falcon": _falcon_faults, "bloom": _bloom_faults}
    check = checks.get(config.model_type)
    return [] if check is None else check(config)


def _falcon_faults(config: PretrainedConfig) -> list[str]:
    faults = []
    if config.alibi:
        faults.append(
            "alibi is True: its bias is rounded to bfloat16 by absolute position, so that it is no function of a "
            "distance; Falcon with rotary positions is supported"
        )
    heads, kv_heads = config.num_attention_heads, config.num_kv_heads
    if config.new_decoder_architecture and (kv_heads < 1 or heads % kv_heads):
        faults.append(f"num_kv_heads is {kv_heads}, expected a divisor of num_attention_heads ({heads})")
    if not config.new_decoder_architecture and not config.multi_query and kv_heads != heads:
        faults.append(f"num_kv_heads is {kv_heads}, expected num_attention_heads ({heads}) without multi_query")
    norms = config.num_ln_in_parallel_attn
    if config.new_decoder_architecture and norms not in (None, 1, 2):
        faults.append(f"num_ln_in_parallel_attn is {norms}, expected 1 or 2")
    if norms == 2 and config.parallel_attn and not config.new_decoder_architecture:
        faults.append("transformers does not run num_ln_in_parallel_attn 2 without new_decoder_architecture")
    if config.new_decoder_architecture and not config.parallel_attn:
        faults.append("transformers does not run new_decoder_architecture without parallel_attn")
    return faults


def _bloom_faults(config: PretrainedConfig) -> list[str]:
    if config.slow_but_exact and config.pretraining_tp > 1:
        return [f"slow_but_exact with pretraining_tp {config.pretraining_tp} adds products in parts; set it to False"]
    return []
