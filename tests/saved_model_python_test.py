"""Checks a natively written SavedModel in stock TensorFlow: y = input_ids * w * attention_mask + b, with two assets.

  .venv/bin/python tests/saved_model_python_test.py PATH_OF_minimal_saved_model
"""

import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

X = tf.constant([[1.0, 2.0], [3.0, 4.0]])
MASK = tf.constant([[1.0, 0.0], [1.0, 1.0]])
Y = np.array([[2.5, 0.5], [6.5, 12.5]], np.float32)
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def equal(found, expected=Y):
    np.testing.assert_array_equal(np.asarray(found), expected)


@check
def signature_and_methods(folder):
    model = tf.saved_model.load(folder)
    equal(model.signatures["serving_default"](input_ids=X, attention_mask=MASK)["y"])
    for call in (model, model.logits):
        equal(call(X, MASK))  # input_ids comes first
        equal(call(input_ids=X, attention_mask=MASK))
        equal(call(X, attention_mask=MASK))
    equal(tf.function(lambda x: model(x, MASK), jit_compile=True)(X))


@check
def wrong_arguments_are_named(folder):
    model = tf.saved_model.load(folder)
    signature = model.signatures["serving_default"]
    for wrong in (tf.constant([[1, 2]]), tf.constant([1.0, 2.0])):
        for call in (signature, model, model.logits):
            try:
                call(input_ids=wrong, attention_mask=MASK)
            except Exception as error:
                assert "input_ids" in str(error), error
            else:
                raise AssertionError(f"{wrong} was taken for float32 [batch, 2]")


@check
def variables_and_tree(folder):
    model = tf.saved_model.load(folder)
    assert [v.name for v in model.variables] == ["model/layers/0/w:0", "lm_head/b.ias:0"], model.variables
    assert [v.name for v in model.trainable_variables] == ["model/layers/0/w:0"]
    assert getattr(model.model.layers, "0").w is model.trainable_variables[0]
    assert model.variables[1].shape == [] and not model.variables[1].trainable


@check
def gradients(folder):
    model = tf.saved_model.load(folder)
    for forward in (lambda: model(X, MASK), lambda: model.signatures["serving_default"](input_ids=X, attention_mask=MASK)["y"]):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(forward())
        equal(tf.convert_to_tensor(tape.gradient(loss, model.trainable_variables)[0]), [4.0, 4.0])
    with tf.GradientTape() as tape:
        tape.watch(X)
        loss = tf.reduce_sum(model(X, MASK))
    equal(tape.gradient(loss, X), [[2.0, 0.0], [2.0, 3.0]])


@check
def assets(folder):
    model = tf.saved_model.load(folder)
    assert tf.io.read_file(model.config_json).numpy() == b'{"hidden_size": 2}\n'
    assert tf.io.read_file(model.chat_template_jinja).numpy() == b"{{ messages }}"


@check
def saved_again_after_a_step(folder):
    model = tf.saved_model.load(folder)
    model.trainable_variables[0].assign([5.0, 7.0])
    with tempfile.TemporaryDirectory() as again:
        tf.saved_model.save(model, again, signatures=dict(model.signatures))
        loaded = tf.saved_model.load(again)
        equal(loaded(X, MASK), [[5.5, 0.5], [15.5, 28.5]])
        equal(loaded.signatures["serving_default"](input_ids=X, attention_mask=MASK)["y"], [[5.5, 0.5], [15.5, 28.5]])
        assert tf.io.read_file(loaded.config_json).numpy() == b'{"hidden_size": 2}\n'
        assert sorted(os.listdir(again + "/assets")) == ["chat_template.jinja", "config.json"]


@check
def checkpoints(folder):
    prefix = folder + "/variables/variables"
    value = "/.ATTRIBUTES/VARIABLE_VALUE"
    assert tf.train.list_variables(prefix) == [
        ("_CHECKPOINTABLE_OBJECT_GRAPH", []), ("lm_head/b..ias" + value, []), ("model/layers/0/w" + value, [2])]
    equal(tf.train.load_checkpoint(prefix).get_tensor("model/layers/0/w" + value), [2.0, 3.0])
    model = tf.saved_model.load(folder)
    model.trainable_variables[0].assign([0.0, 0.0])
    tf.train.Checkpoint(model=model.model, lm_head=model.lm_head).restore(prefix).expect_partial()
    equal(model.trainable_variables[0], [2.0, 3.0])
    with tempfile.TemporaryDirectory() as again:
        written = tf.train.Checkpoint(model=model).save(again + "/ckpt")
        assert len(tf.train.list_variables(written)) == 4


@check
def version_1_loader(folder):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], folder)
        signature = graph.signature_def["serving_default"]
        feed = {signature.inputs["input_ids"].name: X_NUMPY, signature.inputs["attention_mask"].name: MASK_NUMPY}
        equal(session.run(signature.outputs["y"].name, feed))


@check
def keras_layer(folder):
    import keras
    for endpoint in ("__call__", "logits"):  # a signature with two inputs takes no positional argument, which this layer needs
        layer = keras.layers.TFSMLayer(folder, call_endpoint=endpoint)
        equal(layer(X, attention_mask=MASK))
        assert len(layer.trainable_weights) == 1


@check
def command_line(folder):
    tool = pathlib.Path(sys.executable).parent / "saved_model_cli"
    shown = subprocess.run([tool, "show", "--dir", folder, "--all"], check=True, capture_output=True, text=True).stdout
    assert "inputs['input_ids'] tensor_info" in shown and "Function Name: 'logits'" in shown, shown


X_NUMPY, MASK_NUMPY = X.numpy(), MASK.numpy()


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        failed = 0
        for function in CHECKS:
            try:
                function(folder)
                print("ok    ", function.__name__, flush=True)
            except Exception as error:
                failed += 1
                print("FAILED", function.__name__, type(error).__name__, error, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
