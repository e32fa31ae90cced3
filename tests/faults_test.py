"""A fault planted on either side makes verify end 1 (issue 3, done-when 12)."""

import json
import shutil
import unittest

import numpy as np
from common import TINY_FP8, Case, tandem, verify
from fp8_test import one_file, raw_tensors

import make_fixtures


def values(entry):
    dtype, shape, data = entry
    return np.frombuffer(data, {"F32": np.float32, "BF16": np.uint16}[dtype]).reshape(shape)


def changed(entry, new):
    return entry[0], list(new.shape), np.ascontiguousarray(new).tobytes()


class Faults(Case):
    @classmethod
    def setUpClass(cls):
        square = {"hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 12}
        cls.llama_config = make_fixtures.make_config("llama", 0, 1) | square
        cls.deepseek_config = make_fixtures.make_config("deepseek_v3", 0, 1)

    def setUp(self):
        super().setUp()
        self.llama = make_fixtures.make_fixture(self.llama_config, self.scratch / "llama")
        self.deepseek = make_fixtures.make_fixture(self.deepseek_config, self.scratch / "deepseek_v3")

    def check(self, good, edit_tensors=None, edit_config=None):
        """verify sees a fault on the PyTorch side and one on the TensorFlow side, by the logits alone."""
        entries = raw_tensors(good)
        if edit_tensors:
            before = dict(entries)
            edit_tensors(entries)
            self.assertNotEqual(before, entries)
        bad = one_file(good, self.scratch / "bad", entries)
        if edit_config:
            config = json.loads((bad / "config.json").read_text())
            edit_config(config)
            (bad / "config.json").write_text(json.dumps(config))
        for name, source in (("good", good), ("bad", bad)):
            tandem("convert", source, self.scratch / f"{name}.tf", "--force")
        self.assertTrue(verify(f"hf:{good}", f"tf:{self.scratch}/good.tf", "--levels", "model")["equal"])
        for left, right in ((bad, "good.tf"), (good, "bad.tf")):
            report = verify(f"hf:{left}", f"tf:{self.scratch}/{right}", "--levels", "model", code=1)
            self.assertFalse(report["equal"])
        shutil.rmtree(bad)

    def test_an_epsilon(self):
        self.check(self.llama, edit_config=lambda c: c.update(rms_norm_eps=c["rms_norm_eps"] * 10))
        self.check(self.deepseek, edit_config=lambda c: c.update(rms_norm_eps=c["rms_norm_eps"] * 10))

    def test_a_transposed_square_matrix(self):
        def edit(entries):
            name = "model.layers.1.self_attn.o_proj.weight"
            entries[name] = changed(entries[name], values(entries[name]).T)

        self.check(self.llama, edit)

    def test_rotary_pairing_by_permuted_rows(self):
        def edit(entries):
            for part in ("q_proj", "k_proj"):
                name = f"model.layers.0.self_attn.{part}.weight"
                rows = values(entries[name])
                entries[name] = changed(entries[name], rows.reshape(4, 2, 6, -1).swapaxes(1, 2).reshape(rows.shape))

        self.check(self.llama, edit)

    def test_rotary_pairing_by_the_config(self):
        self.check(self.deepseek, edit_config=lambda c: c.update(rope_interleave=False))

    def test_two_experts_swapped(self):
        def edit(entries):
            for part in ("gate_proj", "up_proj", "down_proj"):
                one, other = (f"model.layers.1.mlp.experts.{e}.{part}.weight" for e in (0, 3))
                entries[one], entries[other] = entries[other], entries[one]

        self.check(self.deepseek, edit)

    def test_gate_and_up_swapped(self):
        def edit(entries):
            gate, up = (f"model.layers.0.mlp.{part}_proj.weight" for part in ("gate", "up"))
            entries[gate], entries[up] = entries[up], entries[gate]

        self.check(self.llama, edit)

    def test_a_scale_dropped(self):
        def edit(entries):
            name = "model.layers.1.self_attn.o_proj.weight_scale_inv"
            entries[name] = changed(entries[name], np.ones_like(values(entries[name])))

        self.check(TINY_FP8, edit)


if __name__ == "__main__":
    unittest.main()
