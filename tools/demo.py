#!/usr/bin/env python3
"""The embedded model there, proven, and back. `make demo` runs this; it ends 0 only if every line of the table holds."""

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TANDEM = ROOT / "build" / "bin" / "tandem"
SOURCE = Path("examples") / "tiny-deepseek-v3"
OUT = Path("build") / "demo"
MODEL, RETURNED = OUT / "saved_model", OUT / "returned"


def tandem(*arguments):
    """Shows a command, runs it, and returns its exit code and JSON."""
    words = [str(argument) for argument in arguments]
    print("$ tandem " + " ".join(words), flush=True)
    done = subprocess.run([TANDEM, *words, "--json"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.returncode)
    return done.returncode, json.loads(done.stdout)


def tensor_hashes(folder):
    """name -> SHA-256 of dtype, shape and bytes, read without the program's help."""
    found = {}
    for path in (ROOT / folder).glob("*.safetensors"):
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8 : 8 + size]).items():
            if name != "__metadata__":
                begin, end = (8 + size + offset for offset in entry["data_offsets"])
                found[name] = hashlib.sha256(json.dumps([entry["dtype"], entry["shape"]]).encode() + data[begin:end]).hexdigest()
    return found


def config(folder):
    return json.loads((ROOT / folder / "config.json").read_text())


def proof(golden, label):
    """The rows of one verification: weights, then logits."""
    code, report = tandem("verify", f"{golden}:{SOURCE}", f"tf:{MODEL}")
    weights, model = report["levels"]["weights"], report["levels"]["model"]
    yield f"weights against {label}", f"{weights['compared']:,} tensors", f"{weights['different']} differ", weights["equal"]
    numbers = f"max error {model['max_abs_error']:.1e}, KL {model['kl']:.1e}, top-1 {model['top1_agreement']:.2%}"
    yield f"logits against {label}", f"{model['compared']:,} logits, {model['prompts']} prompts", numbers, model["equal"] and code == 0


def main():
    start = time.monotonic()
    (ROOT / OUT).mkdir(parents=True, exist_ok=True)
    rows = []
    _, report = tandem("inspect", SOURCE)
    rows.append(("inspect", f"{report['parameters']:,} parameters", f"{report['active_parameters']:,} used for one token", not report["blocks"]))
    _, converted = tandem("convert", SOURCE, MODEL, "--force")
    used = {name for tensor in converted["tensors"] for name in tensor["from"]}
    original = tensor_hashes(SOURCE)
    accounted = f"{len(used & set(original))} of {len(original)} weights accounted for"
    rows.append(("convert to TensorFlow", f"{len(converted['tensors'])} variables", accounted, used == set(original)))
    rows += [*proof("hf", "transformers"), *proof("torch", "PyTorch")]
    tandem("convert", MODEL, RETURNED, "--force")
    returned = tensor_hashes(RETURNED)
    same = sum(original[name] == returned.get(name) for name in original)
    rows.append(("convert back", f"{same} of {len(original)} tensors equal by hash", "config equal key by key",
                 returned == original and config(RETURNED) == config(SOURCE)))  # fmt: skip

    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    print()
    for step, what, numbers, good in rows:
        print(f"{step:<{widths[0]}}  {what:<{widths[1]}}  {numbers:<{widths[2]}}  {'yes' if good else 'NO'}")
    print(f"\n{time.monotonic() - start:.0f} s. The SavedModel is {MODEL}; TensorFlow, PyTorch and transformers compute in float32.")
    return 0 if all(row[3] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
