"""The way that people go by hand from a checkpoint to a SavedModel: everything in memory, then saved. For `tandem bench convert`.

    bench_convert_route.py SRC DST DTYPE SECONDS    # DTYPE: keep, float32 or bfloat16; writes the seconds without imports

Kernels are transposed, as TensorFlow wants them; experts stay apart. What is saved has the variables and no graph, so this does less than a conversion.
"""

import os
import sys
import time
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import ml_dtypes  # noqa: E402
import numpy  # noqa: E402
import tensorflow as tf  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402


def as_numpy(tensor):
    """NumPy has no bfloat16 of its own."""
    return tensor.view(torch.uint16).numpy().view(ml_dtypes.bfloat16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def main():
    source, destination, dtype, said = sys.argv[1:]
    started = time.monotonic()
    state = {}
    for path in sorted(Path(source).glob("*.safetensors")):
        state |= load_file(path)
    model = tf.Module()
    model.weights = {}
    for name, tensor in state.items():
        if dtype != "keep":
            tensor = tensor.to(getattr(torch, dtype))
        value = as_numpy(tensor)
        if value.ndim == 2 and "embed" not in name:
            value = numpy.ascontiguousarray(value.T)
        model.weights[name.replace(".", "_")] = tf.Variable(value)
    tf.saved_model.save(model, destination)
    for path in Path(destination).rglob("*"):  # what a conversion does too: on the disk before it says done
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
    Path(said).write_text(str(time.monotonic() - started))


main()
