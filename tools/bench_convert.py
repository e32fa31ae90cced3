"""How fast `tandem convert` is beside a plain copy: same bytes in, same bytes out, same chunks, fsync. Ratios of interleaved runs.

    python3 tools/bench_convert.py --folder /dev/shm --layers 8 --rounds 5

The copier reads chunks of 4 MiB and writes each as often as the output is wider; tandem converts, and takes CRC-32C and SHA-256 of every tensor and file besides.
A ratio of 1 is the speed of the copy. The load of the machine is printed: ratios hold on a quiet one only.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from tiny import TL, header_bytes, shapes

CHUNK = 4 << 20
# name, flags, bytes out for a byte in
CASES = [("bfloat16, transposed", [], 1), ("bfloat16 to float32", ["--dtype", "float32"], 2), ("--layout source", ["--layout", "source"], 0)]


def write_model(folder, layers):
    """Random bfloat16 numbers between 1 and 2 and their negatives; its size."""
    c = TL | {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": layers, "num_attention_heads": 16, "num_key_value_heads": 4,
              "head_dim": 128, "vocab_size": 32768, "torch_dtype": "bfloat16"}  # fmt: skip
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(c))
    header, at = {}, 0
    for name, shape in shapes(c):
        size = 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    random = bytearray(os.urandom(CHUNK))
    random[1::2] = bytes(0x3F | byte & 0x80 for byte in random[1::2])
    with open(folder / "model.safetensors", "wb") as file:
        file.write(header_bytes(header))
        for start in range(0, at, CHUNK):
            file.write(random[: min(CHUNK, at - start)])
    return at


def copy(source, destination, times):
    """The limit: nothing but reading, writing and fsync. With times = 0, reading once."""
    buffer = bytearray(CHUNK)
    with open(source, "rb", buffering=0) as read, open(destination, "wb", buffering=0) as write:
        while size := read.readinto(buffer):
            for _ in range(times):
                write.write(memoryview(buffer)[:size])
        os.fsync(write.fileno())


def timed(call):
    started = time.monotonic()
    call()
    return time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where to write: a disk, or /dev/shm")
    parser.add_argument("--layers", type=int, default=8, help="of 103 MB each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tandem", type=Path, default=ROOT / "build" / "bin" / "tandem")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tandem-bench-", dir=arguments.folder) as name:
        folder = Path(name)
        size = write_model(folder / "model", arguments.layers)
        print(f"{size / 1e9:.2f} GB in {arguments.folder}, {arguments.rounds} rounds, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        for case, flags, times in CASES:
            ratios, speeds = [], []
            for _ in range(arguments.rounds):
                limit = timed(lambda: copy(folder / "model" / "model.safetensors", folder / "copy", times))
                command = [arguments.tandem, "convert", folder / "model", folder / "out", *flags]
                ours = timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
                shutil.rmtree(folder / "out")
                ratios.append(limit / ours)
                speeds.append(size / ours / 1e9)
            what = "reading it once" if times == 0 else "the copy"
            print(f"{case:24} {statistics.median(speeds):5.2f} GB/s of source, {statistics.median(ratios):.2f} of {what} ({min(ratios):.2f} to {max(ratios):.2f})")
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
