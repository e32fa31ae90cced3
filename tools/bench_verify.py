#!/usr/bin/env python3
"""What `tandem verify` costs, as ratios of whole commands run in turn.

    .venv/bin/python tools/bench_verify.py [--model DIR] [--rounds 3] [--json]

  weights   the weights level              over  reading all weight files of both sides (cat), both from disk
  cached    the same                       over  the same, from the page cache (no bar: cat's buffer never leaves the processor)
  model     --levels model --no-float64    over  one PyTorch load and forward of the same probes (transformers, float32)
  default   all default levels             over  the same

Without --model: SmolLM2-135M, made by tools/make_smollm2.py. "From disk" drops the files from this machine's page cache
before every command; a virtual machine's host may still hold them. Otherwise file caches are warm for every command alike.
The second compares with a fixed bar, as it has no float64: it may end 1 where PyTorch's float32 is itself above the bar.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from make_smollm2 import smollm2

ROOT = Path(__file__).resolve().parent.parent
TANDEM = Path(os.environ.get("TANDEM_BINARY_DIR", ROOT / "build")) / "bin" / "tandem"
BARS = {"weights": 1.15, "cached": None, "model": 2.5, "default": 8.0}

# One load and one forward of the default probes' sizes: a short prompt, two padded batches, 700 tokens twice, gapped positions.
FORWARD = """
import sys, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32, attn_implementation="eager").eval()
generator = torch.Generator().manual_seed(1)
with torch.no_grad():
    for batch, tokens in [(1, 7), (3, 9), (3, 9), (1, 700), (1, 11), (1, 700)]:
        ids = torch.randint(0, model.config.vocab_size, (batch, tokens), generator=generator)
        model(input_ids=ids, use_cache=False).logits.sum().item()
"""


def drop_from_cache(files):
    for path in files:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds(command, from_disk=(), may_end=(0,)):
    drop_from_cache(from_disk)
    begin = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode not in may_end:
        sys.exit(f"{' '.join(map(str, command))} ended {done.returncode}: {done.stderr[-2000:]}")
    return time.monotonic() - begin


def ratio(one, other, rounds, from_disk, may_end):
    """Medians of both commands and of their ratio, after one round that warms the caches."""
    def pair():
        return seconds(one, from_disk, may_end), seconds(other, from_disk)

    pair()
    pairs = [pair() for _ in range(rounds)]
    return [statistics.median(values) for values in ([a for a, _ in pairs], [b for _, b in pairs], [a / b for a, b in pairs])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    left = given.model or smollm2()
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as scratch:
        right = Path(scratch) / "right.tf"
        subprocess.run([TANDEM, "convert", left, right], check=True, stdout=subprocess.DEVNULL)
        files = [*sorted(left.glob("*.safetensors")), *sorted((right / "variables").glob("variables.*"))]
        verify = [TANDEM, "verify", f"hf:{left}", f"tf:{right}"]
        forward = [sys.executable, "-c", FORWARD, left]
        results = {}
        weights = [*verify, "--levels", "weights"]
        for name, one, other, rounds, from_disk, may_end in (
            ("weights", weights, ["cat", *files], 5 * given.rounds, files, (0,)),
            ("cached", weights, ["cat", *files], 5 * given.rounds, (), (0,)),
            ("model", [*verify, "--levels", "model", "--no-float64"], forward, given.rounds, (), (0, 1)),
            ("default", verify, forward, given.rounds, (), (0,)),
        ):
            tandem, base, found = ratio(one, other, rounds, from_disk, may_end)
            results[name] = {"tandem_s": tandem, "base_s": base, "ratio": found, "bar": BARS[name]}
            if not given.json:
                bar = f", at most {BARS[name]}" if BARS[name] else ""
                print(f"{name:8} {tandem:7.2f} s over {base:6.2f} s: {found:5.2f}{bar}", flush=True)
        if given.json:
            print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
