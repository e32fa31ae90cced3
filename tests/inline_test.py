"""convert --inline: serving_default stands in the main graph, for tools that cannot see into functions."""

import unittest

import numpy as np
import tensorflow as tf
from common import Case, tandem
from frameworks import ABSOLUTE, load_tf, tf_logits
from tensorflow.core.protobuf import saved_model_pb2
from tiny import TL, TV3
from workers import Worker

import make_fixtures

IDS = np.array([[3, 1, 4, 1, 5, 9], [0, 0, 2, 6, 5, 3]], np.int32)
MASK = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]], np.int32)


def main_graph(folder):
    return saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0]


class Inline(Case):
    def converted(self, source, name, *flags):
        tandem("convert", source, self.scratch / name, *flags)
        return self.scratch / name

    def body_of(self, folder):
        """What serving_default's outputs need of the main graph."""
        graph = main_graph(folder)
        outputs = [info.name.split(":")[0] for info in graph.signature_def["serving_default"].outputs.values()]
        return tf.compat.v1.graph_util.extract_sub_graph(graph.graph_def, outputs)

    def check(self, c):
        source = make_fixtures.make_fixture(c, self.scratch / "in")
        plain, inline = self.converted(source, "plain"), self.converted(source, "inline", "--inline")
        self.assertTrue(any(node.attr["f"].HasField("func") for node in self.body_of(plain).node if "f" in node.attr))
        body = self.body_of(inline)
        self.assertGreater(len(body.node), 100)
        self.assertEqual([node.name for node in body.node if any(value.HasField("func") for value in node.attr.values())], [])

        expected = tf_logits(load_tf(plain), IDS, MASK)
        found = {"Python": tf_logits(load_tf(inline), IDS, MASK)}
        with Worker("tf", inline) as worker:
            found["C"] = worker.run("serving_default", {"input_ids": IDS, "attention_mask": MASK})["logits"]
            entry = {"input_ids": IDS, "attention_mask": MASK, "position_ids": np.maximum(MASK.cumsum(1) - 1, 0).astype(np.int32)}
            np.testing.assert_array_equal(worker.run("logits", entry)["logits"], expected)  # the other signatures stay
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            graph = tf.compat.v1.saved_model.load(session, ["serve"], str(inline))
            signature = graph.signature_def["serving_default"]
            feed = {signature.inputs["input_ids"].name: IDS, signature.inputs["attention_mask"].name: MASK}
            found["session"] = session.run(signature.outputs["logits"].name, feed)
            frozen = tf.compat.v1.graph_util.convert_variables_to_constants(session, graph.graph_def, [signature.outputs["logits"].name.split(":")[0]])
        frozen.ClearField("library")  # what a tool without functions sees
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.import_graph_def(frozen, name="")
            found["frozen"] = session.run(signature.outputs["logits"].name, feed)
        for place, logits in found.items():
            np.testing.assert_allclose(logits, expected, atol=ABSOLUTE, rtol=0, err_msg=place)

    def test_llama(self):
        self.check(TL)

    def test_deepseek_v3(self):
        self.check(TV3)

    def test_only_a_SavedModel_has_a_graph(self):
        source = make_fixtures.make_fixture(TL, self.scratch / "in")
        failed = tandem("convert", source, self.scratch / "out", "--inline", "--to", "checkpoint", code=2)
        self.assertIn("--inline is for a SavedModel: nothing else has a graph", failed.err)
        self.assertFalse((self.scratch / "out").exists())

    def test_a_plan_carries_it(self):
        source = make_fixtures.make_fixture(TL, self.scratch / "in")
        tandem("plan", source, self.scratch / "planned", "--inline", "--out", self.scratch / "plan.json")
        tandem("run-task", self.scratch / "plan.json", "--task", "0/1")
        tandem("finalize", self.scratch / "plan.json")
        whole = self.converted(source, "whole", "--inline")
        self.assertEqual((self.scratch / "planned" / "saved_model.pb").read_bytes(), (whole / "saved_model.pb").read_bytes())


if __name__ == "__main__":
    unittest.main()
