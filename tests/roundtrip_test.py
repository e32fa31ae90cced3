"""There and back: every tensor equal by hash, every config key equal (issue 3, done-when 4)."""

import unittest

from common import TINY, TINY_FP8, Case, fixtures, tandem, tensors


class RoundTrip(Case):
    def there_and_back(self, source, *there, back=()):
        model, returned = self.scratch / "model", self.scratch / "returned"
        tandem("convert", source, model, "--force", *there)
        tandem("convert", model, returned, "--force", *back)
        return returned

    def test_every_fixture_returns_the_same(self):
        for model_type in ("llama", "deepseek_v3"):
            for source in fixtures(model_type):
                with self.subTest(source.name):
                    self.assert_same_checkpoint(source, self.there_and_back(source))

    def test_bf16_example_without_dtype_keeps_its_bytes(self):
        returned = self.there_and_back(TINY)
        self.assert_same_checkpoint(TINY, returned)
        names = tensors(returned)
        self.assertIn("model.layers.2.mlp.gate.e_score_correction_bias", names)
        self.assertEqual(names["model.layers.5.eh_proj.weight"][0], "BF16")  # MTP, which the graph does not use
        for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            self.assertEqual((returned / file).read_bytes(), (TINY / file).read_bytes())

    def test_by_way_of_a_checkpoint(self):
        self.assert_same_checkpoint(TINY, self.there_and_back(TINY, "--to", "checkpoint", back=("--like", TINY)))

    def test_fp8_example_by_way_of_bf16_and_float32_is_remade_exactly(self):
        for dtype in ("bfloat16", "float32"):
            with self.subTest(dtype):
                self.assert_same_checkpoint(TINY_FP8, self.there_and_back(TINY_FP8, "--dtype", dtype, back=("--like", TINY_FP8)))

    def test_shards_return_as_they_were(self):
        returned = self.there_and_back(TINY_FP8, back=("--like", TINY_FP8))
        names = sorted(path.name for path in TINY_FP8.glob("*.safetensors*"))
        self.assertEqual(sorted(path.name for path in returned.glob("*.safetensors*")), names)


if __name__ == "__main__":
    unittest.main()
