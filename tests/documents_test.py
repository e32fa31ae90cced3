"""The samples of docs/adding_an_op.md and docs/adding_an_architecture.md, applied to a clone, build and pass, and touch only the files they name."""

import re
import shutil
import subprocess
import unittest

from common import ROOT, Case

FENCED = re.compile(r"^(?:(New file|In) `([^`]+)`:\n\n)?```(cpp|diff|markdown)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def edited(text, diff):
    """`text` with the lines of a diff that has no line numbers: context and removed lines must be there, once."""
    lines = diff.splitlines()
    before = "\n".join(line[1:] for line in lines if line[0] in " -")
    after = "\n".join(line[1:] for line in lines if line[0] in " +")
    if text.count(before) != 1:
        raise AssertionError(f"found {text.count(before)} times, expected once:\n{before}")
    return text.replace(before, after)


def apply_samples(document, root):
    """Writes the samples of a document into `root`; returns the files it touched."""
    touched, path = [], None
    for kind, name, language, body in FENCED.findall(document.read_text()):
        path = name or path
        file = root / path
        if language == "diff":
            file.write_text(edited(file.read_text(), body))
        else:
            if file.exists():
                raise AssertionError(f"{path} is there already")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(body)
        touched.append(path)
    return sorted(set(touched))


class Documents(Case):
    def setUp(self):
        super().setUp()
        self.clone = self.scratch / "clone"
        files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
        for name in filter(None, files):
            if not name.startswith("examples/") and (ROOT / name).exists():
                (self.clone / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.clone / name)
        self.run_in_clone("git", "init", "--quiet")
        self.run_in_clone("git", "add", "--all")

    def run_in_clone(self, *command):
        done = subprocess.run(command, cwd=self.clone, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
        return done.stdout

    def check(self, document, expected, program, gtest_filter):
        touched = apply_samples(ROOT / "docs" / document, self.clone)
        self.assertEqual(touched, expected)
        status = self.run_in_clone("git", "status", "--porcelain", "--untracked-files=all", "--ignored=no")
        changed = [line[3:] for line in status.splitlines() if line[1] in "M?"]
        self.assertEqual(sorted(changed), expected)
        self.run_in_clone("cmake", "--preset", "release")
        self.run_in_clone("cmake", "--build", "build", "--target", program)
        out = self.run_in_clone(f"build/bin/{program}", f"--gtest_filter={gtest_filter}")
        self.assertIn("[  PASSED  ] 2 tests.", out)

    def test_the_sample_op(self):
        expected = ["contract/ops/negate.cpp", "contract/ops/negate.h", "contract/ops/negate_test.cpp", "contract/ops/registry.cpp"]
        self.check("adding_an_op.md", expected, "contract_test", "Negate.*")

    def test_the_sample_architecture(self):
        expected = ["arch/architecture.cpp", "arch/toy/toy.cpp", "arch/toy/toy.h", "arch/toy/toy_test.cpp"]
        self.check("adding_an_architecture.md", expected, "arch_test", "Toy.*")

    def test_a_diff_whose_context_is_not_there_is_an_error(self):
        self.assertEqual(edited("a\nb\n", " a\n+x\n"), "a\nx\nb\n")
        with self.assertRaises(AssertionError):
            edited("a\nb\n", " c\n+x\n")


if __name__ == "__main__":
    unittest.main()
