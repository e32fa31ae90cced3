"""`tandem bench prepare`: a Hugging Face folder in the files that the contenders read, each made by its own tool.

  op=prepare what=onnx path=FOLDER out=FOLDER             optimum-onnx: float32, with a cache
  op=prepare what=gguf dtype=f32 path=FOLDER out=FILE     llama.cpp's convert_hf_to_gguf.py; or bf16, q8_0
"""

import os
import subprocess
import sys

from worker_frames import WorkerError, serve

HINT = "`make venv-bench` installs it"
# Where `make venv-bench` puts the converter of the llama.cpp that llama-cpp-python is built from.
CONVERTER = os.path.join(sys.prefix, "llama.cpp", "convert_hf_to_gguf.py")


def onnx(words):
    try:
        from optimum.exporters.onnx import main_export
    except ImportError as error:
        raise WorkerError("unavailable", f"{error}", "engine_c1", HINT) from error
    main_export(words["path"], output=words["out"], task="text-generation-with-past", dtype="fp32", device="cpu", do_validation=False)


def gguf(words):
    if not os.path.isfile(CONVERTER):
        raise WorkerError("unavailable", f"{CONVERTER} is not there", "engine_c1", HINT)
    command = [sys.executable, CONVERTER, words["path"], "--outtype", words["dtype"], "--outfile", words["out"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not os.path.isfile(words["out"]):
        last = " ".join(done.stderr.strip().splitlines()[-3:])
        raise WorkerError("unsupported", f"convert_hf_to_gguf.py ended with exit code {done.returncode}: {last[:1000]}", "prepare_c1")


WHAT = {"onnx": onnx, "gguf": gguf}


def answer(words, _tensors):
    if words.get("op") != "prepare" or words.get("what") not in WHAT:
        raise WorkerError("usage", f"op={words.get('op')} what={words.get('what')}: expected prepare, {' or '.join(WHAT)}", "protocol_c6")
    os.environ["HF_HUB_OFFLINE"] = "1"
    WHAT[words["what"]](words)
    return {"ok": "1"}, None


if __name__ == "__main__":
    serve(answer, "prepare_c2")
