"""plan, run-task, finalize, and a convert that is killed: whatever happens, the bytes are those of an undisturbed run."""

import filecmp
import json
import os
import random
import signal
import subprocess
import time
import unittest

from common import TANDEM, Case, run, tandem
from memory_test import convert as convert_measured
from tiny import TL, header_bytes, shapes, write_folder

MIB = 1 << 20
MODEL = TL | {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4,
              "head_dim": 64, "vocab_size": 4096, "torch_dtype": "bfloat16"}  # fmt: skip


def write_random(folder, c=MODEL):
    """About 45 MB of random bits as bfloat16."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(c))
    header, at = {}, 0
    for name, shape in shapes(c):
        size = 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    (folder / "model.safetensors").write_bytes(header_bytes(header) + os.urandom(at))
    return folder


def same_tree(left, right):
    names = [sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) for folder in (left, right)]
    return names[0] == names[1] and not any(filecmp.cmpfiles(left, right, names[0], shallow=False)[1:])


class KilledConversions(Case):
    """A model that takes a while, and its undisturbed conversion."""

    def setUp(self):
        super().setUp()
        self.source = write_random(self.scratch / "hf")
        self.whole, self.out, self.plan = self.scratch / "whole", self.scratch / "out", self.scratch / "plan.json"
        self.flags = ("--max-shard-size", "4MB")
        started = time.monotonic()
        tandem("convert", self.source, self.whole, *self.flags)
        self.seconds = time.monotonic() - started

    def start(self, *arguments, **options):
        return subprocess.Popen([TANDEM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def left(self):
        return sorted(name for name in os.listdir(self.scratch) if "tandem" in name)

    def done(self):
        return len(list(self.scratch.glob(".out.tandem-work/done/*.json")))

    def kill_at_random(self, times):
        """Conversions that are killed, each followed by one that goes on, or by the next that is killed; how many were."""
        seed = random.Random(4)
        killed = 0
        for number in range(times):
            process = self.start("convert", self.source, self.out, *self.flags)
            time.sleep(seed.uniform(0, self.seconds))
            process.kill()
            process.communicate()
            killed += process.returncode == -signal.SIGKILL
            before = self.done()
            if process.returncode == -signal.SIGKILL and self.out.exists():
                self.assertTrue(same_tree(self.out, self.whole))
            if number % 2 or self.out.exists():  # else the next one goes on, and is killed too
                done = run("convert", self.source, self.out, *self.flags)
                self.assertIn(done.code, (0, 73) if before == 0 else (0,), done)
                if before and "of an earlier run" in done.out:
                    self.assertIn(f"{before} of ", done.out)
                self.assertTrue(same_tree(self.out, self.whole))
                self.assertEqual(self.left(), [])
                subprocess.run(["rm", "-r", self.out], check=True)
        return killed


class Tasks(KilledConversions):
    def test_F4_twenty_kills_of_the_program(self):
        self.assertGreater(self.kill_at_random(20), 10)

    def test_F6_ctrl_c_keeps_what_is_done(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            process = self.start("convert", self.source, self.out, *self.flags)
            while self.done() < 2:
                self.assertIsNone(process.poll())
                time.sleep(0.001)
            sent = time.monotonic()
            process.send_signal(number)
            _, words = process.communicate()
            self.assertLess(time.monotonic() - sent, 2)
            self.assertEqual(process.returncode, code)
            self.assertRegex(words, r"stopped by a signal \(\d+ of \d+ files of weights are done; the same command goes on from there\)")
            self.assertFalse(self.out.exists())
            done = self.done()
            self.assertGreaterEqual(done, 2)
            self.assertIn(f"went on from an earlier run: {done} of", tandem("convert", self.source, self.out, *self.flags).out)
            self.assertTrue(same_tree(self.out, self.whole))
            self.assertEqual(self.left(), [])
            subprocess.run(["rm", "-r", self.out], check=True)

    def test_eight_processes_with_kills_end_in_the_same_bytes(self):
        tandem("plan", self.source, self.out, *self.flags, "--out", self.plan)
        seed = random.Random(8)
        waiting = list(range(8))
        kills = 0
        while waiting:
            running = [(share, self.start("run-task", self.plan, "--task", f"{share}/8")) for share in waiting]
            if kills < 6:
                for _, process in seed.sample(running, min(2, len(running))):
                    time.sleep(seed.uniform(0, self.seconds / 8))
                    process.kill()
                    kills += 1
            waiting = []
            for share, process in running:
                process.communicate()
                if process.returncode:
                    self.assertIn(process.returncode, (-signal.SIGKILL, 75))
                    waiting.append(share)
        tandem("finalize", self.plan, "--check")
        self.assertTrue(same_tree(self.out, self.whole))
        self.assertEqual(self.left(), [])

    def test_the_share_comes_from_the_scheduler(self):
        tandem("plan", self.source, self.out, *self.flags, "--out", self.plan)
        tasks = len(json.loads(self.plan.read_text())["tasks"])
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "JOB_"))}

        def made(*arguments, code=0, **environment):
            done = run("run-task", self.plan, "--json", *arguments, env=clean | environment)
            self.assertEqual(done.code, code, done)
            return done.json["made"] if code == 0 else done.err

        self.assertEqual(made(SLURM_ARRAY_TASK_ID="1", SLURM_ARRAY_TASK_COUNT="4"), list(range(1, tasks, 4)))
        self.assertEqual(made("--of", "4", JOB_COMPLETION_INDEX="2"), list(range(2, tasks, 4)))
        self.assertEqual(made("--task", "0/2", SLURM_ARRAY_TASK_ID="9"), list(range(0, tasks, 4)) + [])
        self.assertIn("which share?", made(code=2))
        self.assertIn("which share?", made(code=2, JOB_COMPLETION_INDEX="2"))
        self.assertIn('SLURM_ARRAY_TASK_ID is \\"x\\"', made(code=2, SLURM_ARRAY_TASK_ID="x"))
        self.assertIn("share 4 of 4", made("--task", "4/4", code=2))
        self.assertIn("expected I/N", made("--task", "1", code=2))
        self.assertIn("are not done: 3, 7", tandem("finalize", self.plan, code=66).err)

    def test_a_source_that_changed_is_refused_and_a_torn_plan_too(self):
        tandem("plan", self.source, self.out, *self.flags, "--out", self.plan)
        os.utime(self.source / "model.safetensors")
        self.assertIn("model.safetensors: was written to", tandem("run-task", self.plan, "--task", "0/1", code=65).err)
        self.plan.write_text(self.plan.read_text()[:-20])
        self.assertIn("json_c1", tandem("finalize", self.plan, code=65).err)
        self.assertEqual(self.left(), [])

    def test_M02_F7_memory_is_what_the_plan_says(self):
        """Also for a tensor that is larger than that: 134 MB here, transposed, both ways."""
        c = TL | {"hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
                  "head_dim": 8, "torch_dtype": "bfloat16"}  # fmt: skip
        folder = self.scratch / "wide"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(c))
        header, at = {}, 0
        for name, shape in shapes(c):
            size = 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
            at += size
        with open(folder / "model.safetensors", "wb") as file:
            file.write(header_bytes(header))
            file.truncate(len(header_bytes(header)) + at)
        for memory in ("64MiB",):
            planned = tandem("plan", folder, self.out, "--memory", memory, "--json").json["peak_memory"]
            for flags in (("--dtype", "keep"), ("--dtype", "float32")):
                code, words, peak = convert_measured(folder, "--sink", "null", "--memory", memory, *flags)
                self.assertEqual(code, 0, words)
                self.assertLess(peak, planned, (memory, flags))
        tandem("convert", folder, self.out)
        planned = tandem("plan", self.out, self.scratch / "back", "--memory", "64MiB", "--json").json["peak_memory"]
        code, words, peak = convert_measured(self.out, "--sink", "null", "--memory", "64MiB")
        self.assertEqual(code, 0, words)
        self.assertLess(peak, planned)
        self.assertIn("at least", tandem("plan", folder, self.scratch / "other", "--memory", "1MiB", code=2).err)


if __name__ == "__main__":
    unittest.main()
