"""Models of every hidden_act compute in both frameworks what transformers computes, and no two activations pass for one another."""

import json
import shutil
import unittest

import numpy as np
import tensorflow as tf
from common import ACTIVATIONS, ROOT, Case, config, tandem, verify
from frameworks import assert_same_logits, load_tf, load_torch, prompts, torch_logits
from tensorflow.core.protobuf import saved_model_pb2

import make_fixtures

STOCK_OPS = set(json.loads((ROOT / "tests" / "data" / "stock_ops.json").read_text()))
INDEX = {"llama": 1, "deepseek_v3": 0}  # biases in the MLP; every layer a mixture


def nodes(folder):
    graph = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


class Activations(Case):
    def source(self, model_type, hidden_act):
        c = make_fixtures.make_config(model_type, INDEX[model_type], 1, hidden_act)
        return make_fixtures.make_fixture(c, self.scratch / f"{model_type}-{hidden_act}")

    def converted(self, source):
        tandem("convert", source, self.scratch / f"{source.name}-tf")
        return self.scratch / f"{source.name}-tf"

    def spelled(self, source, hidden_act):
        """The same weights under another hidden_act."""
        copy = shutil.copytree(source, self.scratch / f"{source.name}-as-{hidden_act}")
        (copy / "config.json").write_text(json.dumps(config(source) | {"hidden_act": hidden_act}))
        return copy

    def assert_equal(self, source, folder):
        assert_same_logits(self, load_tf(folder), load_torch(source), config(source)["vocab_size"])
        for reference in (f"hf:{source}", f"torch:{source}"):
            report = verify(reference, f"tf:{folder}")
            self.assertTrue(report["equal"], report)
            self.assertGreater(report["levels"]["model"]["compared"], 700 * 101)

    def check(self, model_type, hidden_act):
        """Both frameworks agree; stock ops alone are used, and XLA compiles them."""
        source = self.source(model_type, hidden_act)
        self.assertEqual(load_torch(source).config.hidden_act, hidden_act)
        folder = self.converted(source)
        self.assert_equal(source, folder)
        self.assertEqual({node.op for node in nodes(folder)} - STOCK_OPS, set())
        ids, mask = list(prompts(config(source)["vocab_size"]))[1]
        compiled = tf.function(load_tf(folder), jit_compile=True)(tf.constant(ids), tf.constant(mask)).numpy()
        expected = torch_logits(load_torch(source), ids, mask)
        self.assertLessEqual(np.abs(compiled - expected)[mask.astype(bool)].max(), 1e-5)

    def test_a_llama_of_each(self):
        for hidden_act in ACTIVATIONS:
            if hidden_act != "silu":  # which every other test has
                with self.subTest(hidden_act):
                    self.check("llama", hidden_act)

    def test_a_mixture_of_gelus(self):
        self.check("deepseek_v3", "gelu")

    def test_gelu_and_its_tanh_form_are_told_apart(self):
        gelu = self.source("llama", "gelu")
        tanh = self.spelled(gelu, "gelu_pytorch_tanh")
        report = verify(f"hf:{gelu}", f"tf:{self.converted(tanh)}", code=1)
        self.assertFalse(report["equal"])
        self.assertEqual(report["levels"]["weights"]["different"], 0)
        self.assertGreater(report["levels"]["model"]["max_abs_error"], 1e-5)

    def test_an_alias_is_the_same_model(self):
        source = self.spelled(self.source("llama", "gelu_pytorch_tanh"), "gelu_new")
        folder = self.converted(source)
        contract = (folder / "assets" / "tandem_contract.txt").read_text()
        self.assertIn('hidden_act="gelu_pytorch_tanh"', contract)
        self.assertNotIn("gelu_new", contract)
        self.assert_equal(source, folder)
        back = self.scratch / "back"
        tandem("convert", folder, back)
        self.assert_same_checkpoint(source, back)


if __name__ == "__main__":
    unittest.main()
