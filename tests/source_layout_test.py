"""--layout source: TensorFlow reads the safetensors files themselves, bit for bit, and computes what transformers does; the way back gives the files."""

import os
import shutil
import unittest

import numpy as np
import tensorflow as tf
from common import TINY, Case, fixtures, run, tandem, tensors, verify
from tiny import TL, bf16, weights, write_folder

NUMPY = {"F32": np.float32, "BF16": tf.bfloat16.as_numpy_dtype}


class SourceLayout(Case):
    def convert(self, source, *flags):
        out = self.scratch / (source.name + ".tf")
        shutil.rmtree(out, ignore_errors=True)
        return out, tandem("convert", source, out, "--layout", "source", "--json", *flags).json

    def read_by_tensorflow(self, source, out):
        """Every variable as TensorFlow reads it is a tensor of the source: name, shape, bytes."""
        import hashlib

        reader = tf.train.load_checkpoint(str(out / "variables" / "variables"))
        read = {}
        for key in reader.get_variable_to_shape_map():
            if key.endswith("VARIABLE_VALUE"):
                value = reader.get_tensor(key)
                read[hashlib.sha256(value.tobytes()).hexdigest()] = (value.dtype, value.shape)
        for name, (dtype, shape, digest) in tensors(source).items():
            if not name.endswith("inv_freq"):
                self.assertEqual(read.get(digest), (NUMPY[dtype], shape), name)

    def test_random_models_are_equal_and_nothing_is_copied(self):
        for source in [folder for folder in fixtures("llama")[:3]]:
            with self.subTest(source=source):
                model = shutil.copytree(source, self.scratch / source.name)
                out, report = self.convert(model)
                shards = sorted((out / "variables").glob("*.data-*"))
                files = sorted(model.glob("*.safetensors"))
                self.assertEqual(len(shards), len(files) + 1)
                self.assertEqual([os.stat(path).st_ino for path in shards[:-1]], [os.stat(path).st_ino for path in files])
                self.assertIn("are hard links to the files of SRC", " ".join(report["remarks"]))
                self.read_by_tensorflow(model, out)
                self.assertTrue(verify(f"hf:{model}", f"tf:{out}")["equal"])
                tandem("convert", out, self.scratch / "back", "--force")
                for path in files:
                    self.assertEqual((self.scratch / "back" / path.name).read_bytes(), path.read_bytes())

    def test_sharded_and_tied_sources_and_copies(self):
        c = TL | {"tie_word_embeddings": True, "torch_dtype": "bfloat16"}
        entries = {name: bf16(tensor) for name, tensor in weights(c).items()}
        for number, (shards, renamed) in enumerate(((3, "model.embed_tokens.weight"), (1, "lm_head.weight"))):
            kept = {renamed if name == "model.embed_tokens.weight" else name: tensor for name, tensor in entries.items()}
            source = write_folder(self.scratch / f"in{number}", c, kept, shards=shards)
            out, report = self.convert(source, "--place", "copy")
            self.assertEqual(len(list((out / "variables").glob("*.data-*"))), shards + 1)
            self.assertEqual({os.stat(path).st_nlink for path in (out / "variables").iterdir()}, {1})
            self.assertIn("are copies of", " ".join(report["remarks"]))
            self.read_by_tensorflow(source, out)
            tandem("convert", out, self.scratch / f"back{number}")
            self.assertEqual(tensors(self.scratch / f"back{number}"), tensors(source))

    def test_several_files_of_our_own_are_read_too(self):
        source = write_folder(self.scratch / "in", TL)
        out = self.scratch / "many"
        tandem("convert", source, out, "--max-shard-size", "2KB")
        self.assertGreater(len(list((out / "variables").glob("*.data-*"))), 5)
        reader = tf.train.load_checkpoint(str(out / "variables" / "variables"))
        embedding = reader.get_tensor("model/embed_tokens/weight/.ATTRIBUTES/VARIABLE_VALUE")
        kernel = reader.get_tensor("lm_head/kernel/.ATTRIBUTES/VARIABLE_VALUE")
        entries = weights(TL)
        self.assertEqual(embedding.tobytes(), entries["model.embed_tokens.weight"][2])
        self.assertEqual(np.ascontiguousarray(kernel.T).tobytes(), entries["lm_head.weight"][2])
        tf.saved_model.load(str(out))

    def test_what_is_refused(self):
        source = write_folder(self.scratch / "in", TL)
        out = self.scratch / "out"
        for code, says, arguments in (
            (65, "experts are stacked", [TINY]), (2, "leave out --dtype", [source, "--dtype", "float32"]), (2, "expected hard-link, reflink or copy", [source, "--place", "x"]),
        ):  # fmt: skip
            self.assertIn(says, tandem("convert", arguments[0], out, "--layout", "source", *arguments[1:], code=code).err)
        self.assertIn("expected tensorflow or source", tandem("convert", source, out, "--layout", "x", code=2).err)
        done = run("convert", source, out, "--layout", "source", "--place", "reflink")
        self.assertIn(done.code, (0, 74), done)
        if done.code:
            self.assertIn("--place copy", done.err)
            self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
