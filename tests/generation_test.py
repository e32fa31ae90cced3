"""Both frameworks continue the same prompts by the same tokens, and where a weight is wrong the first other token is named."""

import shutil
import unittest

from common import TINY, Case, run, tandem, verify
from fp8_test import one_file, raw_tensors

# One thread each: where tests run side by side, threads that wait for each other cost more than they bring.
LEVEL = ("--levels", "generation", "--threads", "1")
CHANGED = "model.layers.3.self_attn.o_proj.weight"


class Generation(Case):
    def setUp(self):
        super().setUp()
        self.tf = self.scratch / "tiny.tf"
        tandem("convert", TINY, self.tf)

    def generation(self, left, *arguments, code=0):
        return verify(f"hf:{left}", f"tf:{self.tf}", *LEVEL, *arguments, code=code)["levels"]["generation"]

    def test_prompts_of_ids_and_of_text_are_continued_alike(self):
        level = self.generation(TINY)
        self.assertTrue(level["equal"])
        self.assertGreaterEqual(level["prompts"], 120)
        self.assertEqual(level["tokens"], 20 * level["prompts"])
        self.assertEqual((level["exact_share"], level["near_ties"], level["faults"]), (1, 0, 0))
        self.assertEqual(level["bleu"], 1)
        self.assertEqual((level["skipped"], level["failures"]), ([], []))

    def test_the_first_token_that_differs_is_named(self):
        entries = raw_tensors(TINY)
        dtype, shape, data = entries[CHANGED]
        half = len(data) // 2
        entries[CHANGED] = dtype, shape, data[half:] + data[:half]  # rows out of order
        bad = one_file(TINY, self.scratch / "bad", entries)
        few = ("--prompts", "10", "--max-new-tokens", "8")
        level = self.generation(bad, *few, code=1)
        self.assertFalse(level["equal"])
        self.assertGreater(level["faults"], 5)
        self.assertLess(level["bleu"], 0.998)
        first = level["first_differences"][0]
        self.assertEqual(first["class"], "fault")
        self.assertNotEqual(first["reference_id"], first["other_id"])
        self.assertGreater(max(first["reference_margin"], first["other_margin"]), first["bar"])
        printed = run("verify", f"hf:{bad}", f"tf:{self.tf}", *LEVEL, *few)
        self.assertEqual(printed.code, 1)
        self.assertIn(f"fault: {first['prompt']} ({first['prompt_tokens']} ids), token {first['step'] + 1}: {first['reference_id']} ", printed.out)
        self.assertIn("generation  DIFFERENT: ", printed.out)

    def test_without_a_tokenizer_text_is_left_out_and_said_to_be(self):
        bare = shutil.copytree(TINY, self.scratch / "bare", ignore=shutil.ignore_patterns("tokenizer*"))
        tandem("convert", bare, self.scratch / "bare.tf")
        report = verify(f"hf:{bare}", f"tf:{self.scratch / 'bare.tf'}", "--levels", "generation,model", "--prompts", "4", "--max-new-tokens", "3")["levels"]
        level = report["generation"]
        self.assertEqual((level["equal"], level["prompts"], level["bleu"]), (True, 4, None))
        self.assertEqual([line.split(":")[0] for line in level["skipped"]], ["text prompts", "BLEU"])
        self.assertIn("has no tokenizer.json", level["skipped"][0])
        self.assertEqual(report["model"]["skipped"], [f"text probe: {bare} has no tokenizer.json"])
        self.assertNotIn("text", [probe["name"] for probe in report["model"]["probes"]])

        report = verify(f"hf:{bare}", f"tf:{self.tf}", "--levels", "model", "--no-float64")
        self.assertIn("text", [probe["name"] for probe in report["levels"]["model"]["probes"]])
        self.assertIn(f"{bare} has no tokenizer.json: texts were read by the other side's tokenizer", report["notes"])

    def test_the_users_prompts_are_continued_in_place_of_ours(self):
        prompts = self.scratch / "prompts.txt"
        prompts.write_text("0,335,1182,11\n5 6 7\n")
        level = self.generation(TINY, "--tokens", prompts, "--max-new-tokens", "3")
        self.assertEqual((level["equal"], level["prompts"], level["tokens"]), (True, 2, 6))

    def test_comparing_nothing_fails(self):
        level = self.generation(TINY, "--max-new-tokens", "0", code=1)
        self.assertIn("nothing was compared", level["failures"])

    def test_two_sides_without_transformers(self):
        report = verify(f"torch:{TINY}", f"tf:{self.tf}", *LEVEL, "--prompts", "6", "--max-new-tokens", "4")
        level = report["levels"]["generation"]
        self.assertEqual((level["equal"], level["bleu"], level["skipped"]), (True, 1, []))
        self.assertGreater(level["prompts"], 6 + 20)  # texts besides, by the tokenizer of the files


if __name__ == "__main__":
    unittest.main()
