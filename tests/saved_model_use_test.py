"""A SavedModel of ours in every stock consumer of the installed TensorFlow (issue 3, done-when 11; reports G01 G03 G05 G08 G11 M01)."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np
import tensorflow as tf
from common import TINY, Case, config, fixtures, tandem
from frameworks import load_tf, load_torch, prompts, tf_logits, torch_logits
from tensorflow.core.protobuf import saved_model_pb2

ROOT = Path(__file__).resolve().parent
STOCK_OPS = json.loads((ROOT / "data" / "stock_ops.json").read_text())


def graph_of(folder):
    return saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def


def all_nodes(graph):
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


class SavedModelUse(Case):
    @classmethod
    def setUpClass(cls):
        cls.sources = [fixtures("llama")[1], fixtures("deepseek_v3")[2]]

    def setUp(self):
        super().setUp()
        self.models = []
        for source in self.sources:
            self.models.append(self.scratch / source.name)
            tandem("convert", source, self.models[-1])

    def each(self):
        return zip(self.sources, self.models)

    def prompt(self, source):
        ids, mask = list(prompts(config(source)["vocab_size"]))[1]
        return ids, mask, torch_logits(load_torch(source), ids, mask)

    def assert_close(self, logits, expected, mask):
        self.assertLessEqual(np.abs(np.asarray(logits) - expected)[mask.astype(bool)].max(), 1e-5)

    def test_checkpoint_is_read_by_load_checkpoint_and_list_variables(self):
        for source, _ in self.each():
            out = self.scratch / "checkpoint"
            tandem("convert", source, out, "--to", "checkpoint", "--force")
            prefix = tf.train.latest_checkpoint(str(out)) or str(next(out.glob("*.index")).with_suffix(""))
            listed = dict(tf.train.list_variables(prefix))
            reader = tf.train.load_checkpoint(prefix)
            entries = tandem("map", source, "--json").json["tensors"]
            for entry in entries:
                key = entry["tf"] + "/.ATTRIBUTES/VARIABLE_VALUE"
                self.assertEqual(listed[key], entry["tf_shape"], key)
                self.assertEqual(list(reader.get_tensor(key).shape), entry["tf_shape"])
            self.assertGreater(len(entries), 20)

    def test_saved_model_cli_shows_all(self):
        command = [str(Path(sys.executable).with_name("saved_model_cli")), "show", "--all", "--dir"]
        for _, folder in self.each():
            done = subprocess.run([*command, str(folder)], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            for word in ("serving_default", "input_ids", "attention_mask", "logits", "layer_0"):
                self.assertIn(word, done.stdout)

    def test_TFSMLayer(self):
        import keras

        for source, folder in self.each():
            ids, mask, expected = self.prompt(source)
            layer = keras.layers.TFSMLayer(str(folder), call_endpoint="__call__")
            self.assert_close(layer(tf.constant(ids), attention_mask=tf.constant(mask)), expected, mask)
            ids_only = keras.layers.TFSMLayer(str(folder), call_endpoint="input_ids_only")
            whole = np.ones_like(ids)
            self.assert_close(ids_only(tf.constant(ids))["logits"], torch_logits(load_torch(source), ids, whole), whole)
            self.assertGreater(len(layer.trainable_weights), 10)

    def test_compat_v1_load(self):
        for source, folder in self.each():
            ids, mask, expected = self.prompt(source)
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                meta = tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
                signature = meta.signature_def["serving_default"]
                feed = {signature.inputs["input_ids"].name: ids, signature.inputs["attention_mask"].name: mask}
                self.assert_close(session.run(signature.outputs["logits"].name, feed), expected, mask)

    def test_jit_compile(self):
        for source, folder in self.each():
            ids, mask, expected = self.prompt(source)
            model = load_tf(folder)
            whole = tf.function(model, jit_compile=True)
            self.assert_close(whole(tf.constant(ids), tf.constant(mask)), expected, mask)
            signature = tf.function(lambda i, m: model.signatures["serving_default"](input_ids=i, attention_mask=m), jit_compile=True)
            self.assert_close(signature(tf.constant(ids), tf.constant(mask))["logits"], expected, mask)

    def test_G01_any_length_and_a_prefix_computes_the_same(self):
        for source, folder in self.each():
            model = load_tf(folder)
            inputs = model.signatures["serving_default"].structured_input_signature[1]
            self.assertEqual(inputs["input_ids"].shape.as_list(), [None, None])
            self.assertEqual(inputs["attention_mask"].shape.as_list(), [None, None])
            ids = np.arange(17, dtype=np.int32)[None] % 7
            logits = {n: tf_logits(model, ids[:, :n], np.ones((1, n), np.int32)) for n in (1, 5, 17)}
            np.testing.assert_allclose(logits[17][:, :5], logits[5], atol=1e-5, rtol=0)
            np.testing.assert_allclose(logits[17][:, :1], logits[1], atol=1e-5, rtol=0)

    def test_G03_signatures_and_bytes_do_not_change_between_exports(self):
        for source, folder in self.each():
            again = self.scratch / "again"
            tandem("convert", source, again, "--force")
            files = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
            self.assertEqual(files, sorted(p.relative_to(again) for p in again.rglob("*") if p.is_file()))
            for file in files:
                self.assertEqual((folder / file).read_bytes(), (again / file).read_bytes(), file)
            signature = load_tf(folder).signatures["serving_default"]
            inputs = {n: (s.dtype.name, s.shape.rank) for n, s in signature.structured_input_signature[1].items()}
            self.assertEqual(inputs, {"attention_mask": ("int32", 2), "input_ids": ("int32", 2)})
            outputs = {n: (s.dtype.name, s.shape.as_list()) for n, s in signature.structured_outputs.items()}
            self.assertEqual(outputs, {"logits": ("float32", [None, None, config(source)["vocab_size"]])})

    def test_G05_a_wrong_dtype_or_rank_is_refused_by_name(self):
        good = {"input_ids": np.ones((1, 3), np.int32), "attention_mask": np.ones((1, 3), np.int32)}
        for _, folder in self.each():
            call = load_tf(folder).signatures["serving_default"]
            for name in good:
                for wrong in (np.ones((1, 3), np.int64), np.ones((1, 3), np.float32), np.ones(3, np.int32), np.ones((1, 3, 1), np.int32)):
                    with self.assertRaisesRegex((TypeError, ValueError, tf.errors.InvalidArgumentError), name):
                        call(**{key: tf.constant(wrong if key == name else value) for key, value in good.items()})

    def test_G05_a_session_refuses_a_wrong_rank_by_name(self):
        for _, folder in self.each():
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                signature = tf.compat.v1.saved_model.load(session, ["serve"], str(folder)).signature_def["serving_default"]
                for name in signature.inputs:
                    feed = {info.name: np.ones((3,) if key == name else (1, 3), np.int32) for key, info in signature.inputs.items()}
                    with self.assertRaisesRegex(ValueError, name):
                        session.run(signature.outputs["logits"].name, feed)

    def test_G08_only_stock_ops(self):
        for _, folder in self.each():
            self.assertEqual(sorted({node.op for node in all_nodes(graph_of(folder))} - set(STOCK_OPS)), [])

    def test_G11_only_the_declared_inputs_and_every_variable_bound(self):
        for source, folder in self.each():
            model = load_tf(folder)
            signature = model.signatures["serving_default"]
            explicit = [t.name for t in signature.inputs if t.dtype != tf.resource]
            self.assertEqual(len(explicit), 2)
            entries = [e["tf"] for e in tandem("map", source, "--json").json["tensors"] if e["in_graph"]]
            self.assertEqual(sorted(v.name.split(":")[0] for v in signature.variables), sorted(entries))

    def test_M01_no_weight_in_the_graph_file(self):
        tandem("convert", TINY, self.scratch / "tiny")
        for folder in [*self.models, self.scratch / "tiny"]:
            self.assertLess((folder / "saved_model.pb").stat().st_size, 2_000_000)
            big = [n.name for n in all_nodes(graph_of(folder)) if n.op == "Const" and n.attr["value"].tensor.ByteSize() > 20_000]
            self.assertEqual(big, [])


if __name__ == "__main__":
    unittest.main()
