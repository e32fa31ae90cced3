"""map --infer on random models of both architectures, made by transformers (issue 4, done-when 8)."""

import unittest

from common import fixtures
from map_infer_test import Infer as Shared


class InferFixtures(Shared):
    def test_every_fixture(self):
        for model_type in ("llama", "deepseek_v3"):
            for source in fixtures(model_type):
                with self.subTest(source.name):
                    hf, tf, rows = self.bare(source)
                    self.assert_table(self.infer(hf, tf), rows)


def load_tests(loader, *_):
    """The shared helpers' own tests run in map_infer_test alone."""
    return unittest.TestSuite([InferFixtures("test_every_fixture")])


if __name__ == "__main__":
    unittest.main()
