"""--stream: the same verdict and figures as the whole run, in no more memory than one layer (issue 4, done-when 4)."""

import json
import os
import subprocess
import time
import unittest

import numpy as np
from common import TANDEM, TINY, TINY_FP8, Case, fixtures, run, tandem, verify
from tiny import TL, TV3, header_bytes, shapes
from workers import Worker, WorkerError, inputs_of, resident

MIB = 1 << 20
VOCAB = 2000
# Wide enough that a layer (151 MB in float32) is much more than what a runtime takes for itself and differs by from run to run.
WIDE = TL | {
    "hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 12, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 192,
    "vocab_size": VOCAB,
}  # fmt: skip
NARROW = WIDE | {"hidden_size": 64, "intermediate_size": 128, "head_dim": 8}
LAYER_VALUES = 4 * 1536**2 + 3 * 1536 * 6144 + 2 * 1536
# 64 experts, of which two tokens ask for at most four: 201 MB in float32, of which 13 MB are needed.
MIXTURE = TV3 | {
    "hidden_size": 512, "moe_intermediate_size": 512, "n_routed_experts": 64, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "num_nextn_predict_layers": 0, "vocab_size": VOCAB,
}  # fmt: skip
FEW_EXPERTS = MIXTURE | {"moe_intermediate_size": 8}
STACK_VALUES = 64 * 3 * 512 * 512


def write_random_model(folder, config):
    """bfloat16 numbers between 1 and 2 and their negatives, written as they are drawn."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config | {"torch_dtype": "bfloat16"}))
    header, at = {}, 0
    for name, shape in shapes(config):
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    random = np.frombuffer(os.urandom(2 * MIB), np.uint16) & 0x80FF | 0x3F80
    with open(folder / "model.safetensors", "wb") as file:
        file.write(header_bytes({"__metadata__": {"format": "pt"}} | header))
        for start in range(0, at, 2 * MIB):
            file.write(random.tobytes()[: min(2 * MIB, at - start)])
    return folder


def prompt(batch, tokens, vocab_size=VOCAB):
    return inputs_of(np.random.default_rng(5).integers(0, vocab_size, (batch, tokens), np.int32))


def figures(report):
    """All that verify says, but for how its engines were started."""
    for side in ("left", "right"):
        report[side].pop("stream", None)
    return report


class SameFigures(Case):
    def assert_same_run(self, whole, stream):
        self.assertEqual(sorted(whole), sorted(stream))
        self.assertGreater(len(whole), 0)
        different = [name for name in whole if whole[name].tobytes() != stream[name].tobytes() or whole[name].dtype != stream[name].dtype]
        self.assertEqual(different, [])

    def same_workers(self, engine, folder, vocab_size, **words):
        with Worker(engine, folder, **words) as whole, Worker(engine, folder, stream="1", **words) as stream:
            inputs = prompt(2, 33, vocab_size)
            for entry in ("logits", "taps"):
                self.assert_same_run(whole.run(entry, inputs), stream.run(entry, inputs))
            if engine == "hf":
                return
            given = {name: value for name, value in inputs.items() if name != "input_ids"}
            given["hidden_states"] = whole.run("taps", inputs, ["model.layers.0"])["model.layers.0"].astype(np.float32)
            self.assert_same_run(whole.run("layer_1", given), stream.run("layer_1", given))
            for scope, entry, known, values in (
                ("entry", "logits", inputs, ["x_0", "x_2", "cos"]),
                ("entry", "logits", {"final": given["hidden_states"]}, ["logits"]),
                ("block", "layer_1", given, ["h", "y"] if self.has_value(whole, "y") else ["h"]),
            ):
                self.assert_same_run(whole.values(entry, scope, known, values), stream.values(entry, scope, known, values))

    @staticmethod
    def has_value(worker, name):
        try:
            ids = prompt(1, 2, 8)
            hidden = worker.run("taps", ids, ["model.layers.0"])["model.layers.0"].astype(np.float32)
            given = {"hidden_states": hidden, "attention_mask": ids["attention_mask"], "position_ids": ids["position_ids"]}
            return bool(worker.values("layer_1", "block", given, [name]))
        except WorkerError:
            return False

    def test_every_worker_returns_the_same_bits(self):
        models = [TINY, TINY_FP8, *fixtures("llama")[:3], *fixtures("deepseek_v3")[:3]]
        for index, folder in enumerate(models):
            vocab_size = json.loads((folder / "config.json").read_text())["vocab_size"]
            model = self.scratch / f"{index}.tf"
            tandem("convert", folder, model)
            for engine, path, words in (
                ("hf", folder, {}),
                ("hf", folder, {"dtype": "bfloat16"}),
                ("torch", folder, {}),
                ("torch", folder, {"dtype": "float64"}),
                ("torch", model, {}),
                ("tf", model, {}),
            ):
                with self.subTest(model=folder.name, engine=engine, path=path.name, **words):
                    self.same_workers(engine, path, vocab_size, **words)

    def same_verify(self, left, right, *arguments, code=0):
        arguments = (left, right, "--threads", "1", *arguments)
        whole, stream = verify(*arguments, code=code), verify(*arguments, "--stream", code=code)
        self.assertEqual((stream["left"]["stream"], stream["right"]["stream"]), ("1", "1"))
        self.assertEqual(figures(whole), figures(stream))
        return stream

    def test_verify_says_the_same_at_every_level(self):
        for folder in (TINY, fixtures("llama")[0]):
            with self.subTest(model=folder.name):
                model = self.scratch / f"{folder.name}.tf"
                tandem("convert", folder, model)
                levels = ["--levels", "weights,layer,module,model,generation", "--prompts", "2", "--max-new-tokens", "3"]
                report = self.same_verify(f"hf:{folder}", f"tf:{model}", *levels)
                self.assertEqual((report["verdict"], len(report["levels"])), ("equal", 5))

    def test_verify_says_the_same_where_tensorflow_is_the_reference(self):
        model = self.scratch / "tiny.tf"
        tandem("convert", TINY, model)
        self.assertEqual(self.same_verify(f"tf:{model}", f"torch:{TINY}", "--levels", "layer,module,model")["verdict"], "equal")

    def test_verify_says_the_same_of_a_fault(self):
        folder = fixtures("llama")[0]
        model, bad = self.scratch / "model", self.scratch / "bad"
        tandem("convert", folder, model)
        tandem("plant", "epsilon", model, bad)
        report = self.same_verify(f"hf:{folder}", f"tf:{bad}", code=1)
        self.assertEqual(report["divergence"]["cause"], "epsilon")


class Refusals(Case):
    def test_a_weight_that_is_missing_is_named_as_in_the_whole_run(self):
        config = TL | {"num_hidden_layers": 1}
        folder = write_random_model(self.scratch / "model", config)
        (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}))
        for words in ({}, {"stream": "1"}):
            with self.assertRaisesRegex(WorkerError, "^hf_c2: .*missing: model.layers.1.input_layernorm.weight"):
                Worker("hf", folder, **words)

    def test_a_saved_model_of_python_is_refused(self):
        import tensorflow as tf

        tandem("convert", TINY, self.scratch / "ours")
        again = self.scratch / "again"
        loaded = tf.saved_model.load(str(self.scratch / "ours"))
        tf.saved_model.save(loaded, str(again), signatures=dict(loaded.signatures))
        with self.assertRaisesRegex(WorkerError, "^tf_c1[03]: "):
            Worker("tf", again, stream="1")
        with Worker("tf", again) as whole:
            self.assertIn("logits", whole.run("logits", prompt(1, 3, 4096), ["logits"]))

    def test_the_help_says_what_it_is_for(self):
        self.assertIn("models larger than memory", run("verify", "--help").out)


class Memory(Case):
    """The most that a worker has resident, less what it has with a model of the same layers and no width to speak of."""

    def work(self, engine, folder, layers, **words):
        """Runs all that verify runs; the peak, and the bytes of the largest answer."""
        with Worker(engine, folder, stream="1", **words) as worker:
            inputs = prompt(1, 2)
            worker.run("logits", inputs)
            taps = worker.run("taps", inputs)
            if engine != "hf":
                worker.values("logits", "entry", inputs, [f"x_{layer}" for layer in range(layers + 1)])
                given = {name: value for name, value in inputs.items() if name != "input_ids"}
                given["hidden_states"] = taps["model.embed_tokens"].astype(np.float32)
                for layer in range(layers):
                    worker.run(f"layer_{layer}", given)
                    worker.values(f"layer_{layer}", "block", given, ["h"])
            return worker.memory("VmHWM"), sum(value.nbytes for value in taps.values())

    def growth(self, engine, wide, narrow, layers, **words):
        base, _ = self.work(engine, narrow, layers, **words)
        peak, answer = self.work(engine, wide, layers, **words)
        # Activations: a tap is held as the framework's tensor, as the answer's, and in the message that carries it.
        return peak - base - 3 * answer

    def test_no_worker_holds_more_than_a_layer(self):
        wide, narrow = write_random_model(self.scratch / "wide", WIDE), write_random_model(self.scratch / "narrow", NARROW)
        for name, folder in (("wide.tf", wide), ("narrow.tf", narrow)):
            tandem("convert", folder, self.scratch / name, "--dtype", "float32")
        tf = self.scratch / "wide.tf", self.scratch / "narrow.tf"
        for engine, (big, small), size, words in (
            ("hf", (wide, narrow), 4, {}),
            ("torch", (wide, narrow), 4, {}),
            ("torch", (wide, narrow), 8, {"dtype": "float64"}),
            ("torch", tf, 4, {}),
            ("tf", tf, 4, {}),
        ):
            with self.subTest(engine=engine, path=big.name, **words):
                ratio = self.growth(engine, big, small, WIDE["num_hidden_layers"], **words) / (LAYER_VALUES * size)
                print(f"{engine} {big.name} {words}: {ratio:.2f} of one layer", flush=True)
                self.assertLessEqual(ratio, 1.3)

    def test_a_layer_kept_in_16_bits_and_its_float32_copies_are_all_that_tensorflow_holds(self):
        wide, narrow = write_random_model(self.scratch / "wide", WIDE), write_random_model(self.scratch / "narrow", NARROW)
        for name, folder in (("wide.tf", wide), ("narrow.tf", narrow)):
            tandem("convert", folder, self.scratch / name)
        ratio = self.growth("tf", self.scratch / "wide.tf", self.scratch / "narrow.tf", WIDE["num_hidden_layers"]) / (LAYER_VALUES * (2 + 4))
        print(f"tf in bfloat16: {ratio:.2f} of one layer", flush=True)
        self.assertLessEqual(ratio, 1.3)

    def test_experts_that_no_token_chooses_are_not_read(self):
        many, few = write_random_model(self.scratch / "many", MIXTURE), write_random_model(self.scratch / "few", FEW_EXPERTS)
        tandem("convert", many, self.scratch / "many.tf")
        for engine, folder, size, words in (
            ("hf", many, 4, {}),
            ("torch", many, 4, {}),
            ("torch", many, 8, {"dtype": "float64"}),
            ("torch", self.scratch / "many.tf", 4, {}),
        ):
            with self.subTest(engine=engine, path=folder.name, **words):
                ratio = self.growth(engine, folder, few, MIXTURE["num_hidden_layers"], **words) / (STACK_VALUES * size)
                print(f"{engine} {folder.name} {words}: {ratio:.2f} of the experts", flush=True)
                self.assertLessEqual(ratio, 0.3)

    def test_the_program_itself_holds_activations_only(self):
        wide = write_random_model(self.scratch / "wide", WIDE)
        (self.scratch / "ids").write_text("1 2 3\n")
        arguments = [TANDEM, "verify", f"torch:{wide}", f"torch:{wide}", "--levels", "layer,module,model", "--stream", "--tokens", self.scratch / "ids"]
        program, peak = subprocess.Popen(list(map(str, arguments)), stdout=subprocess.DEVNULL), 0
        while program.poll() is None:
            peak = max(peak, resident(program.pid, "VmHWM") or 0)
            time.sleep(0.02)
        self.assertEqual(program.returncode, 0)
        print(f"verify itself: {peak / MIB:.0f} MiB", flush=True)
        self.assertGreater(peak, MIB)
        self.assertLess(peak, 64 * MIB)


if __name__ == "__main__":
    unittest.main()
