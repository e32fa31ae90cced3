"""onnxruntime's side of `tandem bench infer`: the graph with a cache that optimum exports (python/bench_prepare.py)."""

import os

from bench_timing import serve_contender
from worker_frames import WorkerError

HINT = "`make venv-bench` installs it"
PAST, PRESENT = "past_key_values.", "present."


class OnnxModel:
    """A cache that grows: what a call gives is bound to the next, without a copy."""

    def __init__(self, session):
        self.session = session
        self.inputs = {node.name: node for node in session.get_inputs()}
        self.past = [name for name in self.inputs if name.startswith(PAST)]

    def begin(self, ids, _longest):
        import numpy
        import onnxruntime

        # [batch, heads, tokens, head_dim], with no token yet
        shapes = {name: [ids.shape[0], self.inputs[name].shape[1], 0, self.inputs[name].shape[3]] for name in self.past}
        self.cache = {name: onnxruntime.OrtValue.ortvalue_from_numpy(numpy.empty(shape, "float32")) for name, shape in shapes.items()}
        self.tokens = 0
        return self.step(ids)

    def step(self, ids):
        import numpy

        batch, tokens = ids.shape
        self.tokens += tokens
        binding = self.session.io_binding()
        given = {"input_ids": ids, "attention_mask": numpy.ones((batch, self.tokens), "int64")}
        if "position_ids" in self.inputs:
            positions = numpy.arange(self.tokens - tokens, self.tokens)
            given["position_ids"] = numpy.ascontiguousarray(numpy.broadcast_to(positions, ids.shape))
        for name, value in given.items():
            binding.bind_cpu_input(name, numpy.ascontiguousarray(value))
        for name, value in self.cache.items():
            binding.bind_ortvalue_input(name, value)
        names = ["logits", *(PRESENT + name.removeprefix(PAST) for name in self.past)]
        for name in names:
            binding.bind_output(name, "cpu")
        self.session.run_with_iobinding(binding)
        logits, *cache = binding.get_outputs()
        self.cache = dict(zip(self.past, cache))
        return logits.numpy()[:, -1]


def load(words):
    try:
        import onnxruntime
    except ImportError as error:
        raise WorkerError("unavailable", f"{error}", "engine_c1", HINT) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(words.get("threads", "0"))
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(os.path.join(words["path"], "model.onnx"), options, ["CPUExecutionProvider"])
    vocab_size = session.get_outputs()[0].shape[-1]
    info = {"engine": "onnxruntime", "version": onnxruntime.__version__, "dtype": "float32"}
    return OnnxModel(session), vocab_size, info


if __name__ == "__main__":
    serve_contender(load)
