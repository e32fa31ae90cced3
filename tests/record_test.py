"""`tandem record` and dumps as sides of `tandem verify`: by our own engines, and by the Python of docs/recording.md."""

import re
import unittest

import numpy as np
from common import ROOT, TINY, Case, run, tandem, verify
from safetensors import safe_open
from safetensors.numpy import save_file

import make_fixtures

LLAMA = make_fixtures.make_config("llama", 0, 1) | {"num_key_value_heads": 2, "num_attention_heads": 4, "rope_scaling": None}
LEVELS = ("--levels", "layer,module,model")
NO_WEIGHTS = "the level weights was not compared: the dump {} has nothing for it"


def snippets():
    """The functions of docs/recording.md, by name."""
    text, found = (ROOT / "docs/recording.md").read_text(), {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        exec(block, found)
    return found


def read(path):
    with safe_open(path, "numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()


class Models(Case):
    """A folder, its SavedModel, and what is asked of them."""

    def setUp(self):
        super().setUp()
        self.hf = make_fixtures.make_fixture(LLAMA, self.scratch / "llama")
        self.tf = self.scratch / "llama.tf"
        tandem("convert", self.hf, self.tf)

    def record(self, side, name="a.dump", *arguments):
        report = tandem("record", side, "--out", self.scratch / name, "--json", *arguments).json
        return f"dump:{self.scratch / name}", report

    def assert_equal(self, report, levels=("layer", "module", "model")):
        self.assertTrue(report["equal"], report)
        self.assertEqual(sorted(report["levels"]), sorted(levels))
        for level in levels:
            self.assertTrue(report["levels"][level]["equal"], level)


class Recorded(Models):
    def test_hf_recorded_and_tensorflow(self):
        dump, recorded = self.record(f"hf:{self.hf}")
        self.assertEqual(recorded["levels"], ["layer", "module", "model"])
        report = verify(dump, f"tf:{self.tf}")
        self.assert_equal(report)
        self.assertEqual(report["reference"], "left")
        self.assertTrue(report["float64"])
        self.assertFalse(report["levels"]["layer"]["own_inputs"])  # TensorFlow is fed what was recorded
        self.assertEqual(report["notes"], [NO_WEIGHTS.format(dump[5:])])
        self.assertEqual([p["name"] for p in report["levels"]["model"]["probes"]], recorded["probes"])
        swapped = verify(f"tf:{self.tf}", dump, *LEVELS)
        self.assert_equal(swapped)
        self.assertEqual(swapped["reference"], "right")  # the dump of hf, wherever it stands

    def test_tensorflow_recorded_and_hf(self):
        dump, _ = self.record(f"tf:{self.tf}")
        report = verify(dump, f"hf:{self.hf}", *LEVELS)
        self.assert_equal(report)
        self.assertEqual(report["reference"], "right")
        self.assertTrue(report["float64"] and report["levels"]["layer"]["own_inputs"])

    def test_two_dumps(self):
        left, _ = self.record(f"hf:{self.hf}", "hf.dump")
        right, _ = self.record(f"tf:{self.tf}", "tf.dump")
        report = verify(left, right, *LEVELS)
        self.assert_equal(report)
        self.assertFalse(report["float64"])
        self.assertIn("two dumps: fixed bars, as neither can run the contract in float64", report["notes"])

    def test_a_mixture(self):
        graph = self.scratch / "mixture.tf"
        tandem("convert", TINY, graph)
        dump, recorded = self.record(f"hf:{TINY}")
        self.assertIn("text", recorded["probes"])
        tensors, _ = read(self.scratch / "a.dump")
        self.assertEqual(tensors["probe/0/experts"].shape[:1] + tensors["probe/0/experts"].shape[2:3], (1, 7))
        self.assertIn("probe/0/router_margin", tensors)
        self.assert_equal(verify(dump, f"tf:{graph}", *LEVELS))
        self.assert_equal(verify(f"hf:{TINY}", self.record(f"tf:{graph}", "tf.dump")[0], *LEVELS))

    def test_a_fault_is_seen_through_a_dump(self):
        bad = self.scratch / "bad"
        tandem("plant", "epsilon.usual", self.tf, bad)
        for left, right in ((self.record(f"hf:{self.hf}", "hf.dump")[0], f"tf:{bad}"), (f"hf:{self.hf}", self.record(f"tf:{bad}", "tf.dump")[0])):
            report = verify(left, right, *LEVELS, code=1)
            self.assertEqual(report["verdict"], "different")
            self.assertFalse(report["levels"]["model"]["equal"])
            self.assertEqual(report["divergence"]["tap"], "model.layers.0.input_layernorm")
            self.assertEqual(report["divergence"]["op"], "rms_norm")
            self.assertEqual(report["divergence"]["cause"], "epsilon")

    def test_a_wrong_weight_is_a_difference_not_a_matter_of_the_contract(self):
        bad = self.scratch / "bad"
        tandem("plant", "heads.reversed", self.tf, bad, "--at", "model.layers.1.self_attn.q_proj")
        report = verify(self.record(f"hf:{self.hf}")[0], f"tf:{bad}", *LEVELS, code=1)
        self.assertEqual(report["verdict"], "different")
        self.assertEqual(report["divergence"]["tap"], "model.layers.1.self_attn.q_proj")
        self.assertNotIn("contract and reference", str(report))

    def test_what_was_not_recorded_is_not_compared_and_said_so(self):
        dump, recorded = self.record(f"hf:{self.hf}", "a.dump", "--levels", "model")
        self.assertEqual(recorded["taps"], 0)
        report = verify(dump, f"tf:{self.tf}")
        self.assert_equal(report, ["model"])
        self.assertEqual(len(report["notes"]), 3)
        nothing = verify(dump, f"tf:{self.tf}", "--levels", "weights,layer,generation", code=1)  # nothing is left
        self.assertEqual((nothing["equal"], nothing["levels"]), (False, {}))

    def test_own_prompts(self):
        (self.scratch / "prompts").write_text("1,2,3\n4 5\n")
        dump, recorded = self.record(f"hf:{self.hf}", "a.dump", "--tokens", self.scratch / "prompts")
        self.assertEqual(recorded["probes"], ["line 1", "line 2", "short lines as one batch"])
        self.assert_equal(verify(dump, f"tf:{self.tf}", *LEVELS))
        done = run("verify", dump, f"tf:{self.tf}", "--tokens", self.scratch / "prompts")
        self.assertEqual(done.code, 2, done)
        self.assertIn("--tokens: a comparison with a dump has the dump's prompts", done.err)

    def test_another_model(self):
        other = make_fixtures.make_fixture(LLAMA | {"rms_norm_eps": 0.5}, self.scratch / "other")
        report = verify(self.record(f"hf:{other}")[0], f"tf:{self.tf}", *LEVELS, code=1)
        self.assertIn("the configs differ: rms_norm_eps is 0.5 on the left, ", str(report["notes"]))

    def test_metadata(self):
        self.record(f"hf:{self.hf}")
        _, words = read(self.scratch / "a.dump")
        self.assertEqual(words["config"], (self.hf / "config.json").read_text())
        self.assertEqual({key: words[key] for key in ("tandem_dump", "engine", "dtype", "seed", "generator", "model_type")},
                         {"tandem_dump": "1", "engine": "hf", "dtype": "float32", "seed": "2026", "generator": "splitmix64", "model_type": "llama"})  # fmt: skip
        self.assertRegex(words["weights_sha256"], r"\A[0-9a-f]{64}\Z")

    def test_the_file_appears_whole_or_not_at_all(self):
        before = sorted(p.name for p in self.scratch.iterdir())
        for code, text, arguments in (
            (2, '--levels: "weights" is none of layer, module, model', ["record", self.hf, "--levels", "weights"]),
            (2, "a dump is recorded already", ["record", "dump:x"]),
            (66, "", ["record", self.scratch / "nowhere"]),
            (65, "", ["record", f"tf:{self.hf}"]),
            (65, "line 1", ["record", self.hf, "--tokens", self.hf / "config.json"]),
        ):
            done = run(*arguments, "--out", self.scratch / "x.dump")
            self.assertEqual(done.code, code, done)
            self.assertIn(text, done.err)
        self.assertEqual(sorted(p.name for p in self.scratch.iterdir()), before)
        (self.scratch / "x.dump").write_text("mine")
        done = run("record", self.hf, "--out", self.scratch / "x.dump", "--levels", "model")
        self.assertEqual(done.code, 73, done)
        self.assertEqual((self.scratch / "x.dump").read_text(), "mine")
        tandem("record", self.hf, "--out", self.scratch / "x.dump", "--levels", "model", "--force")
        self.assertEqual(sorted(p.name for p in self.scratch.iterdir()), sorted([*before, "x.dump"]))

    def changed(self, change):
        tensors, words = read(self.scratch / "a.dump")
        change(tensors, words)
        save_file(tensors, self.scratch / "changed.dump", words)
        return f"dump:{self.scratch / 'changed.dump'}"

    def test_dumps_that_were_tampered_with(self):
        self.record(f"hf:{self.hf}")

        def not_a_number(tensors, _):
            tensors["probe/0/logits"][0, 0, 0] = np.nan
            tensors["probe/0/model.layers.0"][0, 0, 0] = np.nan

        report = verify(self.changed(not_a_number), f"tf:{self.tf}", *LEVELS, code=1)
        self.assertIn("logits in rows with NaN or infinity", str(report["levels"]["model"]))
        self.assertIn("values are NaN or infinite", str(report["levels"]["module"]))
        report = verify(self.changed(lambda tensors, _: tensors.pop("probe/0/model.layers.0.self_attn.q_proj")), f"tf:{self.tf}", *LEVELS, code=1)
        self.assertIn("model.layers.0.self_attn.q_proj is missing on the left side", str(report["levels"]["layer"]))

        def one_id(tensors, _):
            tensors["probe/0/input_ids"][0, 0] = 100_000

        for change, text in (
            (lambda _, words: words.update(tandem_dump="9"), 'dump_c1: a dump of version "9", this program reads "1"'),
            (lambda tensors, _: tensors.pop("probe/1/position_ids"), "dump_c4: probe/1/position_ids is missing"),
            (lambda tensors, _: tensors.update({"probe/0/logits": tensors["probe/0/logits"][:, 1:].copy()}), "dump_c6: probe/0/logits is [1, 6, "),
            (lambda tensors, _: tensors.clear() or tensors.update(x=np.zeros(1)), 'dump_c8: a tensor is named "x"'),
            (one_id, "has the token id 100000, the other side's vocab_size is "),
        ):
            done = run("verify", self.changed(change), f"tf:{self.tf}")
            self.assertEqual(done.code, 65, done)
            self.assertIn(text, done.err)


class Snippets(Models):
    def test_pytorch(self):
        out = self.scratch / "torch.dump"
        snippets()["record_torch"](str(self.hf), str(out))
        report = verify(f"dump:{out}", f"tf:{self.tf}", *LEVELS)
        self.assert_equal(report)
        self.assertEqual(report["reference"], "left")

    def test_tensorflow(self):
        out = self.scratch / "tensorflow.dump"
        snippets()["record_tensorflow"](str(self.tf), str(out))
        self.assert_equal(verify(f"hf:{self.hf}", f"dump:{out}", *LEVELS))

    def test_both(self):
        left, right = self.scratch / "torch.dump", self.scratch / "tensorflow.dump"
        snippets()["record_torch"](str(self.hf), str(left))
        snippets()["record_tensorflow"](str(self.tf), str(right))
        self.assert_equal(verify(f"dump:{left}", f"dump:{right}", *LEVELS))


if __name__ == "__main__":
    unittest.main()
