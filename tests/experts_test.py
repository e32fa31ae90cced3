"""Mixtures compute the rows of the chosen experts and no more (issue 3, done-when 7)."""

import unittest

import numpy as np
from common import Case
from experts import CHOSEN, TOKENS, block


class Experts(Case):
    def test_chosen_rows_alone_enter_products(self):
        for experts in (16, 64):
            mixture = block(self.scratch, experts)
            rows = mixture.run(mixture.rows)
            self.assertEqual(len(rows), 3 * experts)
            self.assertEqual(sum(rows), 3 * TOKENS * CHOSEN)

    def test_router_scores_are_those_that_choose_before_groups_are_dropped(self):
        mixture = block(self.scratch, 16, hidden=64, width=32, n_group=4, topk_group=2)
        gate = [o.outputs[0] for o in mixture.graph.get_operations() if o.name.startswith("mlp.gate/")]
        (logits,) = (t for t in gate if t.op.type == "MatMul")
        (router_scores,) = (t for t in gate if t.op.type == "Reshape" and t.shape.as_list()[1:] == [None, 16])
        (bias,) = (v for v in mixture.variables if "e_score_correction_bias" in v.name)
        logits, found, bias = mixture.run([logits, router_scores, bias])
        self.assertEqual(found.shape, (1, TOKENS, 16))
        np.testing.assert_allclose(found[0], 1 / (1 + np.exp(-logits)) + bias, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
