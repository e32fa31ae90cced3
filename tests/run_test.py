"""`tandem run`: a text in, a text out, whatever engine runs it; what ends an answer; conversations; two engines side by side."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from common import TANDEM, TINY, Case, run, tandem
from tokenizers import Tokenizer

PROMPT = "def area(width, height):"
START = 0  # the example's start token, which its tokenizer_config.json asks for
ONE = ("--engine", "torch", "--threads", "1")
FAST = (*ONE, "--greedy")  # the example's generation_config.json asks for sampling
TOKENIZER = Tokenizer.from_file(str(TINY / "tokenizer.json"))


class Example(Case):
    def setUp(self):
        super().setUp()
        self.model = shutil.copytree(TINY, self.scratch / "model")

    def ids(self, text):
        return [START, *TOKENIZER.encode(text).ids]

    def continued(self, *arguments, prompt=PROMPT, model=None):
        return tandem("run", model or self.model, prompt, *FAST, "--json", *arguments).json

    def change(self, file, **changes):
        path = self.model / file
        path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | changes))


class CtrlC(Example):
    def test_it_is_one_line_whatever_the_engine_was_doing(self):
        """As a terminal sends it: to the workers too, while they start and while they compute."""
        tandem("convert", self.model, self.scratch / "tf")
        before = sorted(os.listdir(self.scratch))
        engines = [f"hf:{self.model}", f"tf:{self.scratch / 'tf'}"]
        for command in (["verify", *engines], ["record", engines[0], "--out", self.scratch / "dump"]):
            for seconds in (0.7, 2.2):  # record takes three on a machine with nothing else to do
                with self.subTest(command=command[0], seconds=seconds):
                    with subprocess.Popen([TANDEM, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
                        time.sleep(seconds)
                        self.assertIsNone(process.poll(), "it had ended before the signal")
                        os.killpg(process.pid, signal.SIGINT)
                        _, said = process.communicate(timeout=30)
                    self.assertEqual(process.returncode, 130, said)
                    self.assertRegex(said, r"\Atandem: ([^\n]*: )?stopped by a signal[^\n]*\n\Z")
                    self.assertNotIn("killed", said)
                    self.assertEqual(sorted(os.listdir(self.scratch)), before)

    def test_a_signal_to_verify_alone_ends_it_too(self):
        """A supervisor signals one process, where Ctrl-C reaches the engines too."""
        command = [TANDEM, "verify", self.model, self.model, "--stream"]
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            time.sleep(2)
            self.assertIsNone(process.poll())
            sent = time.monotonic()
            process.send_signal(number)
            out, err = process.communicate()
            self.assertLess(time.monotonic() - sent, 4)
            self.assertEqual((process.returncode, out, err), (code, "", "tandem: stopped by a signal\n"))


class Run(Example):
    def test_every_engine_writes_the_text_of_its_ids(self):
        tandem("convert", self.model, self.scratch / "tf")
        written = {}
        for engine, model in (("hf", self.model), ("torch", self.model), ("tf", self.scratch / "tf")):
            asked = ("--engine", engine, "--threads", "1", "--max-new-tokens", 12, "--greedy")
            ids = tandem("run", model, "--tokens", ",".join(map(str, self.ids(PROMPT))), *asked).out
            written[engine] = tandem("run", model, PROMPT, *asked).out
            wanted = TOKENIZER.decode([*self.ids(PROMPT), *map(int, ids.split(","))], skip_special_tokens=True)
            self.assertEqual(PROMPT + written[engine], wanted + "\n")
        self.assertEqual(len(set(written.values())), 1, written)

    def test_a_prompt_from_the_standard_input(self):
        done = subprocess.run([TANDEM, "run", self.model, "-", *FAST, "--max-new-tokens", "3", "--json"], input=PROMPT.encode(), capture_output=True, check=True)
        self.assertEqual(json.loads(done.stdout)["prompt"], self.ids(PROMPT))

    def test_what_ends_an_answer(self):
        whole = self.continued("--max-new-tokens", 12)
        self.assertEqual((whole["finish_reason"], len(whole["tokens"])), ("length", 12))
        third = TOKENIZER.decode(whole["tokens"][2:3])
        cut = self.continued("--max-new-tokens", 12, "--stop", third)
        self.assertEqual((cut["finish_reason"], cut["stop_string"]), ("stop_string", third))
        self.assertEqual(cut["text"], whole["text"].partition(third)[0])
        self.change("generation_config.json", max_new_tokens=2)
        self.assertEqual(self.continued()["tokens"], whole["tokens"][:2])
        self.change("generation_config.json", max_new_tokens=None, max_length=len(self.ids(PROMPT)) + 3, stop_strings=["\x00"])
        self.assertEqual(self.continued()["tokens"], whole["tokens"][:3])

    def test_T11_every_stop_token_of_the_generation_config_ends_it(self):
        whole = self.continued("--max-new-tokens", 6)
        self.assertIn(self.stop_at(None, 1), (whole["tokens"], ))  # config.json alone: the model does not emit 1
        second = whole["tokens"][1]
        self.assertEqual(self.stop_at([1, second], 1), whole["tokens"][:2])
        self.assertEqual(self.stop_at(second, 1), whole["tokens"][:2])
        self.change("generation_config.json", pad_token_id=second)
        self.assertEqual(self.stop_at([1], 1), whole["tokens"])
        self.assertEqual(self.stop_at(None, second), whole["tokens"][:2])
        self.stop_at([1, second], 1)
        tandem("convert", self.model, self.scratch / "tf")
        tandem("convert", self.scratch / "tf", self.scratch / "back")
        for kept in (self.scratch / "tf" / "assets", self.scratch / "back"):
            self.assertEqual(json.loads((kept / "generation_config.json").read_text())["eos_token_id"], [1, second])

    def stop_at(self, generation, config):
        """The ids that are written with these end tokens in the two files."""
        self.change("generation_config.json", eos_token_id=generation)
        self.change("config.json", eos_token_id=config)
        return self.continued("--max-new-tokens", 6)["tokens"]

    def test_what_the_files_ask_for_and_is_not_done_is_said(self):
        self.change("generation_config.json", num_beams=4, wings=2)
        notes = self.continued("--max-new-tokens", 1)["notes"]
        self.assertEqual([note.partition(" ")[0] for note in notes], ["tokenizer_config.json", *["generation_config.json"] * 2])
        for said in ("names the class LlamaTokenizerFast", "num_beams 4: not done", "nobody reads: wings"):
            self.assertIn(said, str(notes))
        printed = tandem("run", self.model, PROMPT, *FAST, "--max-new-tokens", "1").err
        self.assertEqual([line.removeprefix("note: ") for line in printed.splitlines()], notes)

    def test_wrong_files_are_named(self):
        for file, content, says in (
            ("generation_config.json", '{"eos_token_id": 5000}', "generation_config.json: generation_c1: eos_token_id must be an id below 4096"),
            ("generation_config.json", '{"do_sample": 1}', "generation_config.json: generation_c1: do_sample must be true or false, found 1"),
            ("generation_config.json", '{"repetition_penalty": -2}', "generation_config.json: generation_c1: repetition_penalty is -2, expected 1e-06 to"),
            ("tokenizer_config.json", '{"add_bos_token": 1}', "tokenizer_config.json: text_c2: add_bos_token must be true or false"),
            ("tokenizer.json", "{", "model/tokenizer.json"),
        ):
            with self.subTest(file):
                kept = (self.model / file).read_bytes()
                (self.model / file).write_text(content)
                self.assertIn(says, tandem("run", self.model, PROMPT, *FAST, code=65).err)
                (self.model / file).write_bytes(kept)
        (self.model / "tokenizer.json").unlink()
        self.assertIn("the model has no tokenizer.json", tandem("run", self.model, PROMPT, *FAST, code=66).err)
        self.change("tokenizer_config.json", chat_template=None)
        shutil.copy(TINY / "tokenizer.json", self.model)
        self.assertIn("no chat_template in it (a base model has none)", tandem("run", self.model, "--chat", *FAST, code=65).err)

    def test_a_prompt_that_fills_the_context_is_refused(self):
        self.change("tokenizer_config.json", chat_template="{{ messages[-1]['content'] * 400 }}")
        refused = tandem("run", self.model, "--chat", "a b c d", *FAST, code=65).err
        self.assertRegex(refused, r"the prompt has \d+ tokens, and the model reads \d+ \(max_position_embeddings\)")

    def test_ctrl_c_keeps_what_was_written(self):
        command = [TANDEM, "run", self.model, PROMPT, *FAST, "--max-new-tokens", "900", "--ignore-eos"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        first = os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 130)
        self.assertTrue((first + rest).endswith(b"\n"))
        self.assertLess(len(TOKENIZER.encode((first + rest).decode()).ids), 800)


class Sampling(Example):
    def drawn(self, *arguments, model=None, engine="torch"):
        return tandem("run", model or self.model, PROMPT, "--engine", engine, "--threads", "1", "--max-new-tokens", 16, "--ignore-eos", *arguments, "--json").json

    def test_one_seed_gives_one_text_with_every_engine(self):
        tandem("convert", self.model, self.scratch / "tf")
        asked = ("--temperature", 1.3, "--top-k", 0, "--top-p", 0.95, "--min-p", 0.001, "--repetition-penalty", 1.1, "--seed", 5)
        runs = [self.drawn(*asked, engine=engine, model=model) for engine, model in (("hf", self.model), ("torch", self.model), ("tf", self.scratch / "tf"))]
        self.assertEqual([one["tokens"] for one in runs], [runs[0]["tokens"]] * 3)
        used = {"do_sample": True, "temperature": 1.3, "top_k": 0, "top_p": 0.95, "min_p": 0.001, "repetition_penalty": 1.1, "seed": 5}
        self.assertEqual([one["sampling"] for one in runs], [used] * 3)
        self.assertNotEqual(self.drawn(*asked[:-1], 6)["tokens"], runs[0]["tokens"])

    def test_a_seed_that_nobody_asked_for_makes_the_text_again(self):
        first = self.drawn("--temperature", 2)
        seed = first["sampling"]["seed"]
        self.assertEqual(self.drawn("--temperature", 2, "--seed", seed), first)
        self.assertNotEqual(self.drawn("--temperature", 2)["sampling"]["seed"], seed)
        printed = tandem("run", self.model, PROMPT, *ONE, "--max-new-tokens", 16, "--ignore-eos", "--temperature", 2)
        (flags,) = (line.rpartition(": ")[2].split() for line in printed.err.splitlines() if "tokens are drawn" in line)
        self.assertEqual(tandem("run", self.model, PROMPT, *ONE, "--max-new-tokens", 16, "--ignore-eos", *flags).out, printed.out)

    def test_generation_config_says_how_and_flags_come_first(self):
        said = {"do_sample": True, "temperature": 0.6, "top_k": 50, "top_p": 0.95, "min_p": 0, "repetition_penalty": 1}
        found = self.drawn()["sampling"]
        self.assertEqual(found | said, found)
        self.change("generation_config.json", top_k=7, min_p=0.1, repetition_penalty=1.2, do_sample=False)
        self.assertEqual(self.drawn()["sampling"], {"do_sample": False, "repetition_penalty": 1.2})
        wanted = said | {"top_k": 7, "min_p": 0.1, "repetition_penalty": 1.2, "temperature": 0.9, "seed": 3}
        asked = ("--temperature", 0.9, "--seed", 3)
        self.assertEqual(self.drawn(*asked)["sampling"], wanted)
        self.assertEqual(tandem("run", self.model, "--tokens", "0,335", *ONE, *asked, "--json").json["sampling"], wanted)
        self.change("generation_config.json", do_sample=True, top_k=1, repetition_penalty=1)
        self.assertEqual(self.drawn()["tokens"], self.drawn("--greedy")["tokens"])

    def test_every_answer_of_a_conversation_has_its_own_draws(self):
        command = [TANDEM, "run", self.model, "--chat", *ONE, "--max-new-tokens", "12", "--ignore-eos", "--temperature", "2", "--seed", "5", "--json"]
        said = [subprocess.run(command, input="Hello\n/reset\nHello\n", capture_output=True, text=True, check=True).stdout for _ in range(2)]
        self.assertEqual(said[0], said[1])
        first, second = map(json.loads, said[0].splitlines())
        self.assertEqual((first["prompt"], first["sampling"]), (second["prompt"], second["sampling"]))
        self.assertNotEqual(first["tokens"], second["tokens"])
        alone = subprocess.run([*command, "Hello"], capture_output=True, check=True).stdout
        self.assertEqual(json.loads(alone), first)


class Chat(Example):
    def chat(self, lines, *arguments):
        command = [TANDEM, "run", self.model, "--chat", *FAST, "--max-new-tokens", "6", *arguments]
        return subprocess.run([str(part) for part in command], input=lines, capture_output=True, text=True, timeout=120)

    def test_a_conversation_is_what_the_template_makes_of_it(self):
        done = self.chat("Hello\n\nAnd you?\n/reset\nHello\n", "--json", "--system", "Be kind.")
        first, second, again = map(json.loads, done.stdout.splitlines())
        kind = "Be kind.<｜User｜>Hello<｜Assistant｜>"
        self.assertEqual(first["prompt"], self.ids(kind))
        self.assertEqual(again, first)
        told = f"{kind}{first['text']}<｜end▁of▁sentence｜><｜User｜>And you?<｜Assistant｜>"
        self.assertEqual(TOKENIZER.decode(second["prompt"], skip_special_tokens=False), "<｜begin▁of▁sentence｜>" + told)
        alone = tandem("run", self.model, "--chat", "Hello", "--system", "Be kind.", "--max-new-tokens", "6", "--json", *FAST).json
        self.assertEqual(alone, first)

    def test_commands(self):
        done = self.chat("/help\n/nothing\n/quit\nHello\n")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("there is no /nothing", done.stderr)

    def test_reasoning_stands_apart(self):
        self.change("tokenizer_config.json", chat_template="{{ messages[-1]['content'] }}<think>\n")
        answer = json.loads(self.chat("Hello\n", "--json").stdout)
        self.assertEqual(answer["text"], "")
        self.assertEqual(answer["reasoning"].strip(), TOKENIZER.decode(answer["tokens"]).strip())
        printed = self.chat("Hello\n").stdout
        self.assertEqual(printed, f"<think>\n{answer['reasoning']}\n</think>\n\n\n")

    def test_a_message_that_the_template_refuses_does_not_end_it(self):
        self.change("tokenizer_config.json", chat_template="{% if messages[-1]['content'] == 'bad' %}{{ raise_exception('not that') }}{% endif %}x")
        done = self.chat("bad\ngood\n", "--json")
        self.assertIn("chat_c6: not that", done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 1)


class SideBySide(Case):
    def setUp(self):
        super().setUp()
        self.tf = self.scratch / "tf"
        tandem("convert", TINY, self.tf)

    def test_equal_sides(self):
        compared = tandem("run", TINY, PROMPT, *FAST, "--compare", f"tf:{self.tf}", "--max-new-tokens", "8", "--json").json
        self.assertEqual((compared["equal"], compared["first_difference"]), (True, None))
        self.assertEqual(compared["left"]["tokens"], compared["right"]["tokens"])
        self.assertEqual((compared["left"]["engine"]["engine"], compared["right"]["engine"]["engine"]), ("torch", "tensorflow"))

    def test_equal_sides_that_draw(self):
        asked = ("--temperature", 1.3, "--seed", 5, "--max-new-tokens", "8", "--json")
        compared = tandem("run", TINY, PROMPT, *ONE, "--compare", f"tf:{self.tf}", *asked).json
        self.assertEqual((compared["equal"], compared["first_difference"]), (True, None))
        self.assertEqual(compared["sampling"]["seed"], 5)
        self.assertEqual(compared["left"]["tokens"], tandem("run", self.tf, PROMPT, *asked).json["tokens"])

    def test_the_first_difference_is_marked(self):
        bad = self.scratch / "bad"
        tandem("plant", "rotary.pairing", self.tf, bad)
        asked = ("run", TINY, PROMPT, *FAST, "--compare", f"tf:{bad}", "--max-new-tokens", "8")
        compared = tandem(*asked, "--json", code=1).json
        first, left, right = compared["first_difference"], compared["left"], compared["right"]
        step = first["step"]
        self.assertEqual(first["position"], len(compared["prompt"]) + step)
        self.assertEqual(left["tokens"][:step], right["tokens"][:step])
        self.assertEqual((left["tokens"][step], right["tokens"][step]), (first["left_id"], first["right_id"]))
        self.assertEqual(first["left_text"], TOKENIZER.decode([first["left_id"]]))
        self.assertGreater(first["left_margin"], first["bar"])
        alone = tandem("run", bad, PROMPT, "--greedy", "--max-new-tokens", "8", "--json").json
        self.assertEqual(alone["text"], right["text"])
        printed = tandem(*asked, code=1).out
        self.assertIn(f"they part at new token {step + 1} (position {first['position']}), NO near tie", printed)
        self.assertIn(right["text"].strip().splitlines()[0], printed)

    def test_T13_other_ids_are_found_before_any_logits(self):
        other = shutil.copytree(self.tf, self.scratch / "other")
        config = other / "assets" / "tokenizer_config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"add_bos_token": False}))
        says = 'position 0 is 0 "<｜begin▁of▁sentence｜>" on the left and'
        began = time.monotonic()
        refused = run("verify", f"torch:{TINY}", f"tf:{other}", "--levels", "model", "--json")
        self.assertLess(time.monotonic() - began, 30)
        self.assertEqual((refused.code, refused.out), (1, ""))
        error = json.loads(refused.err)["error"]
        self.assertEqual((error["rule"], says in error["text"]), ("verify_c12", True))
        self.assertIn(says, tandem("run", TINY, PROMPT, *FAST, "--compare", f"tf:{other}", code=1).err)
        self.assertEqual(run("verify", TINY, other, "--levels", "weights").code, 0)


if __name__ == "__main__":
    unittest.main()
