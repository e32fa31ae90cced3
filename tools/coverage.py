#!/usr/bin/env python3
"""Line coverage of the readers of bytes from outside: `make coverage`.

Builds their unit tests and fuzzers with clang (build-fuzz/), runs the tests, replays seeds and corpus, and prints llvm-cov's
lines, one row a source file. Exit code 1 if a group is below its bar.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-fuzz"
PROFILES = BUILD / "profiles"
BAR = 95.0
# group -> (what its sources match, the tests and fuzzers that read them)
GROUPS = {
    "safetensors": (r"formats/safetensors/", ["safetensors_test", "safetensors_fuzz"]),
    "index and folder": (r"formats/hf_folder/", ["hf_folder_test", "index_fuzz"]),
    "TensorBundle": (r"formats/tensor_bundle/", ["tensor_bundle_test", "tensor_bundle_fuzz"]),
    "SavedModel": (r"formats/saved_model/", ["saved_model_test", "saved_model_fuzz"]),
    "rules JSON": (r"rules/(json|check|step|row)\.cpp", ["rules_test", "rules_fuzz"]),
    "config": (r"arch/(config_reader|architecture|harmless_keys|llama/llama|deepseek_v3/config|blocks/rotary)\.cpp", ["arch_test", "config_fuzz"]),
    "plan and manifest": (r"convert/(plan_file|task_note)\.cpp", ["convert_test", "plan_fuzz"]),
}


def profiled(program):
    """Runs a test, or replays a fuzzer's seeds and corpus; the profile of the run."""
    profile = PROFILES / f"{program.name}.profraw"
    command = [program]
    if program.name.endswith("_fuzz"):
        inputs = PROFILES / program.name
        inputs.mkdir()
        subprocess.run([program, "--seeds", inputs], check=True, env=os.environ | {"LLVM_PROFILE_FILE": "/dev/null"})
        command = [program, "-runs=0", inputs]
    done = subprocess.run(command, env=os.environ | {"LLVM_PROFILE_FILE": str(profile)}, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise SystemExit(f"{program.name} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return profile


def lines_of(programs, pattern):
    """File -> (lines, lines that ran, numbers of those that did not) of the sources that match."""
    data = PROFILES / "all.profdata"
    subprocess.run(["llvm-profdata", "merge", "-sparse", "-o", data, *(profiled(program) for program in programs)], check=True)
    objects = [word for program in programs[1:] for word in ("-object", str(program))]
    command = ["llvm-cov", "export", "-format=lcov", f"-instr-profile={data}", str(programs[0]), *objects]
    found, path = {}, None
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        if line.startswith("SF:"):
            path = os.path.relpath(line[3:], ROOT)
            if not re.match(pattern, path) or re.search(r"_test\.cpp|testing\.h|_main\.cpp", path):
                path = None
        elif line.startswith("DA:") and path:
            number, count = line[3:].split(",")[:2]
            hits = found.setdefault(path, {})
            hits[int(number)] = hits.get(int(number), 0) + int(count)
    # A source that no program holds is not in the table: its lines would not count.
    sources = (os.path.relpath(file, ROOT) for file in (ROOT / pattern.split("/")[0]).rglob("*.cpp"))
    forgotten = sorted(file for file in sources if re.match(pattern, file) and not re.search(r"_test\.cpp|_main\.cpp", file) and file not in found)
    if forgotten:
        raise SystemExit(f"no test of {', '.join(program.name for program in programs)} calls anything in {', '.join(forgotten)}")
    return {path: (len(hits), sum(count > 0 for count in hits.values()), sorted(n for n, count in hits.items() if count == 0)) for path, hits in found.items()}


def ranges(numbers):
    """[3, 4, 5, 9] as "3-5, 9"."""
    spans = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; default: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of the compiler")
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    arguments = parser.parse_args()
    groups = arguments.groups or list(GROUPS)
    if unknown := sorted(set(groups) - set(GROUPS)):
        parser.error(f"no group is called {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    names = [name for group in groups for name in GROUPS[group][1]]
    subprocess.run(["cmake", "--preset", "fuzz"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    build = ["cmake", "--build", BUILD, "--parallel", str(arguments.jobs), "--target", *names]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(PROFILES, ignore_errors=True)
    PROFILES.mkdir()
    table, low = {}, []
    for group in groups:
        pattern, programs = GROUPS[group]
        files = lines_of([BUILD / "bin" / name for name in programs], pattern)
        total, ran = (sum(row[i] for row in files.values()) for i in (0, 1))
        table[group] = {"lines": total, "ran": ran, "percent": round(100 * ran / total, 2), "files": {path: row[2] for path, row in files.items()}}
        if table[group]["percent"] < BAR:
            low.append(group)
        if not arguments.json:
            print(f"{group:40} {ran:5} of {total:5} lines  {100 * ran / total:6.2f} %", flush=True)
            for path, (lines, hit, missed) in sorted(files.items()):
                print(f"  {path:38} {hit:5} of {lines:5} lines  {100 * hit / lines:6.2f} %  {'not: ' + ranges(missed) if missed else ''}", flush=True)
    if arguments.json:
        print(json.dumps(table, indent=2))
    for group in low:
        print(f"below {BAR} %: {group}", file=sys.stderr)
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
