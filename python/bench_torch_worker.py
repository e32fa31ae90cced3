"""PyTorch's side of `tandem bench infer`: transformers, eager or compiled, timed inside its own process.

Messages are those of bench/contender.h. mode=eager takes the fastest of the attention and experts implementations that the
model has, by a short trial if trial=1, otherwise the first of them; mode=compile is torch.compile with a static cache, whose
shapes are compiled before they are timed.
"""

import time

from bench_timing import serve_contender
from worker_frames import WorkerError

TRIAL_TOKENS, TRIAL_STEPS = 64, 8


class Eager:
    """A cache that grows, as generate() makes it."""

    def __init__(self, model):
        self.model = model

    def begin(self, ids, _longest):
        self.cache = None
        return self.step(ids)

    def step(self, ids):
        import torch

        with torch.inference_mode():
            out = self.model(input_ids=torch.from_numpy(ids), past_key_values=self.cache, use_cache=True, logits_to_keep=1)
            self.cache = out.past_key_values
            return out.logits[:, -1].numpy()


class Compiled:
    """A cache of one size for each pair of batch and length, which calls write in place."""

    def __init__(self, model):
        import torch

        self.model = model
        self.forward = torch.compile(model.forward, dynamic=False, fullgraph=False)
        self.caches = {}

    def begin(self, ids, longest):
        import torch
        from transformers import StaticCache

        key = (ids.shape[0], longest)
        if key not in self.caches:
            self.caches[key] = StaticCache(config=self.model.config, max_cache_len=longest)
        self.cache, self.at = self.caches[key], 0
        with torch.inference_mode():  # which made the cache's tensors: outside it they may not be written in place
            self.cache.reset()
        return self.step(ids)

    def step(self, ids):
        import torch

        with torch.inference_mode():
            positions = torch.arange(self.at, self.at + ids.shape[1])
            out = self.forward(
                input_ids=torch.from_numpy(ids),
                past_key_values=self.cache,
                cache_position=positions,
                position_ids=positions[None],
                use_cache=True,
                logits_to_keep=1,
            )
            self.at += ids.shape[1]
            return out.logits[:, -1].numpy()


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
    import numpy

    ids = numpy.arange(TRIAL_TOKENS)[None] % vocab_size
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        logits = contender.begin(ids, TRIAL_TOKENS + TRIAL_STEPS)
        for _ in range(TRIAL_STEPS):
            logits = contender.step(logits.argmax(-1)[:, None])
        best = min(best, time.perf_counter() - begin)
    return best


def load(words):
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    if int(words.get("threads", "0")) > 0:
        torch.set_num_threads(int(words["threads"]))
    if words.get("mode") not in MODES:
        raise WorkerError("usage", f"mode={words.get('mode')}, expected {' or '.join(MODES)}", "time_c1")
    kinds = variants(words["path"])
    if words.get("trial"):
        found = []
        for attention, experts in kinds:
            try:
                model = load_model(words["path"], attention, experts)
                found.append((seconds_of_trial(Eager(model), model.config.vocab_size), attention, experts))
            except (ValueError, NotImplementedError, RuntimeError):  # not for this model or processor
                continue
        if not found:
            raise WorkerError("unsupported", "no attention implementation of transformers runs this model", "time_c1")
        kinds = [row[1:] for row in sorted(found, key=lambda row: row[0])]
    attention, experts = kinds[0]
    model = load_model(words["path"], attention, experts)
    info = {
        "engine": "transformers",
        "version": transformers.__version__,
        "torch": torch.__version__,
        "attention": attention,
        "experts": experts or "",
        "dtype": "float32",
    }
    return MODES[words["mode"]](model), model.config.vocab_size, info


if __name__ == "__main__":
    serve_contender(load)
