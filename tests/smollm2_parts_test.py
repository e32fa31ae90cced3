"""SmolLM2-135M in parts: three stages verify as the whole does, and four of its layers are those of transformers' own model cut to four (issue 6, done-when 9)."""

import unittest

import torch
from common import Case, config, tandem, tensors, verify
from make_smollm2 import smollm2
from transformers import AutoConfig, AutoModelForCausalLM

EXACT = {"dtype": torch.float32, "attn_implementation": "eager"}


class Parts(Case):
    def test_three_stages_verify_and_go_back_to_the_same_bytes(self):
        source, out = smollm2(), self.scratch / "stages"
        tandem("convert", source, out, "--stages", 3)
        report = verify(f"hf:{source}", f"tf:{out}", "--levels", "weights,layer,module,model,generation", "--prompts", 4, "--max-new-tokens", 8)
        self.assertTrue(report["equal"], report)
        self.assertLessEqual({"weights", "layer", "module", "model", "generation"}, set(report["levels"]))
        asked = ("The capital of France is", "--max-new-tokens", 12, "--json")
        self.assertEqual(tandem("run", out, *asked).json["tokens"], tandem("run", source, *asked).json["tokens"])
        tandem("convert", out, self.scratch / "back")
        self.assertEqual((self.scratch / "back" / "model.safetensors").read_bytes(), (source / "model.safetensors").read_bytes())
        self.assertEqual(config(self.scratch / "back"), config(source))

    def test_four_layers_are_those_of_transformers(self):
        source, out, model = smollm2(), self.scratch / "slice", self.scratch / "slice.tf"
        tandem("slice", source, out, "--layers", "0:4")
        whole, part = tensors(source), tensors(out)
        self.assertEqual(part, {name: whole[name] for name in part})
        # The whole checkpoint, read by transformers into a model of four layers: what has no place is left unread.
        short = AutoConfig.from_pretrained(source, num_hidden_layers=4)
        theirs = AutoModelForCausalLM.from_pretrained(source, config=short, **EXACT).eval()
        ours = AutoModelForCausalLM.from_pretrained(out, **EXACT).eval()
        mine, expected = ours.state_dict(), theirs.state_dict()
        self.assertEqual(list(mine), list(expected))
        self.assertEqual([name for name in mine if not torch.equal(mine[name], expected[name])], [])
        ids = torch.tensor([[504, 3575, 282, 4649, 314, 7042, 30, 2]])
        with torch.no_grad():
            self.assertTrue(torch.equal(ours(input_ids=ids).logits, theirs(input_ids=ids).logits))
        # And the slice in TensorFlow is equal to the slice that transformers itself writes.
        theirs.to(torch.bfloat16).save_pretrained(self.scratch / "theirs")
        tandem("convert", out, model)
        for golden in (out, self.scratch / "theirs"):
            report = verify(f"hf:{golden}", f"tf:{model}")
            self.assertTrue(report["equal"], report)


if __name__ == "__main__":
    unittest.main()
