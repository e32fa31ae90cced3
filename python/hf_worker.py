"""The golden side: runs a Hugging Face checkpoint with the user's own transformers.

The protocol is in engines/engine.h: on file descriptor 3, messages of a u64 LE length and a safetensors file whose
__metadata__ holds the words. Nothing is downloaded and no code of the checkpoint is run.

What is done differently from a plain from_pretrained, and why:
- experts run one by one (the grouped product on CPU wants strides that are multiples of 16 bytes);
- fp8 weights are dequantised here, block by block: transformers derives the block size from rows / scale rows, which is
  wrong for ragged blocks;
- weights that neither the model nor an MTP layer has a place for are an error;
- dynamic rotary frequencies are reset before each run, so that a result does not hang on earlier ones;
- when streaming, the model has no weights of its own: each module reads its own from the files before it runs and drops
  them after it, and each expert's are read when the mixture asks for that expert.
"""

import contextlib
import json
import os
import re

from worker_frames import WorkerError, check_ids, check_inputs, serve, wanted_names


# ---- loading ----------------------------------------------------------------------------------------------------------


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def weight_files(folder):
    index = os.path.join(folder, "model.safetensors.index.json")
    names = sorted(set(read_json(index)["weight_map"].values())) if os.path.exists(index) else ["model.safetensors"]
    return [os.path.join(folder, name) for name in names]


def dequantize(codes, scales, block):
    """fp8 codes [rows, columns] times one f32 scale a block, in float32."""
    rows, columns = codes.shape
    scales = scales.float().repeat_interleave(block[0], 0)[:rows].repeat_interleave(block[1], 1)[:, :columns]
    return codes.float() * scales


SCALE_SUFFIX = "_scale_inv"


def is_fp8(tensor):
    return tensor.dtype.itemsize == 1 and tensor.is_floating_point()


def scale_name(name, names):
    if name + SCALE_SUFFIX not in names:
        raise WorkerError("invalid", f"{name} is fp8 and has no {name + SCALE_SUFFIX}", "C1")
    return name + SCALE_SUFFIX


def dequantized_weights(folder, block):
    """All weights of an fp8 checkpoint: those with a scale in float32, the others as they are."""
    from safetensors import safe_open

    raw = {}
    for path in weight_files(folder):
        with safe_open(path, framework="pt") as file:
            raw.update({name: file.get_tensor(name) for name in file.keys()})
    weights = {}
    for name, tensor in raw.items():
        if name.endswith(SCALE_SUFFIX):
            continue
        if is_fp8(tensor):
            tensor = dequantize(tensor, raw[scale_name(name, raw)], block)
        weights[name] = tensor
    return weights


def check_loading(info, config):
    """Every weight has found its place, and every place its weight."""
    layers = config.num_hidden_layers
    mtp_layers = getattr(config, "num_nextn_predict_layers", None) or 0

    def deliberate(name):
        match = re.match(r"model\.layers\.(\d+)\.", name)
        return (match and layers <= int(match.group(1)) < layers + mtp_layers) or name.endswith("rotary_emb.inv_freq")

    problems = [f"missing: {name}" for name in sorted(info["missing_keys"])]
    problems += [f"unexpected: {name}" for name in sorted(info["unexpected_keys"]) if not deliberate(name)]
    problems += [f"wrong shape: {entry}" for entry in sorted(map(str, info["mismatched_keys"]))]
    if problems:
        shown = "; ".join(problems[:20]) + (f"; and {len(problems) - 20} more" if len(problems) > 20 else "")
        raise WorkerError("invalid", "transformers did not take the checkpoint whole: " + shown, "hf_c2")


def load_model(path, dtype, stream=False):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    if dtype not in ("float32", "float64", "bfloat16", "float16"):
        raise WorkerError("usage", f"dtype {dtype!r} is not float32, float64, bfloat16 or float16", "hf_c1")
    config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    config._experts_implementation = "eager"
    options = {
        "dtype": getattr(torch, dtype),
        "attn_implementation": "eager",
        "local_files_only": True,
        "trust_remote_code": False,
        "output_loading_info": True,
    }
    quantization = getattr(config, "quantization_config", None)
    block = None
    if quantization is not None:
        quantization = quantization if isinstance(quantization, dict) else quantization.to_dict()
        method, block = quantization.get("quant_method"), quantization.get("weight_block_size")
        if method != "fp8" or not block:
            raise WorkerError("unsupported", f"quantization {method!r} with weight_block_size {block}", "hf_c3")
        del config.quantization_config
    if stream:
        return streamed_model(StreamedWeights(path, block), config, options["dtype"])
    if block is None:
        model, info = AutoModelForCausalLM.from_pretrained(path, config=config, **options)
    else:
        weights = dequantized_weights(path, block)
        model_class = AutoModelForCausalLM._model_mapping[type(config)]
        model, info = model_class.from_pretrained(None, config=config, state_dict=weights, **options)
    check_loading(info, model.config)
    return model.eval()


# ---- streaming --------------------------------------------------------------------------------------------------------


class StreamedWeights:
    """The weights of a folder, read one at a time. A file is open no longer than a read takes: pages of a mapped file
    count as memory of ours as long as it is mapped."""

    def __init__(self, folder, block):
        from safetensors import safe_open

        self.block = block  # of fp8 scales; None for a checkpoint without
        self.files, self.shapes = {}, {}
        for path in weight_files(folder):
            with safe_open(path, framework="pt") as file:
                for name in file.keys():
                    self.files[name] = path
                    self.shapes[name] = list(file.get_slice(name).get_shape())

    def names(self):
        """Those that are weights of a model: without fp8 scales."""
        return {name for name in self.files if self.block is None or not name.endswith(SCALE_SUFFIX)}

    def read(self, name, dtype):
        """A copy, so that the file can be closed."""
        from safetensors import safe_open

        import torch

        with safe_open(self.files[name], framework="pt") as file:
            tensor = file.get_tensor(name)
            if self.block is None or not is_fp8(tensor):
                return tensor.to(dtype, copy=True)
            return dequantize(tensor, self.read(scale_name(name, self.files), torch.float32), self.block).to(dtype)


class StreamedExperts:
    """Stands for a parameter [experts, ...]; one expert is read when it is asked for."""

    def __init__(self, weights, names, dtype):
        self.weights, self.names, self.dtype = weights, names, dtype  # names: for each expert, what is joined

    def __getitem__(self, expert):
        import torch

        parts = [self.weights.read(name, self.dtype) for name in self.names[int(expert)]]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


# Parameters that transformers makes of one tensor an expert, and which tensors those are.
EXPERT_PARTS = {"experts.gate_up_proj": ("gate_proj", "up_proj"), "experts.down_proj": ("down_proj",)}


def expert_parts(name):
    return next((parts for end, parts in EXPERT_PARTS.items() if name.endswith("." + end)), None)


def sources_of(name, tensor):
    """The tensors of the checkpoint that a parameter or buffer is made of, and their shapes: for each expert a list."""
    parts = expert_parts(name)
    if parts is None:
        return [[(name, list(tensor.shape))]]
    at, experts = name.rpartition(".")[0], tensor.shape[0]
    shape = [tensor.shape[1] // len(parts), tensor.shape[2]]
    return [[(f"{at}.{expert}.{part}.weight", shape) for part in parts] for expert in range(experts)]


def tied_name(name, tied, files):
    """Where a weight lies that the files may have under the name that it is tied to."""
    twins = [name, *(b for a, b in tied.items() if a == name), *(a for a, b in tied.items() if b == name)]
    return next((twin for twin in twins if twin in files), name)


def check_streamed(model, weights):
    """What check_loading asks, of names and shapes alone."""
    tied = getattr(model, "all_tied_weights_keys", {})
    expected = dict(source for key, tensor in model.state_dict().items() for each in sources_of(key, tensor) for source in each)
    found = {name: tied_name(name, tied, weights.files) for name in expected}
    check_loading(
        {
            "missing_keys": [name for name, place in found.items() if place not in weights.files],
            "unexpected_keys": weights.names() - set(found) - set(found.values()),
            "mismatched_keys": [
                (name, weights.shapes[place], expected[name])
                for name, place in found.items()
                if place in weights.files and weights.shapes[place] != expected[name]
            ],
        },
        model.config,
    )


def stream_module(module, weights, sources):
    """The module's parameters come before it runs and go after it. sources: parameter -> (tensor's name, dtype)."""
    import torch

    absent = dict(module._parameters)

    def come(module, _):
        for key, source in sources.items():
            module._parameters[key] = torch.nn.Parameter(weights.read(*source), requires_grad=False)

    def go(module, *_):
        module._parameters.update(absent)

    module.register_forward_pre_hook(come)
    module.register_forward_hook(go, always_call=True)


def streamed_model(weights, config, dtype):
    """The model without weights in memory. Buffers are small and stay."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="eager", trust_remote_code=False)
    check_streamed(model, weights)
    tied = getattr(model, "all_tied_weights_keys", {})
    wide = set()  # what from_pretrained keeps in float32
    if dtype in (torch.float16, torch.bfloat16):
        wide.update(getattr(model, "_keep_in_fp32_modules_strict", None) or ())
    if dtype == torch.float16:
        wide.update(getattr(model, "_keep_in_fp32_modules", None) or ())

    def dtype_of(name):
        return torch.float32 if any(word in name for word in wide) else dtype

    for at, module in list(model.named_modules()):
        prefix = at + "." if at else ""
        if module._non_persistent_buffers_set:  # rotary frequencies: computed from the config, not read
            parent, _, child = at.rpartition(".")
            setattr(model.get_submodule(parent), child, type(module)(config=module.config))
            continue
        for key in list(module._buffers):
            module._buffers[key] = weights.read(prefix + key, dtype_of(prefix + key))
        sources = {}
        for key, tensor in list(module._parameters.items()):
            name = prefix + key
            if tensor is None:  # a bias that there is none of
                continue
            if expert_parts(name):
                del module._parameters[key]
                names = [[part for part, _ in parts] for parts in sources_of(name, tensor)]
                module.__dict__[key] = StreamedExperts(weights, names, dtype_of(name))
            else:
                sources[key] = (tied_name(name, tied, weights.files), dtype_of(name))
        if sources:
            stream_module(module, weights, sources)
    return model.eval()


def give_freed_memory_back():
    """As in engines/serve.h: freed blocks of 1 MiB and more go back to the system."""
    import ctypes

    ctypes.CDLL(None).mallopt(-3, 1 << 20)  # M_MMAP_THRESHOLD


# ---- running ----------------------------------------------------------------------------------------------------------


def reset_dynamic_rotary(model):
    """Puts the frequencies back to what a fresh model has; they are remembered from the longest run otherwise."""
    for module in model.modules():
        if hasattr(module, "original_inv_freq") and "dynamic" in str(getattr(module, "rope_type", "")):
            module.inv_freq = module.original_inv_freq.clone()
            module.max_seq_len_cached = module.original_max_seq_len


def routers(model):
    """(name, module) of every router, by layer."""
    return [(name, m) for name, m in model.named_modules() if hasattr(m, "e_score_correction_bias")]


def gap(scores, chosen_count):
    """The distance between the last chosen and the first rejected score of the last axis; inf if none is rejected."""
    import torch

    if chosen_count >= scores.shape[-1]:
        return torch.full(scores.shape[:-1], float("inf"), dtype=scores.dtype)
    ordered = scores.sort(dim=-1, descending=True).values
    return ordered[..., chosen_count - 1] - ordered[..., chosen_count]


def choice_scores(router, logits):
    """The scores that choose, for each token and expert."""
    return logits.float().sigmoid() + router.e_score_correction_bias.float()


def chosen_experts(router, output):
    """The chosen experts, best first (the router itself leaves the order open)."""
    logits, _, chosen = output
    order = choice_scores(router, logits).gather(1, chosen).sort(dim=1, descending=True, stable=True).indices
    return chosen.gather(1, order).int()


def router_margin(router, logits):
    """How close the router's choice was, for each token: the smaller gap of groups and of experts in chosen groups."""
    scores = choice_scores(router, logits)
    groups = scores.view(scores.shape[0], router.num_group, -1)
    group_scores = groups.topk(2, dim=-1).values.sum(dim=-1)
    chosen = group_scores.topk(router.topk_group, dim=-1).indices
    candidates = groups.gather(1, chosen.unsqueeze(-1).expand(-1, -1, groups.shape[-1])).flatten(1)
    return gap(group_scores, router.topk_group).minimum(gap(candidates, router.top_k))


def with_batch(tensor, batch, tokens):
    """Module outputs as taps have them: [batch, tokens, ...]."""
    if tensor.dim() == 2 and tensor.shape[0] == batch * tokens:
        return tensor.view(batch, tokens, -1)
    if tensor.dim() == 4 and tensor.shape[1] == 1 and tensor.shape[2] == tokens:
        return tensor.squeeze(1)
    return tensor


def tensor_of(output):
    import torch

    output = output[0] if isinstance(output, (tuple, list)) and output else output
    output = getattr(output, "last_hidden_state", output)
    return output if isinstance(output, torch.Tensor) and output.is_floating_point() else None


@contextlib.contextmanager
def hooked(modules, act):
    """Calls act(name, module, output) after each module's forward, within the block."""
    handles = [
        module.register_forward_hook(lambda m, _, output, name=name: act(name, m, output)) for name, module in modules
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def taken_inputs(inputs):
    """The three inputs as torch tensors; a missing mask is all ones, missing positions count it."""
    import torch

    check_inputs(inputs)
    taken = {name: torch.from_numpy(value).long() for name, value in inputs.items()}
    mask = taken.setdefault("attention_mask", torch.ones_like(taken["input_ids"]))
    taken.setdefault("position_ids", (mask.cumsum(-1) - 1).clamp(min=0))
    return taken


def run(model, entry, outputs, inputs):
    import torch

    if entry not in ("logits", "taps"):
        raise WorkerError("invalid", f"no entry '{entry}'; there are logits and taps", "run_c3")
    taken = taken_inputs(inputs)
    batch, tokens = taken["input_ids"].shape
    check_ids(inputs["input_ids"], model.config.vocab_size)

    wanted = set(outputs)
    router_modules = routers(model) if wanted & {"experts", "router_margin"} else []
    router_names = {name for name, _ in routers(model)}
    known = {name: module for name, module in model.named_modules() if name}
    tap_names = [n for n in known if n in wanted or (entry == "taps" and not wanted)]
    if unknown := sorted(wanted - set(tap_names) - {"logits"} - ({"experts", "router_margin"} if router_modules else set())):
        raise WorkerError("invalid", f"no output '{unknown[0]}'", "run_c5")

    results, experts, margins = {}, [], []

    def keep_tap(name, module, output):
        tensor = chosen_experts(module, output) if name in router_names else tensor_of(output)
        tensor = None if tensor is None else with_batch(tensor, batch, tokens)
        if tensor is not None and tensor.shape[:2] == (batch, tokens):  # not what one expert sees
            results[name] = tensor

    def keep_route(name, module, output):
        experts.append(chosen_experts(module, output).view(batch, tokens, -1))
        margins.append(router_margin(module, output[0]).view(batch, tokens))

    reset_dynamic_rotary(model)
    with torch.no_grad(), hooked([(n, known[n]) for n in tap_names], keep_tap), hooked(router_modules, keep_route):
        logits = model(**taken, use_cache=False).logits
    if not wanted or "logits" in wanted:
        results["logits"] = logits
    if "experts" in wanted:
        results["experts"] = torch.stack(experts, dim=1)
    if "router_margin" in wanted:
        results["router_margin"] = torch.stack(margins, dim=1)
    return {name: as_numpy(value) for name, value in results.items()}


def as_numpy(tensor):
    """float64 stays, other floats become float32 (exactly)."""
    import torch

    if tensor.is_floating_point() and tensor.dtype != torch.float64:
        tensor = tensor.float()
    return tensor.contiguous().numpy()


# ---- serving ----------------------------------------------------------------------------------------------------------


def load_tokenizer(folder):
    """The folder's tokenizer.json, without cutting or padding."""
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.exists(path):
        raise WorkerError("missing", f"{folder} has no tokenizer.json", "hf_c5")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:
        raise WorkerError("invalid", " ".join(f"{path} is no tokenizer: {error}".split())[:2000], "hf_c5") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def encode(tokenizer, tensors):
    import numpy

    value = tensors.get("text")
    if value is None or value.dtype != "uint8" or value.ndim != 1:
        raise WorkerError("invalid", "expected the tensor 'text' of uint8 and one axis", "hf_c6")
    try:
        text = value.tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise WorkerError("invalid", f"the text is not UTF-8: {error}", "hf_c6") from error
    return {"ids": numpy.array(tokenizer.encode(text).ids, dtype=numpy.int32)}


class Worker:
    def __init__(self):
        self.model = None
        self.folder = None
        self.tokenizer = None

    def answer(self, words, tensors):
        op = words.get("op")
        if op == "load":
            return self.load(words), None
        if op == "run":
            if self.model is None:
                raise WorkerError("usage", "op=run before op=load", "protocol_c6")
            results = run(self.model, words.get("entry", ""), wanted_names(words), tensors)
            if words.get("tokens") == "last" and "logits" in results:
                results["logits"] = results["logits"][:, -1:].copy()
            return {"ok": "1"}, results
        if op == "encode":
            if self.folder is None:
                raise WorkerError("usage", f"op={op} before op=load", "protocol_c6")
            if self.tokenizer is None:
                self.tokenizer = load_tokenizer(self.folder)
            return {"ok": "1"}, encode(self.tokenizer, tensors)
        if op in ("values", "edit"):
            raise WorkerError("unsupported", "transformers' modules cannot be run by the contract's names", "engine_c9")
        raise WorkerError("usage", f"unknown op {op!r}", "protocol_c6")

    def load(self, words):
        try:
            import torch
            import transformers
        except ImportError as error:
            raise WorkerError("unavailable", f"{error}", "engine_c1", "`make venv` installs it") from error
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        if int(words.get("threads", "0")) > 0:
            torch.set_num_threads(int(words["threads"]))
        dtype = words.get("dtype", "float32")
        stream = words.get("stream") == "1"
        if stream:
            give_freed_memory_back()
        self.model = load_model(words["path"], dtype, stream)
        self.folder = words["path"]
        return {
            "ok": "1",
            "engine": "transformers",
            "version": transformers.__version__,
            "torch": torch.__version__,
            "dtype": dtype,
            "architecture": type(self.model).__name__,
        }


def main():
    serve(Worker().answer, "hf_c4")


if __name__ == "__main__":
    main()
