"""Two processes of one thread, on a core each, beside one process of two threads on both, on the tasks of one plan: ratios of interleaved runs.

    python3 tools/bench_processes.py --folder /dev/shm --gigabytes 1.3 --rounds 5
    python3 tools/bench_processes.py --folder . -- --no-sha256      # what comes after -- goes to tandem plan

A ratio of 1: two processes together are as fast. The bar is 0.9. Ratios hold on a quiet machine only; its load is printed.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAKE_LARGE = ROOT / "tools" / "make_large.py"


def seconds(program, plan, processes):
    """Of all tasks of the plan: each process is (share, threads, the cores that it may use)."""
    started = time.monotonic()
    running = [subprocess.Popen(["taskset", "-c", cores, program, "run-task", plan, "--task", share, "--threads", str(threads)], stdout=subprocess.DEVNULL)
               for share, threads, cores in processes]  # fmt: skip
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit(f"run-task ended with {codes}")
    return time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bin" / "tandem")
    parser.add_argument("--folder", default="/dev/shm", help="where source and output lie for a while")
    parser.add_argument("--gigabytes", type=float, default=1.3, help="of the model, bfloat16 (default: 1.3)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("plan", nargs="*", metavar="FLAG", help="of tandem plan, behind --")
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("two cores are needed")
    first, second = str(cores[0]), str(cores[1])
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        folder = Path(folder)
        subprocess.run([sys.executable, MAKE_LARGE, "dense", folder / "hf", "--gigabytes", str(arguments.gigabytes)], check=True)
        plan = folder / "plan.json"
        planned = [arguments.program, "plan", folder / "hf", folder / "out", "--max-shard-size", "50MB", *arguments.plan, "--out", plan]
        subprocess.run(planned, check=True, stdout=subprocess.DEVNULL)
        ways = {"one of two": [("0/1", 2, f"{first},{second}")], "two of one": [("0/2", 1, first), ("1/2", 1, second)]}
        ratios = []
        for number in range(arguments.rounds + 1):
            took = {}
            for name in sorted(ways, reverse=bool(number % 2)):
                took[name] = seconds(arguments.program, plan, ways[name])
                shutil.rmtree(folder / ".out.tandem-work")
            if number:  # the first is for the caches
                ratios.append(took["one of two"] / took["two of one"])
                print(f"round {number}: one process of two threads {took['one of two']:.2f} s, two of one {took['two of one']:.2f} s, ratio {ratios[-1]:.2f}, load {os.getloadavg()[0]:.1f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
