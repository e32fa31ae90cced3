"""Gradients, a training step in Python, and the way back (issue 3, done-when 5 and 6)."""

import re
import unittest

import numpy as np
import tensorflow as tf
import torch
from common import ACTIVATIONS, Case, config, fixtures, tandem
from frameworks import ABSOLUTE, load_tf, load_torch, prompts, tf_logits, torch_forward, torch_logits

import make_fixtures

GRADIENT = 1e-4  # of a variable's gradient, relative to its norm


def tf_gradients(model, ids, mask):
    """name -> gradient of the mean cross-entropy, for every trainable variable."""
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        logits = model(tf.constant(ids), tf.constant(mask))
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(ids[:, 1:], logits[:, :-1]))
    gradients = tape.gradient(loss, variables)
    return {v.name.split(":")[0]: None if g is None else tf.convert_to_tensor(g).numpy() for v, g in zip(variables, gradients)}


def torch_gradients(folder, ids, mask):
    """name of the tensor on disk -> gradient; transformers' fused experts are taken apart."""
    model = load_torch(folder)
    logits = torch_forward(model, ids, mask)
    targets = torch.tensor(ids[:, 1:]).long().reshape(-1)
    torch.nn.functional.cross_entropy(logits[:, :-1].reshape(len(targets), -1), targets).backward()
    found = {}
    for name, parameter in model.named_parameters():
        gradient = parameter.grad.numpy()
        if name.endswith(".experts.gate_up_proj"):
            for expert, both in enumerate(gradient):
                for part, half in zip(("gate_proj", "up_proj"), np.split(both, 2)):
                    found[name.replace("gate_up_proj", f"{expert}.{part}.weight")] = half
        elif name.endswith(".experts.down_proj"):
            found |= {name.replace("down_proj", f"{expert}.down_proj.weight"): one for expert, one in enumerate(gradient)}
        else:
            found[name] = gradient
    return found


def as_tensorflow(entry, by_name):
    """The Hugging Face tensors of one entry of `tandem map`, laid out as its TensorFlow tensor."""
    parts = [by_name[name].T if "transposed" in entry["steps"] else by_name[name] for name in entry["hf"]]
    return np.stack(parts) if any(step.startswith("stacked") for step in entry["steps"]) else parts[0]


class Training(Case):
    def convert(self, source):
        tandem("convert", source, self.scratch / source.name)
        return self.scratch / source.name

    def check_gradients(self, source):
        model = load_tf(self.convert(source))
        ids, mask = list(prompts(config(source)["vocab_size"]))[2]
        ids, mask = ids[:, :7], mask[:, :7]  # so few tokens leave some experts unchosen
        ours, reference = tf_gradients(model, ids, mask), torch_gradients(source, ids, mask)
        entries = [e for e in tandem("map", source, "--json").json["tensors"] if e["trainable"] and e["in_graph"]]
        self.assertEqual(sorted(ours), sorted(e["tf"] for e in entries))
        self.assertEqual([name for name, gradient in ours.items() if gradient is None], [])
        unchosen = 0
        for entry in entries:
            gradient, expected = ours[entry["tf"]], as_tensorflow(entry, reference)
            self.assertEqual(gradient.shape, expected.shape, entry["tf"])
            error = np.linalg.norm(gradient - expected) / np.linalg.norm(expected)
            self.assertLessEqual(error, GRADIENT, entry["tf"])
            if re.search(r"\bexperts\b", entry["tf"]) and "shared" not in entry["tf"]:
                idle = [e for e in range(len(expected)) if not expected[e].any()]
                self.assertEqual([e for e in idle if gradient[e].any()], [], entry["tf"])
                unchosen += len(idle)
        return unchosen

    def test_gradients_of_llama_equal_PyTorchs(self):
        for source in fixtures("llama")[:4]:
            with self.subTest(source.name):
                self.check_gradients(source)

    def test_gradients_of_deepseek_v3_equal_PyTorchs_and_unchosen_experts_get_zero(self):
        unchosen = 0
        for source in fixtures("deepseek_v3")[:4]:
            with self.subTest(source.name):
                unchosen += self.check_gradients(source)
        self.assertGreater(unchosen, 0)

    def test_gradients_of_every_activation_equal_PyTorchs(self):
        for hidden_act in ACTIVATIONS:
            with self.subTest(hidden_act):
                c = make_fixtures.make_config("deepseek_v3", 0, 1, hidden_act)
                self.check_gradients(make_fixtures.make_fixture(c, self.scratch / "sources" / hidden_act))

    def check_back(self, saved, expected, ids, mask, *flags):
        back = self.scratch / f"back-{len(list(self.scratch.iterdir()))}"
        tandem("convert", saved, back, *flags)
        logits = torch_logits(load_torch(back), ids, mask)
        self.assertLessEqual(np.abs(logits - expected)[mask.astype(bool)].max(), ABSOLUTE * max(1, np.abs(expected).max()))

    def check_trained(self, source):
        folder = self.convert(source)
        model = load_tf(folder)
        ids, mask = list(prompts(config(source)["vocab_size"]))[1]
        before = tf_logits(model, ids, mask)
        gradients = tf_gradients(model, ids, mask)
        for variable in model.trainable_variables:
            variable.assign_sub(0.1 * gradients[variable.name.split(":")[0]])
        trained = tf_logits(model, ids, mask)
        self.assertGreater(np.abs(trained - before).max(), 1e-3)

        tf.saved_model.save(model, str(self.scratch / "saved"), signatures=model.signatures)
        again = tf_logits(load_tf(self.scratch / "saved"), ids, mask)
        np.testing.assert_array_equal(again, trained)
        carried = config(source).get("num_nextn_predict_layers", 0)
        if carried:  # saving from Python drops what no variable holds: never silently
            refused = tandem("convert", self.scratch / "saved", self.scratch / "refused", code=65)
            self.assertIn("eh_proj", refused.err)
            self.check_back(self.scratch / "saved", trained, ids, mask, "--without-mtp")
        self.check_back(self.scratch / "saved", trained, ids, mask, *(("--like", source) if carried else ()))
        checkpoint = tf.train.Checkpoint(model=model, step=tf.Variable(1)).save(str(self.scratch / "named" / "ckpt"))
        self.check_back(checkpoint, trained, ids, mask, "--like", source)
        checkpoint = tf.train.Checkpoint(model).save(str(self.scratch / "root" / "ckpt"))
        self.check_back(checkpoint, trained, ids, mask, "--like", source)

    def test_trained_llama_comes_back(self):
        self.check_trained(fixtures("llama")[1])

    def test_trained_deepseek_v3_comes_back(self):
        self.check_trained(fixtures("deepseek_v3")[2])


if __name__ == "__main__":
    unittest.main()
