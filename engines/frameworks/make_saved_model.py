"""Makes the SavedModel that tf_test loads: make_saved_model.py FOLDER. logits = scale * (ids + 10 mask + 100 positions)."""

import sys

import tensorflow as tf


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.scale = tf.Variable(2.0, name="scale")

    @tf.function
    def with_positions(self, input_ids, attention_mask, position_ids):
        total = input_ids + 10 * attention_mask + 100 * position_ids
        return {"logits": self.scale * tf.cast(total, tf.float32), "ids": input_ids}


spec = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in ("input_ids", "attention_mask", "position_ids")}
model = Model()
tf.saved_model.save(model, sys.argv[1], signatures={"with_positions": model.with_positions.get_concrete_function(**spec)})
