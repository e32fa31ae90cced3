"""The README's tour prints what it says, and its commands exist (numbers that differ from machine to machine aside)."""

import os
import re
import subprocess
import unittest

from common import ROOT, TANDEM, Case

README = (ROOT / "README.md").read_text()
MEASURED = re.compile(r"\d\.\d+e[-+]\d+")  # errors depend on the processor


def tour():
    """(command, printed) of every step in the README's tour."""
    for block in re.findall(r"^```\n(\$ tandem.*?)^```$", README, re.MULTILINE | re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = step.partition("\n")
            yield command, printed


def comparable(text):
    return [re.sub(r"\s+", " ", MEASURED.sub("#", line)).strip() for line in text.strip().splitlines()]


class Readme(Case):
    def test_the_tour_prints_what_it_says(self):
        (self.scratch / "examples").symlink_to(ROOT / "examples")
        environment = os.environ | {"PATH": f"{TANDEM.parent}:{os.environ['PATH']}"}
        steps = list(tour())
        self.assertEqual(len(steps), 7)
        for command, printed in steps:
            done = subprocess.run(command, shell=True, cwd=self.scratch, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(comparable(done.stdout), comparable(printed), command)

    def test_the_make_targets_it_names_exist(self):
        named = set(re.findall(r"`make ([a-z-]+)", README))
        self.assertLess({"demo", "test"}, named)
        makefile = (ROOT / "Makefile").read_text()
        self.assertEqual([target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)], [])


if __name__ == "__main__":
    unittest.main()
