"""The command line itself: what goes to which stream, and words that a user can act on, for every kind of wrong use."""

import json
import os
import signal
import subprocess
import time
import unittest

from common import TANDEM, Case, run, tandem
from memory_test import write_random_llama
from tiny import TL, write_folder

COMMANDS = ("inspect", "map", "convert", "slice", "plan", "run-task", "finalize", "verify", "run", "record", "plant", "bench", "sign", "check", "tokenize", "chat-template")


class CommandLine(Case):
    def setUp(self):
        super().setUp()
        self.model = write_folder(self.scratch / "model", TL)

    def refused(self, code, *arguments):
        """The error of a wrong use: nothing on stdout; on stderr one line of words or, with --json, one JSON document."""
        words = tandem(*arguments, code=code)
        self.assertEqual(words.out, "")
        self.assertRegex(words.err, r"\Atandem: [^\n]+\n\Z")
        asked = tandem(*arguments, "--json", code=code)
        self.assertEqual(asked.out, "")
        error = json.loads(asked.err)["error"]
        self.assertEqual(error["exit_code"], code)
        self.assertIn(error["text"], words.err)
        return words.err

    def test_wrong_uses_are_one_line_or_one_document(self):
        model, out = self.model, self.scratch / "out"
        (model / "t.jinja").write_text("{{ 1 }}")
        (model / "m.json").write_text("[]")
        for code, says, arguments in (
            (2, 'there is no command "convrt", only inspect map convert slice plan run-task finalize verify run record plant bench sign check tokenize chat-template', ["convrt", "a", "b"]),
            (2, "SRC is required (see tandem convert --help)", ["convert"]),
            (2, "not expected: --nope", ["convert", model, out, "--nope"]),
            (2, "--to pickle: expected saved_model", ["convert", model, out, "--to", "pickle"]),
            (2, "--dtype int8: expected one of", ["convert", model, out, "--dtype", "int8"]),
            (2, '--max-new-tokens: "-5" is no whole number', ["run", model, "--tokens", "1", "--max-new-tokens=-5"]),
            (2, '--threads: "x" is no whole number', ["run", model, "--tokens", "1", "--threads", "x"]),
            (2, '--atol: "nan" is no number above 0', ["verify", model, model, "--atol", "nan"]),
            (2, '--atol: "inf" is no number above 0', ["verify", model, model, "--atol", "inf"]),
            (2, '--levels: "all" is none of weights, ', ["verify", model, model, "--levels", "weights,all"]),
            (2, "--levels: name at least one of weights, ", ["verify", model, model, "--levels", ""]),
            (2, '--prompts: "x" is no whole number', ["verify", model, model, "--prompts", "x"]),
            (2, "--prompts: 2000000 is above 1000000", ["verify", model, model, "--prompts", "2000000"]),
            (2, "--tokens excludes --prompts", ["verify", model, model, "--prompts", "2", "--tokens", "ids.txt"]),
            (2, '--timeout: "0" is no number above 0', ["verify", model, model, "--timeout", "0"]),
            (2, "no engine 'keras'; there are tf, torch, hf, keras_hub, dump", ["verify", f"keras:{model}", model]),
            (2, "no engine 'keras'; there are tf, torch, hf, keras_hub, dump", ["run", model, "--tokens", "1", "--engine", "keras"]),
            (65, "tf runs SavedModels, hf Hugging Face folders", ["run", model, "--tokens", "1", "--engine", "tf"]),
            (2, "--set x: expected NAME=VALUE", ["chat-template", model / "t.jinja", "--messages", model / "m.json", "--set", "x"]),
            (2, "--set tools: there is an option for it", ["chat-template", model / "t.jinja", "--messages", model / "m.json", "--set", "tools=1"]),
            (66, "no chat_template.jinja, chat_template.json or tokenizer_config.json", ["chat-template", self.scratch, "--messages", model / "m.json"]),
            (2, "what shall be continued? A text, --tokens or --chat", ["run", model]),
            (2, "what shall be continued? A text, --tokens or --chat", ["run", model, "--tokens", ""]),
            (2, "a text and --tokens: give one of them", ["run", model, "Hello", "--tokens", "1"]),
            (2, "--system needs --chat", ["run", model, "Hello", "--system", "Be kind"]),
            (2, "--set needs --chat", ["run", model, "Hello", "--set", "a=1"]),
            (2, "--stop needs a text, not --tokens", ["run", model, "--tokens", "1", "--stop", "x"]),
            (2, "--compare needs a text, or ids", ["run", model, "--chat", "--compare", "torch"]),
            (2, "sampling_c1: temperature is -1, expected 0 to ", ["run", model, "Hello", "--temperature", "-1"]),
            (2, "sampling_c1: temperature is nan, expected 0 to ", ["run", model, "Hello", "--temperature", "nan"]),
            (2, "--seed: 18446744073709551616 is above 2^64 - 1", ["run", model, "Hello", "--seed", "18446744073709551616"]),
            (2, "sampling_c1: top_p is 1.5, expected above 0 to 1", ["run", model, "Hello", "--top-p", "1.5"]),
            (2, "sampling_c1: min_p is -0.1, expected 0 to 1", ["run", model, "Hello", "--min-p", "-0.1"]),
            (2, "sampling_c1: repetition_penalty is 0, expected ", ["run", model, "--chat", "--repetition-penalty", "0"]),
            (2, '--top-k: "1.5" is no whole number', ["run", model, "--tokens", "1", "--top-k", "1.5"]),
            (2, '--seed: "x" is no whole number', ["run", model, "Hello", "--seed", "x"]),
            (2, "--greedy takes the most likely token", ["run", model, "Hello", "--greedy", "--top-k", "5"]),
            (66, "the model has no tokenizer.json", ["run", model, "Hello"]),
            (65, "no token ids", ["run", model, "--tokens", ","]),
            (65, '"-1" is no list of token ids', ["run", model, "--tokens", "-1"]),
            (65, "is not below vocab_size", ["run", model, "--tokens", "0,99999"]),
            (65, "is no list of token ids", ["run", model, "--tokens", "99999999999999999999"]),
            (66, "no such file or folder", ["inspect", self.scratch / "nowhere"]),
            (73, "cannot create", ["map", model, "--out", self.scratch / "nowhere" / "map.json"]),
            (73, "cannot make directory", ["convert", model, model / "config.json" / "out"]),
            (73, "exists already", ["convert", model, self.scratch / "model" / "config.json"]),
            (2, "the output holds", ["convert", model, model, "--force"]),
        ):
            with self.subTest(arguments=arguments):
                self.assertIn(says, self.refused(code, *arguments))
        self.assertFalse(out.exists())

    def test_a_result_is_one_document(self):
        for arguments in (["inspect", self.model], ["map", self.model], ["convert", self.model, self.scratch / "a"]):
            result = tandem(*arguments, "--json")
            json.loads(result.out)
            self.assertEqual(result.err, "")

    def test_an_accepted_key_swallows_no_path(self):
        for arguments in (["--accept-key", "a", self.model], [self.model, "--accept-key", "a", "--accept-key", "b"]):
            tandem("inspect", *arguments, "--json")

    def test_every_help_has_examples(self):
        self.assertIn("with examples", tandem("--help").out)
        for command in COMMANDS:
            words = tandem(command, "--help").out
            self.assertIn("Examples:\n  tandem " + command, words)
            self.assertIn("--json", words)

    def test_output_that_is_lost_is_an_error(self):
        for arguments in (["inspect"], ["inspect", "--json"], ["map"], ["map", "--json"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([TANDEM, *arguments, self.model], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 74, done.stderr)
            self.assertIn("standard output", done.stderr)

    def test_names_that_shells_fear(self):
        for name in ("with space", "ünïcode", "new\nline", "-dash", "quote'\"", "a:b", "%s%n"):
            made = self.scratch / name / "tf"
            tandem("convert", self.model, made)
            back = self.scratch / name / "back"
            tandem("convert", made, back)
            self.assert_same_checkpoint(self.model, back)

    def test_relative_paths_and_links(self):
        (self.scratch / "link").symlink_to("model")
        (self.scratch / "in").mkdir()
        for at, source, out in (
            (self.scratch, "model/", "o1/"), (self.scratch, "./model/../model", "./model/../o2"), (self.model, ".", "../o3"),
            (self.scratch / "in", "../link/", "o4"), (self.scratch, "link", "o5"), (self.model, "../link/.", "inside"),
        ):  # fmt: skip
            done = run("convert", source, out, cwd=at)
            self.assertEqual(done.code, 0, done)
            self.assertEqual(run("convert", out, out.rstrip("/") + ".back", cwd=at).code, 0)
            self.assert_same_checkpoint(self.model, at / (out.rstrip("/") + ".back"))

    def test_a_hub_cache(self):
        hub = self.scratch / "models--a--b"
        revision = hub / "snapshots" / "0123"
        revision.mkdir(parents=True)
        (hub / "blobs").mkdir()
        for number, file in enumerate(sorted(self.model.iterdir())):
            (hub / "blobs" / f"{number:040x}").write_bytes(file.read_bytes())
            (revision / file.name).symlink_to(f"../../blobs/{number:040x}")
        tandem("convert", revision, self.scratch / "out")
        for above in (hub, hub / "snapshots"):
            self.assertIn("name the folder of a revision, as snapshots/0123", self.refused(65, "inspect", above))


class Stopped(Case):
    """F6: a signal in the middle of a conversion."""

    def test_F6_F7_signals(self):
        source, out = self.scratch / "llama", self.scratch / "out"
        write_random_llama(source)
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)):
            process = subprocess.Popen([TANDEM, "convert", source, out, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while not list(self.scratch.glob(".out.tandem-work/tmp/*")):
                self.assertIsNone(process.poll())
                time.sleep(0.01)
            other = run("convert", source, out)
            self.assertEqual(other.code, 75, other)
            self.assertIn(f"locked by pid {process.pid}", other.err)
            sent = time.monotonic()
            process.send_signal(number)
            words, _ = process.communicate()
            self.assertLess(time.monotonic() - sent, 2)
            self.assertEqual((process.returncode, words), (code, b""))
            left = [name for name in os.listdir(self.scratch) if name != "llama"]
            self.assertEqual(len(left), 2 if number == signal.SIGKILL else 0, left)
        tandem("convert", source, out)  # and clears what the killed one left
        self.assertEqual(sorted(os.listdir(self.scratch)), ["llama", "out"])


if __name__ == "__main__":
    unittest.main()
