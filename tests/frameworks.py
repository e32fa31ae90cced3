"""The two real frameworks, used directly: what the program says is compared with what they do."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
import torch
from common import run  # noqa: F401  (puts tools/ on the path)

import make_fixtures

torch.set_num_threads(2)

ABSOLUTE = 1e-5  # float32 logits with an RMS of 1 to 5, TensorFlow against transformers
KL = 1e-9
TOP2_GAP = 2e-5  # where the best two logits are closer than this, either may win


def load_tf(folder):
    return tf.saved_model.load(str(folder))


load_torch = make_fixtures.load


def prompts(vocab_size, seed=3):
    """(ids, mask): one token; a left- and right-padded batch; 90 tokens."""
    rng = np.random.default_rng(seed)
    yield rng.integers(0, vocab_size, (1, 1), np.int32), np.ones((1, 1), np.int32)
    mask = np.ones((3, 13), np.int32)
    mask[0, :5] = 0
    mask[1, 9:] = 0
    yield rng.integers(0, vocab_size, mask.shape, np.int32), mask
    yield rng.integers(0, vocab_size, (1, 90), np.int32), np.ones((1, 90), np.int32)


def tf_logits(model, ids, mask):
    return model.signatures["serving_default"](input_ids=tf.constant(ids), attention_mask=tf.constant(mask))["logits"].numpy()


def position_ids(mask):
    return np.maximum(np.cumsum(mask, -1) - 1, 0)


def torch_forward(model, ids, mask):
    as_torch = [torch.tensor(np.asarray(a)).long() for a in (ids, mask, position_ids(mask))]
    return model(input_ids=as_torch[0], attention_mask=as_torch[1], position_ids=as_torch[2], use_cache=False).logits


def torch_logits(model, ids, mask):
    with torch.no_grad():
        return torch_forward(model, ids, mask).float().numpy()


def compare(left, right, mask):
    """(largest error, largest KL, positions where top-1 differs though the gap is clear), over real tokens."""
    real = mask.astype(bool)
    left, right = left[real].astype(np.float64), right[real].astype(np.float64)

    def log_softmax(x):
        x = x - x.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True))

    p, q = log_softmax(right), log_softmax(left)
    kl = (np.exp(p) * (p - q)).sum(-1)
    best = np.sort(right, -1)
    clear = best[:, -1] - best[:, -2] > TOP2_GAP
    return np.abs(left - right).max(), np.abs(kl).max(), int((clear & (left.argmax(-1) != right.argmax(-1))).sum())


def assert_same_logits(case, tf_model, torch_model, vocab_size):
    """TensorFlow and PyTorch agree on every prompt, and the logits are not trivially small."""
    for ids, mask in prompts(vocab_size):
        ours, reference = tf_logits(tf_model, ids, mask), torch_logits(torch_model, ids, mask)
        case.assertEqual(ours.shape, reference.shape)
        case.assertTrue(1 <= np.sqrt((reference[mask.astype(bool)] ** 2).mean()) <= 5, "logits are not of a size that the bar is meant for")
        error, kl, flips = compare(ours, reference, mask)
        case.assertLessEqual(error, ABSOLUTE)
        case.assertLessEqual(kl, KL)
        case.assertEqual(flips, 0)
