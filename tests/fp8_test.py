"""Block-scaled fp8: values equal an independent computation bit for bit (issue 3, done-when 9; report D05)."""

import json
import shutil
import struct
import unittest

import numpy as np

from common import TINY_FP8, Case, tandem

BLOCK = 128


def e4m3_values():
    """The 256 values of float8 e4m3fn, from its definition: sign, 4 bits of exponent (bias 7), 3 of mantissa, no infinity."""
    values = []
    for code in range(256):
        exponent, mantissa = code >> 3 & 15, code & 7
        size = mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
        size = float("nan") if code & 127 == 127 else size
        values.append(-size if code & 128 else size)
    return np.array(values, np.float32)


def raw_tensors(folder):
    found = {}
    for path in folder.glob("*.safetensors"):
        data = path.read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + size])
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                found[name] = (entry["dtype"], entry["shape"], data[8 + size + begin : 8 + size + end])
    return found


def dequantized(codes, shape, scales):
    values = e4m3_values()[np.frombuffer(codes, np.uint8)].reshape(shape)
    for row in range(0, shape[0], BLOCK):
        for column in range(0, shape[1], BLOCK):
            values[row : row + BLOCK, column : column + BLOCK] *= scales[row // BLOCK, column // BLOCK]
    return values


def write(path, entries):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, raw) in entries.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def one_file(folder, out, entries):
    """A copy of `folder` with the given tensors in a single file."""
    out.mkdir()
    for file in folder.iterdir():
        if ".safetensors" not in file.name:
            shutil.copy(file, out)
    write(out / "model.safetensors", entries)
    return out


class Fp8(Case):
    def test_D05_float32_values_equal_numpy_bit_for_bit(self):
        tandem("convert", TINY_FP8, self.scratch / "model", "--dtype", "float32")
        tandem("convert", self.scratch / "model", self.scratch / "float32")
        raw, converted = raw_tensors(TINY_FP8), raw_tensors(self.scratch / "float32")
        compared = 0
        for name, (dtype, shape, data) in raw.items():
            if dtype != "F8_E4M3":
                continue
            grid = [-(-side // BLOCK) for side in shape]
            scales = np.frombuffer(raw[name + "_scale_inv"][2], np.float32).reshape(grid)
            self.assertEqual(converted[name][2], dequantized(data, shape, scales).tobytes(), name)
            compared += 1
        self.assertGreater(compared, 200)
        self.assertEqual([name for name in converted if name.endswith("_scale_inv")], [])

    def test_X8_a_missing_scale_is_named(self):
        entries = raw_tensors(TINY_FP8)
        lost = "model.layers.3.mlp.experts.7.up_proj.weight_scale_inv"
        del entries[lost]
        result = tandem("convert", one_file(TINY_FP8, self.scratch / "bad", entries), self.scratch / "out", code=65)
        self.assertIn(lost.removesuffix("_scale_inv"), result.err)
        self.assertFalse((self.scratch / "out").exists())

    def test_X8_a_zero_negative_or_not_finite_scale_is_named(self):
        name = "model.layers.0.self_attn.o_proj.weight_scale_inv"
        for bad in (0.0, -1.0, float("nan"), float("inf")):
            with self.subTest(bad):
                entries = raw_tensors(TINY_FP8)
                dtype, shape, data = entries[name]
                entries[name] = (dtype, shape, struct.pack("<f", bad) + data[4:])
                source = one_file(TINY_FP8, self.scratch / f"bad{bad}", entries)
                self.assertIn("model.layers.0.self_attn.o_proj", tandem("convert", source, self.scratch / "out", code=65).err)

    def test_X8_a_scale_of_the_wrong_block_shape_is_named(self):
        name = "model.layers.0.self_attn.o_proj.weight_scale_inv"
        entries = raw_tensors(TINY_FP8)
        dtype, shape, data = entries[name]
        entries[name] = (dtype, [1, len(data) // 4], data)
        self.assertNotEqual(shape, entries[name][1])
        result = tandem("convert", one_file(TINY_FP8, self.scratch / "bad", entries), self.scratch / "out", code=65)
        self.assertIn("model.layers.0.self_attn.o_proj", result.err)


if __name__ == "__main__":
    unittest.main()
