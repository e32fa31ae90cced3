"""KerasHub's side of `tandem bench infer`: its importer's model on TensorFlow, compiled as its own generate() is."""

import json
import os

from bench_timing import serve_contender
from keras_hub_worker import HINT, load_model
from worker_frames import WorkerError


class KerasHub:
    """A cache of one size for each pair of batch and length, as generate() has it."""

    def __init__(self, model):
        import tensorflow

        self.model = model
        backbone = model.backbone
        self.cache_shape = (
            backbone.num_layers,
            2,
            backbone.num_key_value_heads,
            backbone.hidden_dim // backbone.num_query_heads,
        )

        @tensorflow.function(jit_compile=True)
        def call(ids, cache, index):
            logits, _, cache = self.model.call_with_cache(ids, cache, index)
            return logits[:, -1], cache

        self.call = call

    def begin(self, ids, longest):
        import tensorflow

        layers, two, heads, width = self.cache_shape
        self.cache = tensorflow.zeros([ids.shape[0], layers, two, longest, heads, width], "float32")
        self.tokens = 0
        return self.step(ids)

    def step(self, ids):
        import tensorflow

        logits, self.cache = self.call(tensorflow.constant(ids, "int32"), self.cache, tensorflow.constant(self.tokens))
        self.tokens += ids.shape[1]
        return logits.numpy()


def right_epsilon(model, path):
    """Its importer takes 1e-6 whatever the config says (docs/keras_hub.md); speed is of the right model."""
    with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
        epsilon = json.load(file).get("rms_norm_eps", 1e-6)
    for layer in model.backbone._flatten_layers():
        if hasattr(layer, "epsilon"):
            layer.epsilon = epsilon
    return f"{epsilon:g}, set by us"


def load(words):
    os.environ.update(KERAS_BACKEND="tensorflow", CUDA_VISIBLE_DEVICES="-1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import keras
        import keras_hub
        import tensorflow
    except ImportError as error:
        raise WorkerError("unavailable", f"{error}", "engine_c1", HINT) from error
    if threads := int(words.get("threads", "0")):
        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(1)
    model = load_model(words["path"])
    info = {
        "engine": "keras_hub",
        "version": keras_hub.__version__,
        "keras": keras.__version__,
        "tensorflow": tensorflow.__version__,
        "epsilon": right_epsilon(model, words["path"]),
        "dtype": "float32",
    }
    return KerasHub(model), model.backbone.vocabulary_size, info


if __name__ == "__main__":
    serve_contender(load)
