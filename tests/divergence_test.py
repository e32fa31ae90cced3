"""Known faults, planted one at a time: `verify` ends 1, names the block and the op, and the right cause first.

24 faults that are among the hypotheses, and 8 that are not and have to be called "unknown". Six of them are repeated on
SmolLM2 by smollm2_divergence_test.py.
"""

import unittest

from common import Case, fixtures, tandem, verify

# (fault, --at or "", model, place of the first divergence, op, module, cause)
#   models: a llama with biases, as many kv heads as query heads and llama3 scaling; one with grouped heads and its own head;
#   deepseek_v3 with yarn and a low-rank query; one with groups of experts
LLAMA, GROUPED, YARN, GROUPS = ("llama", 3), ("llama", 0), ("deepseek_v3", 0), ("deepseek_v3", 1)
FIRST, SECOND = "model.layers.0", "model.layers.1"
LISTED = [
    ("epsilon.usual", "", LLAMA, FIRST, "rms_norm", "input_layernorm", "epsilon"),
    ("epsilon.usual", SECOND, YARN, SECOND, "rms_norm", "input_layernorm", "epsilon"),
    ("norm_gain.plus_one", SECOND, LLAMA, SECOND, "rms_norm", "input_layernorm", "norm gain + 1"),
    ("rotary.pairing", "", LLAMA, FIRST, "rotary", "self_attn", "rotary pairing"),
    ("rotary.pairing", SECOND, YARN, SECOND, "rotary", "self_attn", "rotary pairing"),
    ("rotary.permuted_rows", "", LLAMA, FIRST, "linear", "self_attn.q_proj", "rotary pairing"),
    ("rotary.base", "", LLAMA, "", "rotary_table", "model.rotary_emb", "rotary base"),
    ("rotary.scaling_dropped", "", YARN, "", "rotary_table", "model.rotary_emb", "rotary scaling"),
    ("scale.none", SECOND, LLAMA, SECOND, "attention", "self_attn", "score scale"),
    ("scale.mscale", "", YARN, FIRST, "attention", "self_attn", "score scale"),
    ("mask.causal", SECOND, GROUPED, SECOND, "attention", "self_attn", "mask"),
    ("mask.padding", "", GROUPS, FIRST, "attention", "self_attn", "mask"),
    ("position.offset_q", "", LLAMA, FIRST, "rotary", "self_attn", "position offset"),
    ("heads.kv_mapping", "", GROUPED, FIRST, "attention", "self_attn", "head order"),
    ("order.qkv", "", LLAMA, FIRST, "linear", "self_attn.q_proj", "q/k/v order"),
    ("order.gate_up", SECOND, GROUPED, SECOND, "linear", "mlp.gate_proj", "gate/up order"),
    ("transposition.experts", "", YARN, None, "experts", "mlp.experts", "transposition"),
    ("dropped_bias.linear", "", LLAMA, FIRST, "linear", "self_attn.q_proj", "dropped bias"),
    ("head.tied", "", GROUPED, "", "linear", "lm_head", "tied or untied head"),
    ("activation.gelu_pytorch_tanh", SECOND, LLAMA, SECOND, "activation_gate", "mlp", "activation"),
    ("experts.rolled", "", GROUPS, None, "experts", "mlp.experts", "expert order"),
    ("routing.bias_ignored", "", GROUPS, None, "route", "mlp.gate", "routing rule"),
    ("dropped_scale.routing", "", YARN, None, "route", "mlp.gate", "dropped scale"),
    ("dtype.softmax", "", GROUPED, FIRST, "attention", "self_attn", "dtype of an intermediate"),
]
UNLISTED = [
    ("other.doubled_residual", SECOND, LLAMA, SECOND, "add"),
    ("other.wrong_row", "", GROUPED, None, "linear"),
    ("other.zeroed_head", "", YARN, None, "linear"),
    ("other.noisy_weight", "", GROUPS, None, "linear"),
    ("other.lost_shard", "", LLAMA, None, "linear"),
    ("other.stale_mask_row", "", YARN, None, "attention"),
    ("other.swapped_layers", "", GROUPED, None, "rms_norm"),
    ("other.repeated_layer", "", YARN, None, None),
]


class Divergence(Case):
    """The reference is PyTorch running the checkpoint; faults_test.py and others have transformers there."""

    @classmethod
    def setUpClass(cls):
        cls.sources = {model: fixtures(model[0])[model[1]] for model in (LLAMA, GROUPED, YARN, GROUPS)}

    def divergence(self, fault, at, model):
        """What verify says of a copy with the fault."""
        source, right, wrong = self.sources[model], self.scratch / "right", self.scratch / "wrong"
        tandem("convert", source, right, "--dtype", "float32")
        tandem("plant", fault, right, wrong, *(["--at", at] if at else []))
        report = verify(f"torch:{source}", f"tf:{wrong}", "--levels", "layer,module", "--threads", 1, code=1)
        self.assertEqual(report["verdict"], "different")
        return report["divergence"]

    def check_listed(self, fault, at, model, place, op, module, cause):
        found = self.divergence(fault, at, model)
        self.assertEqual(found["op"], op, found)
        if place is not None:
            self.assertEqual(found["place"], place, found)
        self.assertTrue(found["module"].endswith(module), found)
        self.assertEqual(found["cause"], cause, found)
        self.assertTrue(found["tried"][0]["explains"], found)

    def check_unlisted(self, fault, at, model, place, op):
        found = self.divergence(fault, at, model)
        self.assertEqual(found["cause"], "unknown", found)
        if op is not None:
            self.assertEqual(found["op"], op, found)
        self.assertNotEqual(found["op"], "", found)
        if place is not None:
            self.assertEqual(found["place"], place, found)


def add(name, method, row):
    setattr(Divergence, name, lambda self: getattr(self, method)(*row))


for number, row in enumerate(LISTED):
    add(f"test_listed_{number:02}_{row[0]}_{row[2][0]}", "check_listed", row)
for number, row in enumerate(UNLISTED):
    add(f"test_unlisted_{number:02}_{row[0]}_{row[2][0]}", "check_unlisted", row)


if __name__ == "__main__":
    unittest.main()
