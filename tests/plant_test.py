"""`tandem plant`: copies that load and compute something else, whole or not at all."""

import json
import os
import shutil
import unittest

from common import TINY_FP8, Case, config, run, tandem, tensors, verify

import make_fixtures

LLAMA = make_fixtures.make_config("llama", 0, 1) | {"num_key_value_heads": 2, "num_attention_heads": 4, "rope_scaling": None}
DEEPSEEK = make_fixtures.make_config("deepseek_v3", 1, 1)

# On the TensorFlow side: faults of the graph and faults of weights.
IN_A_GRAPH = {
    "llama": ["mask.padding", "rotary.pairing", "heads.kv_mapping", "dtype.softmax", "transposition.reshaped", "other.stale_mask_row"],
    "deepseek_v3": ["mask.off_by_one", "position.offset_q", "routing.scoring", "routing.bias_in_weights", "experts.rolled"],
}
# On the PyTorch side: faults of weights, and those that config.json can say.
IN_A_FOLDER = {
    "llama": ["head.tied", "norm_gain.plus_one", "rotary.base", "activation.gelu_pytorch_tanh"],
    "deepseek_v3": ["experts.text_order", "rotary.pairing", "dropped_scale.routing"],
}


class Plant(Case):
    @classmethod
    def setUpClass(cls):
        cls.configs = {"llama": LLAMA, "deepseek_v3": DEEPSEEK}

    def models(self, model_type):
        """A folder, and the SavedModel made of it, which computes the same."""
        folder = make_fixtures.make_fixture(self.configs[model_type], self.scratch / model_type)
        graph = self.scratch / f"{model_type}.tf"
        tandem("convert", folder, graph)
        self.assertTrue(verify(f"hf:{folder}", f"tf:{graph}", "--levels", "model")["equal"])
        return folder, graph

    def assert_different(self, left, right, fault):
        report = verify(left, right, "--levels", "model", code=1)
        self.assertFalse(report["equal"], fault)

    def check_graphs(self, model_type):
        folder, graph = self.models(model_type)
        for fault in IN_A_GRAPH[model_type]:
            with self.subTest(fault):
                bad = self.scratch / fault
                report = tandem("plant", fault, graph, bad, "--json").json
                self.assertEqual(report["fault"], fault)
                for asset in (graph / "assets").iterdir():  # the contract of the source, too
                    self.assertEqual((bad / "assets" / asset.name).read_bytes(), asset.read_bytes(), asset.name)
                self.assert_different(f"hf:{folder}", f"tf:{bad}", fault)
                shutil.rmtree(bad)

    def test_graphs_of_llama(self):
        self.check_graphs("llama")

    def test_graphs_of_deepseek_v3(self):
        self.check_graphs("deepseek_v3")

    def check_folders(self, model_type):
        folder, graph = self.models(model_type)
        for fault in IN_A_FOLDER[model_type]:
            with self.subTest(fault):
                bad = self.scratch / fault
                report = tandem("plant", fault, folder, bad, "--json").json
                before, after = tensors(folder), tensors(bad)
                self.assertEqual(sorted(before), sorted(after))
                changed = [name for name in before if before[name] != after[name]]
                self.assertEqual(sorted(report["weights"]), sorted(changed))
                keys = [key for key in config(folder) if config(folder)[key] != config(bad).get(key)]
                self.assertEqual(report["config_keys"], keys)
                self.assertEqual(bool(keys), not changed)
                self.assert_different(f"hf:{bad}", f"tf:{graph}", fault)
                shutil.rmtree(bad)

    def test_folders_of_llama(self):
        self.check_folders("llama")

    def test_folders_of_deepseek_v3(self):
        self.check_folders("deepseek_v3")

    def test_in_one_place(self):
        folder, _ = self.models("llama")
        report = tandem("plant", "heads.reversed", folder, self.scratch / "bad", "--at", "model.layers.1.self_attn.q_proj", "--json").json
        self.assertEqual(report["weights"], ["model.layers.1.self_attn.q_proj.weight"])

    def test_scales_of_fp8_are_dropped(self):
        bad = self.scratch / "bad"
        report = tandem("plant", "dropped_scale.fp8", TINY_FP8, bad, "--at", "model.layers.1.self_attn.o_proj", "--json").json
        self.assertIn("model.layers.1.self_attn.o_proj.weight_scale_inv", report["weights"])
        tandem("convert", TINY_FP8, self.scratch / "good.tf")
        tandem("convert", bad, self.scratch / "bad.tf")
        report = verify(self.scratch / "good.tf", self.scratch / "bad.tf", "--levels", "weights", code=1)
        self.assertEqual(report["levels"]["weights"]["different"], 1)


class Refused(Case):
    def setUp(self):
        super().setUp()
        self.folder = make_fixtures.make_fixture(LLAMA, self.scratch / "llama")

    def assert_refused(self, code, text, *arguments):
        before = sorted(os.listdir(self.scratch))
        done = run("plant", *arguments)
        self.assertEqual(done.code, code, done)
        self.assertIn(text, done.err)
        self.assertEqual(sorted(os.listdir(self.scratch)), before)  # nothing is left behind

    def test_a_fault_that_nobody_knows(self):
        self.assert_refused(2, 'there is no fault "mask.casual"', "mask.casual", self.folder, self.scratch / "bad")

    def test_a_fault_of_the_graph_in_a_folder(self):
        self.assert_refused(65, "plant_c2: mask.causal lies in the graph", "mask.causal", self.folder, self.scratch / "bad")

    def test_a_fault_of_another_family(self):
        self.assert_refused(65, "fault_c2: routing.scoring applies nowhere in this model", "routing.scoring", self.folder, self.scratch / "bad")

    def test_a_place_that_is_not_there(self):
        self.assert_refused(65, "applies nowhere in model.layers.9", "heads", self.folder, self.scratch / "bad", "--at", "model.layers.9")

    def test_an_output_that_exists(self):
        (self.scratch / "bad").mkdir()
        self.assert_refused(73, "exists already (remove it, or name another output)", "heads.reversed", self.folder, self.scratch / "bad")

    def test_words_that_are_missing(self):
        self.assert_refused(2, "expected FAULT SRC DST", "heads.reversed", self.folder)

    def test_a_model_without_a_graph(self):
        tandem("convert", self.folder, self.scratch / "checkpoint", "--to", "checkpoint")
        self.assert_refused(65, "plant_c1: a TensorFlow checkpoint", "heads.reversed", self.scratch / "checkpoint", self.scratch / "bad")


class List(Case):
    def test_all_and_those_of_a_model(self):
        everything = tandem("plant", "--list", "--json").json["faults"]
        names = [row["name"] for row in everything]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreaterEqual(sum(not row["hypothesis"] for row in everything), 8)
        folder = make_fixtures.make_fixture(LLAMA, self.scratch / "llama")
        applies = {row["name"]: row["applies"] for row in tandem("plant", "--list", folder, "--json").json["faults"]}
        self.assertEqual(list(applies), names)
        self.assertTrue(applies["heads.reversed"] and applies["epsilon.usual"])
        self.assertFalse(applies["routing.scoring"] or applies["mask.causal"])
        self.assertIn("heads.reversed", tandem("plant", "--list").out)
        self.assertEqual(json.loads(run("plant", "--list", "a", "b", "--json").err)["error"]["exit_code"], 2)


if __name__ == "__main__":
    unittest.main()
