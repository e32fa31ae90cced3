"""A side that we did not make: a Hugging Face folder as KerasHub's own importer reads it, run by Keras on TensorFlow.

The protocol is in engines/engine.h. Nothing is downloaded, no tokenizer is read, and nothing of KerasHub is mended: what
its importer makes of the folder is what is measured. It computes positions itself, so that only rows without padding, or
padded on the right, can be asked of it.
"""

import contextlib
import os

from worker_frames import WorkerError, check_ids, check_inputs, serve, wanted_names

HINT = "`make venv-keras-hub` installs it"
LEVELS = "layer,module,model"

# Taps by Hugging Face module path, of a layer and of the whole: the Keras layer that gives each, by attributes.
# Keras has no module for the MLP: its result is that of the last product.
LAYER_TAPS = {
    "input_layernorm": "_self_attention_layernorm",
    "self_attn.q_proj": "_self_attention_layer._query_dense",
    "self_attn.k_proj": "_self_attention_layer._key_dense",
    "self_attn.v_proj": "_self_attention_layer._value_dense",
    "self_attn.o_proj": "_self_attention_layer._output_dense",
    "self_attn": "_self_attention_layer",
    "post_attention_layernorm": "_feedforward_layernorm",
    "mlp.gate_proj": "_feedforward_gate_dense",
    "mlp.up_proj": "_feedforward_intermediate_dense",
    "mlp.down_proj": "_feedforward_output_dense",
    "mlp": "_feedforward_output_dense",
    "": "",
}
EMBEDDING, NORM, HEAD = "model.embed_tokens", "model.norm", "lm_head"


def layer_tap(layer, tap):
    return f"model.layers.{layer}.{tap}".rstrip(".")


def visible_taps():
    """The names as the reply to load has them: * stands for the number of a layer."""
    return ",".join([EMBEDDING, *(layer_tap("*", tap) for tap in LAYER_TAPS), NORM, HEAD])


def sub_layer(layer, attributes):
    for name in attributes.split(".") if attributes else ():
        if not hasattr(layer, name):
            raise WorkerError("unsupported", f"{type(layer).__name__} has no {name}: not a decoder of KerasHub's Llama", "keras_hub_c2")
        layer = getattr(layer, name)
    return layer


def tapped_layers(model):
    """[(tap names, Keras layer)]: a layer that gives several taps comes once."""
    backbone = model.backbone
    layers = {}
    for i, decoder in enumerate(backbone.transformer_layers):
        for tap, attributes in LAYER_TAPS.items():
            layer = sub_layer(decoder, attributes)
            layers.setdefault(id(layer), ([], layer))[0].append(layer_tap(i, tap))
    layers[id(backbone.layer_norm)] = ([NORM], backbone.layer_norm)
    return list(layers.values())


@contextlib.contextmanager
def recorded(tapped, embedding, keep):
    """keep(names, output) after each call of a layer, within the block."""
    originals = []

    def wrap(layer, names_of):
        original = layer.call

        def call(*arguments, **options):
            output = original(*arguments, **options)
            keep(names_of(options), output)
            return output

        originals.append((layer, original))
        layer.call = call

    for names, layer in tapped:
        wrap(layer, lambda _, names=names: names)
    wrap(embedding, lambda options: [HEAD if options.get("reverse") else EMBEDDING])  # one layer, called twice
    try:
        yield
    finally:
        for layer, original in originals:
            layer.call = original


def check_positions(mask, positions):
    """Real tokens come first in each row, and count from 0."""
    import numpy

    counted = numpy.broadcast_to(numpy.arange(mask.shape[1]), mask.shape)
    real = mask.astype(bool)
    if (mask[:, 1:] > mask[:, :-1]).any() or (positions[real] != counted[real]).any():
        raise WorkerError(
            "unsupported", "KerasHub counts positions itself: rows must be unpadded or padded on the right, and count from 0", "keras_hub_c3"
        )


def load_model(path):
    import keras_hub

    if not os.path.isfile(os.path.join(path, "config.json")):
        raise WorkerError("missing", f"{path} has no config.json", "keras_hub_c1")
    # An absolute path: a name without a scheme would be looked for on Kaggle where no such folder is.
    path = os.path.abspath(path)
    try:
        model = keras_hub.models.CausalLM.from_preset(path, dtype="float32", preprocessor=None)
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())[:1000]
        raise WorkerError("unsupported", f"KerasHub does not import the folder: {text}", "keras_hub_c1") from error
    backbone = model.backbone
    if not hasattr(backbone, "transformer_layers") or not hasattr(backbone, "layer_norm"):
        raise WorkerError("unsupported", f"{type(backbone).__name__} is no Llama of KerasHub's: its layers have other names", "keras_hub_c2")
    tapped_layers(model)  # all there?
    return model


def run(model, entry, wanted, inputs):
    import numpy

    if entry not in ("logits", "taps"):
        raise WorkerError("invalid", f"no entry '{entry}'; there are logits and taps", "run_c3")
    check_inputs(inputs)
    ids = inputs["input_ids"]
    check_ids(ids, model.backbone.vocabulary_size)
    mask = inputs.get("attention_mask", numpy.ones_like(ids))
    check_positions(mask, inputs.get("position_ids", numpy.maximum(mask.cumsum(-1) - 1, 0)))

    tapped = tapped_layers(model)
    known = {EMBEDDING, HEAD, *(name for names, _ in tapped for name in names)}
    if unknown := sorted(set(wanted) - known - {"logits"}):
        raise WorkerError("invalid", f"no output '{unknown[0]}'", "run_c5")
    names = set(wanted or known) if entry == "taps" else set(wanted) & known
    results = {}

    def keep(taps, output):
        for name in taps:
            if name in names:
                value = numpy.asarray(output)
                results[name] = numpy.ascontiguousarray(value.reshape(*ids.shape, -1) if value.ndim == 4 else value)

    # Only the layers that are asked for: a wrapped call costs a copy of its result.
    tapped = [(taps, layer) for taps, layer in tapped if names.intersection(taps)]
    with recorded(tapped, model.backbone.token_embedding, keep):
        logits = model({"token_ids": ids, "padding_mask": mask}, training=False)
    if not wanted or "logits" in wanted:
        results["logits"] = numpy.ascontiguousarray(logits)
    return results


class Worker:
    def __init__(self):
        self.model = None

    def answer(self, words, tensors):
        op = words.get("op")
        if op == "load":
            return self.load(words), None
        if op == "run":
            if self.model is None:
                raise WorkerError("usage", "op=run before op=load", "protocol_c6")
            results = run(self.model, words.get("entry", ""), wanted_names(words), tensors)
            if words.get("tokens") == "last" and "logits" in results:
                results["logits"] = results["logits"][:, -1:].copy()
            return {"ok": "1"}, results
        if op in ("values", "edit", "encode"):
            raise WorkerError("unsupported", f"KerasHub's layers cannot be asked for op={op}", "engine_c9")
        raise WorkerError("usage", f"unknown op {op!r}", "protocol_c6")

    def load(self, words):
        if words.get("dtype", "float32") != "float32":
            raise WorkerError("usage", "the engine keras_hub computes in float32 alone", "keras_hub_c4")
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
        self.model = load_model(words["path"])
        return {
            "ok": "1",
            "engine": "keras_hub",
            "version": keras_hub.__version__,
            "keras": keras.__version__,
            "tensorflow": tensorflow.__version__,
            "dtype": "float32",
            "architecture": type(self.model).__name__,
            "levels": LEVELS,
            "positions": "counted",
            "taps": visible_taps(),
        }


if __name__ == "__main__":
    serve(Worker().answer, "keras_hub_c5")
