"""generate_greedy_speculative: the layer of multi-token prediction drafts, the text stays that of generate_greedy, and drafts are accepted as often as PyTorch says."""

import json
import shutil
import tempfile
import unittest
from pathlib import Path

import numpy as np
import tensorflow as tf
import torch
from common import BINARY_DIR, ROOT, TINY, TINY_FP8, Case, config, run, tandem, verify
from frameworks import load_tf
from safetensors.torch import load_file, save_file
from tensorflow.core.protobuf import saved_model_pb2
from tiny import TV3, write_folder
from train_tiny_deepseek import from_published
from workers import Worker

STOCK_OPS = set(json.loads((ROOT / "tests" / "data" / "stock_ops.json").read_text()))
TOKENS = 40  # new ones a row


def torch_model():
    """The trained trunk and its prediction layer, as the script that trained them computes them."""
    return from_published(load_file(TINY / "model.safetensors"))


def forward(trunk, mtp, ids):
    """(hidden states, next tokens, drafts): the choices of the trunk after each token, and of the layer after each pair."""
    with torch.no_grad():
        ids = torch.tensor(ids).long()[None]
        hidden = trunk.model(input_ids=ids).last_hidden_state
        draft = mtp(trunk, hidden[:, :-1], ids[:, 1:])
        return hidden, trunk.lm_head(hidden).argmax(-1)[0].tolist(), draft


def turns(trunk, mtp, prompt, made):
    """(number of its first new token, is the draft accepted) of each turn that makes a row: it drafts what follows the newest token, and takes
    two tokens where the trunk agrees."""
    _, chosen, draft = forward(trunk, mtp, [*prompt, *made])
    drafts, found, newest = draft.argmax(-1)[0].tolist(), [], len(prompt)
    while newest - len(prompt) + 1 < len(made):
        hit = drafts[newest - 1] == chosen[newest]
        found.append((newest - len(prompt) + 1, hit))
        newest += 1 + hit
    return found


def padded(rows):
    """Ids and mask of rows of different lengths, padded on the left."""
    width = max(map(len, rows))
    ids, mask = np.full((len(rows), width), 7, np.int32), np.zeros((len(rows), width), np.int32)
    for i, row in enumerate(rows):
        ids[i, width - len(row) :], mask[i, width - len(row) :] = row, 1
    return ids, mask


def signature(model, name, **inputs):
    return {key: value.numpy() for key, value in model.signatures[name](**{k: tf.constant(v) for k, v in inputs.items()}).items()}


class Speculative(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.trunk, cls.mtp = torch_model()
        text = np.random.default_rng(4).integers(2, 4096, 320).tolist()
        # Two texts of the model's own kind, noise, and a prompt beyond the 256 positions where yarn begins.
        greedy = cls.trunk.generate(torch.tensor([text[:3]]), max_new_tokens=60, do_sample=False, eos_token_id=None)[0].tolist()
        cls.rows = [greedy[:30], text[:9], text[9:12], text[:300]]
        scratch = tempfile.TemporaryDirectory(prefix="tandem-test-", dir=BINARY_DIR)
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name) / "model"
        tandem("convert", TINY, cls.folder, "--with-mtp")
        cls.model = load_tf(cls.folder)

    def converted(self, source, *flags):
        folder = self.scratch / f"{source.name}-model"
        tandem("convert", source, folder, "--with-mtp", *flags)
        return folder, load_tf(folder)

    def same_text(self, model, ids, mask, limits):
        inputs = {"input_ids": ids, "attention_mask": mask, "max_new_tokens": np.array(limits, np.int32)}
        plain, fast = signature(model, "generate_greedy", **inputs), signature(model, "generate_greedy_speculative", **inputs)
        np.testing.assert_array_equal(fast["lengths"], plain["lengths"])
        np.testing.assert_array_equal(fast["tokens"], plain["tokens"])
        return fast

    def test_the_text_is_generate_greedys_and_drafts_are_accepted_as_torch_counts(self):
        ids, mask = padded(self.rows)
        together = self.same_text(self.model, ids, mask, [TOKENS] * len(self.rows))
        for i, row in enumerate(self.rows):
            alone = self.same_text(self.model, *padded([row]), [TOKENS])
            made = alone["tokens"][0, : alone["lengths"][0]].tolist()
            self.assertEqual(made, together["tokens"][i, : together["lengths"][i]].tolist())
            expected = turns(self.trunk, self.mtp, row, made)
            expected = len(expected), sum(hit for _, hit in expected)
            for found in ((alone["drafted"][0], alone["accepted"][0]), (together["drafted"][i], together["accepted"][i])):
                self.assertEqual(tuple(map(int, found)), expected, i)
        self.assertGreater(together["accepted"].sum(), 10)
        self.assertLess(together["accepted"].sum(), together["drafted"].sum())

    def test_rows_stop_at_their_limits_and_at_end_tokens(self):
        ids, mask = padded(self.rows[:3])
        folder, model = self.converted(self.with_eos([]), "--dtype", "float32")
        made = self.same_text(model, ids, mask, [12, 12, 12])["tokens"]
        found = self.same_text(model, ids, mask, [7, 0, 1])
        np.testing.assert_array_equal(found["lengths"], [7, 0, 1])
        np.testing.assert_array_equal(found["drafted"] == 0, [False, True, True])
        self.assertEqual(self.same_text(model, ids, mask, [0, -1, 0])["tokens"].shape, (3, 0))
        inside = tf.function(lambda **given: model.signatures["generate_greedy_speculative"](**given))
        limits = np.full(3, 12, np.int32)
        again = inside(input_ids=tf.constant(ids), attention_mask=tf.constant(mask), max_new_tokens=tf.constant(limits))
        np.testing.assert_array_equal(again["tokens"], made)
        with Worker("tf", folder) as worker:
            again = worker.run("generate_greedy_speculative", {"input_ids": ids, "attention_mask": mask, "max_new_tokens": limits})
        np.testing.assert_array_equal(again["tokens"], made)
        # One row ends with the draft of a turn that has a second token, which is not its any more; one with such a second token.
        accepted = [next(i for i, hit in turns(self.trunk, self.mtp, self.rows[row], made[row].tolist()) if hit) for row in (0, 1)]
        ends = [int(made[0, accepted[0]]), int(made[1, accepted[1] + 1])]
        found = self.same_text(self.converted(self.with_eos(ends))[1], ids, mask, [12, 12, 12])
        for row, length in enumerate(found["lengths"]):
            self.assertEqual(length, next((i + 1 for i, token in enumerate(made[row]) if token in ends), 12))
            np.testing.assert_array_equal(found["tokens"][row, length:], ends[0])

    def with_eos(self, ends):
        folder = self.scratch / f"source-{'-'.join(map(str, ends))}"
        shutil.copytree(TINY, folder)
        (folder / "config.json").write_text(json.dumps(config(TINY) | {"eos_token_id": ends}))
        return folder

    def test_run_writes_the_greedy_text_and_says_how_often_drafts_were_right(self):
        row = self.rows[0]
        flags = ("--tokens", ",".join(map(str, row)), "--greedy", "--max-new-tokens", "24", "--json", "--stats")
        plain, fast = (tandem("run", self.folder, *flags, *more).json for more in ((), ("--speculative",)))
        self.assertEqual((fast["tokens"], fast["finish_reason"]), (plain["tokens"], plain["finish_reason"]))
        expected = turns(self.trunk, self.mtp, row, fast["tokens"])
        self.assertEqual(fast["stats"]["drafts"], {"drafted": len(expected), "accepted": sum(hit for _, hit in expected)})
        self.assertNotIn("drafts", plain["stats"])
        text = [tandem("run", self.folder, "import", "--greedy", "--max-new-tokens", "9", *more).out for more in ((), ("--speculative",))]
        self.assertEqual(*text)
        lines = tandem("run", self.folder, *flags[:5], "--stats", "--speculative").err
        self.assertRegex(lines, r"drafts +\d+, \d+ accepted \(\d+\.\d %\)")
        for place, more, code, words in (
            (TINY, ("--greedy",), 2, "--speculative is for the engine tf, not hf"),
            (self.folder, (), 2, "--speculative takes the most likely token each time"),
            (self.folder, ("--greedy", "--compiled"), 2, "--speculative does not go with --chat, --compare and --compiled"),
        ):
            result = run("run", place, "--tokens", "3,1", "--speculative", *more)
            self.assertEqual(result.code, code, result)
            self.assertIn(words, result.err)
        tandem("convert", TINY, self.scratch / "plain")
        result = run("run", self.scratch / "plain", "--tokens", "3,1", "--speculative", "--greedy")
        self.assertIn("the SavedModel has no signature 'generate_greedy_speculative'", result.err)
        self.assertIn("--with-mtp", result.err)

    def test_the_draft_is_that_of_the_trained_layer(self):
        row = self.rows[3]
        hidden, _, expected = forward(self.trunk, self.mtp, row)
        inputs = {
            "hidden_states": hidden[:, :-1].numpy(),
            "input_ids": np.array([row[1:]], np.int32),
            "attention_mask": np.ones((1, len(row) - 1), np.int32),
            "position_ids": np.arange(1, len(row), dtype=np.int32)[None],
        }
        found = signature(self.model, "draft", **inputs)["logits"]
        np.testing.assert_allclose(found, expected.numpy(), atol=2e-5 * np.abs(expected.numpy()).max(), rtol=0)

    def test_other_ways_to_store_it(self):
        ids, mask = padded(self.rows[:2])
        self.same_text(self.converted(TINY_FP8, "--inline")[1], ids, mask, [12, 12])
        # In bfloat16 near ties are common: it runs, and says as much.
        inputs = {"input_ids": ids, "attention_mask": mask, "max_new_tokens": np.full(2, 12, np.int32)}
        found = signature(self.converted(TINY, "--compute", "bfloat16")[1], "generate_greedy_speculative", **inputs)
        np.testing.assert_array_equal(found["lengths"], [12, 12])
        self.assertTrue((found["drafted"] + found["accepted"] >= 11).all())

    def test_its_graph_is_of_stock_ops(self):
        model = saved_model_pb2.SavedModel.FromString((self.folder / "saved_model.pb").read_bytes())
        graph = model.meta_graphs[0].graph_def
        ops = {node.op for nodes in (graph.node, *(function.node_def for function in graph.library.function)) for node in nodes}
        self.assertEqual(ops - STOCK_OPS, set())

    def test_inspect_counts_the_layer_as_run(self):
        found, source = tandem("inspect", self.folder, "--json").json, tandem("inspect", TINY, "--json").json
        self.assertEqual(found["carried_parameters"], 0)
        self.assertEqual(found["parameters"], source["parameters"] + source["carried_parameters"])

    def test_it_goes_back_with_all_bytes(self):
        tandem("convert", self.folder, self.scratch / "back")
        self.assert_same_checkpoint(TINY, self.scratch / "back")
        verify(TINY, self.folder, "--levels", "weights")

    def test_two_prediction_layers_draft_with_the_first(self):
        source = write_folder(self.scratch / "two", TV3 | {"num_nextn_predict_layers": 2})
        folder, model = self.converted(source)
        names = {variable.name for variable in model.variables}
        self.assertTrue(any("layers/%d/eh_proj" % TV3["num_hidden_layers"] in name for name in names))
        self.assertFalse(any("layers/%d/eh_proj" % (TV3["num_hidden_layers"] + 1) in name for name in names))
        self.same_text(model, *padded([[3, 1, 4], [1, 5]]), [9, 9])
        tandem("convert", folder, self.scratch / "back")
        self.assert_same_checkpoint(source, self.scratch / "back")

    def test_what_cannot_draft_is_refused(self):
        none = write_folder(self.scratch / "none", TV3 | {"num_nextn_predict_layers": 0})
        structure = self.scratch / "map.json"
        tandem("map", TINY, "--out", structure)
        for source, flags, words in (
            (none, (), "--with-mtp: the model has no layer of multi-token prediction"),
            (TINY, ("--stages", "2"), "--with-mtp and --stages do not go together"),
            (TINY, ("--map", structure), "--with-mtp and --map do not go together"),
        ):
            result = run("convert", source, self.scratch / "out", "--with-mtp", *flags)
            self.assertEqual(result.code, 2, result)
            self.assertIn(words, result.err)
            self.assertFalse((self.scratch / "out").exists())

    def test_a_prediction_layer_that_is_not_whole_is_refused(self):
        tensors, layer = load_file(TINY / "model.safetensors"), f"model.layers.{config(TINY)['num_hidden_layers']}."
        projection = layer + "eh_proj.weight"
        for name, edited, says in (
            ("gone", {name: t for name, t in tensors.items() if not name.startswith(layer)}, f"missing: {projection}"),
            ("one", {name: t for name, t in tensors.items() if name != projection}, f"missing: {projection}"),
            ("shape", tensors | {projection: tensors[projection][:-1].contiguous()}, f"wrong: {projection}: shape [159, 320], expected [160, 320]"),
        ):
            source = self.scratch / name
            source.mkdir()
            (source / "config.json").write_bytes((TINY / "config.json").read_bytes())
            save_file(edited, source / "model.safetensors", {"format": "pt"})
            result = run("convert", source, self.scratch / "out", "--with-mtp")
            self.assertEqual(result.code, 65, result)
            self.assertIn(says, result.err)
            self.assertFalse((self.scratch / "out").exists())


if __name__ == "__main__":
    unittest.main()
