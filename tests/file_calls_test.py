"""F2 and F7 below the file layer: short and interrupted calls of the C library, and allocations that fail."""

import os
import shutil
import unittest

from common import BINARY_DIR, Case, run, tandem
from tasks_test import same_tree
from tiny import TL, TV3, write_folder

LIBRARY = BINARY_DIR / "bin" / "hostile_libc.so"


class FileCalls(Case):
    def convert(self, source, out, *flags, **environment):
        """The run, how many calls were cut short, and how many large allocations there were."""
        count = self.scratch / "count"
        count.unlink(missing_ok=True)
        done = run("convert", source, out, *flags, env=os.environ | {"LD_PRELOAD": str(LIBRARY), "HOSTILE_COUNT": str(count)} | environment)
        return done, *map(int, count.read_text().split())

    def test_F2_short_and_interrupted_calls_leave_no_gap(self):
        flags = ("--max-shard-size", "4KB")
        for c in (TL, TV3):
            source = write_folder(self.scratch / "hf", c)
            tandem("convert", source, self.scratch / "whole", *flags)
            done, cut, _ = self.convert(source, self.scratch / "out", *flags, HOSTILE_SHORT="1")
            self.assertEqual(done.code, 0, done)
            self.assertGreater(cut, 50)
            self.assertTrue(same_tree(self.scratch / "out", self.scratch / "whole"))
            tandem("convert", self.scratch / "whole", self.scratch / "back")
            done, cut, _ = self.convert(self.scratch / "out", self.scratch / "again", HOSTILE_SHORT="1")
            self.assertEqual(done.code, 0, done)
            self.assertTrue(same_tree(self.scratch / "again", self.scratch / "back"))
            for name in ("hf", "whole", "out", "back", "again"):
                shutil.rmtree(self.scratch / name)

    def test_F7_an_allocation_that_fails_is_71_and_leaves_nothing(self):
        """Every one of 64 KiB or more, of one conversion each way."""
        source = write_folder(self.scratch / "hf", TL)
        tandem("convert", source, self.scratch / "tf")
        for model in (source, self.scratch / "tf"):
            tandem("convert", model, self.scratch / "whole")
            _, _, allocations = self.convert(model, self.scratch / "out", HOSTILE_MALLOC="0")
            self.assertGreater(allocations, 3)
            shutil.rmtree(self.scratch / "out")
            for k in range(1, allocations + 1):
                done, _, _ = self.convert(model, self.scratch / "out", HOSTILE_MALLOC=str(k))
                if done.code == 0:  # somebody could do without it
                    self.assertTrue(same_tree(self.scratch / "out", self.scratch / "whole"))
                    shutil.rmtree(self.scratch / "out")
                    continue
                self.assertEqual(done.code, 71, (k, done))
                self.assertIn("memory", done.err)
                self.assertFalse((self.scratch / "out").exists(), k)
                tandem("convert", model, self.scratch / "out")
                self.assertTrue(same_tree(self.scratch / "out", self.scratch / "whole"), k)
                shutil.rmtree(self.scratch / "out")
            shutil.rmtree(self.scratch / "whole")


if __name__ == "__main__":
    unittest.main()
