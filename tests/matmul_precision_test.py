"""convert --matmul-precision bfloat16: decode_xla multiplies kernels stored in bfloat16 as they are, and nothing else changes."""

import os
import unittest
from unittest import mock

import numpy as np
import tensorflow as tf
from common import TINY, Case, tandem, verify
from frameworks import load_tf, position_ids
from tiny import TL, TV3, bf16, weights, write_folder
from workers import Worker, inputs_of

REDUCED = ("--layout", "source", "--matmul-precision", "bfloat16")
LLAMA = TL | {"torch_dtype": "bfloat16"}
TIED = LLAMA | {"tie_word_embeddings": True, "num_hidden_layers": 1}
LATENT = TV3 | {"torch_dtype": "bfloat16", "num_hidden_layers": 2, "first_k_dense_replace": 2, "num_nextn_predict_layers": 0}  # --layout source knows no experts

# What is rounded to bfloat16 is off by at most 2^-9 of it, and so, about, is what a product makes of it. A layer rounds four times one after the other (before
# the first products of attention and of the MLP, and before the last), the head once: so much if all rounding went one way. Random signs leave a third of it.
HALF_ULP = 2.0**-9


def bound(c):
    return HALF_ULP * (4 * c["num_hidden_layers"] + 1)


def rms(x):
    return np.sqrt(np.square(x).mean())


def step_inputs(signature, batch, capacity=6):
    """Random caches; the last slots are free."""
    rng = np.random.default_rng(5)
    mask = np.ones((batch, capacity), np.int32)
    mask[:, -2:] = 0
    given = {"input_ids": rng.integers(2, 32, (batch, 1), np.int32), "position_ids": np.full((batch, 1), capacity - 2, np.int32), "attention_mask": mask}
    for name, spec in signature.structured_input_signature[1].items():
        if name.startswith("past_"):
            given[name] = rng.normal(size=(batch, spec.shape[1], capacity, spec.shape[3])).astype(np.float32)
    return {name: tf.constant(array) for name, array in given.items()}


class MatmulPrecision(Case):
    def converted(self, c):
        """(checkpoint in bfloat16, SavedModel as ever, SavedModel with the option)"""
        source = write_folder(self.scratch / "in", c, {name: bf16(tensor) for name, tensor in weights(c).items()})
        plain, reduced = self.scratch / "plain", self.scratch / "reduced"
        tandem("convert", source, plain, "--layout", "source")
        report = tandem("convert", source, reduced, *REDUCED, "--json").json
        self.assertIn("decode_xla rounds what a kernel is multiplied with to bfloat16", " ".join(report["remarks"]))
        return source, plain, reduced

    def check(self, c):
        source, plain, reduced = self.converted(c)
        models = [load_tf(folder) for folder in (plain, reduced)]
        for batch in (1, 2):
            inputs = step_inputs(models[0].signatures["decode_xla"], batch)
            exact, rounded = ({name: value.numpy() for name, value in model.signatures["decode_xla"](**inputs).items()} for model in models)
            self.assertEqual(set(exact), set(rounded))
            for name, expected in exact.items():
                with self.subTest(name, batch=batch):
                    error = np.abs(rounded[name] - expected).max() / rms(expected)
                    self.assertLess(error, bound(c))
                    self.assertGreater(error, HALF_ULP / 100, "as if nothing had been rounded")

        ids = np.random.default_rng(6).integers(2, 32, (2, 5), np.int32)
        mask = np.ones_like(ids)
        given = {"input_ids": ids, "attention_mask": mask, "position_ids": position_ids(mask).astype(np.int32)}
        for name in ("serving_default", "with_positions", "prefill", "prefill_xla", "score"):
            signatures = [model.signatures[name] for model in models]
            inputs = {key: tf.constant(given[key]) for key in signatures[0].structured_input_signature[1]}
            left, right = (signature(**inputs) for signature in signatures)
            for key in left:
                np.testing.assert_array_equal(left[key], right[key], err_msg=f"{name}: {key}")
        return source, reduced

    def test_llama_rounds_in_decode_xla_alone_and_verify_passes(self):
        source, reduced = self.check(LLAMA)
        report = verify(f"hf:{source}", f"tf:{reduced}")
        self.assertTrue(report["equal"])
        tandem("convert", reduced, self.scratch / "back")
        self.assert_same_checkpoint(self.scratch / "back", source)

    def test_a_tied_head_is_multiplied_as_it_is_stored(self):
        self.check(TIED)

    def test_latent_attention_rounds_in_decode_xla_alone_and_verify_passes(self):
        source, reduced = self.check(LATENT)
        self.assertTrue(verify(f"hf:{source}", f"tf:{reduced}")["equal"])

    def test_the_engine_steps_through_it_and_counts_what_is_compiled(self):
        _, _, reduced = self.converted(LLAMA)
        dump = self.scratch / "dump"
        ids = np.random.default_rng(8).integers(2, 32, (1, 70), np.int32)
        request = {"op": "run", "entry": "logits", "outputs": "logits", "tokens": "last"}
        with Worker("tf", reduced) as stock, mock.patch.dict(os.environ, XLA_FLAGS=f"--xla_dump_to={dump}"), Worker("tf", reduced, compiled="1") as compiled:
            for tokens, count in ((5, 1), (6, 3), (7, 3), (70, 4), (6, 4)):  # prefill; a step: layers and head; another step; prefill of another bucket
                inputs = inputs_of(ids[:, :tokens])
                exact, rounded = (worker.call(request, inputs)[1]["logits"] for worker in (stock, compiled))
                error = np.abs(rounded - exact).max() / rms(exact)
                self.assertLess(error, bound(LLAMA))
                self.assertEqual(int(compiled.call({"op": "compilations"})[0]["compilations"]), count, tokens)
                self.assertEqual(len({path.name.split(".")[0] for path in dump.glob("module_*")}), count, tokens)

    def test_it_travels_in_a_plan(self):
        source = write_folder(self.scratch / "in", LLAMA, {name: bf16(tensor) for name, tensor in weights(LLAMA).items()})
        plan, whole, planned = self.scratch / "plan.json", self.scratch / "whole", self.scratch / "planned"
        made = tandem("plan", source, planned, *REDUCED, "--out", plan, "--json").json
        self.assertEqual(made["options"]["matmul_precision"], "bfloat16")
        tandem("run-task", plan, "--task", "0/1")
        tandem("finalize", plan)
        tandem("convert", source, whole, *REDUCED)
        self.assertEqual((planned / "saved_model.pb").read_bytes(), (whole / "saved_model.pb").read_bytes())

    def test_where_it_would_do_nothing_it_is_refused(self):
        halved = write_folder(self.scratch / "bf16", LLAMA, {name: bf16(tensor) for name, tensor in weights(LLAMA).items()})
        single = write_folder(self.scratch / "f32", TL)
        out = self.scratch / "out"
        nothing = "convert_c4: --matmul-precision bfloat16 would change nothing"
        for code, says, source, flags in (
            (2, nothing, single, REDUCED),
            (2, nothing, halved, REDUCED[2:]),
            (2, nothing, halved, ("--dtype", "bfloat16", *REDUCED[2:])),
            (2, nothing, halved, (*REDUCED, "--compute", "bfloat16")),
            (2, "--layout source keeps those of a bfloat16 checkpoint so", halved, REDUCED[2:]),
            (2, "--matmul-precision is for a SavedModel: nothing else has a graph", halved, (*REDUCED, "--to", "checkpoint")),
            (2, "--matmul-precision float16: expected one of float32 bfloat16", halved, ("--matmul-precision", "float16")),
            (2, "--stages and --matmul-precision do not go together", halved, (*REDUCED[2:], "--stages", "2")),
            (65, "experts are stacked into one tensor", TINY, REDUCED),
        ):
            self.assertIn(says, tandem("convert", source, out, *flags, code=code).err)
            self.assertFalse(out.exists())
        tandem("convert", halved, out)
        self.assertIn("--matmul-precision is for a SavedModel", tandem("convert", out, self.scratch / "back", *REDUCED[2:], code=2).err)


if __name__ == "__main__":
    unittest.main()
