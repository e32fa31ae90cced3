"""Six planted faults on SmolLM2-135M, whose hidden states reach 23,600: the block, the op and the cause are named (nightly)."""

import shutil
import unittest

from common import Case, tandem, verify
from make_smollm2 import smollm2

# (fault, --at, op, module, cause). Epsilon is planted everywhere: in the middle layers alone, where the mean of squares is above 10, it moves
# values by less than 4 times PyTorch's own float32 error, and is rightly no difference.
FAULTS = [
    ("epsilon.usual", "", "rms_norm", "model.layers.0.input_layernorm", "epsilon"),
    ("rotary.pairing", "model.layers.3", "rotary", "model.layers.3.self_attn", "rotary pairing"),
    ("heads.kv_mapping", "model.layers.12", "attention", "model.layers.12.self_attn", "head order"),
    ("order.gate_up", "model.layers.29", "linear", "model.layers.29.mlp.gate_proj", "gate/up order"),
    ("activation.gelu_pytorch_tanh", "model.layers.11", "activation_gate", "model.layers.11.mlp", "activation"),
    ("other.wrong_row", "model.layers.5.self_attn.o_proj", "linear", "model.layers.5.self_attn.o_proj", "unknown"),
]


class SmolLM2(Case):
    def test_planted_faults(self):
        source, right, wrong = smollm2(), self.scratch / "right", self.scratch / "wrong"
        tandem("convert", source, right)
        clean = verify(f"torch:{source}", f"tf:{right}", "--levels", "layer,module")
        self.assertTrue(clean["equal"])
        for fault, at, op, module, cause in FAULTS:
            with self.subTest(fault):
                tandem("plant", fault, right, wrong, *(["--at", at] if at else []))
                report = verify(f"torch:{source}", f"tf:{wrong}", "--levels", "layer", code=1)
                found = report["divergence"]
                shutil.rmtree(wrong)
                self.assertEqual((found["op"], found["module"], found["cause"]), (op, module, cause), found)


if __name__ == "__main__":
    unittest.main()
