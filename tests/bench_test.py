"""tandem bench: limits and contenders, run for real; and what is not the same model is not timed."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

from common import TANDEM, TINY, Case, fixtures, run, tandem
from schemas_test import problems

from browser import Page

QUICK = ("--rounds", "2", "--prefill", "16", "--decode", "12+6", "--batch", "1,2", "--threads", "1")


class Bench(Case):
    def infer(self, model, *arguments):
        report = tandem("bench", "infer", model, *QUICK, "--json", *arguments).json
        self.assertEqual(problems("bench-infer", report), [])
        return report

    def test_limits(self):
        limits = tandem("bench", "limits", "--threads", "1", "--folder", self.scratch, "--json").json
        self.assertEqual(problems("bench-limits", limits), [])
        self.assertEqual(limits["threads"], 1)
        self.assertGreater(limits["disk_read_bytes_per_s"], 0)
        self.assertEqual(list(self.scratch.iterdir()), [])

    def test_contenders_agree_and_are_timed(self):
        for model in (fixtures("llama", 1)[0], TINY):
            with self.subTest(model.name):
                report = self.infer(model, "--contenders", "transformers,tf,tf-xla")
                self.assertEqual([scenario["name"] for scenario in report["scenarios"]], ["prefill 16", "decode 12-18", "decode 12-18, batch 2"])
                self.assertEqual(report["contenders"]["tf"]["engine"], "tensorflow")
                self.assertIn(report["contenders"]["transformers"]["attention"], ("sdpa", "eager"))
                for scenario in report["scenarios"]:
                    self.assertEqual([result["contender"] for result in scenario["results"]], ["transformers", "tf", "tf-xla"])
                    self.assertEqual(scenario["results"][0]["ratio"], {"median": 1.0, "low": 1.0, "high": 1.0})
                    for result in scenario["results"][1:]:
                        self.assertEqual(len(result["seconds"]), 2)
                        self.assertLess(result["max_abs_error"], 1e-4)
                        if scenario["what"] == "decode":
                            self.assertEqual(result["same_tokens"] == 7, not result["near_tie"])

    def test_weights_in_bfloat16_are_prepared_and_timed(self):
        model, prepared = fixtures("llama", 1)[0], self.scratch / "prepared"
        made = tandem("bench", "prepare", model, prepared, "--contenders", "tf-xla-bf16", "--json").json
        self.assertEqual(problems("bench-prepare", made), [])
        self.assertEqual((list(made["made"]), made["not_made"]), (["bf16.savedmodel"], {}))
        self.assertEqual([path.name for path in prepared.iterdir()], ["bf16.savedmodel"])
        report = self.infer(model, "--prepared", prepared, "--contenders", "tf-xla,tf-xla-bf16")
        for scenario in report["scenarios"]:
            result = scenario["results"][1]
            self.assertNotIn("failure", result)
            self.assertGreater(result["max_abs_error"], 1e-4 * result["logits_rms"])
        failed = tandem("bench", "prepare", TINY, self.scratch / "mixture", "--contenders", "tf-xla-bf16", code=65)
        self.assertIn("experts are stacked into one tensor", failed.err)
        self.assertEqual([path.name for path in self.scratch.iterdir()], ["prepared"])

    def test_the_page_draws_its_charts(self):
        path = self.scratch / "bench.html"
        self.infer(fixtures("llama", 1)[0], "--contenders", "transformers,tf", "--report", path)
        with Page() as page:
            page.open(path.as_uri(), "document.documentElement.dataset.drawn === 'yes'")
            self.assertEqual(page.evaluate("[...document.querySelectorAll('figure svg')].map((svg) => svg.querySelectorAll('path').length > 10)"), [True, True])
            self.assertEqual(page.messages, [])
            self.assertEqual([url for url in page.requests if not url.startswith("file:")], [])

    def test_a_conversion_beside_a_copy_and_beside_python(self):
        model = fixtures("llama", 1)[0]
        for flags, first in ([], "copy"), (["--layout", "source", "--cold"], "read"):
            report = tandem("bench", "convert", model, self.scratch, *flags, "--python", "--rounds", "2", "--json").json
            self.assertEqual(problems("bench-convert", report), [])
            self.assertEqual([contender["name"] for contender in report["contenders"]], [first, "tandem", "python"])
            for contender in report["contenders"]:
                self.assertEqual((contender["failure"], len(contender["seconds"])), ("", 2))
                self.assertGreater(contender["peak_bytes"], 1 << 20)
            self.assertGreater(report["contenders"][2]["peak_bytes"], 5 * report["contenders"][1]["peak_bytes"])
            self.assertEqual(list(self.scratch.iterdir()), [])

    def test_a_conversion_that_fails_is_told_and_leaves_nothing(self):
        model = fixtures("llama", 1)[0]
        failed = run("bench", "convert", model, self.scratch, "--layout", "source", "--dtype", "float32")
        self.assertEqual(failed.code, 2)
        self.assertIn("--layout source takes tensors and files as they are", failed.err)
        self.assertEqual(list(self.scratch.iterdir()), [])

    def test_another_model_is_not_timed(self):
        model = fixtures("llama", 1)[0]
        tandem("convert", model, self.scratch / "right", "--dtype", "float32")
        tandem("plant", "mask.causal", self.scratch / "right", self.scratch / "wrong")
        report = self.infer(model, "--contenders", "transformers,tf", "--graph", self.scratch / "wrong", "--prefill", "16")
        for scenario in report["scenarios"]:
            self.assertEqual(sorted(scenario["results"][1]), ["contender", "failure"])
            self.assertIn("from the reference's", scenario["results"][1]["failure"])

    def test_load_to_first_token_is_of_a_new_process_each_round(self):
        model = fixtures("llama", 1)[0]
        report = tandem("bench", "infer", model, "--contenders", "tf", "--rounds", "2", "--load", "12", "--threads", "1", "--json").json
        self.assertEqual(problems("bench-infer", report), [])
        (scenario,) = report["scenarios"]
        self.assertEqual((scenario["name"], scenario["what"]), ("load to first token, prompt 12", "load"))
        self.assertEqual(len(scenario["memory_read_bytes_per_s"]), 2)
        (result,) = scenario["results"]
        self.assertEqual(len(result["seconds"]), 2)
        self.assertGreater(result["to_first_token_s"]["median"], result["to_load_s"]["median"])
        self.assertNotIn("tokens_per_s", result)

    def test_what_was_not_prepared_is_told(self):
        report = self.infer(fixtures("llama", 1)[0], "--contenders", "tf,onnxruntime,llama.cpp-q8_0", "--decode", "12+2", "--batch", "1")
        self.assertEqual(sorted(report["not_started"]), ["llama.cpp-q8_0", "onnxruntime"])
        self.assertIn("llama.cpp-q8_0 reads q8_0.gguf, which is not there", report["not_started"]["llama.cpp-q8_0"])
        self.assertIn("tandem bench prepare", report["not_started"]["onnxruntime"])

    def test_prepare_without_its_tools_leaves_nothing(self):
        model, out = fixtures("llama", 1)[0], self.scratch / "prepared"
        for python in (self.scratch / "none", sys.executable):  # no interpreter; one without optimum
            with self.subTest(python):
                of = ("--contenders", "onnxruntime,llama.cpp,llama.cpp-bf16")
                done = run("bench", "prepare", model, out, "--json", *of, env=os.environ | {"TANDEM_BENCH_PYTHON": str(python)})
                error = json.loads(done.err)["error"]
                self.assertEqual((done.code, error["kind"], error["rule"]), (69, "unavailable", "engine_c1"), done)
                self.assertIn("make venv-bench", error["hint"])
                self.assertEqual(list(self.scratch.iterdir()), [])
        done = run("bench", "prepare", model, out, "--json", env=os.environ | {"TANDEM_BENCH_PYTHON": sys.executable})
        self.assertEqual((done.code, list(done.json["made"])), (0, ["bf16.savedmodel"]), done)  # needs no tool
        self.assertEqual(sorted(done.json["not_made"]), ["bf16.gguf", "f32.gguf", "onnx", "q8_0.gguf"])
        done = run("bench", "prepare", model, out)
        self.assertEqual(done.code, 73, done)
        self.assertIn("is there already", done.err)
        done = run("bench", "prepare", model, self.scratch / "new", "--contenders", "tf,transformers")
        self.assertEqual(done.code, 2, done)
        self.assertIn("tf, transformers read nothing that is prepared", done.err)

    def test_ctrl_c_says_so_and_leaves_nothing(self):
        environment = {**os.environ, "TMPDIR": str(self.scratch)}
        model = fixtures("llama", 1)[0]
        for words in ("infer", model, "--contenders", "tf", "--rounds", "100000", "--prefill", "64"), ("convert", model, self.scratch, "--rounds", "100000"):
            with self.subTest(words[0]):
                command = [TANDEM, "bench", *words]
                with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
                    time.sleep(4)
                    self.assertIsNone(process.poll())
                    os.killpg(process.pid, signal.SIGINT)
                    _, said = process.communicate(timeout=20)
                self.assertEqual((process.returncode, said), (130, "tandem: stopped by a signal\n"))
                self.assertEqual(list(self.scratch.iterdir()), [])

    def test_words_that_are_wrong(self):
        for code, says, arguments in (
            (2, 'there is no contender "tensorflow", only tf, tf-xla, tf-xla-bf16, transformers, torch-compile, keras-hub, onnxruntime, llama.cpp,', ["--contenders", "tensorflow"]),
            (2, "--decode 128: expected PROMPT+STEPS", ["--decode", "128"]),
            (2, "--decode 0+5: expected PROMPT+STEPS", ["--decode", "0+5"]),
            (2, "expected numbers from 1", ["--prefill", "0"]),
        ):
            with self.subTest(says):
                done = run("bench", "infer", TINY, *arguments)
                self.assertEqual(done.code, code, done)
                self.assertIn(says, done.err)
        tandem("convert", TINY, self.scratch / "graph")
        done = run("bench", "infer", self.scratch / "graph")
        self.assertEqual(done.code, 2, done)
        self.assertIn("is no Hugging Face folder: every contender reads one", done.err)


if __name__ == "__main__":
    unittest.main()
