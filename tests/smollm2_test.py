"""SmolLM2-135M, really trained: converts, verifies, and every engine answers the same, as it goes (issue 3, done-when 8; issue 7, done-when 4)."""

import os
import subprocess
import unittest

from common import TANDEM, Case, tandem, verify
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
        self.assertTrue(tokenizer.decode(written["hf"]).startswith(" Paris."))

        for engine, path in (("hf", source), ("torch", source), ("tf", model)):
            with self.subTest(engine):
                pieces = self.streamed("run", path, "The capital of France is", "--engine", engine, "--max-new-tokens", 12)
                self.assertEqual("".join(pieces), tokenizer.decode(written["hf"]) + "\n")
                self.assertGreater(len(pieces), 6, "the answer does not come piece by piece")
        asked = ("--chat", "What is the capital of France? One word.", "--max-new-tokens", 40, "--json")
        chat = tandem("run", model, *asked).json
        self.assertIn("Paris", chat["text"])
        self.assertEqual((chat["finish_reason"], chat["tokens"][-1]), ("stop_token", tokenizer.token_to_id("<|im_end|>")))
        compared = tandem("run", source, "The capital of France is", "--engine", "torch", "--compare", f"tf:{model}", "--max-new-tokens", 12, "--json").json
        self.assertEqual(compared["left"]["tokens"], written["hf"])
        self.assertEqual(compared["right"]["tokens"], written["hf"])

    def streamed(self, *arguments):
        """What each read from the program's output gave."""
        pieces = []
        with subprocess.Popen([str(part) for part in (TANDEM, *arguments)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            while piece := os.read(process.stdout.fileno(), 65536):
                pieces.append(piece.decode())
        self.assertEqual(process.returncode, 0)
        return pieces


if __name__ == "__main__":
    unittest.main()
