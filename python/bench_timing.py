"""What the contenders in Python share: op=time of bench/contender.h, around a prompt and a step of whatever computes them."""

import resource
import time

from worker_frames import WorkerError, check_ids, serve


class Timing:
    """load(words) gives (contender, vocab_size, words of the answer); a contender has

    begin(ids i64 [batch, tokens], longest): a prompt, of a text of at most `longest` tokens; the last token's logits f32 [batch, vocab]
    step(ids i64 [batch, 1]): one token more in each row; its logits
    """

    def __init__(self, load):
        self.load = load
        self.contender = None
        self.warm = set()

    def answer(self, words, tensors):
        op = words.get("op")
        if op == "load":
            self.contender, self.vocab_size, info = self.load(words)
            return {"ok": "1", **info}, None
        if op != "time":
            raise WorkerError("usage", f"unknown op {op!r}", "protocol_c6")
        if self.contender is None:
            raise WorkerError("usage", "op=time before op=load", "protocol_c6")
        return self.time(words, tensors)

    def time(self, words, tensors):
        import numpy

        what, steps = words.get("what"), int(words.get("steps") or 0)
        ids = tensors.get("input_ids")
        if what not in ("first", "prefill", "decode") or (what == "decode" and steps < 1):
            raise WorkerError("invalid", f"op=time what={what} steps={steps}: expected first, prefill, or decode and 1 step or more", "time_c1")
        if ids is None or ids.dtype != "int32" or ids.ndim != 2 or not ids.size:
            raise WorkerError("invalid", "op=time: expected input_ids i32 [batch, tokens]", "time_c1")
        check_ids(ids, self.vocab_size)
        ids = ids.astype("int64")
        longest = ids.shape[1] + (steps if what == "decode" else 0)
        shape = (what, *ids.shape, longest)
        if what != "first" and shape not in self.warm:  # a compiler compiles before the clock runs
            logits = self.contender.begin(ids, longest)
            if what == "decode":
                self.contender.step(logits.argmax(-1)[:, None])
            self.warm.add(shape)
        begin = time.perf_counter()
        first = logits = self.contender.begin(ids, longest)
        columns = []
        if what == "decode":
            first = first.copy()
            columns.append(logits.argmax(-1)[:, None])
            begin = time.perf_counter()
            for _ in range(steps):
                columns.append(self.contender.step(columns[-1]).argmax(-1)[:, None])
        seconds = time.perf_counter() - begin
        tokens = numpy.concatenate(columns, 1) if columns else numpy.empty((ids.shape[0], 0))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        results = {"logits": numpy.ascontiguousarray(first, "float32"), "tokens": tokens.astype("int32")}
        return {"ok": "1", "seconds": f"{seconds:.9g}", "peak_bytes": str(peak)}, results


def serve_contender(load):
    serve(Timing(load).answer, "time_c2")
