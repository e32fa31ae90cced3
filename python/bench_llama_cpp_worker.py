"""llama.cpp's side of `tandem bench infer`, by llama-cpp-python's plain binding of its C API: a gguf of one precision."""

import ctypes

from bench_timing import serve_contender
from worker_frames import WorkerError

HINT = "`make venv-bench` installs it"
MICRO_BATCH = 512  # tokens computed at once, llama.cpp's own choice


class LlamaCpp:
    """A context for each pair of batch and length, whose cache is emptied at each prompt."""

    def __init__(self, model, vocab_size, threads, exact):
        self.model, self.vocab_size, self.threads, self.exact = model, vocab_size, threads, exact
        self.contexts = {}

    def context(self, batch, longest):
        import llama_cpp

        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = batch * longest
        parameters.n_batch = batch * longest
        parameters.n_ubatch = MICRO_BATCH
        parameters.n_seq_max = batch
        parameters.n_threads = parameters.n_threads_batch = self.threads
        if self.exact:  # llama.cpp's own choice is float16 caches, and a flash attention that rounds to 5e-3 of the logits
            parameters.type_k = parameters.type_v = llama_cpp.GGML_TYPE_F32
            parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        context = llama_cpp.llama_init_from_model(self.model, parameters)
        if not context:
            raise WorkerError("unsupported", "llama.cpp makes no context for this model", "time_c1")
        return context

    def begin(self, ids, longest):
        import llama_cpp

        longest = -(-longest // 256) * 256  # llama.cpp rounds it up as well
        key = (ids.shape[0], longest)
        if key not in self.contexts:
            self.contexts[key] = self.context(*key)
        self.now, self.tokens = self.contexts[key], 0
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.now), True)
        return self.step(ids)

    def step(self, ids):
        import llama_cpp
        import numpy

        rows, tokens = ids.shape
        batch = llama_cpp.llama_batch_init(rows * tokens, 0, 1)
        try:
            batch.n_tokens = rows * tokens
            for row in range(rows):
                for column in range(tokens):
                    at = row * tokens + column
                    batch.token[at] = int(ids[row, column])
                    batch.pos[at] = self.tokens + column
                    batch.n_seq_id[at] = 1
                    batch.seq_id[at][0] = row
                    batch.logits[at] = column == tokens - 1
            if (code := llama_cpp.llama_decode(self.now, batch)) != 0:
                raise WorkerError("invalid", f"llama_decode gave {code}", "time_c2")
        finally:
            llama_cpp.llama_batch_free(batch)
        self.tokens += tokens
        logits = numpy.empty((rows, self.vocab_size), "float32")
        for row in range(rows):
            found = llama_cpp.llama_get_logits_ith(self.now, (row + 1) * tokens - 1)
            logits[row] = numpy.ctypeslib.as_array(found, (self.vocab_size,))
        return logits


def load(words):
    try:
        import llama_cpp
    except ImportError as error:
        raise WorkerError("unavailable", f"{error}", "engine_c1", HINT) from error
    silent = llama_cpp.llama_log_callback(lambda _level, _text, _data: None)
    load.silent = silent  # called for as long as the process lives
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(words["path"].encode(), llama_cpp.llama_model_default_params())
    if not model:
        raise WorkerError("unsupported", f"llama.cpp does not load {words['path']}", "time_c1")
    vocab_size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    exact = words.get("mode") == "f32"
    info = {
        "engine": "llama.cpp",
        "version": f"llama-cpp-python {llama_cpp.__version__}",
        "dtype": words.get("mode", ""),
        "caches": "f32" if exact else "f16",
        "flash_attention": "off" if exact else "auto",
        "system": llama_cpp.llama_print_system_info().decode(),
    }
    return LlamaCpp(model, vocab_size, int(words.get("threads", "0")) or 1, exact), vocab_size, info


if __name__ == "__main__":
    serve_contender(load)
