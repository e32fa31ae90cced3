"""--stages N: the stages verify as the whole does, hand hidden states on in TensorFlow itself, generate the same, and go back to the same bytes."""

import json
import shutil
import unittest

import numpy as np
import tensorflow as tf
from common import Case, run, tandem, verify
from tiny import TL, TV3, weights, write_folder

LLAMA = TL | {"num_hidden_layers": 5, "tie_word_embeddings": True}
MIXTURE = TV3 | {"num_hidden_layers": 4}


class Stages(Case):
    def convert(self, c, stages, name, *flags):
        source, out = self.scratch / f"{name}.hf", self.scratch / f"{name}.stages"
        if not source.exists():
            write_folder(source, c, shards=2)
        report = tandem("convert", source, out, "--stages", stages, "--json", *flags).json
        return source, out, json.loads((out / "stages.json").read_text()), report

    def test_they_verify_as_the_whole_and_go_back_to_the_same_bytes(self):
        for name, c in (("llama", LLAMA), ("mixture", MIXTURE)):
            with self.subTest(model=name):
                source, out, manifest, report = self.convert(c, 3, name)
                self.assertEqual(report["to"], "SavedModel in stages")
                ends = [stage["layers"] for stage in manifest["stages"]]
                self.assertEqual((ends[0][0], ends[-1][1]), (0, c["num_hidden_layers"]))
                self.assertEqual([begin for begin, _ in ends[1:]], [end for _, end in ends[:-1]])
                self.assertEqual([stage["gives"] for stage in manifest["stages"]], ["hidden_states_out"] * 2 + ["logits"])
                asked = ("--levels", "weights,layer,module,model,generation", "--prompts", 4, "--max-new-tokens", 5)
                levels = verify(f"hf:{source}", f"tf:{out}", *asked)
                self.assertTrue(levels["equal"], levels)
                self.assertEqual([name for name, level in levels["levels"].items() if not level["equal"]], [])
                self.assertLessEqual({"weights", "layer", "module", "model", "generation"}, set(levels["levels"]))
                found = tandem("inspect", out, "--json").json
                self.assertEqual((found["blocks"], found["stages"]), ([], manifest["stages"]))
                self.assertIn("layers 0 to", tandem("inspect", out).out)
                tandem("convert", out, self.scratch / f"{name}.back")
                self.assert_same_checkpoint(self.scratch / f"{name}.back", source)
                self.assertEqual(sorted(path.name for path in source.iterdir()), sorted(path.name for path in (self.scratch / f"{name}.back").iterdir()))

    def test_tensorflow_runs_them_one_after_the_other(self):
        for name, c in (("llama", LLAMA), ("mixture", MIXTURE)):
            with self.subTest(model=name):
                source, out, manifest, _ = self.convert(c, 3, name)
                tandem("convert", source, self.scratch / f"{name}.whole")
                whole = tf.saved_model.load(str(self.scratch / f"{name}.whole"))
                stages = [tf.saved_model.load(str(out / stage["folder"])) for stage in manifest["stages"]]
                ids = tf.constant(np.random.default_rng(3).integers(0, c["vocab_size"], (2, 7)), tf.int32)
                mask = tf.constant([[1] * 7, [0, 0] + [1] * 5], tf.int32)

                def through(key, takes, **inputs):
                    """The outputs of all stages; each is given what its signature asks for."""
                    found = {}
                    for stage in stages:
                        signature = stage.signatures[key]
                        given = {name: takes if name in ("input_ids", "hidden_states") else inputs[name] for name in signature.structured_input_signature[1]}
                        made = signature(**given)
                        takes = made.pop("hidden_states_out", None)
                        found |= made
                    return found

                expected = whole.signatures["serving_default"](input_ids=ids, attention_mask=mask)["logits"]
                self.assert_equal(through("serving_default", ids, attention_mask=mask)["logits"], expected)
                hidden = ids
                for stage in stages:  # by position, and differentiable, as the whole is
                    hidden = stage(hidden, mask)
                self.assert_equal(hidden, whole(ids, mask))

                prefilled = whole.signatures["prefill"](input_ids=ids, attention_mask=mask)
                state = through("prefill", ids, attention_mask=mask)
                self.assertEqual(set(state), set(prefilled))
                for key in prefilled:
                    self.assert_equal(state[key], prefilled[key], key)
                longer = tf.concat([mask, [[1], [1]]], axis=1)
                past = {key.replace("present_", "past_"): value for key, value in state.items() if key != "logits"}
                new = tf.constant([[3], [4]], tf.int32)
                stepped = whole.signatures["decode"](input_ids=new, attention_mask=longer, **past)
                state = through("decode", new, attention_mask=longer, **past)
                self.assertEqual(set(state), set(stepped))
                for key in stepped:
                    self.assert_equal(state[key], stepped[key], key)
                taps = whole.signatures["taps"](input_ids=ids, attention_mask=mask, position_ids=tf.maximum(tf.cumsum(mask, axis=1) - 1, 0))
                found = through("taps", ids, attention_mask=mask, position_ids=tf.maximum(tf.cumsum(mask, axis=1) - 1, 0))
                self.assertEqual(set(found), set(taps))
                layers = {int(key[6:]) for stage in stages for key in stage.signatures if key.startswith("layer_")}
                self.assertEqual(layers, set(range(c["num_hidden_layers"])))
                # Nothing but the first stage takes ids, and a variable is trainable where it is used.
                self.assertNotIn("input_ids_only", stages[1].signatures)
                self.assertIn("input_ids_only", stages[0].signatures)
                for stage in stages:
                    self.assertNotIn("score", stage.signatures)
                    self.assertGreater(len(stage.trainable_variables), 5)

    def assert_equal(self, found, expected, message=None):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=0, atol=1e-5 * max(1, np.abs(expected.numpy()).max()), err_msg=str(message))

    def test_they_generate_what_the_whole_generates(self):
        for name, c in (("llama", LLAMA), ("mixture", MIXTURE)):
            source, out, _, _ = self.convert(c, 2, name)
            asked = ("--tokens", "1,5,9,2", "--max-new-tokens", 9, "--json")
            expected = tandem("run", source, *asked, "--engine", "torch").json["tokens"]
            for flags in ((), ("--compiled",), ("--engine", "torch")):
                with self.subTest(model=name, flags=flags):
                    self.assertEqual(tandem("run", out, *asked, *flags).json["tokens"], expected)

    def test_tasks_make_the_same_files(self):
        source, out, _, _ = self.convert(LLAMA, 3, "llama", "--max-shard-size", "4KB")
        plan, shared = self.scratch / "plan.json", self.scratch / "shared"
        document = tandem("plan", source, shared, "--stages", 3, "--max-shard-size", "4KB", "--out", plan, "--json").json
        self.assertEqual(document["options"]["stages"], 3)
        self.assertEqual({task["file"].split("/")[0] for task in document["tasks"]}, {f"stage-{i}-of-3" for i in range(3)})
        for share in (1, 0):
            tandem("run-task", plan, "--task", f"{share}/2")
        tandem("finalize", plan, "--check")
        files = sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file())
        self.assertEqual(files, sorted(path.relative_to(shared) for path in shared.rglob("*") if path.is_file()))
        for path in files:
            self.assertEqual((out / path).read_bytes(), (shared / path).read_bytes(), path)
        self.assertGreater(len([path for path in files if "stage-0-of-3" in str(path) and ".data-" in path.name]), 1)

    def test_what_is_refused(self):
        source, out, _, report = self.convert(LLAMA, 3, "llama")
        self.assertIn("model/embed_tokens/weight is in the first stage and in the last", report["remarks"])
        other = self.scratch / "other"
        for says, flags in (
            ("0 stages of a model of 5 layers: expected 1 to 5", ("--stages", 0)), ("6 stages of a model of 5 layers", ("--stages", 6)),
            ("--stages makes SavedModels", ("--stages", 2, "--to", "checkpoint")), ("do not go together", ("--stages", 2, "--layout", "source")),
        ):  # fmt: skip
            self.assertIn(says, tandem("convert", source, other, *flags, code=2).err)
        self.assertIn("--stages are for the way to TensorFlow", tandem("convert", out, other, "--stages", 2, code=2).err)
        self.assertIn("name the folder with stages.json", tandem("convert", out / "stage-1-of-3", other, code=65).err)
        # A tied table that was trained in one stage only.
        changed = weights(LLAMA)
        dtype, shape, data = changed["model.embed_tokens.weight"]
        changed["model.embed_tokens.weight"] = (dtype, shape, data[4:] + data[:4])
        tandem("convert", write_folder(self.scratch / "changed", LLAMA, changed), self.scratch / "trained", "--stages", 3)
        apart = shutil.copytree(out, self.scratch / "apart")
        shutil.rmtree(apart / "stage-2-of-3")
        shutil.copytree(self.scratch / "trained" / "stage-2-of-3", apart / "stage-2-of-3")
        self.assertIn("'model/embed_tokens/weight' is in two stages, and is not the same in both", tandem("convert", apart, other, code=65).err)
        lost = shutil.copytree(out, self.scratch / "lost")
        shutil.rmtree(lost / "stage-1-of-3")
        self.assertEqual(run("inspect", lost).code, 66)
        manifest = json.loads((lost / "stages.json").read_text())
        manifest["stages"][1]["folder"] = "../stage"
        (lost / "stages.json").write_text(json.dumps(manifest))
        self.assertIn("stages_c3", tandem("verify", source, lost, code=65).err)


if __name__ == "__main__":
    unittest.main()
