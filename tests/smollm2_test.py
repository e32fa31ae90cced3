"""SmolLM2-135M, really trained: converts, verifies, and every engine writes the same (issue 3, done-when 8)."""

import unittest

from common import Case, tandem, verify
from make_smollm2 import smollm2
from tokenizers import Tokenizer


class SmolLM2(Case):
    def test_converts_verifies_and_continues_the_same(self):
        source, model = smollm2(), self.scratch / "smollm2"
        tandem("convert", source, model)
        report = verify(f"hf:{source}", f"tf:{model}")
        self.assertTrue(report["equal"], report)

        tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
        prompt = tokenizer.encode("The capital of France is").ids
        written = {}
        for engine, path in (("hf", source), ("torch", source), ("tf", model)):
            asked = ("--tokens", ",".join(map(str, prompt)), "--max-new-tokens", 12, "--engine", engine, "--json")
            written[engine] = tandem("run", path, *asked).json["tokens"]
        self.assertEqual(written["tf"], written["hf"])
        self.assertEqual(written["torch"], written["hf"])
        self.assertTrue(tokenizer.decode(written["hf"]).removeprefix("The capital of France is").startswith(" Paris."))


if __name__ == "__main__":
    unittest.main()
