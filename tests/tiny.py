"""The tiny models of the public reports, and broken files, made from integers with Python's standard library alone.

A folder's tensors are a dict: name -> (dtype, shape, bytes).
"""

import json
import math
import struct
import zlib

TL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "vocab_size": 32, "hidden_size": 16,
    "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "rope_scaling": None, "attention_bias": False,
    "mlp_bias": False, "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip

TV3 = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_act": "silu", "vocab_size": 32, "hidden_size": 16,
    "intermediate_size": 24, "moe_intermediate_size": 6, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 2,
    "q_lora_rank": 6, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 3, "n_routed_experts": 8,
    "n_shared_experts": 1, "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2, "norm_topk_prob": True, "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid", "topk_method": "noaux_tc", "first_k_dense_replace": 1, "moe_layer_freq": 1, "num_nextn_predict_layers": 1,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "rope_scaling": None, "attention_bias": False,
    "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip


def linear(name, rows, columns, bias=False):
    yield name + ".weight", [rows, columns]
    if bias:
        yield name + ".bias", [rows]


def mlp(at, c, wide, bias=False):
    for part in ("gate", "up"):
        yield from linear(f"{at}.{part}_proj", wide, c["hidden_size"], bias)
    yield from linear(f"{at}.down_proj", c["hidden_size"], wide, bias)


def grouped_attention(at, c):
    width, kv = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    for part, rows in (("q", width), ("k", kv), ("v", kv)):
        yield from linear(f"{at}.{part}_proj", rows, c["hidden_size"], c["attention_bias"])
    yield from linear(f"{at}.o_proj", c["hidden_size"], width, c["attention_bias"])


def latent_attention(at, c):
    hidden, heads, rank = c["hidden_size"], c["num_attention_heads"], c["q_lora_rank"]
    queries = heads * (c["qk_nope_head_dim"] + c["qk_rope_head_dim"])
    if rank is None:
        yield f"{at}.q_proj.weight", [queries, hidden]
    else:
        yield f"{at}.q_a_proj.weight", [rank, hidden]
        yield f"{at}.q_a_layernorm.weight", [rank]
        yield f"{at}.q_b_proj.weight", [queries, rank]
    yield f"{at}.kv_a_proj_with_mqa.weight", [c["kv_lora_rank"] + c["qk_rope_head_dim"], hidden]
    yield f"{at}.kv_a_layernorm.weight", [c["kv_lora_rank"]]
    yield f"{at}.kv_b_proj.weight", [heads * (c["qk_nope_head_dim"] + c["v_head_dim"]), c["kv_lora_rank"]]
    yield f"{at}.o_proj.weight", [hidden, heads * c["v_head_dim"]]


def experts(at, c):
    yield f"{at}.gate.weight", [c["n_routed_experts"], c["hidden_size"]]
    yield f"{at}.gate.e_score_correction_bias", [c["n_routed_experts"]]
    for expert in range(c["n_routed_experts"]):
        yield from mlp(f"{at}.experts.{expert}", c, c["moe_intermediate_size"])
    yield from mlp(f"{at}.shared_experts", c, c["moe_intermediate_size"] * c["n_shared_experts"])


def shapes(c):
    """Name and shape of every tensor, as published checkpoints have them."""
    hidden, vocab = c["hidden_size"], c["vocab_size"]
    latent = c["model_type"] == "deepseek_v3"
    mtp = c.get("num_nextn_predict_layers", 0) if latent else 0
    yield "model.embed_tokens.weight", [vocab, hidden]
    for layer in range(c["num_hidden_layers"] + mtp):
        at = f"model.layers.{layer}"
        for norm in ("input", "post_attention"):
            yield f"{at}.{norm}_layernorm.weight", [hidden]
        yield from (latent_attention if latent else grouped_attention)(f"{at}.self_attn", c)
        if latent and layer >= c["first_k_dense_replace"]:
            yield from experts(f"{at}.mlp", c)
        else:
            yield from mlp(f"{at}.mlp", c, c["intermediate_size"], c.get("mlp_bias", False))
        if layer >= c["num_hidden_layers"]:
            for name in ("enorm", "hnorm", "shared_head.norm"):
                yield f"{at}.{name}.weight", [hidden]
            yield f"{at}.eh_proj.weight", [hidden, 2 * hidden]
            for name in ("embed_tokens", "shared_head.head"):
                yield f"{at}.{name}.weight", [vocab, hidden]
    yield "model.norm.weight", [hidden]
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", [vocab, hidden]


def integers(name):
    """Endless numbers of 0..254, fixed by a name."""
    state = zlib.crc32(name.encode()) | 1
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (state >> 33) % 255


def values(name, shape):
    """About +/-0.1, norms about 1; exact in bfloat16."""
    source = integers(name)
    numbers = [(next(source) - 127) / 1024 for _ in range(math.prod(shape))]
    return [1 + round(number * 512) / 128 if name.endswith("norm.weight") else number for number in numbers]


def f32(shape, numbers):
    return "F32", list(shape), struct.pack(f"<{len(numbers)}f", *numbers)


def bf16(entry):
    """The same tensor in bfloat16, cut: exact for the numbers made here."""
    dtype, shape, data = entry
    assert dtype == "F32"
    return "BF16", shape, b"".join(data[at + 2 : at + 4] for at in range(0, len(data), 4))


def weights(c):
    return {name: f32(shape, values(name, shape)) for name, shape in shapes(c)}


def header_bytes(header, pad=8):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % pad)
    return struct.pack("<Q", len(text)) + text


def safetensors(tensors, metadata=None, pad=8):
    """The bytes of one file."""
    header, at = {} if metadata is None else {"__metadata__": metadata}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    return header_bytes(header, pad) + b"".join(data for _, _, data in tensors.values())


def write_folder(folder, c, tensors=None, shards=1):
    """A Hugging Face folder of one file, or of an index with shards."""
    tensors = weights(c) if tensors is None else tensors
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(c, indent=2))
    if shards == 1:
        (folder / "model.safetensors").write_bytes(safetensors(tensors, {"format": "pt"}))
        return folder
    names = list(tensors)
    weight_map = {name: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, name in enumerate(names)}
    for file in sorted(set(weight_map.values())):
        part = {name: tensors[name] for name in names if weight_map[name] == file}
        (folder / file).write_bytes(safetensors(part, {"format": "pt"}))
    write_index(folder, weight_map, sum(len(data) for _, _, data in tensors.values()))
    return folder


def write_index(folder, weight_map, total_size):
    index = {"metadata": {"total_size": total_size}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
