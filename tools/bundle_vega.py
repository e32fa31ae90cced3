#!/usr/bin/env python3
"""Makes verify/report/vega.min.js, the one script that draws the charts of a report, and vega.LICENSE.txt, from npm.

    python3 tools/bundle_vega.py           writes both files
    python3 tools/bundle_vega.py --check   fails if they are not what npm's packages give

Needs npm and network, and is never needed to build: both files are kept in the repository. tools/vega/package-lock.json
pins every package by the sha512 of its tarball, which `npm ci` checks; no script of a package is run. To move to other
versions, edit tools/vega/package.json, run `npm install --ignore-scripts` there, then this.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tools" / "vega"
REPORT = ROOT / "verify" / "report"
# vega-lite takes three small functions from vega, all of which are vega-util's: without this, all of vega would come along.
OPTIONS = ["--bundle", "--minify", "--format=iife", "--global-name=tandemVega", "--alias:vega=vega-util", "--target=es2020", "--charset=ascii",
           "--legal-comments=none"]  # fmt: skip


def pinned(folder):
    """Every package that is installed has a sha512 in the lock file."""
    lock = json.loads((folder / "package-lock.json").read_text())["packages"]
    loose = [name for name, entry in lock.items() if name and not entry.get("integrity", "").startswith("sha512-")]
    if loose:
        sys.exit(f"tools/vega/package-lock.json: no sha512 for {', '.join(loose)}")


def licences(folder, inputs):
    """The licence texts of the packages in the bundle, equal ones once."""
    packages = sorted({path.split("node_modules/")[-1].split("/")[0] for path in inputs if "node_modules/" in path})
    texts = {}
    for package in packages:
        place = folder / "node_modules" / package
        about = json.loads((place / "package.json").read_text())
        text = next(path for path in sorted(place.iterdir()) if path.name.upper().startswith("LICEN")).read_text().strip()
        texts.setdefault(text, []).append(f"{package} {about['version']} ({about['license']})")
    return "\n\n".join(f"{', '.join(names)}\n\n{text}" for text, names in texts.items()) + "\n"


def bundle(folder):
    """(the bundle, its licences): made in `folder`, a scratch copy of tools/vega."""
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True)
    subprocess.run(["node_modules/.bin/esbuild", "entry.js", *OPTIONS, "--metafile=meta.json", "--outfile=out.js", "--log-level=warning"],
                   cwd=folder, check=True)  # fmt: skip
    (output,) = json.loads((folder / "meta.json").read_text())["outputs"].values()
    texts = licences(folder, [name for name, share in output["inputs"].items() if share["bytesInOutput"]])
    if "*/" in texts:
        sys.exit("a licence text would end the comment that holds it")
    script = f"/*! The licences of what follows:\n\n{texts}*/\n{(folder / 'out.js').read_text()}"
    if "</script" in script.lower() or "<!--" in script:
        sys.exit("the bundle would end the script element that holds it")
    return script, texts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the files in the repository, write nothing")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "vega"
        shutil.copytree(SOURCES, folder, ignore=shutil.ignore_patterns("node_modules"))
        pinned(folder)
        script, texts = bundle(folder)
    for name, text in ("vega.min.js", script), ("vega.LICENSE.txt", texts):
        if not check:
            (REPORT / name).write_text(text)
        elif (REPORT / name).read_text() != text:
            sys.exit(f"verify/report/{name} is not what the pinned packages give: run tools/bundle_vega.py")
        print(f"{name}: {len(text.encode()):,} bytes{', as it should be' if check else ''}")


if __name__ == "__main__":
    main()
