"""tandem slice: the tensors that transformers itself has in those layers, and the logits that it computes with them."""

import json
import unittest

import torch
from common import TINY, Case, config, fixtures, run, tandem, tensors
from safetensors.torch import save_file
from tiny import TL, TV3, write_folder
from transformers import AutoModelForCausalLM


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()


def cut_by_transformers(folder, begin, end):
    """The same slice, made by taking modules out of transformers' own model."""
    model = load(folder)
    model.model.layers = torch.nn.ModuleList(model.model.layers[begin:end])
    model.config.num_hidden_layers = end - begin
    return model


def logits(model):
    ids = torch.arange(7).unsqueeze(0) % model.config.vocab_size
    with torch.no_grad():
        return model(input_ids=ids, use_cache=False).logits


class Slice(Case):
    def check(self, source, begin, end, *flags):
        out = self.scratch / f"slice-{source.name}-{begin}-{end}"
        report = tandem("slice", source, out, "--layers", f"{begin}:{end}", "--json", *flags).json
        whole, part = tensors(source), tensors(out)
        for name, tensor in part.items():
            words = name.split(".")
            if words[:2] == ["model", "layers"]:
                words[2] = str(int(words[2]) + begin)
            self.assertEqual(tensor, whole[".".join(words)], name)
        self.assertEqual(report["tensors"], len(part))
        ours, theirs = load(out), cut_by_transformers(source, begin, end)
        mine, expected = ours.state_dict(), theirs.state_dict()
        self.assertEqual(list(mine), list(expected))
        self.assertEqual([name for name in mine if not torch.equal(mine[name], expected[name])], [])
        self.assertTrue(torch.equal(logits(ours), logits(theirs)))
        return out, report

    def test_slices_of_random_models_are_those_of_transformers(self):
        for model_type in ("llama", "deepseek_v3"):
            for folder in fixtures(model_type)[:4]:
                layers = config(folder)["num_hidden_layers"]
                with self.subTest(model=folder):
                    self.check(folder, 0, layers - 1 or 1)
                    self.check(folder, layers - 1, layers)

    def test_mixture_layers_and_multi_token_prediction(self):
        out, report = self.check(TINY, 0, 3)
        changed = {"num_hidden_layers": 3, "num_nextn_predict_layers": 0}
        self.assertEqual(report["config"], changed)
        self.assertEqual(config(out), config(TINY) | changed)
        last = config(TINY)["num_hidden_layers"]
        self.assertEqual((report["mtp"], report["kept_mtp"]), ([f"model.layers.{last}"], False))
        out, report = self.check(TINY, 1, 3)
        self.assertEqual(config(out)["first_k_dense_replace"], max(0, config(TINY)["first_k_dense_replace"] - 1))

        kept = self.scratch / "kept"
        report = tandem("slice", TINY, kept, "--layers", "0:2", "--with-mtp", "--json").json
        self.assertTrue(report["kept_mtp"])
        self.assertIn("model.layers.2.eh_proj.weight", tensors(kept))
        self.assertEqual(tensors(kept)["model.layers.2.eh_proj.weight"], tensors(TINY)[f"model.layers.{last}.eh_proj.weight"])
        tandem("convert", kept, self.scratch / "kept.tf")

    def test_the_files_are_those_that_transformers_writes(self):
        model = load(write_folder(self.scratch / "in", TL))
        model.save_pretrained(self.scratch / "saved")
        self.check(self.scratch / "saved", 0, 1)
        cut = cut_by_transformers(self.scratch / "saved", 0, 1)
        save_file({name: tensor.contiguous() for name, tensor in cut.state_dict().items()}, self.scratch / "expected.safetensors", {"format": "pt"})
        written = self.scratch / "slice-saved-0-1" / "model.safetensors"
        self.assertEqual(written.read_bytes(), (self.scratch / "expected.safetensors").read_bytes())

    def test_sharded_sources_keep_their_split_or_get_another(self):
        source = write_folder(self.scratch / "sharded", TV3 | {"num_nextn_predict_layers": 0}, shards=3)
        out, report = self.check(source, 0, 2)
        self.assertEqual(report["shards"], [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)])
        index = json.loads((out / "model.safetensors.index.json").read_text())
        self.assertEqual(set(index["weight_map"]), set(tensors(out)))
        self.assertEqual(index["metadata"]["total_size"], report["bytes"])
        other = self.scratch / "other"
        tandem("slice", source, other, "--layers", ":2", "--max-shard-size", "1MB")
        self.assertEqual([path.name for path in other.glob("*.safetensors")], ["model.safetensors"])
        self.assertEqual(tensors(other), tensors(out))
        many = self.scratch / "many"
        tandem("slice", source, many, "--layers", ":2", "--max-shard-size", "2KiB")
        self.assertGreater(len(list(many.glob("*.safetensors"))), 4)
        self.assertEqual(tensors(many), tensors(out))

    def test_what_is_refused(self):
        source = write_folder(self.scratch / "in", TL)
        out = self.scratch / "out"
        for code, says, layers in (
            (2, "--layers 3: expected FIRST:END", "3"), (2, "--layers a:b: expected FIRST:END", "a:b"), (2, "--layers 0:1x", "0:1x"),
            (2, "layers 0 to 3 of a model of 2", "0:3"), (2, "layers 2 to 2 of a model of 2", "2:"), (2, "layers 1 to 1", "1:1"),
        ):  # fmt: skip
            with self.subTest(layers=layers):
                self.assertIn(says, tandem("slice", source, out, "--layers", layers, code=code).err)
        tandem("convert", source, self.scratch / "tf")
        self.assertIn("slices are cut from Hugging Face folders", tandem("slice", self.scratch / "tf", out, "--layers", ":1", code=65).err)
        self.assertIn("which is read", tandem("slice", source, source, "--layers", ":1", "--force", code=2).err)
        self.assertEqual(run("slice", source, self.scratch / "tf", "--layers", ":1").code, 73)
        named = write_folder(self.scratch / "named", TL | {"odd": ["model.layers.1.mlp"]})
        error = tandem("slice", named, out, "--layers", "1:2", "--accept-key", "odd", code=65).err
        self.assertIn('odd: "model.layers.1.mlp"', error)
        tandem("slice", named, out, "--layers", "0:1", "--accept-key", "odd")


if __name__ == "__main__":
    unittest.main()
