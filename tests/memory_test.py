"""A 1.5 GB Llama converts in little memory, with neither PATH nor venv (issue 3, done-when 10)."""

import json
import os
import subprocess
import unittest

from common import TANDEM, TINY, Case

MIB = 1 << 20
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 5632,
    "num_hidden_layers": 14, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32768, "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": None, "tie_word_embeddings": False, "attention_bias": False,
    "mlp_bias": False, "torch_dtype": "bfloat16",
}  # fmt: skip


def shapes():
    hidden, wide, vocab = CONFIG["hidden_size"], CONFIG["intermediate_size"], CONFIG["vocab_size"]
    kv = hidden // CONFIG["num_attention_heads"] * CONFIG["num_key_value_heads"]
    yield "model.embed_tokens.weight", [vocab, hidden]
    for layer in range(CONFIG["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", [hidden]
        yield at + "post_attention_layernorm.weight", [hidden]
        for name, out in (("q", hidden), ("k", kv), ("v", kv), ("o", hidden)):
            yield f"{at}self_attn.{name}_proj.weight", [out, hidden]
        for name in ("gate", "up"):
            yield f"{at}mlp.{name}_proj.weight", [wide, hidden]
        yield at + "mlp.down_proj.weight", [hidden, wide]
    yield "model.norm.weight", [hidden]
    yield "lm_head.weight", [vocab, hidden]


def write_random_llama(folder):
    """bfloat16 numbers between 1 and 2 and their negatives, written as they are drawn; returns the file's size."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    header, at = {}, 0
    for name, shape in shapes():
        size = 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = bytearray(os.urandom(MIB))
    random[1::2] = bytes(0x3F | byte & 0x80 for byte in random[1::2])  # sign and exponent; the low byte stays random
    random[0::2] = bytes(byte | 0x80 for byte in random[0::2])
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for start in range(0, at, MIB):
            file.write(random[: min(MIB, at - start)])
    return at


def convert(source, destination, *arguments):
    """`convert` with an empty environment; its exit code, errors and peak resident bytes."""
    command = ["/usr/bin/time", "-f", "%M", TANDEM, "convert", source, destination, *arguments]
    done = subprocess.run([str(part) for part in command], env={"PATH": ""}, cwd="/", capture_output=True, text=True)
    *words, peak = done.stderr.strip().splitlines()
    return done.returncode, words, int(peak) * 1024


class Memory(Case):
    def test_a_1_5_GB_llama_converts_under_256_MiB(self):
        source = self.scratch / "llama"
        self.assertGreater(write_random_llama(source), 1.5e9)
        code, words, peak = convert(source, self.scratch / "model", "--dtype", "float32")
        self.assertEqual(code, 0, words)
        self.assertLess(peak, 256 * MIB)
        data = self.scratch / "model" / "variables" / "variables.data-00000-of-00001"
        self.assertGreater(data.stat().st_size, 3.0e9)

    def test_convert_needs_no_PATH_and_no_venv(self):
        code, words, _ = convert(TINY, self.scratch / "model")
        self.assertEqual((code, words), (0, []))


if __name__ == "__main__":
    unittest.main()
