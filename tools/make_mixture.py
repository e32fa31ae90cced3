#!/usr/bin/env python3
"""A random model of DeepSeek-V3's architecture, large enough to be timed: 64 experts, 6 a token, about 300 million weights in bfloat16.

    .venv/bin/python tools/make_mixture.py [OUT]        (default: .cache/mixture)
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEED = 1


def mixture(out=ROOT / ".cache" / "mixture"):
    """The folder, made if it is not there."""
    if (out / "config.json").exists():
        return out
    import torch
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    torch.manual_seed(SEED)
    config = DeepseekV3Config(
        vocab_size=16384, hidden_size=768, intermediate_size=2048, moe_intermediate_size=384, num_hidden_layers=8, first_k_dense_replace=1,
        num_attention_heads=12, num_key_value_heads=12, n_routed_experts=64, num_experts_per_tok=6, n_shared_experts=1, n_group=8, topk_group=4,
        norm_topk_prob=True, routed_scaling_factor=2.5, q_lora_rank=384, kv_lora_rank=256, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64,
        max_position_embeddings=4096, rope_theta=10000.0, rms_norm_eps=1e-6, tie_word_embeddings=False, num_nextn_predict_layers=0, attention_bias=False, initializer_range=0.02,
    )  # fmt: skip
    model = DeepseekV3ForCausalLM(config)
    with torch.no_grad():  # biases that matter, and logits that differ
        for layer in model.model.layers[1:]:
            layer.mlp.gate.e_score_correction_bias.normal_(0, 0.02)
        model.lm_head.weight.normal_(0, 0.1)
    model.to(torch.bfloat16).save_pretrained(out)
    return out


if __name__ == "__main__":
    print(mixture(Path(sys.argv[1])) if len(sys.argv) > 1 else mixture())
