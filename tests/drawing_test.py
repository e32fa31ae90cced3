"""The signature generate draws what docs/sampling.md says: in Python, inside tf.function, in the C API, and as `tandem run` with every engine; every way to stop."""

import unittest

import numpy as np
import tensorflow as tf
from common import Case, config, fixtures, tandem
from frameworks import load_tf, tf_logits
from workers import Worker, WorkerError

RULES = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "seed": 0}
DTYPES = {"top_k": np.int32, "seed": np.int64}
MASK = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1]], np.int32)


def inputs_of(ids, mask, rows, limits, ends=()):
    """`rows`: the rules of each row; `ends`: its end tokens, of one number for all rows."""
    given = {name: np.array([{**RULES, **row}[name] for row in rows], DTYPES.get(name, np.float64)) for name in RULES}
    ends = np.array(ends, np.int32).reshape(len(ids), -1)
    return given | {"input_ids": ids, "attention_mask": mask, "max_new_tokens": np.array(limits, np.int32), "eos_token_ids": ends}


def in_python(model, inputs):
    return {name: value.numpy() for name, value in model.signatures["generate"](**{k: tf.constant(v) for k, v in inputs.items()}).items()}


def philox(counter, key):
    low, c, k = 0xFFFFFFFF, list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & low, a >> 32 ^ c[3] ^ k[1], a & low]
        k = [k[0] + 0x9E3779B9 & low, k[1] + 0xBB67AE85 & low]
    return c


def uniform(seed, row, step):
    c = philox((step, 0, row, 0), (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF))
    return ((c[1] << 32 | c[0]) >> 11) * 2.0**-53


def probabilities(logits, seen, rules):
    """Of every id, after all rules."""
    x = logits.astype(np.float64)
    for id in set(seen):
        x[id] = x[id] / rules["repetition_penalty"] if x[id] > 0 else x[id] * rules["repetition_penalty"]
    if rules["temperature"] == 0:
        return np.eye(len(x))[x.argmax()]
    order = np.argsort(-x, kind="stable")[: rules["top_k"] or None]
    p = np.exp((x[order] - x.max()) / rules["temperature"])
    if rules["top_p"] < 1:
        before = np.cumsum(p) - p
        order, p = order[before < rules["top_p"] * p.sum()], p[before < rules["top_p"] * p.sum()]
    order, p = order[p >= rules["min_p"]], p[p >= rules["min_p"]]
    found = np.zeros(len(x))
    found[order] = p / p.sum()
    return found


def drawn(model, ids, mask, rows, count):
    """`count` tokens a row, each of the logits of a forward of the whole."""
    prompt = ids.shape[1]
    for step in range(count):
        logits = tf_logits(model, ids, mask)[:, -1]
        made = []
        for number, row in enumerate(rows):
            rules = {**RULES, **row}
            p = probabilities(logits[number], ids[number][mask[number] == 1], rules)
            made.append(np.searchsorted(np.cumsum(p), uniform(rules["seed"], number, step), "right"))
        ids, mask = np.c_[ids, np.array(made, np.int32)], np.c_[mask, np.ones(len(ids), np.int32)]
    return ids[:, prompt:]


class Drawing(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sources = [fixtures("llama")[1], fixtures("deepseek_v3")[0]]

    def converted(self, number=0):
        """The model in Python, where it lies, and prompts of three rows, two of them padded on the left."""
        source, folder = self.sources[number], self.scratch / "model"
        tandem("convert", source, folder)
        return load_tf(folder), folder, np.random.default_rng(4).integers(2, config(source)["vocab_size"], MASK.shape, np.int32)

    def check_places(self, number, batches):
        """The rules' own words in Python, a signature in Python, in tf.function and in C give the same tokens."""
        model, folder, ids = self.converted(number)
        inside = tf.function(lambda **given: model.signatures["generate"](**given))
        with Worker("tf", folder) as worker:
            for rows in batches:
                inputs = inputs_of(ids, MASK, rows, [8, 8, 8])
                expected = drawn(model, ids, MASK, rows, 8)
                np.testing.assert_array_equal(in_python(model, inputs)["tokens"], expected, str(rows))
                np.testing.assert_array_equal(inside(**{k: tf.constant(v) for k, v in inputs.items()})["tokens"], expected)
                np.testing.assert_array_equal(worker.run("generate", inputs)["tokens"], expected)

    def test_the_same_tokens_in_Python_in_a_function_and_in_C_llama(self):
        self.check_places(0, [
            [{}, {"temperature": 0.3}, {"temperature": 2.5, "seed": 9}],
            [{"top_k": 3}, {"top_p": 0.6}, {"min_p": 0.2}],
            [{"repetition_penalty": 3.0}, {"repetition_penalty": 3.0, "temperature": 0}, {"top_k": 1000, "top_p": 1e-9}],
            [{"temperature": 1.1, "top_k": 40, "top_p": 0.95, "min_p": 0.01, "repetition_penalty": 1.2, "seed": -1}] * 3,
        ])  # fmt: skip

    def test_the_same_tokens_in_Python_in_a_function_and_in_C_deepseek_v3(self):
        self.check_places(1, [[{"top_p": 0.9, "top_k": 20}, {"temperature": 0}, {"min_p": 0.1, "seed": 2**40}]])

    def test_the_graph_writes_what_run_writes_with_every_engine(self):
        model, folder, _ = self.converted()
        for row in ({"temperature": 1.1, "top_k": 40, "top_p": 0.95, "min_p": 0.01, "repetition_penalty": 1.2, "seed": 5}, {"seed": -1, "top_p": 0.8}):
            ids = np.array([[3, 1, 4, 1, 5]], np.int32)
            expected = in_python(model, inputs_of(ids, np.ones_like(ids), [row], [10]))["tokens"][0].tolist()
            flags = [word for key, value in {**RULES, **row}.items() for word in ("--" + key.replace("_", "-"), str(value % 2**64 if key == "seed" else value))]
            for place, engine in ((folder, "tf"), (self.sources[0], "torch"), (self.sources[0], "hf")):
                run = tandem("run", place, "--engine", engine, "--tokens", "3,1,4,1,5", "--max-new-tokens", "10", "--ignore-eos", "--json", *flags)
                self.assertEqual(run.json["tokens"], expected, engine)

    def test_G06_temperature_0_is_generate_greedy(self):
        for number in (0, 1):
            source, folder = self.sources[number], self.scratch / str(number)
            tandem("convert", source, folder)
            model, end = load_tf(folder), config(source).get("eos_token_id")
            ids = np.array([[7, 3, 5], [0, 0, 9]], np.int32)
            inputs = inputs_of(ids, np.array([[1, 1, 1], [0, 0, 1]], np.int32), [{"temperature": 0, "top_p": 0.1}] * 2, [8, 8], [[-1 if end is None else end]] * 2)
            greedy = model.signatures["generate_greedy"](**{name: tf.constant(inputs[name]) for name in ("input_ids", "attention_mask", "max_new_tokens")})
            found = in_python(model, inputs)
            for name in ("tokens", "lengths"):
                np.testing.assert_array_equal(found[name], greedy[name])

    def test_draws_have_the_distribution_of_the_rules(self):
        model, _, ids = self.converted()
        count, rules = 4000, {**RULES, "temperature": 1.3, "top_k": 8, "seed": 77}
        many = np.repeat(ids[:1], count, 0)
        found = in_python(model, inputs_of(many, np.ones_like(many), [rules] * count, [1] * count))["tokens"][:, 0]
        p = probabilities(tf_logits(model, ids[:1], MASK[:1])[0, -1], [], rules)
        self.assertEqual((p > 0).sum(), 8)
        self.assertEqual(set(found), set(np.flatnonzero(p)))
        expected, counts = count * p[p > 0], np.bincount(found, minlength=len(p))[p > 0]
        self.assertLess(((counts - expected) ** 2 / expected).sum(), 24.3)  # chi-square of 7 degrees: 0.1 % are above

    def test_rows_stop_at_their_own_limit_or_any_of_their_own_end_tokens(self):
        model, _, ids = self.converted()
        rows = [{"seed": 3}, {"seed": 4}, {"temperature": 0}]
        whole = in_python(model, inputs_of(ids, MASK, rows, [9, 9, 9]))
        tokens = whole["tokens"]
        np.testing.assert_array_equal(whole["lengths"], [9, 9, 9])

        def stops(limits, ends):
            found = in_python(model, inputs_of(ids, MASK, rows, limits, ends))
            np.testing.assert_array_equal(found["tokens"].shape, (3, max(found["lengths"])))
            for row, length in enumerate(found["lengths"]):
                np.testing.assert_array_equal(found["tokens"][row, :length], tokens[row, :length])
                fill = max(ends[row][0], 0) if ends else 0
                np.testing.assert_array_equal(found["tokens"][row, length:], fill)
            return found["lengths"].tolist()

        def first(row, *ids):
            return next((i + 1 for i, id in enumerate(tokens[row]) if id in ids), 9)

        self.assertEqual(stops([2, 5, 0], ()), [2, 5, 0])
        self.assertEqual(stops([0, -1, 0], ()), [0, 0, 0])
        one = tokens[0, 3]
        self.assertEqual(stops([9, 9, 9], [[one], [-1], [-1]]), [first(0, one), 9, 9])  # one row, by its own token
        self.assertEqual(stops([9, 9, 2], [[one], [-1], [-1]]), [first(0, one), 9, 2])
        each = [[tokens[0, 4], tokens[0, 2]], [tokens[1, 1], -1], [-1, tokens[2, 5]]]  # several ids; all rows
        lengths = stops([9, 9, 9], each)
        self.assertEqual(lengths, [first(row, *each[row]) for row in range(3)])
        self.assertLess(max(lengths), 9)

    def test_what_is_out_of_range_is_refused(self):
        model, folder, ids = self.converted()
        wrong = {"temperature": -0.1, "top_k": -1, "top_p": 0.0, "min_p": 1.5, "repetition_penalty": float("nan")}
        with Worker("tf", folder) as worker:
            for name, value in wrong.items():
                inputs = inputs_of(ids, MASK, [{}, {name: value}, {}], [2, 2, 2])
                with self.assertRaisesRegex(tf.errors.InvalidArgumentError, f"sampling_c1: {name}: expected"):
                    in_python(model, inputs)
                with self.assertRaisesRegex(WorkerError, f"sampling_c1: {name}: expected"):
                    worker.run("generate", inputs)
        for name in RULES:
            inputs = inputs_of(ids, MASK, [{}] * 3, [2, 2, 2])
            inputs[name] = inputs[name][:1]
            with self.assertRaises(tf.errors.InvalidArgumentError, msg=name):
                in_python(model, inputs)

    def test_logits_that_are_none_are_refused(self):
        model, _, ids = self.converted()
        next(v for v in model.signatures["generate"].variables if "model/norm" in v.name).assign(np.full(config(self.sources[0])["hidden_size"], np.nan, np.float32))
        for temperature in (0, 1):
            with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "sampling_c2: the logits hold NaN"):
                in_python(model, inputs_of(ids, MASK, [{"temperature": temperature}] * 3, [2, 2, 2]))


if __name__ == "__main__":
    unittest.main()
