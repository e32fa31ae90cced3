"""KerasHub's own import of a Hugging Face folder, as a side of verify: what it gets right and wrong, and what it cannot show."""

import json
import os
import sys
import unittest

from common import ROOT, TINY, Case, run, tandem, verify
from make_smollm2 import smollm2

import make_fixtures

INTERPRETER = os.environ.get("TANDEM_KERAS_HUB_PYTHON") or ROOT / ".venv-keras-hub" / "bin" / "python3"
# What KerasHub's importer takes for granted, whatever the config says.
GRANTED = {"rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_scaling": None, "attention_bias": False, "mlp_bias": False}
FIRST = "model.layers.0."


class KerasHub(Case):
    @classmethod
    def setUpClass(cls):
        if not os.path.exists(INTERPRETER):
            raise AssertionError(f"{INTERPRETER} is not there: `make venv-keras-hub` makes it")

    def llama(self, **changes):
        """A tiny llama that KerasHub imports right, but for the changes."""
        c = make_fixtures.make_config("llama", 2, 1) | GRANTED | changes
        self.assertNotIn("head_dim", c)
        return make_fixtures.make_fixture(c, self.scratch / "-".join(["llama", *changes]))

    def divergence(self, folder, *arguments):
        report = verify(f"hf:{folder}", f"keras_hub:{folder}", "--levels", "layer", *arguments, code=1)
        found = report["divergence"]
        return found["tap"], found["op"], found["cause"], found["words"]

    def test_a_right_import_is_equal_at_every_level_it_shows(self):
        folder = self.llama()
        report = verify(f"hf:{folder}", f"keras_hub:{folder}")
        self.assertTrue(report["equal"], report)
        self.assertEqual(sorted(report["levels"]), ["layer", "model", "module"])
        self.assertEqual(report["right"]["levels"], "layer,module,model")
        self.assertTrue(report["levels"]["layer"]["own_inputs"])
        taps = [tap for layer in report["levels"]["layer"]["layers"] for tap in layer["taps"]]
        self.assertEqual([tap["tap"] for tap in taps if tap["hidden"]], ["model.rotary_emb"])
        self.assertEqual([tap["tap"] for tap in taps if tap["values"] == 0], ["model.rotary_emb"])
        self.assertEqual(sum(tap["tap"].startswith(FIRST) for tap in taps), 9)
        self.assertEqual({probe["name"] for probe in report["levels"]["model"]["probes"]}, {"short", "right-padded batch", "700 tokens"})
        notes = "\n".join(report["notes"])
        self.assertIn("the level weights was not compared: keras_hub of", notes)
        self.assertIn('the probe "left-padded batch" was not run: keras_hub counts positions itself', notes)
        self.assertIn('the probe "gapped positions" was not run', notes)
        self.assertIn("taps that a side does not show were not compared: model.rotary_emb", notes)

    def test_it_is_never_the_reference(self):
        folder = self.llama(rms_norm_eps=1e-5)
        converted = self.scratch / "tf"
        tandem("convert", folder, converted)
        report = verify(f"keras_hub:{folder}", f"tf:{converted}", "--levels", "layer", code=1)
        self.assertEqual(report["reference"], "right")
        self.assertEqual(report["verdict"], "different")
        self.assertEqual(report["divergence"]["cause"], "epsilon")

    def test_the_epsilon_of_smollm2(self):
        found = self.divergence(smollm2())
        self.assertEqual(found, (FIRST + "input_layernorm", "rms_norm", "epsilon", "epsilon 1e-06 where the reference has 1e-05"))

    def test_an_activation_that_the_importer_does_not_read(self):
        tap, op, cause, words = self.divergence(self.llama(hidden_act="gelu"))
        self.assertEqual((tap, op, cause), (FIRST + "mlp", "activation_gate", "activation"))
        self.assertIn("silu", words)

    def test_biases_that_the_importer_drops(self):
        tap, op, cause, _ = self.divergence(self.llama(attention_bias=True))
        self.assertEqual((tap, op, cause), (FIRST + "self_attn.q_proj", "linear", "dropped bias"))

    def test_what_it_cannot_do_at_all_is_an_error(self):
        folder = self.llama()
        sides = ["verify", f"hf:{folder}", f"keras_hub:{folder}", "--json"]
        for levels in ("weights", "generation"):
            error = json.loads(run(*sides, "--levels", levels).err)["error"]
            self.assertEqual((error["kind"], error["rule"]), ("unsupported", "verify_c9"))
            self.assertIn(f"the level {levels} was not compared", error["text"])
        error = json.loads(run("verify", TINY, f"keras_hub:{TINY}", "--json").err)["error"]
        self.assertEqual((error["kind"], error["rule"]), ("unsupported", "keras_hub_c1"))
        self.assertIn("deepseek_v3", error["text"])

    def test_without_it_the_error_says_how_to_get_it(self):
        folder = self.llama()
        for python in (self.scratch / "none", sys.executable):  # no interpreter; one without KerasHub
            result = run("verify", folder, f"keras_hub:{folder}", "--json", env=os.environ | {"TANDEM_KERAS_HUB_PYTHON": str(python)})
            error = json.loads(result.err)["error"]
            self.assertEqual((error["kind"], error["rule"]), ("unavailable", "engine_c1"))
            self.assertIn("make venv-keras-hub", error["hint"])

    def test_a_fault_planted_in_its_folder_is_named_by_taps_alone(self):
        folder, other = self.llama(), self.scratch / "planted"
        tandem("plant", "order.gate_up", folder, other)
        found = verify(f"hf:{folder}", f"keras_hub:{other}", "--levels", "layer", code=1)["divergence"]
        self.assertEqual((found["tap"], found["cause"]), (FIRST + "mlp.gate_proj", "gate/up order"))


if __name__ == "__main__":
    unittest.main()
