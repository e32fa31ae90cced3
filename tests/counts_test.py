"""Published configs alone: parameter counts, and a map that covers every tensor name (issue 3, done-when 13).

The configs under tests/data/configs hold the published values; the names and shapes here are written down independently of arch/.
"""

import math
import unittest

from common import ROOT, Case, config, tandem

CONFIGS = ROOT / "tests" / "data" / "configs"
PUBLISHED = {
    "deepseek-llm-7b": 6_910_365_696,
    "deepseek-llm-67b": 67_425_001_472,
    "deepseek-coder-1.3b": 1_346_471_936,
    "deepseek-coder-6.7b": 6_740_512_768,
    "deepseek-coder-33b": 33_342_991_360,
    "deepseek-v3": 671_026_419_200,
}


def around_layers(c):
    yield "model.embed_tokens.weight", (c["vocab_size"], c["hidden_size"])
    yield "model.norm.weight", (c["hidden_size"],)
    yield "lm_head.weight", (c["vocab_size"], c["hidden_size"])


def mlp(at, hidden, wide):
    yield at + "gate_proj.weight", (wide, hidden)
    yield at + "up_proj.weight", (wide, hidden)
    yield at + "down_proj.weight", (hidden, wide)


def norms(at, hidden):
    yield at + "input_layernorm.weight", (hidden,)
    yield at + "post_attention_layernorm.weight", (hidden,)


def llama(c):
    hidden, head = c["hidden_size"], c["hidden_size"] // c["num_attention_heads"]
    yield from around_layers(c)
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        yield from norms(at, hidden)
        for part, heads in (("q", "num_attention_heads"), ("k", "num_key_value_heads"), ("v", "num_key_value_heads")):
            yield f"{at}self_attn.{part}_proj.weight", (c[heads] * head, hidden)
        yield at + "self_attn.o_proj.weight", (hidden, c["num_attention_heads"] * head)
        yield from mlp(at + "mlp.", hidden, c["intermediate_size"])


def mla(at, c):
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    yield at + "q_a_proj.weight", (c["q_lora_rank"], hidden)
    yield at + "q_a_layernorm.weight", (c["q_lora_rank"],)
    yield at + "q_b_proj.weight", (heads * (c["qk_nope_head_dim"] + c["qk_rope_head_dim"]), c["q_lora_rank"])
    yield at + "kv_a_proj_with_mqa.weight", (c["kv_lora_rank"] + c["qk_rope_head_dim"], hidden)
    yield at + "kv_a_layernorm.weight", (c["kv_lora_rank"],)
    yield at + "kv_b_proj.weight", (heads * (c["qk_nope_head_dim"] + c["v_head_dim"]), c["kv_lora_rank"])
    yield at + "o_proj.weight", (hidden, heads * c["v_head_dim"])


def deepseek_v3_layer(layer, c):
    at, hidden = f"model.layers.{layer}.", c["hidden_size"]
    yield from norms(at, hidden)
    yield from mla(at + "self_attn.", c)
    if layer < c["first_k_dense_replace"]:
        yield from mlp(at + "mlp.", hidden, c["intermediate_size"])
        return
    yield at + "mlp.gate.weight", (c["n_routed_experts"], hidden)
    yield at + "mlp.gate.e_score_correction_bias", (c["n_routed_experts"],)
    for expert in range(c["n_routed_experts"]):
        yield from mlp(f"{at}mlp.experts.{expert}.", hidden, c["moe_intermediate_size"])
    yield from mlp(at + "mlp.shared_experts.", hidden, c["moe_intermediate_size"] * c["n_shared_experts"])


def deepseek_v3(c):
    yield from around_layers(c)
    for layer in range(c["num_hidden_layers"]):
        yield from deepseek_v3_layer(layer, c)


def deepseek_v3_mtp(c):
    layer, hidden = c["num_hidden_layers"], c["hidden_size"]
    at = f"model.layers.{layer}."
    yield from deepseek_v3_layer(layer, c)
    yield at + "embed_tokens.weight", (c["vocab_size"], hidden)
    yield at + "shared_head.head.weight", (c["vocab_size"], hidden)
    yield at + "eh_proj.weight", (hidden, 2 * hidden)
    for name in ("enorm", "hnorm", "shared_head.norm"):
        yield f"{at}{name}.weight", (hidden,)


def total(shapes):
    """Parameters, the router's selection bias included."""
    return sum(map(math.prod, shapes.values()))


class Counts(Case):
    def expected(self, name):
        c = config(CONFIGS / name)
        if c["model_type"] == "llama":
            return dict(llama(c)), {}
        return dict(deepseek_v3(c)), dict(deepseek_v3_mtp(c))

    def test_inspect_gives_the_published_parameter_counts(self):
        for name, published in PUBLISHED.items():
            with self.subTest(name):
                run, carried = self.expected(name)
                report = tandem("inspect", CONFIGS / name, "--json").json
                self.assertEqual(total(run), published)
                self.assertEqual(report["parameters"], published)
                self.assertEqual(report["carried_parameters"], total(carried))

    def test_deepseek_v3_uses_37e9_parameters_a_token(self):
        report = tandem("inspect", CONFIGS / "deepseek-v3", "--json").json
        self.assertAlmostEqual(report["active_parameters"], 37e9, delta=0.7e9)

    def test_N13_map_covers_every_tensor_name(self):
        for name in PUBLISHED:
            with self.subTest(name):
                run, carried = self.expected(name)
                entries = tandem("map", CONFIGS / name, "--json").json["tensors"]
                found = {hf: (tuple(e["hf_shape"]), e["in_graph"]) for e in entries for hf in e["hf"]}
                self.assertEqual(len(found), sum(len(e["hf"]) for e in entries))
                wanted = {n: (s, True) for n, s in run.items()} | {n: (s, False) for n, s in carried.items()}
                self.assertEqual(found, wanted)
                self.assertLess(max(math.prod(e["tf_shape"]) for e in entries), 2**31)


if __name__ == "__main__":
    unittest.main()
