"""Engines without the program: a worker as a child process, spoken to by the protocol of engines/engine.h."""

import importlib.util
import json
import socket
import subprocess
import sys

import numpy as np
from common import BINARY_DIR, ROOT
from safetensors.numpy import load, save


def command(engine):
    if engine == "tf":
        return [BINARY_DIR / "bin" / "tandem-worker-tf", importlib.util.find_spec("tensorflow").submodule_search_locations[0]]
    return [BINARY_DIR / "bin" / "tandem-worker-torch"] if engine == "torch" else [sys.executable, ROOT / "python" / "hf_worker.py"]


class WorkerError(Exception):
    pass


class Worker:
    """A loaded model: Worker("tf", folder, stream="1").run("logits", inputs)."""

    def __init__(self, engine, folder, **words):
        ours, theirs = socket.socketpair()
        # The protocol's descriptor is 3, which may be anything in this process.
        place = f"exec 3<&{theirs.fileno()}; exec \"$@\""
        self.process = subprocess.Popen(
            ["bash", "-c", place, "worker", *map(str, command(engine))], pass_fds=[theirs.fileno()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        theirs.close()
        self.channel = ours.makefile("rwb")
        ours.close()
        try:
            self.info, _ = self.call({"op": "load", "path": str(folder), "threads": "1", "dtype": "float32", **words})
        except Exception:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()
        self.process.wait(timeout=60)

    def call(self, words, tensors=None):
        frame = save(tensors or {}, metadata=words)
        self.channel.write(len(frame).to_bytes(8, "little") + frame)
        self.channel.flush()
        size = int.from_bytes(self.channel.read(8), "little")
        reply = self.channel.read(size)
        header = json.loads(reply[8 : 8 + int.from_bytes(reply[:8], "little")])
        words = header.get("__metadata__", {})
        if words.get("ok") != "1":
            raise WorkerError(f"{words.get('rule')}: {words.get('text')}")
        return words, load(reply) if len(header) > 1 else {}

    def run(self, entry, inputs, outputs=()):
        return self.call({"op": "run", "entry": entry, "outputs": ",".join(outputs)}, inputs)[1]

    def values(self, entry, scope, given, outputs):
        return self.call({"op": "values", "entry": entry, "scope": scope, "outputs": ",".join(outputs)}, given)[1]

    def memory(self, row):
        """Bytes of a row of /proc/PID/status: VmHWM is the most that was resident."""
        return resident(self.process.pid, row)


def resident(pid, row):
    """None of a process that has ended."""
    with open(f"/proc/{pid}/status") as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith(row + ":")), None)


def inputs_of(ids):
    """Rows without padding."""
    ids = np.asarray(ids, np.int32)
    positions = np.broadcast_to(np.arange(ids.shape[1], dtype=np.int32), ids.shape).copy()
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": positions}
