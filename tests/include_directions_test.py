"""Include arrows point one way: a folder uses those that MAY_USE gives it, and never one above it."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# folder -> the folders it names itself. It may use theirs too, and its own subfolders.
MAY_USE = {
    "base": [],
    "formats": ["base"],
    "text": ["formats"],
    "contract": ["base"],
    "rules": ["base", "contract"],
    "faults": ["contract", "rules"],
    "kinship": ["rules"],
    "arch": ["contract", "rules"],
    "lower": ["contract", "formats", "rules"],
    "convert": ["arch", "lower", "formats", "faults"],
    "engines": ["lower", "formats", "arch"],
    "verify": ["convert", "engines", "faults", "text"],
    "generate": ["verify", "text"],
    "bench": ["verify"],
    "cli": ["generate", "kinship", "text", "bench"],
    "fuzz": ["verify", "text"],
    "tests": [],
}
# What tests may use besides: whole models as input.
TESTS_MAY_USE = {"lower": ["arch"], "faults": ["arch"]}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def reachable(folder):
    """The folder, and every folder below it."""
    return {folder}.union(*(reachable(used) for used in MAY_USE[folder]))


def violations(path, text):
    """Includes of `text` (at `path`, from the root) that point up or to an unknown folder, one line each."""
    folder = path.split("/")[0]
    allowed = reachable(folder)
    if path.endswith("_test.cpp"):
        allowed = allowed.union(*(reachable(used) for used in TESTS_MAY_USE.get(folder, [])))
    return [
        f'{path} includes "{include}", but {folder}/ may only use {", ".join(sorted(allowed))}'
        for include in INCLUDE.findall(text)
        if include.split("/")[0] in MAY_USE and include.split("/")[0] not in allowed
    ]


def sources():
    for folder in MAY_USE:
        for suffix in ("*.h", "*.cpp"):
            yield from sorted((ROOT / folder).rglob(suffix))


class IncludeDirections(unittest.TestCase):
    def test_every_include_points_down(self):
        files = list(sources())
        self.assertGreater(len(files), 10)
        found = [line for file in files for line in violations(file.relative_to(ROOT).as_posix(), file.read_text())]
        self.assertEqual(found, [], "\n".join(found))

    def test_every_folder_with_sources_is_in_the_table(self):
        folders = {f.relative_to(ROOT).parts[0] for f in ROOT.glob("*/**/*.cpp") if "build" not in f.relative_to(ROOT).parts[0]}
        self.assertEqual({f for f in folders if not f.startswith(".")} - set(MAY_USE), set())

    def test_a_planted_violation_is_found(self):
        planted = '#include <vector>\n#include "base/shape.h"\n#include "cli/words.h"\n'
        self.assertEqual(len(violations("rules/rules.cpp", planted)), 1)
        self.assertEqual(violations("cli/main.cpp", planted), [])

    def test_tests_may_use_more_but_not_all(self):
        planted = '#include "arch/architecture.h"\n#include "convert/convert.h"\n'
        self.assertEqual(len(violations("lower/tf/x_test.cpp", planted)), 1)
        self.assertEqual(len(violations("lower/tf/x.cpp", planted)), 2)

    def test_formats_and_contract_do_not_see_each_other(self):
        self.assertEqual(len(violations("formats/x/x.cpp", '#include "contract/graph.h"\n')), 1)
        self.assertEqual(len(violations("contract/x.cpp", '#include "formats/safetensors/safetensors.h"\n')), 1)


if __name__ == "__main__":
    unittest.main()
