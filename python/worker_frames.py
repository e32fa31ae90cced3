"""What the workers in Python share: the frames of the protocol in engines/engine.h, checks of inputs, the loop.

The protocol runs on file descriptor 3: messages of a u64 LE length and a safetensors file whose __metadata__ holds the
words.
"""

import json
import os
import struct
import sys

MAX_FRAME_BYTES = 8 << 30  # as kMaxFrameBytes in engines/protocol.h


class WorkerError(Exception):
    """An error for the client: kind is one of base/result.h."""

    def __init__(self, kind, text, rule="", hint=""):
        super().__init__(text)
        self.words = {"ok": "0", "kind": kind, "text": text, "rule": rule, "hint": hint}


def read_exactly(channel, size):
    data = bytearray()
    while len(data) < size:
        piece = channel.read(min(size - len(data), 64 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)


def receive(channel):
    """The next message as (words, tensors), or None at the end."""
    prefix = read_exactly(channel, 8)
    if prefix is None:
        return None
    (size,) = struct.unpack("<Q", prefix)
    if size > MAX_FRAME_BYTES:
        raise WorkerError("corrupt", f"a frame of {size} bytes, at most {MAX_FRAME_BYTES} are allowed", "protocol_c1")
    frame = read_exactly(channel, size)
    if frame is None:
        return None
    (header_size,) = struct.unpack_from("<Q", frame)
    header = json.loads(frame[8 : 8 + header_size])
    words = header.pop("__metadata__", {})
    if not header:
        return words, {}
    from safetensors.numpy import load

    return words, load(frame)


def send(channel, words, tensors=None):
    if tensors:
        from safetensors.numpy import save

        frame = save(tensors, metadata=words)
    else:  # must work where safetensors is not installed: that is one of the things to say
        header = json.dumps({"__metadata__": words}).encode()
        frame = struct.pack("<Q", len(header)) + header
    channel.write(struct.pack("<Q", len(frame)))
    channel.write(frame)
    channel.flush()


def wanted_names(words):
    """The outputs that op=run asks for; none means all."""
    return [name for name in words.get("outputs", "").split(",") if name]


def check_inputs(inputs):
    """int32 [batch, tokens] each, input_ids among them."""
    if unknown := sorted(set(inputs) - {"input_ids", "attention_mask", "position_ids"}):
        raise WorkerError("invalid", f"unknown input {unknown[0]!r}", "run_c1")
    if "input_ids" not in inputs:
        raise WorkerError("invalid", "input 'input_ids' is missing", "run_c1")
    shape = inputs["input_ids"].shape
    for name, value in inputs.items():
        if value.dtype != "int32" or value.ndim != 2 or value.shape != shape:
            raise WorkerError(
                "invalid", f"input '{name}' is {value.dtype}{list(value.shape)}, expected int32{list(shape)} of rank 2", "run_c2"
            )


def check_ids(ids, vocab_size):
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
        raise WorkerError("invalid", f"a token id is not in [0, {vocab_size})", "run_c4")


def serve(answer, rule):
    """answer(words, tensors) -> (words, tensors) for each message, to the end. `rule` is that of an unforeseen error."""
    channel_in, channel_out = os.fdopen(3, "rb", closefd=False), os.fdopen(3, "wb", closefd=False)
    while (message := receive(channel_in)) is not None:
        words, tensors = message
        if words.get("op") == "quit":
            break
        try:
            reply, results = answer(words, tensors)
        except WorkerError as error:
            reply, results = error.words, None
        except Exception as error:  # whatever a framework finds wrong is an answer, not our end
            text = " ".join(f"{type(error).__name__}: {error}".split())
            reply, results = {"ok": "0", "kind": "invalid", "text": text[:2000], "rule": rule}, None
        send(channel_out, reply, results)
    sys.stderr.flush()
    os._exit(0)  # without the frameworks' slow goodbyes
