"""What the tests of whole paths share: running the program, and models to run it on."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY_DIR = Path(os.environ.get("TANDEM_BINARY_DIR", ROOT / "build"))
TANDEM = BINARY_DIR / "bin" / "tandem"
EXAMPLES = ROOT / "examples"
TINY, TINY_FP8 = EXAMPLES / "tiny-deepseek-v3", EXAMPLES / "tiny-deepseek-v3-fp8"
# Every value of hidden_act in a contract; status_test holds the table to the code.
ACTIVATIONS = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/contract.md").read_text().split("\n## Activations\n")[1].split("\n## ")[0], re.MULTILINE)

sys.path.insert(0, str(ROOT / "tools"))


class Result:
    """What one run of the program did."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"exit code {self.code}\n{self.out[-3000:]}\n{self.err[-3000:]}"


def run(*arguments, **options):
    """Runs `tandem ARGUMENTS` to its end, whatever that is."""
    command = [str(TANDEM), *map(str, arguments)]
    return Result(subprocess.run(command, capture_output=True, text=True, timeout=1200, stdin=subprocess.DEVNULL, **options))


def tandem(*arguments, code=0):
    """Runs `tandem ARGUMENTS`, which must end with `code`."""
    result = run(*arguments)
    if result.code != code:
        raise AssertionError(f"tandem {' '.join(map(str, arguments))}: expected exit code {code}, got {result!r}")
    return result


def verify(left, right, *arguments, code=0):
    """`tandem verify --json`, as an object."""
    return tandem("verify", left, right, "--json", *arguments, code=code).json


def fixtures(model_type, count=12, seed=1):
    """Random tiny models, made once for each version of the script that makes them."""
    import make_fixtures

    version = hashlib.sha256(Path(make_fixtures.__file__).read_bytes()).hexdigest()[:12]
    return make_fixtures.make_fixtures(model_type, count, seed, BINARY_DIR / "fixtures" / version)


def tensors(folder):
    """Every tensor of a Hugging Face folder: name -> (dtype, shape, SHA-256 of its bytes). Reads the files itself."""
    found = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8 : 8 + size]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                bytes_of = data[8 + size + begin : 8 + size + end]
                found[name] = (entry["dtype"], tuple(entry["shape"]), hashlib.sha256(bytes_of).hexdigest())
    return found


def config(folder):
    return json.loads((Path(folder) / "config.json").read_text())


class Case(unittest.TestCase):
    """A test with a scratch folder of its own."""

    maxDiff = 2000

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="tandem-test-", dir=BINARY_DIR)
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)

    def assert_same_checkpoint(self, left, right):
        """Every tensor equal by hash, config equal key by key."""
        left_tensors, right_tensors = tensors(left), tensors(right)
        self.assertEqual(sorted(left_tensors), sorted(right_tensors))
        different = [name for name in left_tensors if left_tensors[name] != right_tensors[name]]
        self.assertEqual(different, [])
        self.assertEqual(config(left), config(right))
