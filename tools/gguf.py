"""A small GGUF reader: metadata, and tensors dequantised to float32. Knows F32, Q4_1 and Q8_0, which is what SmolLM2 needs."""

import struct

import numpy as np

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}


class Reader:
    def __init__(self, data):
        self.data, self.at = memoryview(data), 0

    def take(self, count):
        if count > len(self.data) - self.at:
            raise ValueError(f"GGUF, byte {self.at}: {count} bytes wanted, the file has {len(self.data) - self.at} more")
        self.at += count
        return self.data[self.at - count : self.at]

    def scalar(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def string(self):
        return bytes(self.take(self.scalar("<Q"))).decode()

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            element, count = self.scalar("<I"), self.scalar("<Q")
            return [self.value(element) for _ in range(count)]
        return self.scalar(SCALARS[kind])


def nibbles(packed):
    """[..., 16] bytes to [..., 32] numbers: all low halves, then all high halves."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.float32)


def half(blocks, start):
    return blocks[:, start : start + 2].copy().view(np.float16).astype(np.float32)


# ggml type -> (name, elements a block, bytes a block, bytes [blocks, bytes] to values)
TYPES = {
    0: ("F32", 1, 4, lambda b: b.view(np.float32)),
    3: ("Q4_1", 32, 20, lambda b: half(b, 0) * nibbles(b[:, 4:]) + half(b, 2)),
    8: ("Q8_0", 32, 34, lambda b: half(b, 0) * b[:, 2:].view(np.int8)),
}


def read_gguf(data):
    """(metadata, tensors): tensors maps each name to (type name, function that makes the float32 array). Shapes are outermost axis first."""
    reader = Reader(data)
    if bytes(reader.take(4)) != b"GGUF" or reader.scalar("<I") not in (2, 3):
        raise ValueError("not a GGUF file of version 2 or 3")
    tensor_count, value_count = reader.scalar("<Q"), reader.scalar("<Q")
    metadata = {reader.string(): reader.value(reader.scalar("<I")) for _ in range(value_count)}
    infos = {}
    for _ in range(tensor_count):
        name, rank = reader.string(), reader.scalar("<I")
        shape = tuple(reader.scalar("<Q") for _ in range(rank))[::-1]
        infos[name] = (shape, reader.scalar("<I"), reader.scalar("<Q"))
    alignment = metadata.get("general.alignment", 32)
    start = -(-reader.at // alignment) * alignment

    def values(shape, kind, offset):
        _, elements, size, decode = TYPES[kind]
        blocks = int(np.prod(shape)) // elements
        raw = np.frombuffer(data, np.uint8, blocks * size, start + offset).reshape(blocks, size)
        return decode(raw).astype(np.float32).reshape(shape)

    return metadata, {name: (TYPES[info[1]][0], lambda info=info: values(*info)) for name, info in infos.items()}
