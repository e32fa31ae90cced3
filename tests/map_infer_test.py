"""map --infer: the rule table between two checkpoints, found from their values alone (issue 4, done-when 8).

The tables are compared with those of `tandem map`, which come from the config. What one side is called, its config and our own
record are taken away first.
"""

import json
import random
import shutil
import struct
import unittest
from itertools import product

from common import TINY, TINY_FP8, Case, run, tandem
from tiny import TL, TV3, bf16, f32, safetensors, values, weights, write_folder

# The MTP layer of the examples shares its embedding and head with the model, as DeepSeek-V3's does: equal on both sides.
SHARED = [
    {"model.embed_tokens.weight", "model.layers.5.embed_tokens.weight"},
    {"lm_head.weight", "model.layers.5.shared_head.head.weight"},
]
UNTOLD = ("trainable", "in_graph", "optional", "dtype", "shape")  # fields that values do not tell


def read(path):
    """name -> (dtype, shape, bytes) of one safetensors file."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return {n: (e["dtype"], e["shape"], data[8 + size + e["data_offsets"][0] : 8 + size + e["data_offsets"][1]]) for n, e in header.items()}


def plain(row):
    return json.loads(json.dumps({key: value for key, value in row.items() if key not in UNTOLD}))


def fill(pattern, place):
    for hole, value in place.items():
        pattern = pattern.replace("{%s}" % hole, str(value))
    return pattern


def merged(rows):
    """Rows of a table without the fields that values do not tell; rows that then differ in one adjoining range are one."""
    rows = sorted((plain(row) for row in rows if "ignore" not in row), key=lambda row: json.dumps(row, sort_keys=True))
    done = []
    for row in rows:
        for other in done:
            differ = [h for h in row["holes"] if other["holes"].get(h) != row["holes"][h]]
            same = {k: v for k, v in row.items() if k != "holes"} == {k: v for k, v in other.items() if k != "holes"}
            if same and row["holes"].keys() == other["holes"].keys() and len(differ) == 1:
                mine, its = row["holes"][differ[0]], other["holes"][differ[0]]
                if mine[0] == its[1]:
                    other["holes"][differ[0]] = [its[0], mine[1]]
                    break
        else:
            done.append(row)
    return {row["hf"] + str(row["holes"]): row for row in done}


def present(rows, names):
    """The rows whose tensors a checkpoint has, holes narrowed to what is there (MTP layers may be left out)."""
    kept = []
    for row in rows:
        places = [dict(zip(row["holes"], at)) for at in product(*(range(*r) for r in row["holes"].values()))]
        if any(fill(row["hf"], place) in names for place in places):
            kept.append(row)
    return kept


class Infer(Case):
    def infer(self, left, right, *arguments, code=0):
        out = self.scratch / "rules.json"
        found = tandem("map", "--infer", left, right, "--json", "--out", out, *arguments, code=code).json
        self.assertEqual(json.loads(out.read_text()), found["rules"])
        return found

    def bare(self, source, *arguments):
        """A SavedModel of the source, and both without config, record and graph: weights alone. Gives also the true rows."""
        model = self.scratch / "model.tf"
        tandem("convert", source, model, "--force", *arguments)
        rows = tandem("map", source, "--json").json["rules"]["rows"]
        hf = self.scratch / "bare"
        shutil.rmtree(hf, ignore_errors=True)
        hf.mkdir()
        for file in source.glob("*.safetensors*"):
            shutil.copy(file, hf)
        names = set().union(*(read(file) for file in hf.glob("*.safetensors")))
        return hf, model / "variables", present(rows, names)

    def assert_table(self, found, rows, ambiguous=()):
        """The table is the true one, and doubts are these groups of names alone (which the table has by --guess)."""
        self.assertGreater(len(rows), 10)
        self.assertEqual(merged(found["rules"]["rows"]), merged(rows))
        self.assertEqual([set(group["hf"]) for group in found["ambiguous"]], list(ambiguous))
        self.assertEqual({group["why"] for group in found["ambiguous"]}, {"equal values"} if ambiguous else set())
        self.assertEqual(found["certain"], not ambiguous)
        self.assertEqual((found["unpaired"], found["in_words"]), ([], []))

    def renamed(self, hf):
        """The same tensors in one file, each under a name without meaning."""
        tensors = {}
        for file in sorted(hf.glob("*.safetensors")):
            tensors |= read(file)
        names = sorted(tensors)
        random.Random(7).shuffle(names)
        given = {name: f"t{number * 7919 % 10007}" for number, name in enumerate(names)}
        path = self.scratch / "renamed.safetensors"
        path.write_bytes(safetensors({given[name]: tensors[name] for name in names}))
        return path, given

    def test_deepseek_v3_example(self):
        hf, tf, rows = self.bare(TINY)
        found = self.infer(hf, tf, "--guess", code=1)
        self.assert_table(found, rows, SHARED)
        kept = {row["hf"]: row["dtype"] for row in found["rules"]["rows"]}
        self.assertEqual(kept["model.layers.{layer}.mlp.gate.e_score_correction_bias"], "f32")

    def test_sides_may_be_swapped_and_written_any_way(self):
        hf, tf, rows = self.bare(TINY)
        found = self.infer(tf / "variables.index", hf / "model.safetensors", "--guess", code=1)
        self.assertEqual((found["hf_side"], found["tf_side"]), ("right", "left"))
        self.assert_table(found, rows, SHARED)
        self.assert_table(self.infer(TINY, tf.parent, "--guess", code=1), rows, SHARED)

    def test_fp8_against_bf16_and_f32(self):
        for dtype in ("bfloat16", "float32"):
            with self.subTest(dtype):
                hf, tf, rows = self.bare(TINY_FP8, "--dtype", dtype)
                found = self.infer(hf, tf, "--guess", code=1)
                quantised = {name for file in hf.glob("*.safetensors") for name, entry in read(file).items() if entry[0] == "F8_E4M3"}
                for row in rows:  # the file decides where the step shows
                    holes = [dict(zip(row["holes"], at)) for at in product(*(range(*r) for r in row["holes"].values()))]
                    if not any(fill(row["hf"], place) in quantised for place in holes):
                        row["steps"] = [step for step in row["steps"] if not step.startswith("block_dequantize")]
                self.assertTrue(any("block_dequantize(128,128,_scale_inv)" in row["steps"] for row in rows))
                self.assert_table(found, rows, SHARED)

    def test_casts_between_the_sides(self):
        source = write_folder(self.scratch / "f32", TV3)
        for dtype in ("bfloat16", "float16"):
            with self.subTest(dtype):
                hf, tf, rows = self.bare(source, "--dtype", dtype)
                found = self.infer(hf, tf)
                self.assert_table(found, rows)
                self.assertEqual({pair["equal_in"] for pair in found["pairs"] if "equal_in" in pair}, {dtype})

    def test_llama(self):
        for tied in (False, True):
            with self.subTest(tied=tied):
                source = write_folder(self.scratch / f"llama{tied}", TL | {"tie_word_embeddings": tied, "attention_bias": True})
                hf, tf, rows = self.bare(source)
                self.assert_table(self.infer(hf, tf), rows)

    def test_names_without_meaning(self):
        hf, tf, rows = self.bare(TINY)
        path, given = self.renamed(hf)
        found = self.infer(path, tf, code=1)
        expected = {}
        for row in rows:
            stack = [step for step in row["steps"] if step.startswith("stack")]
            layers = range(*row["holes"].get("layer", [0, 1]))
            for layer in layers:
                experts = range(*row["holes"]["expert"]) if stack else [0]
                hf_names = [given[fill(row["hf"], {"layer": layer, "expert": expert})] for expert in experts]
                expected[fill(row["tf"], {"layer": layer})] = hf_names
        groups = {frozenset(group["hf"]) for group in found["ambiguous"]}
        self.assertEqual(groups, {frozenset(given[name] for name in group) for group in SHARED})
        for group in found["ambiguous"]:
            for name in group["tf"]:
                self.assertIn(expected.pop(name)[0], group["hf"])
        self.assertEqual({pair["tf"][0]: pair["hf"] for pair in found["pairs"]}, expected)
        self.assertEqual(found["unpaired"], [])

    def test_a_copy_of_a_tied_head(self):
        c = TL | {"tie_word_embeddings": True}
        tensors = weights(c)
        both = tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"]}
        hf, tf, _ = self.bare(write_folder(self.scratch / "tied", c, tensors))
        (hf / "model.safetensors").write_bytes(safetensors(both))
        found = self.infer(hf, tf)
        self.assertEqual(found["copies"], [{"side": "left", "copy": "lm_head.weight", "of": "model.embed_tokens.weight"}])
        (row,) = [row for row in found["rules"]["rows"] if row["hf"] == "lm_head.weight"]
        self.assertEqual(row["tied_to"], "model.embed_tokens.weight")

    def test_equal_tensors_are_said_to_be_ambiguous(self):
        tensors = weights(TL)
        for layer in range(2):
            for norm in ("input", "post_attention"):
                tensors[f"model.layers.{layer}.{norm}_layernorm.weight"] = f32([16], [1.0] * 16)
        hf, tf, rows = self.bare(write_folder(self.scratch / "ones", TL, tensors))
        found = self.infer(hf, tf, code=1)
        (group,) = found["ambiguous"]
        self.assertEqual(group["why"], "equal values")
        self.assertEqual(sorted(group["hf"]), sorted(name for name in tensors if "layernorm" in name))
        self.assertEqual(len(group["tf"]), 4)
        self.assertEqual([row["hf"] for row in found["rules"]["rows"] if "layernorm" in row["hf"]], [])
        for guess in group["guess"]:
            self.assertEqual(guess["tf"][0], guess["hf"][0].replace(".", "/"))
        self.assertIn("a guess by name and order", tandem("map", "--infer", hf, tf, code=1).out)
        guessed = self.infer(hf, tf, "--guess", code=1)
        self.assertEqual(merged(guessed["rules"]["rows"]), merged(rows))

    def test_a_changed_value_leaves_both_unpaired(self):
        hf, tf, _ = self.bare(write_folder(self.scratch / "model", TL))
        tensors = read(hf / "model.safetensors")
        name = "model.layers.1.mlp.up_proj.weight"
        dtype, shape, data = tensors[name]
        tensors[name] = (dtype, shape, data[:40] + struct.pack("<f", 0.0625) + data[44:])
        (hf / "model.safetensors").write_bytes(safetensors(tensors))
        found = self.infer(hf, tf, code=1)
        self.assertEqual({lone["tensor"] for lone in found["unpaired"]}, {name, "model/layers/1/mlp/up_proj/kernel"})
        self.assertEqual({lone["side"] for lone in found["unpaired"]}, {"left", "right"})
        self.assertIn(f"near to {name}, but not equal", [lone["hint"] for lone in found["unpaired"]])

    def test_a_tensor_on_one_side_only(self):
        hf, tf, _ = self.bare(write_folder(self.scratch / "model", TL))
        tensors = read(hf / "model.safetensors") | {"extra.weight": f32([5], values("extra", [5]))}
        (hf / "model.safetensors").write_bytes(safetensors(tensors))
        found = self.infer(hf, tf, code=1)
        self.assertEqual([(lone["tensor"], lone["side"]) for lone in found["unpaired"]], [("extra.weight", "left")])

    def test_a_port_made_by_hand(self):
        """Kernels transposed and cut into heads, q, k and v fused, gate and up side by side, layers stacked."""
        c, heads, width = TL, 4, 4
        tensors, port = weights(c), {}

        def numbers(name):
            _, shape, data = tensors[name]
            flat = struct.unpack(f"<{len(data) // 4}f", data)
            return [list(flat[row * shape[-1] : (row + 1) * shape[-1]]) for row in range(len(flat) // shape[-1])]

        def kernel(name):
            return list(map(list, zip(*numbers(name))))

        def put(name, shape, rows):
            port[name] = bf16(f32(shape, [value for row in rows for value in row]))

        for layer in range(2):
            at = f"model.layers.{layer}."
            q, k, v = (kernel(f"{at}self_attn.{part}_proj.weight") for part in "qkv")
            put(f"dec/block_{layer}/qkv", [16, 32], [a + b + c for a, b, c in zip(q, k, v)])
            put(f"dec/block_{layer}/out", [heads, width, 16], kernel(at + "self_attn.o_proj.weight"))
            gate, up = numbers(at + "mlp.gate_proj.weight"), numbers(at + "mlp.up_proj.weight")
            put(f"dec/block_{layer}/wi", [48, 16], gate + up)
            put(f"dec/block_{layer}/wo", [24, 16], kernel(at + "mlp.down_proj.weight"))
        norms = ("input", "post_attention")
        for norm in norms:
            put(f"dec/{norm}_scale", [2, 16], [row for layer in range(2) for row in numbers(f"model.layers.{layer}.{norm}_layernorm.weight")])
        put("table", [32, 16], numbers("model.embed_tokens.weight"))
        put("final", [16], numbers("model.norm.weight"))
        put("logits", [16, 32], kernel("lm_head.weight"))
        (self.scratch / "port.safetensors").write_bytes(safetensors(port))
        hf = write_folder(self.scratch / "hf", c, tensors)
        found = self.infer(hf, self.scratch / "port.safetensors")
        rules = {row["hf"]: row for row in found["rules"]["rows"]}
        self.assertEqual(rules["lm_head.weight"]["steps"], ["transpose(1,0)"])
        down = rules["model.layers.{layer}.mlp.down_proj.weight"]
        self.assertEqual((down["tf"], down["holes"]), ("dec/block_{layer}/wo", {"layer": [0, 2]}))
        self.assertEqual(rules["model.layers.{layer}.input_layernorm.weight"]["steps"], ["stack(layer,2)"])
        words = "\n".join(found["in_words"])
        self.assertIn("q_proj.weight + model.layers.{layer}.self_attn.k_proj.weight + model.layers.{layer}.self_attn.v_proj.weight"
                      " -> dec/block_{layer}/qkv: transpose(1,0), concatenate on axis 1", words)  # fmt: skip
        self.assertIn("gate_proj.weight + model.layers.{layer}.mlp.up_proj.weight -> dec/block_{layer}/wi: concatenate on axis 0", words)
        self.assertIn("o_proj.weight -> dec/block_{layer}/out: transpose(1,0), reshape to [4, 4, 16]", words)
        self.assertEqual(len(found["in_words"]), 3)

    def test_rules_that_cannot_be_written(self):
        model = write_folder(self.scratch / "model", TL)
        result = tandem("map", "--infer", model, model, "--out", self.scratch / "nowhere" / "rules.json", code=73)
        self.assertIn("cannot create", result.err)
        (self.scratch / "taken").mkdir()
        (self.scratch / "taken" / "file").touch()
        self.assertNotEqual(run("map", "--infer", model, model, "--out", self.scratch / "taken").code, 0)
        self.assertEqual(sorted(path.name for path in self.scratch.iterdir()), ["model", "taken"])

    def test_what_is_not_there_or_no_checkpoint(self):
        model = write_folder(self.scratch / "model", TL)
        self.assertIn("no such file or folder", tandem("map", "--infer", model, self.scratch / "nowhere", code=66).err)
        (self.scratch / "cut.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:-8])
        self.assertIn("cut.safetensors", tandem("map", "--infer", self.scratch / "cut.safetensors", model, code=65).err)

    def test_wrong_uses(self):
        model = write_folder(self.scratch / "model", TL)
        for says, arguments in (
            ("--infer needs two checkpoints", ["--infer", model]),
            ("is a second", [model, model]),
            ("--guess requires --infer", [model, "--guess"]),
            ("--check excludes --infer", ["--infer", model, model, "--check", "x"]),
        ):
            with self.subTest(says):
                self.assertIn(says, tandem("map", *arguments, code=2).err)


if __name__ == "__main__":
    unittest.main()
