"""deploy/: the scripts are those of the table, and their commands convert a model whose shares fail, are requeued and run twice."""

import json
import os
import subprocess
import sys
import unittest

from common import ROOT, TANDEM, Case, tandem
from tasks_test import same_tree
from tiny import TV3, write_folder

sys.path.insert(0, str(ROOT / "deploy"))
import make

SHARES = 5


class Deploy(Case):
    def setUp(self):
        super().setUp()
        self.source = write_folder(self.scratch / "hf", TV3)
        flags = ("--max-shard-size", "1KB")
        tandem("convert", self.source, self.scratch / "whole", *flags)
        tandem("plan", self.source, self.scratch / "out", *flags, "--out", self.scratch / "a.plan.json")
        command = [sys.executable, ROOT / "deploy" / "make.py", "a.plan.json", "--shares", str(SHARES)]
        subprocess.run(command, cwd=self.scratch, check=True)

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "JOB_"))}
        return kept | {"PATH": f"{self.scratch}/bin:{TANDEM.parent}:{os.environ['PATH']}"} | more

    def finalize(self):
        done = subprocess.run(["tandem", "finalize", "a.plan.json"], cwd=self.scratch, env=self.environment(), capture_output=True, text=True)
        if done.returncode == 0:
            self.assertTrue(same_tree(self.scratch / "out", self.scratch / "whole"))
        return done.returncode

    def test_the_samples_are_those_of_the_table(self):
        for name, text in make.scripts("v3.plan.json", 16, 320, "tandem:0.1.0").items():
            self.assertEqual((ROOT / "deploy" / name).read_text(), text)
        memory = -(-json.loads((self.scratch / "a.plan.json").read_text())["peak_memory"] // 2**20)
        self.assertIn(f"#SBATCH --mem={memory}M\n", (self.scratch / "slurm.sh").read_text())

    def test_the_final_codes_are_those_of_the_program(self):
        source = (ROOT / "base" / "result.cpp").read_text()
        for code in make.FINAL:
            self.assertIn(f", {code}}},", source)
        for code in (69, 71, 74, 75):
            self.assertNotIn(code, make.FINAL)

    def test_the_array_with_a_share_that_fails_and_is_requeued(self):
        (self.scratch / "bin").mkdir()
        scontrol = self.scratch / "bin" / "scontrol"
        scontrol.write_text(f'#!/bin/sh\necho "$*" >> {self.scratch}/requeued\n')
        scontrol.chmod(0o755)

        def share(index, **more):
            slurm = {"SLURM_ARRAY_TASK_ID": str(index), "SLURM_ARRAY_TASK_COUNT": str(SHARES), "SLURM_ARRAY_JOB_ID": "7"}
            return subprocess.run(["sh", "slurm.sh"], cwd=self.scratch, env=self.environment(**slurm, **more), capture_output=True).returncode

        for index in range(SHARES - 1):
            self.assertEqual(share(index), 0)
        self.assertEqual(self.finalize(), 66)
        lock = self.scratch / ".out.tandem-lock"
        holder = subprocess.Popen(["flock", lock, "cat"], stdin=subprocess.PIPE)
        while not lock.exists() or subprocess.run(["flock", "-n", lock, "true"]).returncode == 0:
            pass
        self.assertEqual(share(SHARES - 1), 75)
        self.assertEqual((self.scratch / "requeued").read_text(), f"requeue 7_{SHARES - 1}\n")
        self.assertEqual(share(SHARES - 1, SLURM_RESTART_COUNT="3"), 75)
        self.assertEqual((self.scratch / "requeued").read_text(), f"requeue 7_{SHARES - 1}\n")
        holder.communicate()
        self.assertEqual(share(SHARES - 1), 0)
        self.assertEqual(share(0), 0)  # twice
        self.assertEqual(self.finalize(), 0)
        self.assertEqual(share(1), 73)  # the output is there: not tried again
        self.assertEqual((self.scratch / "requeued").read_text(), f"requeue 7_{SHARES - 1}\n")

    def test_the_job_for_each_index(self):
        text = (self.scratch / "kubernetes.yaml").read_text()
        command = json.loads(text.split("command: ")[1].splitlines()[0])
        self.assertIn(f"completions: {SHARES}\n", text)
        self.assertIn("values: [" + ", ".join(map(str, make.FINAL)) + "]", text)
        for index in range(SHARES):
            subprocess.run(command, cwd=self.scratch, env=self.environment(JOB_COMPLETION_INDEX=str(index)), check=True, capture_output=True)
        self.assertEqual(self.finalize(), 0)


if __name__ == "__main__":
    unittest.main()
