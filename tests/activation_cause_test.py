"""gelu against its tanh form: the first tap that it reaches is named, and the cause, also where a side shows its taps alone."""

import json
import shutil
import unittest

from common import Case, config, tandem, verify

import make_fixtures


class ActivationCause(Case):
    def setUp(self):
        super().setUp()
        self.gelu = make_fixtures.make_fixture(make_fixtures.make_config("llama", 1, 1, "gelu"), self.scratch / "gelu")
        self.tanh = shutil.copytree(self.gelu, self.scratch / "tanh")
        (self.tanh / "config.json").write_text(json.dumps(config(self.gelu) | {"hidden_act": "gelu_pytorch_tanh"}))

    def assert_told_apart(self, right, tap, own_inputs):
        report = verify(f"hf:{self.gelu}", right, "--levels", "weights,layer", code=1)
        self.assertEqual(report["verdict"], "different")
        self.assertEqual(report["levels"]["weights"]["different"], 0)
        self.assertEqual(report["levels"]["layer"]["own_inputs"], own_inputs)
        found = report["divergence"]
        self.assertEqual((found["tap"], found["op"], found["cause"]), ("model.layers.0." + tap, "activation_gate", "activation"))
        self.assertEqual(found["words"], "gelu_pytorch_tanh where the reference has gelu")
        self.assertTrue(found["explains_layer"])

    def test_two_folders_by_their_taps(self):
        self.assert_told_apart(f"hf:{self.tanh}", "mlp", own_inputs=True)

    def test_a_folder_and_a_saved_model_by_their_ops(self):
        tandem("convert", self.tanh, self.scratch / "tf")
        self.assert_told_apart(f"tf:{self.scratch / 'tf'}", "mlp", own_inputs=False)


if __name__ == "__main__":
    unittest.main()
