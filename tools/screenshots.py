#!/usr/bin/env python3
"""Makes docs/images/report_pass.png and report_fail.png: what `tandem verify --report` writes, seen in a headless Chromium.

    .venv/bin/python tools/screenshots.py [--tandem build/bin/tandem]

The model is examples/tiny-deepseek-v3; the fault is planted: an epsilon of 1e-06 in every norm.
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from browser import Page

ROOT = Path(__file__).resolve().parent.parent
MODEL = "tiny-deepseek-v3"
FAULT = "epsilon.usual"
DRAWN = "document.documentElement.dataset.drawn === 'yes'"
HEIGHT = 1800  # pixels: from the verdict to the first charts


def make_reports(tandem, folder):
    """{"pass": page, "fail": page} in `folder`. Commands run there: pages show the paths that they were given."""

    def run(*command, code=0):
        done = subprocess.run([tandem, *command], cwd=folder, capture_output=True, text=True)
        if done.returncode != code:
            raise RuntimeError(f"tandem {' '.join(command)}: exit code {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")

    shutil.copytree(ROOT / "examples" / MODEL, Path(folder) / MODEL)
    run("convert", MODEL, "tiny.tf")
    run("plant", FAULT, "tiny.tf", "planted.tf")
    run("verify", f"hf:{MODEL}", "tf:tiny.tf", "--report", "pass.html")
    run("verify", f"hf:{MODEL}", "tf:planted.tf", "--report", "fail.html", code=1)
    return {name: Path(folder) / f"{name}.html" for name in ("pass", "fail")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tandem", default=ROOT / "build/bin/tandem", help="the program")
    parser.add_argument("--pages", help="a folder with pass.html and fail.html, in place of new ones")
    options = parser.parse_args()
    images = ROOT / "docs" / "images"
    images.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        given = Path(options.pages) if options.pages else None
        pages = {name: given / f"{name}.html" for name in ("pass", "fail")} if given else make_reports(Path(options.tandem).resolve(), scratch)
        for name, page in pages.items():
            with Page(width=1000) as shown:
                shown.open(page.resolve().as_uri(), DRAWN)
                image = images / f"report_{name}.png"
                image.write_bytes(shown.screenshot(HEIGHT))
                print(f"{image.relative_to(ROOT)}: {image.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
