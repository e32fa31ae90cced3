"""What our programs link: the core no framework, and nothing a shared protobuf (TensorFlow brings its own)."""

import subprocess
import unittest

from common import TANDEM


def needed(program):
    """The shared libraries that the program asks the loader for."""
    lines = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line]


class Links(unittest.TestCase):
    def test_the_core_links_no_framework(self):
        self.assertIn("libc.so.6", needed(TANDEM))
        self.assertEqual([name for name in needed(TANDEM) if "torch" in name or "tensorflow" in name or "python" in name], [])

    def test_nothing_links_a_shared_protobuf(self):
        programs = [p for p in TANDEM.parent.iterdir() if p.is_file() and p.read_bytes()[:4] == b"\x7fELF"]
        self.assertIn(TANDEM, programs)
        for program in programs:
            self.assertEqual([name for name in needed(program) if "protobuf" in name], [], program)


if __name__ == "__main__":
    unittest.main()
