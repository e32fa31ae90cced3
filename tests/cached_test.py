"""The signatures that keep a cache compute what the whole forward computes: step by step, padded on the left, past the yarn boundary."""

import unittest

import numpy as np
import tensorflow as tf
from common import TINY, Case, config, fixtures, tandem
from frameworks import ABSOLUTE, load_tf, position_ids, tf_logits
from workers import Worker


def past(outputs):
    """What decode takes of what prefill or decode gave."""
    return {"past" + name[len("present") :]: tensor for name, tensor in outputs.items() if name.startswith("present_")}


def steps(call, ids, mask, begin):
    """Logits of the last token after each number of tokens from `begin` on. call(signature, **arrays) -> arrays."""
    state = call("prefill", input_ids=ids[:, :begin], attention_mask=mask[:, :begin])
    logits = [state["logits"]]
    for tokens in range(begin + 1, ids.shape[1] + 1):
        state = call("decode", input_ids=ids[:, tokens - 1 : tokens], attention_mask=mask[:, :tokens], **past(state))
        logits.append(state["logits"])
    return np.concatenate(logits, 1)


def rms(x):
    return np.sqrt(np.square(x).mean())


def in_python(model):
    return lambda name, **arrays: {k: v.numpy() for k, v in model.signatures[name](**{k: tf.constant(v) for k, v in arrays.items()}).items()}


def in_c(worker):
    return lambda name, **arrays: worker.run(name, {k: np.ascontiguousarray(v) for k, v in arrays.items()})


class Cached(Case):
    def check(self, source, tokens, begin, bar=ABSOLUTE):
        """In Python and in C, against float64 (libtorch over the contract)."""
        folder = self.scratch / source.name
        tandem("convert", source, folder, "--dtype", "float32")
        ids = np.random.default_rng(7).integers(0, config(source)["vocab_size"], (3, tokens), np.int32)
        mask = np.ones_like(ids)
        mask[1, :4] = 0
        mask[2, : begin - 1] = 0
        model = load_tf(folder)
        with Worker("torch", source, dtype="float64") as worker:
            inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": position_ids(mask).astype(np.int32)}
            exact = worker.run("logits", inputs)["logits"][:, begin - 1 :]
        whole = np.abs(tf_logits(model, ids, mask)[:, begin - 1 :] - exact)
        found = steps(in_python(model), ids, mask, begin)
        self.assertEqual((found.shape, exact.dtype), (exact.shape, np.float64))
        stepwise = np.abs(found - exact)
        self.assertLessEqual(stepwise.max(), max(2 * whole.max(), 2e-6))
        self.assertLessEqual(stepwise.max(), bar)
        self.assertLessEqual(rms(stepwise), 1.25 * rms(whole), "steps are as exact as the whole forward")
        with Worker("tf", folder) as worker:
            np.testing.assert_allclose(steps(in_c(worker), ids, mask, begin), found, atol=ABSOLUTE / 4, rtol=0)
        return model

    def test_R15_llama(self):
        for number in (0, 1):
            self.check(fixtures("llama")[number], tokens=14, begin=6)

    def test_R15_deepseek_v3_past_the_yarn_boundary(self):
        source = next(s for s in fixtures("deepseek_v3") if (config(s).get("rope_scaling") or config(s).get("rope_parameters", {})).get("factor"))
        scaling = config(source).get("rope_scaling") or config(source)["rope_parameters"]
        boundary = scaling["original_max_position_embeddings"]
        self.assertLess(boundary, 200)
        self.check(source, tokens=boundary + 5, begin=boundary - 4)

    def test_the_tiny_model(self):
        model = self.check(TINY, tokens=12, begin=5, bar=1.2 * ABSOLUTE)  # of 100,000 logits up to 16: the whole forward's largest error is 8e-6 to 1e-5
        decode = model.signatures["decode"].structured_input_signature[1]
        c = config(TINY)
        self.assertEqual(decode["past_latent_0"].shape.as_list(), [None, 1, None, c["kv_lora_rank"] + c["qk_rope_head_dim"]])
        self.assertEqual(decode["input_ids"].shape.as_list(), [None, 1])

    def test_stacks_of_experts_stored_in_bfloat16_and_cut_into_chunks(self):
        whole, cut = self.scratch / "whole", self.scratch / "cut"
        tandem("convert", TINY, whole)
        tandem("map", TINY, "--out", self.scratch / "map.json")
        text = (self.scratch / "map.json").read_text()
        self.assertIn("stack(expert,24)", text)
        (self.scratch / "map.json").write_text(text.replace("stack(expert,24)", "stack(expert,10)"))
        tandem("convert", TINY, cut, "--map", self.scratch / "map.json")
        ids = np.random.default_rng(8).integers(0, 4096, (3, 9), np.int32)
        one, other = (steps(in_python(load_tf(folder)), ids, np.ones_like(ids), 4) for folder in (whole, cut))
        np.testing.assert_array_equal(one, other)
        with Worker("tf", cut, compiled="1") as worker:
            self.check_calls(worker, [(ids[:, :n], np.ones_like(ids[:, :n])) for n in (7, 8, 9)], 2 * ABSOLUTE)

    def test_the_engine_goes_on_from_what_it_has_seen_and_never_from_anything_else(self):
        source = fixtures("llama")[0]
        tandem("convert", source, self.scratch / "model")
        ids = np.random.default_rng(9).integers(0, config(source)["vocab_size"], (2, 9), np.int32)
        mask = np.ones_like(ids)
        mask[1, :2] = 0
        other, whole_mask = ids.copy(), np.ones_like(mask)
        other[0, 1] = (other[0, 1] + 1) % 50
        gapped = position_ids(mask).astype(np.int32) + (np.arange(9, dtype=np.int32) > 3)
        calls = [(ids[:, :5], mask[:, :5]), (ids[:, :6], mask[:, :6]), (ids[:, :7], mask[:, :7]), (other[:, :8], mask[:, :8]), (ids, mask), (ids[:1], mask[:1]),
                 (ids[:, :5], mask[:, :5]), (ids[:, :6], whole_mask[:, :6]), (ids[:, :7], mask[:, :7], gapped[:, :7]), (ids[:, :8], mask[:, :8])]  # fmt: skip
        for engine, words in (("tf", {}), ("tf", {"compiled": "1"}), ("torch", {}), ("torch", {"stream": "1"})):
            with Worker(engine, self.scratch / "model", **words) as worker:
                self.check_calls(worker, calls)

    def check_calls(self, worker, calls, bar=ABSOLUTE):
        for rows, seen, *positions in calls:
            inputs = {"input_ids": rows, "attention_mask": seen, "position_ids": positions[0] if positions else position_ids(seen).astype(np.int32)}
            inputs = {name: np.ascontiguousarray(value) for name, value in inputs.items()}
            last = worker.call({"op": "run", "entry": "logits", "outputs": "logits", "tokens": "last"}, inputs)[1]["logits"]
            whole = worker.run("logits", inputs, ["logits"])["logits"][:, -1:]
            np.testing.assert_allclose(last, whole, atol=bar, rtol=0)

    def test_D18_compiled_steps_across_the_borders_of_buckets(self):
        lengths = {fixtures("llama")[0]: [*range(62, 67), *range(95, 99)], TINY: [62, 63]}  # compiling a mixture takes its time
        for source, tokens in lengths.items():
            tandem("convert", source, self.scratch / source.name)
            ids = np.random.default_rng(10).integers(0, config(source)["vocab_size"], (2, 100), np.int32)
            mask = np.ones_like(ids)
            mask[1, :7] = 0
            with Worker("tf", self.scratch / source.name, compiled="1") as worker:
                self.check_calls(worker, [(ids[:, :n], mask[:, :n]) for n in tokens], 2 * ABSOLUTE)

    def test_a_mask_of_another_length_is_refused(self):
        source = fixtures("llama")[0]
        tandem("convert", source, self.scratch / "model")
        call = in_python(load_tf(self.scratch / "model"))
        ones = np.ones((1, 4), np.int32)
        state = call("prefill", input_ids=ones, attention_mask=ones)
        for length in (1, 4, 6):
            with self.assertRaises(tf.errors.InvalidArgumentError):
                call("decode", input_ids=ones[:, :1], attention_mask=np.ones((1, length), np.int32), **past(state))


if __name__ == "__main__":
    unittest.main()
