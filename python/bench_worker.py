"""PyTorch's side of `tandem bench infer`: transformers, eager or compiled, timed inside its own process.

Messages are those of bench/contender.h. mode=eager takes the fastest of the attention and experts implementations that the
model has, by a short trial; mode=compile is torch.compile with a static cache, whose shapes are compiled before they are timed.
"""

import resource
import time

from worker_frames import WorkerError, check_ids, serve

TRIAL_TOKENS, TRIAL_STEPS = 64, 8


class Eager:
    """A cache that grows, as generate() makes it."""

    def __init__(self, model):
        self.model = model

    def begin(self, ids, _longest):
        out = self.model(input_ids=ids, use_cache=True, logits_to_keep=1)
        self.cache = out.past_key_values
        return out.logits[:, -1]

    def step(self, ids):
        return self.model(input_ids=ids, past_key_values=self.cache, use_cache=True, logits_to_keep=1).logits[:, -1]


class Compiled:
    """A cache of one size for each pair of batch and length, which calls write in place."""

    def __init__(self, model):
        import torch

        self.model = model
        self.forward = torch.compile(model.forward, dynamic=False, fullgraph=False)
        self.caches = {}

    def call(self, ids):
        import torch

        positions = torch.arange(self.at, self.at + ids.shape[1])
        out = self.forward(
            input_ids=ids, past_key_values=self.cache, cache_position=positions, position_ids=positions[None], use_cache=True, logits_to_keep=1
        )
        self.at += ids.shape[1]
        return out.logits[:, -1]

    def begin(self, ids, longest):
        from transformers import StaticCache

        key = (ids.shape[0], longest)
        if key not in self.caches:
            self.caches[key] = StaticCache(config=self.model.config, max_cache_len=longest)
        self.cache, self.at = self.caches[key], 0
        self.cache.reset()
        return self.call(ids)

    def step(self, ids):
        return self.call(ids)


MODES = {"eager": Eager, "compile": Compiled}


def load_model(path, attention, experts):
    import torch
    from transformers import AutoModelForCausalLM

    extra = {"experts_implementation": experts} if experts else {}
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation=attention, **extra).eval()


def variants(path):
    """The implementations that this model has: (attention, experts)."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(path)
    experts = ["eager", "grouped_mm", "batched_mm"] if getattr(config, "n_routed_experts", None) else [None]
    return [(attention, kind) for attention in ("sdpa", "eager") for kind in experts]


def seconds_of_trial(contender, vocab_size):
    import torch

    ids = torch.arange(TRIAL_TOKENS)[None] % vocab_size
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        logits = contender.begin(ids, TRIAL_TOKENS + TRIAL_STEPS)
        for _ in range(TRIAL_STEPS):
            logits = contender.step(logits.argmax(-1, keepdim=True))
        best = min(best, time.perf_counter() - begin)
    return best


class Worker:
    def __init__(self):
        self.contender = None

    def answer(self, words, tensors):
        import torch

        op = words.get("op")
        if op == "load":
            with torch.inference_mode():
                return self.load(words), None
        if op != "time":
            raise WorkerError("usage", f"unknown op {op!r}", "protocol_c6")
        if self.contender is None:
            raise WorkerError("usage", "op=time before op=load", "protocol_c6")
        with torch.inference_mode():
            return self.time(words, tensors)

    def load(self, words):
        import torch
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        if int(words.get("threads", "0")) > 0:
            torch.set_num_threads(int(words["threads"]))
        if words.get("mode") not in MODES:
            raise WorkerError("usage", f"mode={words.get('mode')}, expected {' or '.join(MODES)}", "time_c1")
        found = []
        for attention, experts in variants(words["path"]):
            try:
                model = load_model(words["path"], attention, experts)
                found.append((seconds_of_trial(Eager(model), model.config.vocab_size), attention, experts))
            except (ValueError, NotImplementedError, RuntimeError):  # not for this model or processor
                continue
        if not found:
            raise WorkerError("unsupported", "no attention implementation of transformers runs this model", "time_c1")
        _, attention, experts = min(found, key=lambda row: row[0])
        model = load_model(words["path"], attention, experts)
        self.contender = MODES[words["mode"]](model)
        self.vocab_size = model.config.vocab_size
        self.warm = set()
        return {
            "ok": "1",
            "engine": "transformers",
            "version": transformers.__version__,
            "torch": torch.__version__,
            "attention": attention,
            "experts": experts or "",
            "dtype": "float32",
        }

    def time(self, words, tensors):
        import numpy
        import torch

        what, steps = words.get("what"), int(words.get("steps") or 0)
        ids = tensors.get("input_ids")
        if what not in ("prefill", "decode") or (what == "decode" and steps < 1):
            raise WorkerError("invalid", f"op=time what={what} steps={steps}: expected prefill, or decode and 1 step or more", "time_c1")
        if ids is None or ids.dtype != "int32" or ids.ndim != 2 or not ids.size:
            raise WorkerError("invalid", "op=time: expected input_ids i32 [batch, tokens]", "time_c1")
        check_ids(ids, self.vocab_size)
        ids = torch.from_numpy(ids.astype("int64"))
        longest = ids.shape[1] + (steps if what == "decode" else 0)
        if (shape := (what, *ids.shape, longest)) not in self.warm:  # a compiler compiles before the clock runs
            logits = self.contender.begin(ids, longest)
            if what == "decode":
                self.contender.step(logits.argmax(-1, keepdim=True))
            self.warm.add(shape)
        begin = time.perf_counter()
        first = logits = self.contender.begin(ids, longest)
        first = first.clone()
        columns = []
        if what == "decode":
            columns.append(logits.argmax(-1, keepdim=True))
            begin = time.perf_counter()
            for _ in range(steps):
                columns.append(self.contender.step(columns[-1]).argmax(-1, keepdim=True))
        seconds = time.perf_counter() - begin
        tokens = torch.cat(columns, 1) if columns else torch.empty(ids.shape[0], 0, dtype=torch.int64)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        results = {"logits": first.float().numpy(), "tokens": tokens.numpy().astype(numpy.int32)}
        return {"ok": "1", "seconds": f"{seconds:.9g}", "peak_bytes": str(peak)}, results


if __name__ == "__main__":
    serve(Worker().answer, "time_c2")
