"""The signatures generate_greedy and score: in Python, inside tf.function, in the C API; every way to stop."""

import json
import shutil
import unittest

import numpy as np
import tensorflow as tf
from common import TINY, Case, fixtures, tandem
from frameworks import load_tf, tf_logits
from workers import Worker


def prompts(vocab_size):
    """Ids and mask [3, 7], two rows padded on the left."""
    ids = np.random.default_rng(11).integers(2, vocab_size, (3, 7), np.int32)
    mask = np.ones_like(ids)
    mask[1, :3] = 0
    mask[2, :6] = 0
    return ids, mask


def stepwise(model, ids, mask, count):
    """`count` greedy tokens a row, each by a forward of the whole."""
    for _ in range(count):
        best = tf_logits(model, ids, mask)[:, -1].argmax(-1).astype(np.int32)
        ids, mask = np.c_[ids, best], np.c_[mask, np.ones_like(best)]
    return ids[:, -count:]


def arguments(ids, mask, *limits):
    return {"input_ids": ids, "attention_mask": mask, "max_new_tokens": np.array(limits, np.int32)}


def in_python(model, inputs, name="generate_greedy"):
    return {key: value.numpy() for key, value in model.signatures[name](**{k: tf.constant(v) for k, v in inputs.items()}).items()}


class Generate(Case):
    def converted(self, source, eos):
        """The model with other end tokens."""
        folder = self.scratch / f"{source.name}-{len(eos)}"
        shutil.copytree(source, folder)
        config = json.loads((folder / "config.json").read_text()) | {"eos_token_id": eos}
        (folder / "config.json").write_text(json.dumps(config))
        tandem("convert", folder, folder.with_suffix(".savedmodel"))
        return folder.with_suffix(".savedmodel"), config["vocab_size"]

    def check(self, source):
        folder, vocab = self.converted(source, [])
        model = load_tf(folder)
        ids, mask = prompts(vocab)
        expected = stepwise(model, ids, mask, 9)
        inputs = arguments(ids, mask, 9, 9, 9)
        found = in_python(model, inputs)
        np.testing.assert_array_equal(found["tokens"], expected)
        np.testing.assert_array_equal(found["lengths"], [9, 9, 9])
        inside = tf.function(lambda **given: model.signatures["generate_greedy"](**given))(**{k: tf.constant(v) for k, v in inputs.items()})
        np.testing.assert_array_equal(inside["tokens"], expected)
        with Worker("tf", folder) as worker:
            np.testing.assert_array_equal(worker.run("generate_greedy", inputs)["tokens"], expected)
        self.check_limits(model, ids, mask, expected)
        self.check_ends(source, ids, mask, expected)

    def check_limits(self, model, ids, mask, expected):
        found = in_python(model, arguments(ids, mask, 2, 5, 0))
        np.testing.assert_array_equal(found["lengths"], [2, 5, 0])
        np.testing.assert_array_equal(found["tokens"], np.where(np.arange(5) < [[2], [5], [0]], expected[:, :5], 0))
        self.assertEqual(in_python(model, arguments(ids, mask, 0, 0, -1))["tokens"].shape, (3, 0))

    def check_ends(self, source, ids, mask, expected):
        """Each row ends with its own token; the last column is never reached."""
        ends = [int(expected[0, 3]), int(expected[1, 1]), int(expected[2, 5])]
        lengths = [next(i + 1 for i, token in enumerate(row) if token in ends) for row in expected]
        folder, _ = self.converted(source, ends)
        found = in_python(load_tf(folder), arguments(ids, mask, 9, 9, 9))
        np.testing.assert_array_equal(found["lengths"], lengths)
        self.assertEqual(found["tokens"].shape[1], max(lengths))
        for row, length in enumerate(lengths):
            np.testing.assert_array_equal(found["tokens"][row, :length], expected[row, :length])
            np.testing.assert_array_equal(found["tokens"][row, length:], ends[0])

    def test_G06_llama(self):
        self.check(fixtures("llama")[0])

    def test_G06_deepseek_v3(self):
        self.check(fixtures("deepseek_v3")[0])

    def test_one_seed_is_one_text_whatever_the_engine(self):
        source = fixtures("llama")[1]
        tandem("convert", source, self.scratch / "model")
        rules = "--tokens 3,1,4,1,5 --max-new-tokens 12 --ignore-eos --json --temperature 1.1 --top-k 40 --top-p 0.95 --min-p 0.01 --repetition-penalty 1.2 --seed".split()

        def text(place, engine, seed):
            return tandem("run", place, "--engine", engine, *rules, str(seed)).json["tokens"]

        one = text(self.scratch / "model", "tf", 5)
        for place, engine in ((source, "torch"), (source, "hf")):
            self.assertEqual(text(place, engine, 5), one, engine)
        self.assertEqual(tandem("run", self.scratch / "model", "--compiled", *rules, "5").json["tokens"], one)
        self.assertNotEqual(text(self.scratch / "model", "tf", 6), one)

    def test_scores_are_the_log_probabilities_of_the_next_tokens(self):
        tandem("convert", TINY, self.scratch / "model")
        model = load_tf(self.scratch / "model")
        ids, mask = prompts(4096)
        logits = tf_logits(model, ids, mask).astype(np.float64)
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        expected = np.zeros(ids.shape)
        for row in range(3):
            for t in range(1, 7):
                if mask[row, t - 1]:
                    expected[row, t] = logs[row, t - 1, ids[row, t]]
        found = in_python(model, {"input_ids": ids, "attention_mask": mask}, "score")["log_probabilities"]
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
        self.assertEqual((found == 0).sum(), 3 + 3 + 6)


if __name__ == "__main__":
    unittest.main()
