"""The tables of docs/status.md name what the registries hold, no more and no less."""

import re
import unittest

from common import ROOT


def table(heading):
    """first column -> other columns, of the table under a heading of docs/status.md."""
    section = (ROOT / "docs" / "status.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([a-z0-9_]+)` \| (.*) \|$", section, re.MULTILINE)
    return {name: cells.split(" | ") for name, cells in rows}


def found(pattern, *paths):
    return {name for path in paths for name in re.findall(pattern, path.read_text())}


class Status(unittest.TestCase):
    def test_ops(self):
        row = r'\{"(\w+)", \w+(?:, \w+)?\},'
        registered = found(r'const OpRow k\w+\{\s*"(\w+)"', *(ROOT / "contract" / "ops").glob("*.cpp"))
        tensorflow = found(row, ROOT / "lower" / "tf" / "lower_ops.cpp")
        pytorch = found(row, ROOT / "lower" / "torch" / "torch_ops.cpp")
        self.assertGreater(len(registered), 10)
        says = {True: "yes", False: "no"}
        expected = {op: ["yes", says[op in tensorflow], says[op in pytorch]] for op in registered}
        self.assertEqual(table("Ops"), expected)
        self.assertEqual((tensorflow | pytorch) - registered, set())

    def test_kinds_of_a_tokenizer(self):
        section = (ROOT / "docs" / "tokenizer.md").read_text().split("## What is supported\n")[1].split("\n## ")[0]
        listed = {name: re.findall(r"`(\w+)`", kinds) for name, kinds in re.findall(r"^\| `(\w+)` \| (.*) \|", section, re.MULTILINE)}
        files = {"model": "model", "normalizer": "normalizer", "pre_tokenizer": "pre_tokenizer", "post_processor": "post_processor", "decoder": "decoder"}
        self.assertEqual(set(listed), set(files))
        for name, file in files.items():
            source = (ROOT / "text" / f"{file}.cpp").read_text().split("kKinds[]")[1].split("};")[0]
            rows = re.findall(r'\{"(\w+)",\s*make_\w+\}', source)
            self.assertGreater(len(rows), 2)
            self.assertEqual(listed[name], rows, name)

    def test_every_activation_is_in_the_contracts_manual(self):
        section = (ROOT / "docs" / "contract.md").read_text().split("\n## Activations\n")[1].split("\n## ")[0]
        rows = re.findall(r"^\| `(\w+)` \| (.*) \| `(.*)` \|$", section, re.MULTILINE)
        manual = [(name, re.findall(r"`(\w+)`", also), formula) for name, also, formula in rows]
        source = (ROOT / "contract" / "ops" / "activation.cpp").read_text()
        listed = re.findall(r'\{"(\w+)",\s*\{([^}]*)\},\s*"([^"]+)",', source)
        self.assertGreater(len(listed), 3)
        self.assertEqual(manual, [(name, re.findall(r'"(\w+)"', also), formula) for name, also, formula in listed])

    def test_every_op_is_in_the_contracts_manual(self):
        ops = (ROOT / "docs" / "contract.md").read_text().split("\n## Ops\n")[1]
        manual = set(re.findall(r"^\| `(\w+)` \|", ops, re.MULTILINE))
        self.assertEqual(manual - {"call"}, set(table("Ops")))

    def test_architectures(self):
        self.assertEqual(set(table("Architectures")), found(r'\{"(\w+)", make_\w+\}', ROOT / "arch" / "architecture.cpp"))

    def test_formats(self):
        folders = {path.parent.name for path in (ROOT / "formats").glob("*/CMakeLists.txt")} - {"proto"}
        self.assertEqual(set(table("Formats")), folders)

    def test_faults(self):
        """docs/faults.md has the rows of faults/*.cpp, in the order of the table."""
        order = re.findall(r"(\w+)_faults\(\)[,}]", (ROOT / "faults" / "registry.cpp").read_text())
        text = {re.search(r"(\w+)_faults\(\) \{ return kRows; \}", t).group(1): t
                for t in (path.read_text() for path in (ROOT / "faults").glob("*.cpp")) if "FaultRow kRows[]" in t}  # fmt: skip
        self.assertEqual(sorted(order), sorted(text))
        rows = [row for kind in order for row in re.findall(r'\{"([a-z0-9_]+\.[a-z0-9_]+)",\s*"([^"]+)",', text[kind])]
        self.assertGreater(len(rows), 40)
        documented = re.findall(r"^\| `([a-z0-9_.]+)` \| ([^|]+) \| [^|]+ \|$", (ROOT / "docs" / "faults.md").read_text(), re.MULTILINE)
        self.assertEqual(documented, rows)


if __name__ == "__main__":
    unittest.main()
