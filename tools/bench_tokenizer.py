#!/usr/bin/env python3
"""Throughput of `tandem tokenize` beside the `tokenizers` wheel: one thread each, the same lines, ids alone and with offsets.

    .venv/bin/python tools/bench_tokenizer.py [--megabytes 16] [--rounds 3]

Lines are this repository's files, a paragraph each, and tests/tokenizer_corpus.py. Reading the tokenizer is not counted: for tandem the time of
a run without lines is taken off, which leaves it the reading and writing of JSON. The best of the rounds counts; ratio = wheel's time / tandem's.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from make_smollm2 import smollm2  # noqa: E402
from make_tokenizers import tokenizer as published  # noqa: E402
from tokenizer_corpus import corpus  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

TANDEM = Path(os.environ.get("TANDEM_BINARY_DIR", ROOT / "build")) / "bin" / "tandem"


def lines(megabytes):
    tracked = subprocess.run(["git", "ls-files", "-z", "*.md", "*.py", "*.cpp", "*.h", "*.txt"], cwd=ROOT, capture_output=True, check=True)
    texts = [(ROOT / name).read_text() for name in tracked.stdout.decode().split("\0")[:-1]]
    own = [part for text in texts for part in text.split("\n\n") if part] + list(corpus(1, 4000, []))
    found, size = [], 0
    while size < megabytes * 1_000_000:
        for line in own:
            found.append(line)
            size += len(line.encode())
    return found, size


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def tandem(path, file, *flags):
    subprocess.run([TANDEM, "tokenize", "--json", "--tokenizer", path, "--jsonl", file, *flags], stdout=subprocess.DEVNULL, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=float, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    texts, size = lines(options.megabytes)
    files = {"smollm2": smollm2() / "tokenizer.json", "deepseek-v3": published("deepseek-v3"), "minilm": published("minilm")}
    print(f"{len(texts)} lines, {size / 1e6:.1f} MB; MB/s, the best of {options.rounds}")
    print(f"{'TOKENIZER':12} {'':8} {'WHEEL':>7} {'TANDEM':>7} {'RATIO':>6}")
    with tempfile.TemporaryDirectory() as scratch:
        full, none = Path(scratch) / "full.jsonl", Path(scratch) / "none.jsonl"
        full.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in texts))
        none.write_text("")
        for name, path in files.items():
            wheel = Tokenizer.from_file(str(path))
            wheel.no_truncation()
            wheel.no_padding()
            for what, encode, flags in (("ids", wheel.encode_batch_fast, ()), ("offsets", wheel.encode_batch, ("--explain",))):
                rounds = [
                    (seconds(lambda: encode(texts)), seconds(lambda: tandem(path, full, *flags)), seconds(lambda: tandem(path, none, *flags)))
                    for _ in range(options.rounds)
                ]
                theirs = min(round[0] for round in rounds)
                ours = min(round[1] for round in rounds) - min(round[2] for round in rounds)
                print(f"{name:12} {what:8} {size / theirs / 1e6:7.2f} {size / ours / 1e6:7.2f} {theirs / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()
