"""The signatures beside serving_default: layer_N, taps, input_ids_only, with_positions, logits_forced; prompts beyond one chunk of queries."""

import unittest

import numpy as np
import tensorflow as tf
import torch
from common import TINY, Case, fixtures, tandem
from frameworks import load_tf, load_torch

LAYER = 3e-6  # of the largest value: one float32 layer, summed in another order


class Signatures(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pairs = {}

    def pair(self, source):
        """The model in both frameworks, and prompts: ids and mask [2, 19] (left-padded second row) and their positions."""
        tandem("convert", source, self.scratch / source.name)
        model, golden = load_tf(self.scratch / source.name), load_torch(source)
        ids = np.random.default_rng(5).integers(0, golden.config.vocab_size, (2, 19)).astype(np.int32)
        mask = np.ones_like(ids)
        mask[1, :4] = 0
        return model, golden, ids, mask, np.maximum(mask.cumsum(1) - 1, 0).astype(np.int32)

    def modules(self, golden, ids, mask, positions):
        """Inputs and outputs of every module, by its path."""
        inputs, outputs = {}, {}

        def hook(path):
            def keep(_, arguments, keywords, output):
                hidden = keywords.get("hidden_states", arguments[0] if arguments else None)
                first = output[0] if isinstance(output, tuple) else output
                if torch.is_tensor(hidden):
                    inputs[path] = hidden.detach().numpy()
                if torch.is_tensor(first):
                    outputs[path] = first.detach().numpy()

            return keep

        handles = [m.register_forward_hook(hook(path), with_kwargs=True) for path, m in golden.named_modules() if path]
        with torch.no_grad():
            golden(input_ids=torch.tensor(ids).long(), attention_mask=torch.tensor(mask), position_ids=torch.tensor(positions).long())
        for handle in handles:
            handle.remove()
        return inputs, outputs

    def assert_close(self, found, expected, mask, path):
        real = mask.astype(bool)
        found, expected = found[real], expected[real]
        self.assertEqual(found.shape, expected.shape, path)
        self.assertLessEqual(np.abs(found - expected).max(), LAYER * max(1, np.abs(expected).max()), path)

    def check_layers_and_taps(self, source, few):
        model, golden, ids, mask, positions = self.pair(source)
        inputs, outputs = self.modules(golden, ids, mask, positions)
        for layer in range(golden.config.num_hidden_layers):
            path = f"model.layers.{layer}"
            call = model.signatures[f"layer_{layer}"]
            fed = {"attention_mask": mask, "hidden_states": inputs[path], "position_ids": positions}
            found = call(**{name: tf.constant(value) for name, value in fed.items()})["hidden_states_out"].numpy()
            self.assert_close(found, outputs[path], mask, path)
        taps = model.signatures["taps"](attention_mask=tf.constant(mask), input_ids=tf.constant(ids), position_ids=tf.constant(positions))
        compared = 0
        for path, tensor in taps.items():
            if path in outputs and outputs[path].ndim == 3 and not path.endswith(("rotary_emb", "mlp.gate")):
                found, expected = tensor.numpy()[mask.astype(bool)], outputs[path][mask.astype(bool)]
                self.assertLessEqual(np.abs(found - expected).max(), 2e-5 * max(1, np.abs(expected).max()), path)
                compared += 1
        self.assertGreaterEqual(compared, few)

    def test_llama_layers_and_taps(self):
        source = fixtures("llama")[1]
        self.check_layers_and_taps(source, few=20)

    def test_deepseek_v3_layers_and_taps(self):
        self.check_layers_and_taps(TINY, few=50)

    def test_ids_alone_mean_a_mask_of_ones(self):
        model, _, ids, mask, positions = self.pair(TINY)
        ones = tf.ones_like(ids)
        alone = model.signatures["input_ids_only"](input_ids=tf.constant(ids))["logits"].numpy()
        both = model.signatures["serving_default"](input_ids=tf.constant(ids), attention_mask=ones)["logits"].numpy()
        np.testing.assert_array_equal(alone, both)
        masked = model.signatures["serving_default"](input_ids=tf.constant(ids), attention_mask=tf.constant(mask))["logits"].numpy()
        placed = model.signatures["with_positions"](input_ids=tf.constant(ids), attention_mask=tf.constant(mask), position_ids=tf.constant(positions))
        np.testing.assert_array_equal(placed["logits"].numpy(), masked)

    def test_prompts_beyond_one_chunk_of_queries(self):
        model, _, _, _, _ = self.pair(fixtures("llama")[0])
        for tokens in (1023, 1024, 1025, 2500):
            ids = np.random.default_rng(tokens).integers(0, 100, (2, tokens)).astype(np.int32)
            mask = np.ones_like(ids)
            mask[0, : tokens // 3] = 0
            chunked = model.signatures["serving_default"](input_ids=tf.constant(ids), attention_mask=tf.constant(mask))["logits"].numpy()
            whole = model(tf.constant(ids), tf.constant(mask)).numpy()
            self.assert_close(chunked, whole, mask, f"{tokens} tokens")

    def test_forced_experts_are_those_that_compute(self):
        model, golden, ids, mask, positions = self.pair(TINY)
        config = golden.config
        routed = [layer.mlp for layer in golden.model.layers if hasattr(layer.mlp, "gate")]
        rng = np.random.default_rng(9)
        forced = np.stack([[[rng.permutation(config.n_routed_experts)[: config.num_experts_per_tok] for _ in range(ids.shape[1])]
                            for _ in routed] for _ in ids]).astype(np.int32)  # fmt: skip

        def gate_with(gate, chosen):
            def forward(hidden):
                logits = torch.nn.functional.linear(hidden.reshape(-1, hidden.shape[-1]).float(), gate.weight.float())
                weights = logits.sigmoid().gather(1, chosen)
                weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) if config.norm_topk_prob else weights
                return logits, weights * config.routed_scaling_factor, chosen

            return forward

        for number, mlp in enumerate(routed):
            mlp.gate.forward = gate_with(mlp.gate, torch.tensor(forced[:, number].reshape(-1, forced.shape[-1])).long())
        with torch.no_grad():
            expected = golden(input_ids=torch.tensor(ids).long(), attention_mask=torch.tensor(mask), position_ids=torch.tensor(positions).long()).logits.numpy()
        fed = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "forced_experts": forced}
        found = model.signatures["logits_forced"](**{name: tf.constant(value) for name, value in fed.items()})["logits"].numpy()
        real = mask.astype(bool)
        self.assertLessEqual(np.abs(found - expected)[real].max(), 3e-5)
        free = model(tf.constant(ids), tf.constant(mask)).numpy()
        self.assertGreater(np.abs(found - free)[real].max(), 0.1)  # and they are not the model's own choice


if __name__ == "__main__":
    unittest.main()
