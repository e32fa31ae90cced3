"""Large models for benches of conversion: right headers, quick bytes. `tandem bench convert`, `tandem convert --sink null`.

    python3 tools/make_large.py dense /dev/shm/dense --gigabytes 1.3      # llama, bfloat16, random
    python3 tools/make_large.py fp8 /dev/shm/fp8 --gigabytes 1            # deepseek_v3, fp8 with scales, random
    python3 tools/make_large.py sparse ./sparse --gigabytes 20            # llama whose embedding alone is 8 GB; a hole for data
"""

import argparse
import json
import math
import os
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from scale_test import V3, stored
from tiny import TL, header_bytes, shapes

CHUNK = 4 << 20
BYTES = {"F32": 4, "BF16": 2, "F8_E4M3": 1}
DENSE = TL | {"hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128,
              "vocab_size": 32768, "torch_dtype": "bfloat16"}  # fmt: skip
SPARSE = TL | {"hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
               "vocab_size": 1_000_000, "torch_dtype": "bfloat16"}  # fmt: skip
FP8 = V3 | {"vocab_size": 32768, "hidden_size": 2048, "intermediate_size": 5632, "moe_intermediate_size": 1408, "num_attention_heads": 16,
            "num_key_value_heads": 16, "q_lora_rank": 768, "n_routed_experts": 32, "num_experts_per_tok": 6, "n_group": 8, "topk_group": 4,
            "first_k_dense_replace": 1, "num_nextn_predict_layers": 0}  # fmt: skip


def bfloat16(c):
    for name, shape in shapes(c):
        yield name, "BF16", shape, 2 * math.prod(shape)


KINDS = {"dense": (DENSE, bfloat16), "fp8": (FP8, stored), "sparse": (SPARSE, bfloat16)}


def chunk_of(dtype):
    """Random numbers of a dtype: bfloat16 between 1 and 2 and their negatives, finite fp8 codes, scales of 1/64."""
    random = bytearray(os.urandom(CHUNK))
    if dtype == "BF16":
        random[1::2] = bytes(0x3F | byte & 0x80 for byte in random[1::2])
    elif dtype == "F8_E4M3":
        random = random.translate(bytes(code & 0xF7 for code in range(256)))  # 0x7F and 0xFF are NaN
    else:
        random = bytearray(struct.pack("<f", 1 / 64) * (CHUNK // 4))
    return random


def tensors_of(c, tensors, wanted):
    """With as many layers as fill `wanted` bytes."""
    size = 0
    for layers in range(2, 1000):
        found = list(tensors(c | {"num_hidden_layers": layers}))
        size = sum(entry[3] for entry in found)
        if size >= wanted:
            return c | {"num_hidden_layers": layers}, found, size
    raise SystemExit("that is more than 1000 layers")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    arguments = parser.parse_args()
    config, tensors = KINDS[arguments.kind]
    config, found, size = tensors_of(config, tensors, arguments.gigabytes * 1e9)
    arguments.folder.mkdir()
    (arguments.folder / "config.json").write_text(json.dumps(config))
    found.sort(key=lambda entry: (-BYTES[entry[1]], entry[0]))  # as the safetensors library lays out a file, so that ways back give the same bytes
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, count in found:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + count]}
        at += count
    chunks = {} if arguments.kind == "sparse" else {dtype: chunk_of(dtype) for dtype in {entry[1] for entry in found}}
    with open(arguments.folder / "model.safetensors", "wb") as file:
        file.write(header_bytes(json.dumps(header, separators=(",", ":")).encode()))
        for _, dtype, _, count in found if chunks else ():
            for start in range(0, count, CHUNK):
                file.write(memoryview(chunks[dtype])[: min(CHUNK, count - start)])
        if not chunks:
            file.truncate(file.tell() + at)
    print(f"{config['num_hidden_layers']} layers, {size / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
