"""Mixtures compute the rows of the chosen experts and no more (issue 3, done-when 7)."""

import unittest

from common import Case
from experts import CHOSEN, TOKENS, block


class Experts(Case):
    def test_chosen_rows_alone_enter_products(self):
        for experts in (16, 64):
            mixture = block(self.scratch, experts)
            rows = mixture.run(mixture.rows)
            self.assertEqual(len(rows), 3 * experts)
            self.assertEqual(sum(rows), 3 * TOKENS * CHOSEN)


if __name__ == "__main__":
    unittest.main()
