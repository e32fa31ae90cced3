"""Every signature computes the same called, inside tf.function, and inside one that XLA compiles whole (D18)."""

import unittest

import numpy as np
import tensorflow as tf
from common import Case, tandem
from frameworks import ABSOLUTE, load_tf, position_ids
from tiny import TL, TV3

import make_fixtures

BATCH, TOKENS = 2, 6
LOOPS = {"generate", "generate_greedy"}  # what is made grows from turn to turn: XLA cannot know its size


def arrays():
    """Inputs by name; the second row is padded on the left."""
    ids = np.random.default_rng(0).integers(2, 32, (BATCH, TOKENS), np.int32)
    mask = np.ones_like(ids)
    mask[1, :2] = 0
    rules = {"temperature": 1.0, "top_p": 0.9, "min_p": 0.0, "repetition_penalty": 1.1}
    return {
        "input_ids": ids, "attention_mask": mask, "position_ids": position_ids(mask).astype(np.int32), "max_new_tokens": np.full(BATCH, 3, np.int32),
        "top_k": np.full(BATCH, 5, np.int32), "seed": np.full(BATCH, 3, np.int64), "eos_token_ids": np.zeros((BATCH, 0), np.int32),
        **{name: np.full(BATCH, value) for name, value in rules.items()},
    }  # fmt: skip


def inputs_of(name, signature):
    """What a signature takes; caches and hidden states are random."""
    given, rng = arrays(), np.random.default_rng(1)
    if name.startswith("decode"):
        given |= {key: given[key][:, -1:] for key in ("input_ids", "position_ids")}
    inputs = {}
    for key, spec in signature.structured_input_signature[1].items():
        shape = [BATCH, TOKENS, *spec.shape[2:]]
        if key.startswith("past_"):
            shape = [BATCH, spec.shape[1], TOKENS if name == "decode_xla" else TOKENS - 1, spec.shape[3]]
        if key == "forced_experts":
            given[key] = np.broadcast_to(np.arange(spec.shape[-1], dtype=np.int32), [BATCH, spec.shape[1], TOKENS, spec.shape[-1]])
        inputs[key] = tf.constant(given[key] if key in given else rng.normal(size=shape).astype(spec.dtype.as_numpy_dtype))
    return inputs


class Compiled(Case):
    def check(self, c):
        tandem("convert", make_fixtures.make_fixture(c, self.scratch / "in"), self.scratch / "model")
        model = load_tf(self.scratch / "model")
        self.assertLess(LOOPS | {"serving_default", "decode_xla", "next_logits", "score", "layer_1", "taps"}, set(model.signatures))
        for name, signature in model.signatures.items():
            with self.subTest(name):
                inputs = inputs_of(name, signature)
                called = signature(**inputs)
                self.assert_same(tf.function(lambda **given: signature(**given))(**inputs), called)  # noqa: B023
                compiled = tf.function(lambda **given: signature(**given), jit_compile=True)  # noqa: B023
                if name in LOOPS:
                    self.assertRaises(tf.errors.InvalidArgumentError, compiled, **inputs)
                else:
                    self.assert_same(compiled(**inputs), called)
        return model

    def assert_same(self, found, expected):
        self.assertEqual(set(found), set(expected))
        for name, tensor in expected.items():
            self.assertGreater(tensor.numpy().size, 0)
            largest = np.abs(tensor.numpy()).max()
            np.testing.assert_allclose(found[name], tensor, atol=ABSOLUTE * max(1, largest) if tensor.dtype.is_floating else 0, rtol=0, err_msg=name)

    def test_D18_every_signature_of_llama(self):
        model = self.check(TL)
        compiled = tf.function(lambda **given: model.signatures["serving_default"](**given), jit_compile=True)
        given = {name: tf.constant(arrays()[name]) for name in ("input_ids", "attention_mask")}
        alone = {name: tensor[1:, 2:] for name, tensor in given.items()}
        np.testing.assert_allclose(compiled(**alone)["logits"], compiled(**given)["logits"][1:, 2:], atol=ABSOLUTE, rtol=0)

    def test_D18_every_signature_of_deepseek_v3(self):
        self.check(TV3 | {"num_hidden_layers": 2, "num_nextn_predict_layers": 0})


if __name__ == "__main__":
    unittest.main()
