"""Twelve random configs of each architecture compute the same everywhere (issue 3, done-when 3)."""

import unittest

from common import Case, config, fixtures, tandem, verify
from frameworks import assert_same_logits, load_tf, load_torch


class Fidelity(Case):
    def check(self, model_type):
        for number, source in enumerate(fixtures(model_type)):
            with self.subTest(source.name):
                model = self.scratch / source.name
                tandem("convert", source, model)
                assert_same_logits(self, load_tf(model), load_torch(source), config(source)["vocab_size"])
                # Our own torch engine runs the same contract: three models tell whether it does.
                for golden in (f"hf:{source}", f"torch:{source}")[: 2 if number < 3 else 1]:
                    self.check_report(verify(golden, f"tf:{model}", "--levels", "weights,model"))

    def check_report(self, report):
        self.assertTrue(report["equal"], report)
        self.assertGreater(report["levels"]["weights"]["compared"], 10)
        found = report["levels"]["model"]
        self.assertGreater(found["compared"], 700 * 101)
        self.assertLessEqual(found["max_abs_error"], 1e-5)
        self.assertLessEqual(found["kl"], 1e-9)
        self.assertEqual(found["top1_agreement"], 1.0)

    def test_llama(self):
        self.check("llama")

    def test_deepseek_v3(self):
        self.check("deepseek_v3")


if __name__ == "__main__":
    unittest.main()
