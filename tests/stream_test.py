"""--stream: the same verdict and figures as the whole run, in no more memory than one layer (issue 4, done-when 4)."""

import json
import os
import re
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np
from common import BINARY_DIR, TANDEM, TINY, TINY_FP8, Case, fixtures, run, tandem, verify
from tiny import TL, TV3, header_bytes, shapes, write_folder
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


def tapped_values(model, entry):
    """The taps of the block that an entry calls, by the names of their values in the contract of a SavedModel."""
    inside = model / "assets"
    text = ((inside if inside.exists() else model) / "tandem_contract.txt").read_text()  # of stages: beside them
    block = re.search(rf'^entry {entry}\(.*?block="(\w+)"', text, re.MULTILINE | re.DOTALL).group(1)
    body = re.search(rf"^block {block}\(.*?^}}", text, re.MULTILINE | re.DOTALL).group(0)
    return re.findall(r"^  (\w+)[,\w ]* = .*# tap", body, re.MULTILINE)


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

    def same_workers(self, engine, folder, vocab_size, inside, **words):
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
                ("entry", "logits", inputs | {"final": given["hidden_states"]}, ["logits"]),
                ("block", "layer_1", given, inside),
            ):
                self.assert_same_run(whole.values(entry, scope, known, values), stream.values(entry, scope, known, values))

    def test_every_worker_returns_the_same_bits(self):
        models = [TINY, TINY_FP8, fixtures("llama")[0], fixtures("deepseek_v3")[0]]
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
                    self.same_workers(engine, path, vocab_size, tapped_values(model, "layer_1"), **words)

    def test_stages_return_the_same_bits(self):
        for name, config in (("llama", TL | {"num_hidden_layers": 3}), ("mixture", TV3 | {"num_hidden_layers": 3})):
            source, model = write_folder(self.scratch / name, config), self.scratch / f"{name}.stages"
            tandem("convert", source, model, "--stages", 2)
            for engine in ("tf", "torch"):
                with self.subTest(model=name, engine=engine):
                    self.same_workers(engine, model, config["vocab_size"], tapped_values(model, "layer_1"))

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
                tandem("convert", folder, self.scratch / f"{folder.name}.stages", "--stages", 2)
                report = self.same_verify(f"hf:{folder}", f"tf:{self.scratch / folder.name}.stages", *levels)
                self.assertEqual((report["verdict"], len(report["levels"]), report["right"]["stages"]), ("equal", 5, "2"))

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

    def test_a_saved_model_that_python_wrote_again_is_refused(self):
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

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="tandem-test-", dir=BINARY_DIR)
        cls.addClassCleanup(scratch.cleanup)
        cls.folders = {}
        for name, config in (("wide", WIDE), ("narrow", NARROW), ("many", MIXTURE), ("few", FEW_EXPERTS)):
            cls.folders[name] = write_random_model(Path(scratch.name) / name, config)
        for name, source, dtype in (
            ("wide.f32", "wide", "float32"), ("narrow.f32", "narrow", "float32"), ("wide.bf16", "wide", "bfloat16"), ("narrow.bf16", "narrow", "bfloat16"),
            ("many.bf16", "many", "bfloat16"), ("few.bf16", "few", "bfloat16"),
        ):  # fmt: skip
            cls.folders[name] = Path(scratch.name) / name
            tandem("convert", cls.folders[source], cls.folders[name], "--dtype", dtype)

    def test_a_step_that_has_run_keeps_nothing(self):
        """TensorFlow's sessions keep the graph of whatever they ran: 78 steps of it here, beside next to no weights."""
        inputs = prompt(1, 2)
        with Worker("tf", self.folders["narrow.f32"], stream="1") as worker:
            worker.run("taps", inputs)
            before = worker.memory("VmRSS")
            for layer in range(NARROW["num_hidden_layers"] + 1):
                worker.values("logits", "entry", inputs, [f"x_{layer}"])
            grown = worker.memory("VmRSS") - before
        print(f"steps of {NARROW['num_hidden_layers']} layers keep {grown / MIB:.0f} MiB", flush=True)
        self.assertLess(grown, 100 * MIB)

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
        base, _ = self.work(engine, self.folders[narrow], layers, **words)
        peak, answer = self.work(engine, self.folders[wide], layers, **words)
        # Activations: a tap is held as the framework's tensor, as the answer's, and in the message that carries it.
        return peak - base - 3 * answer

    def check(self, rows, layers, values, most):
        """rows: engine, model, the same without width, bytes a value, words of op=load."""
        for engine, wide, narrow, size, words in rows:
            with self.subTest(engine=engine, model=wide, **words):
                ratio = self.growth(engine, wide, narrow, layers, **words) / (values * size)
                print(f"{engine} {wide} {words.get('dtype', '')}: {ratio:.2f}", flush=True)
                self.assertLessEqual(ratio, most)

    def test_no_worker_holds_more_than_a_layer(self):
        rows = (
            ("hf", "wide", "narrow", 4, {}),
            ("torch", "wide", "narrow", 4, {}),
            ("torch", "wide", "narrow", 8, {"dtype": "float64"}),
            ("torch", "wide.f32", "narrow.f32", 4, {}),
            ("tf", "wide.f32", "narrow.f32", 4, {}),
            ("tf", "wide.bf16", "narrow.bf16", 2 + 4, {}),  # kept, and cast by the delivered functions
        )
        self.check(rows, WIDE["num_hidden_layers"], LAYER_VALUES, 1.3)

    def test_experts_that_no_token_chooses_are_not_read(self):
        rows = (
            ("hf", "many", "few", 4, {}),
            ("torch", "many", "few", 4, {}),
            ("torch", "many", "few", 8, {"dtype": "float64"}),
            ("torch", "many.bf16", "few.bf16", 4, {}),
        )
        self.check(rows, MIXTURE["num_hidden_layers"], STACK_VALUES, 0.3)

    def test_a_mixture_in_tensorflow_is_a_layer_too(self):
        self.check((("tf", "many.bf16", "few.bf16", 2 + 4, {}),), MIXTURE["num_hidden_layers"], STACK_VALUES, 1.3)

    def test_the_program_itself_holds_activations_only(self):
        with tempfile.NamedTemporaryFile("w") as ids:
            ids.write("1 2 3\n")
            ids.flush()
            side = f"torch:{self.folders['wide']}"
            arguments = ["verify", side, side, "--levels", "layer,module,model", "--stream", "--no-float64", "--tokens", ids.name]
            program, peak = subprocess.Popen([TANDEM, *arguments], stdout=subprocess.DEVNULL), 0
            while program.poll() is None:
                peak = max(peak, resident(program.pid, "VmHWM") or 0)
                time.sleep(0.02)
        self.assertEqual(program.returncode, 0)
        print(f"verify itself: {peak / MIB:.0f} MiB", flush=True)
        self.assertGreater(peak, MIB)
        self.assertLess(peak, 64 * MIB)


if __name__ == "__main__":
    unittest.main()
