"""The samples of docs/adding_an_op.md and docs/adding_an_architecture.md, applied to a clone, build and pass, and touch only the files they name."""

import re
import shutil
import subprocess
import unittest

from common import BINARY_DIR, ROOT

FENCED = re.compile(r"^(?:(New file|In) `([^`]+)`:\n\n)?```(cpp|diff)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Always the same place: the compiler cache then knows the clone's files from the last time.
CLONE = BINARY_DIR / "documents"

SAMPLE_OP = [
    "contract/ops/negate.cpp",
    "contract/ops/negate.h",
    "contract/ops/negate_test.cpp",
    "contract/ops/registry.cpp",
    "docs/contract.md",
    "docs/status.md",
    "lower/tf/lower_basic.cpp",
    "lower/tf/lower_ops.cpp",
    "lower/tf/lower_ops.h",
    "lower/torch/lower_torch_test.cpp",
    "lower/torch/torch_ops.cpp",
]
SAMPLE_ARCHITECTURE = [
    "arch/architecture.cpp",
    "arch/toy/toy.cpp",
    "arch/toy/toy.h",
    "arch/toy/toy_test.cpp",
    "docs/status.md",
]


def edited(text, diff):
    """`text` with the lines of a diff that has no line numbers: context and removed lines must be there, once."""
    lines = [line or " " for line in diff.splitlines()]
    before = "\n".join(line[1:] for line in lines if line[0] in " -")
    after = "\n".join(line[1:] for line in lines if line[0] in " +")
    if text.count(before) != 1:
        raise AssertionError(f"found {text.count(before)} times, expected once:\n{before}")
    return text.replace(before, after)


def apply_samples(document, root):
    """Writes the samples of a document into `root`."""
    path = None
    for _, name, language, body in FENCED.findall(document.read_text()):
        path = name or path
        file = root / path
        if language == "diff":
            file.write_text(edited(file.read_text(), body))
        else:
            if file.exists():
                raise AssertionError(f"{path} is there already")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(body)


def run_in_clone(*command):
    done = subprocess.run(command, cwd=CLONE, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def make_clone():
    """The working tree without what git ignores, as a repository with nothing changed."""
    shutil.rmtree(CLONE, ignore_errors=True)
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if not name.startswith("examples/") and (ROOT / name).exists():
            (CLONE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, CLONE / name)
    run_in_clone("git", "init", "--quiet")
    (CLONE / ".git" / "info" / "exclude").write_text("/.venv\n")
    if (ROOT / ".venv").exists():
        (CLONE / ".venv").symlink_to(ROOT / ".venv")
    run_in_clone("git", "add", "--all")


def changed_files():
    status = run_in_clone("git", "status", "--porcelain", "--untracked-files=all")
    return sorted(line[3:] for line in status.splitlines() if line[1] in "MD?")


class Documents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(shutil.rmtree, CLONE, ignore_errors=True)
        make_clone()

    def apply(self, document, expected):
        """Applies a document's samples; what they touch is `expected`, and they are part of the clone from then on."""
        apply_samples(ROOT / "docs" / document, CLONE)
        self.assertEqual(changed_files(), expected)
        run_in_clone("git", "add", "--all")
        run_in_clone("cmake", "--preset", "release")

    def build(self, program):
        run_in_clone("cmake", "--build", "build", "--target", program)

    def run_tests(self, program, gtest_filter="*"):
        return run_in_clone(f"build/bin/{program}", f"--gtest_filter={gtest_filter}")

    def test_the_sample_op(self):
        self.apply("adding_an_op.md", SAMPLE_OP)
        self.build("contract_test")
        self.assertIn("[  PASSED  ] 2 tests.", self.run_tests("contract_test", "Negate.*"))
        self.build("lower_tf_test")
        self.run_tests("lower_tf_test")
        if "lower_torch_test:" in run_in_clone("cmake", "--build", "build", "--target", "help"):
            self.build("lower_torch_test")
            self.run_tests("lower_torch_test")
        run_in_clone("python3", "tests/status_test.py")

    def test_the_sample_architecture(self):
        self.apply("adding_an_architecture.md", SAMPLE_ARCHITECTURE)
        self.build("arch_test")
        self.assertIn("[  PASSED  ] 2 tests.", self.run_tests("arch_test", "Toy.*"))
        run_in_clone("python3", "tests/status_test.py")

    def test_a_diff_whose_context_is_not_there_is_an_error(self):
        self.assertEqual(edited("a\nb\n", " a\n+x\n"), "a\nx\nb\n")
        with self.assertRaises(AssertionError):
            edited("a\nb\n", " c\n+x\n")


if __name__ == "__main__":
    unittest.main()
