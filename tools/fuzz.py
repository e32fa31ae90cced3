#!/usr/bin/env python3
"""Coverage-guided fuzzing of every reader of bytes from outside (libFuzzer): `make fuzz SECONDS=600`.

Builds the fuzzers with clang (build-fuzz/), one after the other, and runs each from its seeds, its corpus (fuzz/corpus/)
and its dictionary (fuzz/dictionaries/). Findings stay in build-fuzz/findings/, whatever comes after.
Exit code 0: none. 1: there is one, and its file is named.

    tools/fuzz.py --seconds 600                   # every target
    tools/fuzz.py --seconds 60 safetensors rules  # these
    tools/fuzz.py --seconds 60 rules --keep       # then write what reaches new code into fuzz/corpus/rules.base64
    build-fuzz/bin/rules_fuzz FILE                # a finding, again
"""

import argparse
import base64
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD, CORPUS, DICTIONARIES = ROOT / "build-fuzz", ROOT / "fuzz" / "corpus", ROOT / "fuzz" / "dictionaries"
FINDINGS = BUILD / "findings"
TARGETS = re.findall(r"^tandem_fuzzer\((\w+) ", (ROOT / "fuzz" / "CMakeLists.txt").read_text(), re.MULTILINE)
LONGEST_INPUT = 4096
KEPT_INPUT, KEPT_BYTES = 2048, 96 << 10  # of one input, and of one target's corpus


def program(name):
    return BUILD / "bin" / f"{name}_fuzz"


def environment():
    # The counters of `make coverage` are not wanted here.
    return os.environ | {"LLVM_PROFILE_FILE": "/dev/null", "UBSAN_OPTIONS": "print_stacktrace=1"}


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def fuzz(name, seconds):
    """Runs one fuzzer; its line of the table, and the findings."""
    inputs = fresh(BUILD / "corpus" / name)
    subprocess.run([program(name), "--seeds", inputs], check=True, env=environment())
    FINDINGS.mkdir(exist_ok=True)
    before = set(FINDINGS.glob(f"{name}-*"))
    command = [program(name), inputs, f"-dict={DICTIONARIES / name}.dict", f"-max_total_time={seconds}", f"-max_len={LONGEST_INPUT}",
               f"-artifact_prefix={FINDINGS}/{name}-", "-timeout=20", "-rss_limit_mb=2560", "-print_final_stats=1", "-seed=1"]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment())
    words = done.stdout.decode(errors="replace")
    (BUILD / "corpus" / f"{name}.log").write_text(words)
    found = sorted(set(FINDINGS.glob(f"{name}-*")) - before)
    if done.returncode and not found:
        raise SystemExit(f"{name}_fuzz ended with {done.returncode} and left no finding:\n{words[-3000:]}")
    executed = re.findall(r"stat::number_of_executed_units:\s*(\d+)", words)
    covered = re.findall(r"cov: (\d+)", words)
    row = f"{name:15} {int(executed[-1] if executed else 0):12,} {covered[-1] if covered else '?':>8} {len(list(inputs.iterdir())):8} {len(found):9}"
    return row, found


def keep(name):
    """The fewest short inputs that reach what all of them reach, as the corpus that the tests replay."""
    inputs, fewest = BUILD / "corpus" / name, fresh(BUILD / "corpus" / f"{name}.fewest")
    short = fresh(BUILD / "corpus" / f"{name}.short")
    for path in inputs.iterdir():
        if path.stat().st_size <= KEPT_INPUT:
            shutil.copy(path, short)
    subprocess.run([program(name), "-merge=1", f"-max_len={KEPT_INPUT}", fewest, short], check=True, env=environment(), capture_output=True)
    kept, size = [], 0
    for path in sorted(fewest.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
        size += path.stat().st_size
        if size <= KEPT_BYTES:
            kept.append(base64.b64encode(path.read_bytes()).decode() + "\n")
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f"{name}.base64").write_text("".join(kept))
    print(f"{name}: {len(kept)} inputs kept")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--seconds", type=int, default=60, help="of each target (default: 60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of the compiler")
    parser.add_argument("--keep", action="store_true", help="write fuzz/corpus/TARGET.base64")
    arguments = parser.parse_args()
    targets = arguments.targets or TARGETS
    if unknown := sorted(set(targets) - set(TARGETS)):
        parser.error(f"no target is called {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    subprocess.run(["cmake", "--preset", "fuzz"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    build = ["cmake", "--build", BUILD, "--parallel", str(arguments.jobs), "--target", *(f"{name}_fuzz" for name in targets)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    print(f"{'target':15} {'inputs':>12} {'edges':>8} {'corpus':>8} {'findings':>9}", flush=True)
    findings = []
    for name in targets:
        row, found = fuzz(name, arguments.seconds)
        findings += found
        print(row, flush=True)
        if arguments.keep:
            keep(name)
    for path in findings:
        print(f"finding: {path.relative_to(ROOT)}", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
