"""Rows of the public reports that need TensorFlow or transformers (see cases_test.py and docs/cases.md)."""

import json
import math
import os
import shutil
import unittest

import numpy as np
import tensorflow as tf
from common import ROOT, Case, config, run, tandem, verify
from frameworks import compare, load_tf, load_torch, prompts, tf_logits, torch_logits
from tensorflow.core.protobuf import saved_model_pb2
from tiny import TL, TV3, f32, header_bytes, shapes, weights, write_folder
from workers import Worker, WorkerError

import make_fixtures

TV2 = TV3 | {"q_lora_rank": None, "num_nextn_predict_layers": 0, "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2}


def read_graph(folder):
    return saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())


def all_nodes(folder):
    graph = read_graph(folder).meta_graphs[0].graph_def
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def frequencies(folder):
    """The rotary frequencies in the written graph; every function has the same."""
    tables = {tf.make_ndarray(n.attr["value"].tensor).tobytes() for n in all_nodes(folder) if n.op == "Const" and "table" in n.name}
    assert len(tables) == 1, tables
    return np.frombuffer(tables.pop(), np.float32)


def inputs_of(signature, ids):
    """What a signature asks for, of one sequence without padding."""
    ids = tf.constant(ids, tf.int32)
    inputs = {"input_ids": ids, "attention_mask": tf.ones_like(ids), "position_ids": tf.range(ids.shape[1])[None]}
    return {name: inputs[name] for name in signature.structured_input_signature[1]}


class Frameworks(Case):
    def fixture(self, c, name="in"):
        return make_fixtures.make_fixture(c, self.scratch / name)

    def converted(self, source, *arguments, name="out"):
        tandem("convert", source, self.scratch / name, *arguments)
        return self.scratch / name

    def assert_logits(self, c):
        source, out = self.fixture(c, f"in{c['num_hidden_layers']}"), self.scratch / "model"
        tandem("convert", source, out, "--force")
        ours, reference = load_tf(out), load_torch(source)
        for ids, mask in prompts(c["vocab_size"]):
            expected = torch_logits(reference, ids, mask)
            self.assertGreater(np.sqrt((expected**2).mean()), 0.3)
            error, kl, flips = compare(tf_logits(ours, ids, mask), expected, mask)
            self.assertLessEqual(error, 1e-5)
            self.assertLessEqual(kl, 1e-9)
            self.assertEqual(flips, 0)


class Rotary(Frameworks):
    """Frequencies in the graph that is written, against values worked out beforehand."""

    def constants(self, name, **changes):
        return frequencies(self.converted(write_folder(self.scratch / name, TL | changes), name=name + ".out"))

    def test_N10_frequencies_come_from_the_config_on_every_run(self):
        os.environ["MALLOC_PERTURB_"] = "165"  # fresh memory is junk
        self.addCleanup(os.environ.pop, "MALLOC_PERTURB_")
        for attempt in ("one", "two"):
            self.assertEqual(self.constants(attempt).tolist(), [1.0, float(np.float32(0.01))])

    def test_R04_yarn_blends_between_its_bounds(self):
        yarn = {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1}
        found = self.constants("yarn", head_dim=64, max_position_embeddings=163840, rope_scaling=yarn)
        expected = {0: 1, 10: 0.05623413, 11: 0.03900693, 16: 0.0055, 22: 1.778279e-4, 23: 3.333804e-5, 31: 3.333804e-6}
        np.testing.assert_allclose(found[list(expected)], list(expected.values()), rtol=1e-6)

    def test_R05_linear_scaling_divides_the_angle(self):
        found = self.constants("linear", rope_theta=100000.0, rope_scaling={"type": "linear", "factor": 4.0})
        self.assertEqual(8 * found[0], 2.0)

    def test_R07_llama3_smooths_the_middle_frequencies(self):
        llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
        found = self.constants("llama3", head_dim=8, rope_theta=500000.0, max_position_embeddings=65536, rope_scaling=llama3)
        np.testing.assert_allclose(found, [1, 0.03760603, 5.248462e-4, 6.64787e-6], rtol=1e-6)

    def test_R02_the_yarn_multiplier_reads_both_mscales(self):
        yarn = {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 64, "beta_fast": 32, "beta_slow": 1, "mscale_all_dim": 0.707}
        for mscale, multiplier in ((0.707, 1.0), (1.0, 1.0857264)):
            c = TV3 | {"max_position_embeddings": 2560, "rope_scaling": yarn | {"mscale": mscale}}
            out = self.converted(write_folder(self.scratch / f"in{mscale}", c), name=f"out{mscale}")
            taps = load_tf(out).signatures["taps"]
            cos = taps(**inputs_of(taps, [[3]]))["model.rotary_emb"].numpy()
            np.testing.assert_allclose(cos, np.full_like(cos, multiplier), rtol=1e-6)  # cos 0 times the multiplier


class Semantics(Frameworks):
    def test_N15_with_and_without_the_low_rank_query(self):
        self.assert_logits(TV3)
        self.assert_logits(TV3 | {"q_lora_rank": None, "num_hidden_layers": 2})

    def test_N23_biases_are_used(self):
        self.assert_logits(TL | {"attention_bias": True})
        done = run("inspect", write_folder(self.scratch / "qwen2", TL | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}))
        self.assertIn("qwen2", done.out + done.err)
        self.assertNotEqual(done.code, 0)

    def test_L05_query_heads_0_to_3_read_kv_heads_0_0_1_1(self):
        c = TL | {"attention_bias": True}
        entries = weights(c)
        for layer in (0, 1):
            at = f"model.layers.{layer}.self_attn."
            entries[at + "v_proj.weight"] = f32([8, 16], [0.0] * 128)
            entries[at + "v_proj.bias"] = f32([8], [1.0] * 4 + [2.0] * 4)
            entries[at + "o_proj.weight"] = f32([16, 16], np.eye(16).ravel().tolist())
            entries[at + "o_proj.bias"] = f32([16], [0.0] * 16)
        taps = load_tf(self.converted(write_folder(self.scratch / "in", c, entries))).signatures["taps"]
        found = taps(**inputs_of(taps, [[3, 1, 4, 1, 5]]))["model.layers.1.self_attn.o_proj"]
        np.testing.assert_allclose(found.numpy().reshape(5, 4, 4), np.broadcast_to(np.array([1, 1, 2, 2.0])[None, :, None], (5, 4, 4)), atol=1e-6)

    def test_R12_first_dense_layers_and_two_shared_experts(self):
        for first_k in (0, 1, 2):
            c = TV2 | {"n_shared_experts": 2, "first_k_dense_replace": first_k}
            self.assert_logits(c)
            entries = tandem("map", self.scratch / "in3", "--json").json["tensors"]
            of = {entry["hf"][0]: entry["hf_shape"] for entry in entries}
            for layer in range(3):
                at = f"model.layers.{layer}.mlp."
                wide = of.get(at + "gate_proj.weight") or of[at + "shared_experts.gate_proj.weight"]
                self.assertEqual(wide, [24, 16] if layer < first_k else [12, 16])

    def test_R13_left_padding_gives_no_NaN(self):
        source = self.fixture(TL)
        ids, mask = np.array([[0, 0, 0, 7, 9]], np.int32), np.array([[0, 0, 0, 1, 1]], np.int32)
        for compute in ("float32", "bfloat16"):
            model = load_tf(self.converted(source, "--compute", compute, name=compute))
            padded = tf_logits(model, ids, mask)
            self.assertTrue(np.isfinite(padded).all())
            alone = tf_logits(model, ids[:, 3:], mask[:, 3:])
            np.testing.assert_allclose(padded[:, 3:], alone, atol=1e-5 if compute == "float32" else 0.2, rtol=0)

    def test_G01_lengths_1_5_and_17_of_TL(self):
        model = load_tf(self.converted(self.fixture(TL)))
        ids = np.arange(17, dtype=np.int32)[None] * 5 % 32
        logits = {n: tf_logits(model, ids[:, :n], np.ones((1, n), np.int32)) for n in (1, 5, 17)}
        for n in (1, 5):
            np.testing.assert_allclose(logits[17][:, :n], logits[n], atol=1e-5, rtol=0)
        self.assertEqual(model.signatures["serving_default"].structured_outputs["logits"].shape.as_list(), [None, None, 32])


class Precision(Frameworks):
    def test_D08_the_bias_of_1_001_is_chosen_in_a_bfloat16_model(self):
        c = TV3 | {"n_group": 1, "topk_group": 1, "num_experts_per_tok": 1}
        entries = weights(c)
        for layer in (1, 2):
            at = f"model.layers.{layer}.mlp.gate."
            rows = np.frombuffer(entries[at + "weight"][2], np.float32).reshape(8, 16).copy()
            rows[5] = rows[2]
            entries[at + "weight"] = f32([8, 16], rows.ravel().tolist())
            entries[at + "e_score_correction_bias"] = f32([8], [0, 0, 1.0, 0, 0, 1.001, 0, 0])
        out = self.converted(write_folder(self.scratch / "in", c, entries), "--dtype", "bfloat16")
        model = load_tf(out)
        biases = [v for v in model.variables if "correction_bias" in v.name]
        self.assertEqual([(v.dtype, v.trainable) for v in biases], [(tf.float32, False)] * 2)
        taps = model.signatures["taps"]
        found = taps(**inputs_of(taps, [[3, 1, 4, 1, 5]]))
        for layer in (1, 2):
            self.assertEqual(np.unique(found[f"model.layers.{layer}.mlp.gate"].numpy()).tolist(), [5])

    def test_D10_bfloat16_storage_computes_as_float32_on_the_same_weights(self):
        narrow = self.converted(self.fixture(TL), "--dtype", "bfloat16", name="narrow")
        self.assertEqual({v.dtype for v in load_tf(narrow).variables}, {tf.bfloat16})
        rounded = self.converted(narrow, "--dtype", "float32", name="rounded")
        wide = self.converted(rounded, name="wide")
        ids = "1,2,3"
        self.assertEqual(tandem("run", narrow, "--tokens", ids).out, tandem("run", wide, "--tokens", ids).out)
        report = verify(f"tf:{narrow}", f"tf:{wide}", "--levels", "model", "--atol", "1e-5")
        self.assertTrue(report["equal"])
        self.assertLess(report["levels"]["model"]["max_abs_error"], 1e-5)

    def test_compute_bfloat16_converts_runs_and_is_held_to_its_own_bar(self):
        for c in (TL, TV3):
            source = self.fixture(c, c["model_type"])
            out = self.converted(source, "--compute", "bfloat16", name=c["model_type"] + ".out")
            self.assertIn("bf16", (out / "assets" / "tandem_contract.txt").read_text())
            new = tandem("run", out, "--tokens", "1,2,3", "--max-new-tokens", "4", "--ignore-eos").out
            self.assertEqual(len(new.strip().split(",")), 4)
            report = verify(f"hf:{source}", f"tf:{out}")
            self.assertTrue(report["equal"])
            self.assertGreater(report["levels"]["model"]["max_abs_error"], 1e-5)  # and it did compute in bfloat16


class Graphs(Frameworks):
    def broken(self, good, edit):
        model = saved_model_pb2.SavedModel.FromString(good)
        edit(model.meta_graphs[0].graph_def)
        (self.scratch / "out" / "saved_model.pb").write_bytes(model.SerializeToString())
        return self.scratch / "out"

    def test_T2_graphs_that_TensorFlow_must_not_see(self):
        def calls_itself(graph):
            function = next(f for f in graph.library.function if any("f" in n.attr for n in f.node_def))
            for node in function.node_def:
                if "f" in node.attr:
                    node.attr["f"].func.name = function.signature.name

        def cycle(graph):
            nodes = [n for n in graph.library.function[0].node_def if n.input]
            nodes[0].input[0] = nodes[-1].name + ":output:0"
            nodes[-1].input[0] = nodes[0].name + ":output:0"

        def no_value(graph):
            for node in (n for f in graph.library.function for n in f.node_def if n.op == "Const"):
                del node.attr["value"]

        def wrong_attribute(graph):
            for node in (n for f in graph.library.function for n in f.node_def if n.op == "Const"):
                node.attr["dtype"].s = b"float"

        good = (self.converted(write_folder(self.scratch / "in", TL)) / "saved_model.pb").read_bytes()
        for edit in (calls_itself, cycle, no_value, wrong_attribute):
            folder = self.broken(good, edit)
            for command in (("run", folder, "--tokens", "1,2"), ("convert", folder, self.scratch / "back")):
                done = tandem(*command, code=65)
                self.assertIn("T2", done.err, edit.__name__)

    def test_G05_no_mixed_integer_types(self):
        for c in (TL, TV3):
            out = self.converted(write_folder(self.scratch / c["model_type"], c), name=c["model_type"] + ".out")
            for key, signature in load_tf(out).signatures.items():
                for name, spec in signature.structured_input_signature[1].items():
                    # Rules of drawing are double, as the host's loop has them; a seed has 64 bits. Ids and counts never do.
                    rules = {"seed": tf.int64} | dict.fromkeys(("temperature", "top_p", "min_p", "repetition_penalty"), tf.float64)
                    expected = (rules[name],) if key == "generate" and name in rules else (tf.int32, tf.float32)
                    self.assertIn(spec.dtype, expected, (key, name))

    def test_M01_2_2_GB_of_weights(self):
        c = TL | {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 19, "num_attention_heads": 16, "num_key_value_heads": 4,
                  "head_dim": 128, "vocab_size": 1024, "torch_dtype": "bfloat16"}  # fmt: skip
        source = self.scratch / "in"
        source.mkdir()
        (source / "config.json").write_text(json.dumps(c))
        header, at = {}, 0
        for name, shape in shapes(c):
            size = 2 * math.prod(shape)
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
            at += size
        self.assertGreater(at, 2.2e9)
        data = header_bytes(header)
        (source / "model.safetensors").write_bytes(data)
        os.truncate(source / "model.safetensors", len(data) + at)
        out = self.converted(source)
        self.assertLess((out / "saved_model.pb").stat().st_size, 20_000_000)
        self.assertLess(max(n.attr["value"].tensor.ByteSize() for n in all_nodes(out) if n.op == "Const"), 1_000_000)
        new = tandem("run", out, "--tokens", "1,2", "--max-new-tokens", "1", "--engine", "tf").out
        self.assertEqual(new.strip(), "0")  # all logits are zero



class Serving(Frameworks):
    def test_S01_the_last_token_and_the_likeliest_in_a_small_reply(self):
        bytes_of_all = 8 * 128 * 102_400 * 4
        text = (ROOT / "docs" / "generation.md").read_text()
        for size in (bytes_of_all, bytes_of_all // 128, 8 * 50 * 8, 4 << 20):
            self.assertIn(f"{size:,}", text)
        folder = self.converted(self.fixture(TL))
        model = load_tf(folder)
        ids, mask = np.array([[3, 1, 4, 1, 5], [0, 0, 9, 2, 6]], np.int32), np.array([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]], np.int32)
        whole = tf_logits(model, ids, mask)[:, -1]
        given = {"input_ids": ids, "attention_mask": mask}
        top_k = {"top_k": np.array([3, 5], np.int32)}
        with Worker("tf", folder) as worker:
            for call in (worker.run, lambda name, inputs: {k: v.numpy() for k, v in model.signatures[name](**{k: tf.constant(v) for k, v in inputs.items()}).items()}):
                np.testing.assert_allclose(call("next_logits", given)["logits"], whole[:, None], atol=1e-6, rtol=0)
                likeliest = call("next_tokens", given | top_k)
                np.testing.assert_array_equal(likeliest["tokens"], np.argsort(-whole, kind="stable")[:, :5])
                logarithms = whole - np.log(np.exp(whole.astype(np.float64)).sum(-1, keepdims=True))
                np.testing.assert_allclose(likeliest["log_probabilities"], np.take_along_axis(logarithms, likeliest["tokens"], 1), atol=2e-6, rtol=0)
                self.assertEqual(call("next_tokens", given | {"top_k": np.array([1, 999], np.int32)})["tokens"].shape, (2, 32))

    def test_S04_a_call_without_the_mask_names_it_and_ids_alone_have_a_signature(self):
        folder = self.converted(self.fixture(TL))
        model, ids = load_tf(folder), np.array([[3, 1, 4]], np.int32)
        with self.assertRaisesRegex(TypeError, "attention_mask"):
            model.signatures["serving_default"](input_ids=tf.constant(ids))
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            signature = tf.compat.v1.saved_model.load(session, ["serve"], str(folder)).signature_def["serving_default"]
            with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "attention_mask"):
                session.run(signature.outputs["logits"].name, {signature.inputs["input_ids"].name: ids})
        with Worker("tf", folder) as worker:
            with self.assertRaisesRegex(WorkerError, "input 'attention_mask' is missing"):
                worker.run("serving_default", {"input_ids": ids})
            np.testing.assert_array_equal(worker.run("input_ids_only", {"input_ids": ids})["logits"], tf_logits(model, ids, np.ones_like(ids)))
        text = (ROOT / "docs" / "generation.md").read_text()
        self.assertIn("`input_ids_only` is `serving_default` with a mask of ones", text)


class Text(Frameworks):
    def tokenizer_of(self, tokens):
        """A tokenizer.json whose vocabulary is that many characters, "A" the first."""
        vocabulary = {chr(ord("A") + i): i for i in range(tokens)}
        model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                 "byte_fallback": False, "ignore_merges": False, "vocab": vocabulary, "merges": []}  # fmt: skip
        parts = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
        return json.dumps({"version": "1.0", "added_tokens": [], "model": model} | dict.fromkeys(parts))

    def test_T07_rows_beyond_the_tokenizer_are_kept_and_never_chosen(self):
        c = TL | {"vocab_size": 40}
        source = write_folder(self.scratch / "source", c)
        (source / "tokenizer.json").write_text(self.tokenizer_of(33))
        asked = ("--engine", "torch", "--threads", "1", "--max-new-tokens", "4", "--json")
        usual = run("run", source, "--tokens", "0,1", *asked).json["tokens"]
        entries = weights(c)
        head = np.frombuffer(entries["lm_head.weight"][2], np.float32).reshape(40, 16).copy()
        head[[usual[0], 38]] = head[[38, usual[0]]]  # now a row that no token has is the most likely one
        shutil.rmtree(source)
        write_folder(source, c, entries | {"lm_head.weight": f32((40, 16), list(map(float, head.reshape(-1))))})
        (source / "tokenizer.json").write_text(self.tokenizer_of(33))
        self.assertEqual(run("run", source, "--tokens", "0,1", *asked).json["tokens"][0], 38)
        written = run("run", source, "AB", *asked).json
        self.assertEqual(written["prompt"], [0, 1])
        self.assertLess(max(written["tokens"]), 33)
        out, back = self.scratch / "out", self.scratch / "back"
        tandem("convert", source, out)
        self.assertLess(max(run("run", out, "AB", "--max-new-tokens", "4", "--json").json["tokens"]), 33)
        tandem("convert", out, back)
        self.assert_same_checkpoint(source, back)
        (source / "tokenizer.json").write_text(self.tokenizer_of(41))
        refused = run("run", source, "AB", *asked)
        self.assertEqual(refused.code, 65)
        self.assertIn("the tokenizer has 41 tokens, 1 of them with ids from 40 on, for which the model has no row", refused.err)


if __name__ == "__main__":
    unittest.main()
