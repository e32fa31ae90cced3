"""A mixture costs little more than a dense MLP of equal active width (issue 3, done-when 7; nightly, since it takes times)."""

import statistics
import unittest

from common import Case
from experts import block


def ratio(one, other, rounds=15):
    """The median of one()/other(), in turn."""
    one(), other(), one(), other()
    return statistics.median(one() / other() for _ in range(rounds))


class Cost(Case):
    def test_cost(self):
        few, many = block(self.scratch, 64), block(self.scratch, 256)
        forward = ratio(lambda: few.milliseconds(few.mixture), lambda: few.milliseconds(few.dense))
        backward = ratio(lambda: few.milliseconds(few.gradients), lambda: few.milliseconds(few.dense_gradients))
        more_forward = ratio(lambda: many.milliseconds(many.mixture), lambda: few.milliseconds(few.mixture))
        more_backward = ratio(lambda: many.milliseconds(many.gradients), lambda: few.milliseconds(few.gradients))
        print(f"64 experts against dense: forward {forward:.2f}, with backward {backward:.2f}; "
              f"256 against 64: forward {more_forward:.2f}, with backward {more_backward:.2f}")  # fmt: skip
        self.assertLessEqual(forward, 1.5)
        self.assertLessEqual(backward, 1.5)
        self.assertLessEqual(more_forward, 3)
        self.assertLessEqual(more_backward, 3)


if __name__ == "__main__":
    unittest.main()
