#!/usr/bin/env python3
"""Tiny random models, made and saved by transformers: one folder a model, each switch of the architecture on in some, off in others.

    .venv/bin/python tools/make_fixtures.py --architecture llama --count 12 --seed 1 --out DIR

Every size in a config differs from every other, so that mixed-up dimensions show. Each weight is seeded by its own name. The last
norm is scaled until the logits have a root mean square of 1. Half of the folders spell their config as published checkpoints do
(rope_scaling, rope_theta, torch_dtype), half as transformers 5 saves (rope_parameters, dtype). Some are sharded, some are bfloat16.
"""

import argparse
import json
import math
import random
import warnings
import zlib
from pathlib import Path

# Chosen so that PyTorch's float32 stays within 5e-6 of its own float64: tests hold the other side to 1e-5 of that float32, and a
# reference that is itself 1e-5 off (as it is with logits twice as large, or with routed weights that are not normalised) measures noise.
LOGITS_RMS = 1.25
GAIN = 0.65  # of a projection: its output's root mean square for a normalised input
ARCHITECTURES = {}  # model_type -> function(index, rng) -> config, published spelling


def architecture(function):
    ARCHITECTURES[function.__name__] = function
    return function


class Sizes:
    """Draws numbers that differ from every number drawn before."""

    def __init__(self, rng):
        self.rng, self.used = rng, set()

    def of(self, candidates):
        free = [c for c in candidates if c not in self.used]
        choice = self.rng.choice(free)
        self.used.add(choice)
        return choice


def yarn(rng, sizes, max_position, **more):
    original = sizes.of(range(20, max_position // 2))
    return {"type": "yarn", "factor": rng.choice([2.5, 3.75, 6.0]), "original_max_position_embeddings": original,
            "beta_fast": rng.choice([8, 16, 24]), "beta_slow": rng.choice([0.75, 1.25]), **more}  # fmt: skip


@architecture
def llama(index, rng):
    sizes = Sizes(rng)
    heads = sizes.of([4, 6, 8])
    kv_heads = heads if index % 4 == 3 else sizes.of([n for n in range(1, heads) if heads % n == 0])
    own_head_dim = index % 3 != 2  # otherwise head_dim is hidden_size / num_attention_heads, and not in the config
    hidden = heads * sizes.of([9, 11, 13] if own_head_dim else [10, 12])
    sizes.used.add(hidden)
    max_position = sizes.of(range(90, 400))
    scalings = [
        None,
        {"type": "linear", "factor": 4.0},
        {"type": "dynamic", "factor": 2.5},
        {"rope_type": "llama3", "factor": 5.5, "low_freq_factor": 1.25, "high_freq_factor": 3.5,
         "original_max_position_embeddings": sizes.of(range(20, 60))},  # fmt: skip
        yarn(rng, sizes, max_position),
        yarn(rng, sizes, max_position, attention_factor=0.875),
    ]
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "vocab_size": sizes.of(range(101, 180)), "hidden_size": hidden, "intermediate_size": sizes.of(range(60, 100)),
        "num_hidden_layers": sizes.of([2, 3, 5]), "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "max_position_embeddings": max_position, "rms_norm_eps": rng.choice([1e-5, 3e-6, 2e-4]), "rope_theta": rng.choice([5000.0, 20000.0]),
        "rope_scaling": scalings[index % len(scalings)], "tie_word_embeddings": index % 5 in (1, 3), "attention_bias": index % 2 == 1,
        "mlp_bias": index % 4 in (1, 2), "bos_token_id": 97, "eos_token_id": 98, "initializer_range": 0.02, "use_cache": True,
        "attention_dropout": 0.0, "pretraining_tp": 1,
    }  # fmt: skip
    return config | {"head_dim": sizes.of([10, 14, 16, 18])} if own_head_dim else config


@architecture
def deepseek_v3(index, rng):
    sizes = Sizes(rng)
    groups, per_group, kept_groups = [(1, 12, 1), (4, 3, 2), (8, 4, 5), (2, 9, 1)][index % 4]
    shared = index % 3 + 1
    sizes.used |= {groups, groups * per_group, kept_groups, shared}
    heads = sizes.of([3, 7, 9])
    layers = sizes.of([2, 3, 4, 6])
    max_position = sizes.of(range(90, 400))
    scalings = [
        yarn(rng, sizes, max_position, mscale=0.9, mscale_all_dim=0.7),
        None,
        yarn(rng, sizes, max_position),
        yarn(rng, sizes, max_position, mscale=1.0, mscale_all_dim=1.0),
        yarn(rng, sizes, max_position, mscale_all_dim=0.8),
    ]
    config = {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_act": "silu",
        "vocab_size": sizes.of(range(101, 180)), "hidden_size": sizes.of([44, 52, 60]), "intermediate_size": sizes.of(range(61, 90)),
        "moe_intermediate_size": sizes.of(range(19, 35)), "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads,
        "q_lora_rank": None if index % 3 == 1 else sizes.of(range(35, 43)), "kv_lora_rank": sizes.of(range(26, 35)),
        "qk_nope_head_dim": sizes.of([10, 11, 13, 17]), "qk_rope_head_dim": sizes.of([6, 8, 12]), "v_head_dim": sizes.of([9, 15, 21, 22]),
        "n_routed_experts": groups * per_group, "n_shared_experts": shared, "num_experts_per_tok": sizes.of(range(2, 7)),
        "n_group": groups, "topk_group": kept_groups, "norm_topk_prob": index % 2 == 0, "routed_scaling_factor": rng.choice([1.5, 2.25]),
        "scoring_func": "sigmoid", "topk_method": "noaux_tc", "first_k_dense_replace": index % (layers + 1), "moe_layer_freq": 1, "ep_size": 1,
        "num_nextn_predict_layers": index % 3, "max_position_embeddings": max_position, "rms_norm_eps": rng.choice([1e-5, 3e-6, 2e-4]),
        "rope_theta": rng.choice([5000.0, 20000.0]), "rope_scaling": scalings[index % len(scalings)], "attention_bias": index % 4 in (1, 2),
        "tie_word_embeddings": index % 6 == 5, "bos_token_id": 97, "eos_token_id": 98, "initializer_range": 0.02, "use_cache": True,
        "attention_dropout": 0.0, "aux_loss_alpha": 0.0, "seq_aux": True, "pretraining_tp": 1,
    }  # fmt: skip
    return config if index % 4 == 0 else config | {"rope_interleave": index % 4 != 2}


def make_config(model_type, index, seed, hidden_act="silu"):
    """The config of one fixture, with the keys of published checkpoints. hidden_act changes nothing else of it."""
    config = ARCHITECTURES[model_type](index, random.Random(f"{model_type} {seed} {index}"))
    if model_type == "llama" and config["rope_scaling"] is not None and index % 2 == 0:
        config["rope_scaling"]["rope_type"] = config["rope_scaling"].pop("type", config["rope_scaling"].get("rope_type"))
    config["torch_dtype"] = "bfloat16" if index % 5 == 4 else "float32"
    return config | {"hidden_act": hidden_act}


def new_spelling(config):
    """The same config as transformers 5 saves it."""
    scaling = dict(config["rope_scaling"] or {})
    kind = scaling.pop("type", scaling.pop("rope_type", "default"))
    parameters = scaling | {"rope_type": kind, "rope_theta": config["rope_theta"]}
    rest = {key: value for key, value in config.items() if key not in ("rope_scaling", "rope_theta", "torch_dtype")}
    return rest | {"rope_parameters": parameters, "dtype": config["torch_dtype"]}


def weight(name, shape, config):
    """A random float32 weight, seeded by its own name."""
    import torch

    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) + config["vocab_size"])
    normal = torch.randn(shape, generator=generator)
    if name.endswith("norm.weight"):
        return 1 + 0.3 * normal
    if name.endswith("e_score_correction_bias"):
        return 0.3 * normal
    if name.endswith(".bias"):
        return 0.5 * normal
    if "embed_tokens" in name:
        return normal
    gain = 1.7 if name.endswith("gate.weight") else GAIN
    if ".experts." in name and "down_proj" in name and not config["norm_topk_prob"]:
        gain /= config["num_experts_per_tok"]  # their weights do not sum to 1
    return normal * gain / math.sqrt(shape[-1])


def quiet_transformers():
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def transformers_model(config):
    transformers = quiet_transformers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = transformers.AutoConfig.for_model(**json.loads(json.dumps(new_spelling(config))))
        settings._experts_implementation = "eager"  # the grouped product wants widths that are multiples of 4
        return transformers.AutoModelForCausalLM.from_config(settings, dtype="float32", attn_implementation="eager").eval()


def saved_state(model, folder):
    """The state dict as transformers writes it: one tensor an expert."""
    from safetensors.torch import load_file

    model.save_pretrained(folder, max_shard_size="1TB")
    return load_file(Path(folder) / "model.safetensors")


def mtp_names(config, folder):
    """Name and shape of every tensor of the multi-token-prediction layers, named as in published checkpoints."""
    if not config.get("num_nextn_predict_layers"):
        return {}
    one_layer = config | {"num_hidden_layers": 1, "first_k_dense_replace": 0, "tie_word_embeddings": False}
    shapes = {name: tuple(t.shape) for name, t in saved_state(transformers_model(one_layer), folder).items()}
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    layer = {name.removeprefix("model.layers.0."): shape for name, shape in shapes.items() if name.startswith("model.layers.0.")}
    layer |= {"embed_tokens.weight": (vocab, hidden), "shared_head.head.weight": (vocab, hidden), "enorm.weight": (hidden,),
              "hnorm.weight": (hidden,), "shared_head.norm.weight": (hidden,), "eh_proj.weight": (hidden, 2 * hidden)}  # fmt: skip
    first = config["num_hidden_layers"]
    return {f"model.layers.{first + k}.{name}": shape for k in range(config["num_nextn_predict_layers"]) for name, shape in layer.items()}


def probe_tokens(config, tokens=64):
    import torch

    return torch.randint(config["vocab_size"], (2, tokens), generator=torch.Generator().manual_seed(7))


def make_fixture(config, folder, published_spelling=True, shards=1):
    """Writes one Hugging Face folder and returns its path."""
    import torch

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stored = getattr(torch, config["torch_dtype"])

    model = transformers_model(config)
    names = saved_state(model, folder)
    state = {name: weight(name, tuple(t.shape), config) for name, t in names.items()}
    if config["tie_word_embeddings"]:
        state["model.embed_tokens.weight"] /= math.sqrt(config["hidden_size"])
    state = {name: t if name.endswith("e_score_correction_bias") else t.to(stored) for name, t in state.items()}
    write_weights(folder, state, 1)
    (folder / "config.json").write_text(json.dumps(new_spelling(config)))

    with torch.no_grad():
        rms = load(folder)(probe_tokens(config)).logits.square().mean().sqrt().item()
    state["model.norm.weight"] = (state["model.norm.weight"].float() * LOGITS_RMS / rms).to(stored)
    extra = {name: weight(name, shape, config) for name, shape in mtp_names(config, folder).items()}
    state |= {name: t if name.endswith("e_score_correction_bias") else t.to(stored) for name, t in extra.items()}

    write_weights(folder, state, shards)
    spelled = config if published_spelling else new_spelling(config)
    (folder / "config.json").write_text(json.dumps(spelled, indent=2, sort_keys=True) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    return folder


def write_weights(folder, state, shards):
    from safetensors.torch import save_file

    for old in folder.glob("model*.safetensors*"):
        old.unlink()
    if shards == 1:
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(state)
    files = {f"model-{i + 1:05}-of-{shards:05}.safetensors": names[i::shards] for i in range(shards)}
    for file, part in files.items():
        save_file({name: state[name] for name in part}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {"total_size": sum(t.numel() * t.element_size() for t in state.values())},
             "weight_map": {name: file for file, part in files.items() for name in part}}  # fmt: skip
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def load(folder, dtype="float32"):
    """The folder's model in transformers, the reference."""
    transformers = quiet_transformers()
    config = transformers.AutoConfig.from_pretrained(folder)
    config._experts_implementation = "eager"
    return transformers.AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=dtype, attn_implementation="eager").eval()


def make_fixtures(model_type, count, seed, out, hidden_act="silu"):
    """`count` fixtures of one architecture; a folder that is complete already is kept."""
    folders = []
    for index in range(count):
        folder = Path(out) / (f"{model_type}-{seed}-{index:02}" + ("" if hidden_act == "silu" else f"-{hidden_act}"))
        if not (folder / "COMPLETE").exists():
            config = make_config(model_type, index, seed, hidden_act)
            make_fixture(config, folder, published_spelling=(index + index // 6) % 2 == 0, shards=[1, 1, 3][index % 3])
            (folder / "COMPLETE").touch()
        folders.append(folder)
    return folders


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", choices=sorted(ARCHITECTURES), required=True)
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hidden-act", default="silu", help="a name of transformers' ACT2FN (default: silu)")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    for folder in make_fixtures(given.architecture, given.count, given.seed, given.out, given.hidden_act):
        print(folder)


if __name__ == "__main__":
    main()
