"""A SavedModel of ours loads and matches in old and new TensorFlow, each in a venv of its own (issue 3, done-when 11; nightly)."""

import subprocess
import sys
import unittest

import numpy as np
from common import ROOT, Case, fixtures, tandem

import make_fixtures

VERSIONS = ("2.12.0", "2.15.0", "2.18.0", "2.21.0")
PROBE = """
import sys, numpy as np, tensorflow as tf
probe = np.load(sys.argv[2])
model = tf.saved_model.load(sys.argv[1])
call = model.signatures["serving_default"]
found = call(input_ids=tf.constant(probe["ids"]), attention_mask=tf.ones_like(probe["ids"]))["logits"].numpy()
print(tf.__version__, float(np.abs(found - probe["logits"]).max()))
"""


def venv(version):
    """The python of a venv with that TensorFlow, made once under .cache/."""
    folder = ROOT / ".cache" / f"tensorflow-{version}"
    if not (folder / "COMPLETE").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", f"tensorflow-cpu=={version}"], check=True)
        (folder / "COMPLETE").touch()
    return folder / "bin" / "python"


class VersionMatrix(Case):
    def check(self, version, source):
        import torch

        tandem("convert", source, self.scratch / source.name)
        ids = make_fixtures.probe_tokens({"vocab_size": 100}, 40).to(torch.int32)
        with torch.no_grad():
            logits = make_fixtures.load(source)(ids.long()).logits.numpy()
        np.savez(self.scratch / "probe.npz", ids=ids.numpy(), logits=logits)
        command = [venv(version), "-c", PROBE, self.scratch / source.name, self.scratch / "probe.npz"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        found, error = done.stdout.split()
        self.assertEqual(found, version)
        self.assertLessEqual(float(error), 1e-5)


def add_tests():
    for version in VERSIONS:
        for model_type, index in (("llama", 1), ("deepseek_v3", 2)):
            name = f"test_{model_type}_in_tensorflow_{version.replace('.', '_')}"
            setattr(VersionMatrix, name, lambda self, v=version, m=model_type, i=index: self.check(v, fixtures(m)[i]))


add_tests()

if __name__ == "__main__":
    unittest.main()
