"""The contenders of tandem bench that .venv-bench and .venv-keras-hub hold: made by their own tools, they compute what ours do."""

import json
import os
import unittest

from common import ROOT, Case, fixtures, tandem
from make_smollm2 import smollm2
from schemas_test import problems

FLOAT32 = ["tf", "tf-xla", "transformers", "torch-compile", "keras-hub", "onnxruntime", "llama.cpp"]
ROUNDED = ["tf-xla-bf16", "llama.cpp-bf16", "llama.cpp-q8_0"]


class BenchContenders(Case):
    @classmethod
    def setUpClass(cls):
        for name in ("bench", "keras-hub"):
            python = os.environ.get(f"TANDEM_{name.upper().replace('-', '_')}_PYTHON") or ROOT / f".venv-{name}" / "bin" / "python3"
            if not os.path.exists(python):
                raise AssertionError(f"{python} is not there: `make venv-{name}` makes it")

    def test_smollm2_by_all_contenders(self):
        folder = self.scratch / "prepared"
        made = tandem("bench", "prepare", smollm2(), folder, "--json").json
        self.assertEqual(problems("bench-prepare", made), [])
        self.assertEqual((sorted(made["made"]), made["not_made"]), (["bf16.gguf", "bf16.savedmodel", "f32.gguf", "onnx", "q8_0.gguf"], {}))
        self.assertEqual([path.name for path in self.scratch.iterdir()], ["prepared"])

        every = ",".join(FLOAT32 + ROUNDED)
        arguments = ("--prepared", folder, "--contenders", every, "--rounds", "1", "--threads", "2", "--json")
        report = tandem("bench", "infer", smollm2(), *arguments, "--load", "8", "--prefill", "24", "--decode", "24+8", "--batch", "1,2").json
        self.assertEqual(problems("bench-infer", report), [])
        self.assertEqual(report["not_started"], {})
        self.assertEqual([scenario["what"] for scenario in report["scenarios"]], ["load", "prefill", "decode", "decode"])
        for scenario in report["scenarios"]:
            for result in scenario["results"]:
                with self.subTest(scenario=scenario["name"], contender=result["contender"]):
                    self.assertNotIn("failure", result)
                    exact = result["contender"] in FLOAT32
                    self.assertLess(result["max_abs_error"], (1e-3 if exact else 0.4) * result["logits_rms"])
                    if not exact:
                        self.assertGreater(result["max_abs_error"], 0)
                    if scenario["what"] == "decode" and exact:
                        self.assertTrue(result["same_tokens"] == 9 or result["near_tie"], result)
        decode = {result["contender"]: result for result in report["scenarios"][2]["results"]}
        per_byte = {name: result["operations_per_byte"] for name, result in decode.items()}
        self.assertAlmostEqual(per_byte["llama.cpp-bf16"] / per_byte["llama.cpp"], 2)

    def test_what_a_tool_cannot_make_is_told_and_the_rest_stays(self):
        model = fixtures("llama", 1)[0]  # has no tokenizer, which a gguf carries
        folder = self.scratch / "prepared"
        made = tandem("bench", "prepare", model, folder, "--contenders", "onnxruntime,llama.cpp", "--json").json
        self.assertEqual((list(made["made"]), list(made["not_made"])), (["onnx"], ["f32.gguf"]))
        self.assertIn("convert_hf_to_gguf.py ended with exit code", made["not_made"]["f32.gguf"])
        self.assertEqual([path.name for path in folder.iterdir()], ["onnx"])
        self.assertTrue(json.loads((folder / "onnx" / "config.json").read_text()))


if __name__ == "__main__":
    unittest.main()
