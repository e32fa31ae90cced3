"""run --compiled: what is compiled when, counted and held to the modules that XLA dumps; --warm-up and --stats."""

import os
import unittest
from unittest import mock

import numpy as np
from common import Case, config, fixtures, run, tandem
from schemas_test import problems
from workers import Worker


def layer_kinds(source):
    """How many functions the layers of a model are."""
    c = config(source)
    return len({layer >= c.get("first_k_dense_replace", 0) for layer in range(c["num_hidden_layers"])})


class WarmUp(Case):
    def converted(self, source):
        tandem("convert", source, self.scratch / source.name)
        return self.scratch / source.name

    def check_counts(self, source, kinds):
        """XLA writes a module for each compilation: after every call there are as many as were counted."""
        self.assertEqual(layer_kinds(source), kinds)
        folder, dump = self.converted(source), self.scratch / f"dump-{source.name}"

        def modules():
            return len({path.name.split(".")[0] for path in dump.glob("module_*")})

        with mock.patch.dict(os.environ, XLA_FLAGS=f"--xla_dump_to={dump}"), Worker("tf", folder, compiled="1") as worker:

            def compiled(tokens, rows=1):
                ids = np.ones((rows, tokens), np.int32)
                inputs = {"input_ids": ids, "attention_mask": ids, "position_ids": np.tile(np.arange(tokens, dtype=np.int32), (rows, 1))}
                worker.call({"op": "run", "entry": "logits", "outputs": "logits", "tokens": "last"}, inputs)
                count = int(worker.call({"op": "compilations"})[0]["compilations"])
                self.assertEqual(count, modules())
                return count

            self.assertEqual(compiled(5), kinds)
            self.assertEqual(compiled(6), 2 * kinds)  # goes on: a step
            # New lengths inside a bucket, prompts and steps, compile nothing.
            self.assertEqual([compiled(tokens) for tokens in (7, 20, 21, 3, 64, 65, 66)], [2 * kinds] * 7)
            if kinds == 1:
                self.assertEqual(compiled(65, rows=2), 3 * kinds)  # another bucket, another batch
                self.assertEqual(compiled(90, rows=2), 3 * kinds)

    def test_a_new_prompt_length_inside_a_bucket_compiles_nothing_llama(self):
        self.check_counts(fixtures("llama")[1], 1)

    def test_a_new_prompt_length_inside_a_bucket_compiles_nothing_deepseek_v3(self):
        self.check_counts(next(source for source in fixtures("deepseek_v3") if layer_kinds(source) == 2), 2)

    def test_after_a_warm_up_an_answer_compiles_nothing(self):
        folder = self.converted(fixtures("llama")[1])

        def stats(tokens, *flags):
            ids = ",".join(map(str, range(3, 3 + tokens)))
            found = tandem("run", folder, "--tokens", ids, "--max-new-tokens", "4", "--ignore-eos", "--compiled", "--stats", "--json", *flags).json
            self.assertEqual(problems("run", found), [])
            return found["stats"]

        cold, warm = stats(5), stats(20, "--warm-up", "1,60")
        self.assertEqual(cold["compilations"], {"answer": 2})
        self.assertEqual(warm["compilations"], {"answer": 0, "warm_up": 2})  # one bucket: 60 finds it compiled
        self.assertLess(warm["first_token_s"], cold["first_token_s"])
        self.assertLess(max(warm["first_token_s"], warm["per_token_s"]), warm["warm_up_s"])
        self.assertEqual(stats(70, "--warm-up", "20")["compilations"], {"answer": 2, "warm_up": 2})

    def test_stats_in_words_are_no_part_of_the_answer(self):
        source = fixtures("llama")[1]
        arguments = ["run", self.converted(source), "--tokens", "3,1,4", "--max-new-tokens", "3", "--ignore-eos"]
        plain, told = tandem(*arguments), tandem(*arguments, "--stats")
        self.assertEqual((plain.out, plain.err), (told.out, ""))
        patterns = [r"load +\d+\.\d\d s", r"first token +[\d.]+ ms, after 3 tokens", r"per token +[\d.]+ ms, [\d.]+ a second \(median of 2\)", "compilations  0"]
        self.assertRegex(told.err, "^" + "\n".join(patterns) + "\n$")

    def test_what_cannot_be_warmed_up_is_refused(self):
        source = fixtures("llama")[1]
        folder, most = self.converted(source), config(source)["max_position_embeddings"]
        compiled = ["--tokens", "3,1", "--compiled"]
        for arguments, text in (
            ([folder, "--tokens", "3,1", "--warm-up", "64"], "--warm-up needs --compiled"),
            ([folder, *compiled, "--warm-up", "64,x"], '"x" is no whole number'),
            ([folder, *compiled, "--warm-up", "0"], "--warm-up 0: expected prompts of 1 token or more"),
            ([folder, *compiled, "--warm-up", str(most)], f"leave room below {most}"),
            ([folder, *compiled, "--stats", "--compare", "torch"], "--stats and --warm-up are of one engine"),
            ([source, *compiled, "--engine", "torch"], "the engine 'torch' compiles nothing; tf does"),
        ):
            done = run("run", *arguments)
            self.assertEqual(done.code, 2, done)
            self.assertIn(text, done.err)


if __name__ == "__main__":
    unittest.main()
