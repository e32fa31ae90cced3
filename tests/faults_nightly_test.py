"""The faults of cases/hostile.md against the program and the kernel: strace, a disk that fills, 200 kills, a memory limit (nightly).

Needs strace; the disk and the limit need root, and skip without, saying so.
"""

import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from common import TANDEM, Case, run, tandem
from tasks_test import KilledConversions, same_tree, write_random
from tiny import TL, header_bytes, shapes, write_folder

MIB = 1 << 20
FLAGS = ("--max-shard-size", "4KB")


class Faults(Case):
    """The tiny llama of 21 tensors in several files of weights."""

    def setUp(self):
        super().setUp()
        self.source, self.whole, self.out = write_folder(self.scratch / "hf", TL), self.scratch / "whole", self.scratch / "out"
        tandem("convert", self.source, self.whole, *FLAGS)

    def ends_well(self):
        """The same command, undisturbed, ends in the bytes of a run that nothing disturbed."""
        done = run("convert", self.source, self.out, *FLAGS)
        self.assertIn(done.code, (0, 73), done)
        self.assertTrue(same_tree(self.out, self.whole))
        if done.code == 0:
            self.assertEqual([name for name in os.listdir(self.scratch) if ".tandem-" in name], [])
        shutil.rmtree(self.out)
        shutil.rmtree(self.scratch / ".out.tandem-work", ignore_errors=True)

    def test_the_disk_is_told_to_begin_before_fsync(self):
        source = write_random(self.scratch / "wide")
        log = self.scratch / "strace"
        command = ["strace", "-f", "-o", log, "-e", "trace=sync_file_range,fsync", TANDEM, "convert", source, self.out]
        subprocess.run(command, capture_output=True, check=True, timeout=120)
        begun = [line for line in log.read_text().splitlines() if "sync_file_range(" in line]
        self.assertEqual(len(begun), 2, begun)  # of about 45 MB
        self.assertTrue(all("SYNC_FILE_RANGE_WRITE) = 0" in line for line in begun), begun)

    def test_F1_F2_every_system_call_of_a_kind_fails_once(self):
        injected = 0
        log = self.scratch / "strace"
        for call, error in (("write", "ENOSPC"), ("write", "EIO"), ("pread64", "EIO"), ("read", "EIO"), ("fsync", "EIO"), ("rename", "EIO"),
                            ("ftruncate", "ENOSPC"), ("mkdir", "ENOSPC"), ("close", "EIO"), ("fsync", "EINTR"), ("write", "EINTR")):  # fmt: skip
            for k in range(1, 10_000):
                command = ["strace", "-f", "-o", log, "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={k}"]
                done = subprocess.run([*command, TANDEM, "convert", self.source, self.out, *FLAGS], capture_output=True, text=True, timeout=120)
                lines = [line for line in log.read_text().splitlines() if "(INJECTED)" in line]
                if not lines:
                    self.ends_well()
                    break
                injected += 1
                place = (call, error, k, lines, done)
                # 0: it was not the output's (the report on stdout aside, which is 74), or was tried again, or at loading.
                self.assertIn(done.returncode, (0, 74, 127), place)
                if done.returncode == 0:
                    self.assertTrue(same_tree(self.out, self.whole), place)
                elif self.out.exists():
                    self.assertTrue(same_tree(self.out, self.whole), place)
                else:
                    self.assertNotEqual(done.stderr, "", place)
                self.ends_well()
        self.assertGreater(injected, 100)

    @contextlib.contextmanager
    def disk(self, size):
        """A small tmpfs."""
        if os.geteuid() != 0:
            self.skipTest("mounting a tmpfs needs root")
        path = self.scratch / "disk"
        path.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tandem", path], check=True)
        try:
            yield path
        finally:
            subprocess.run(["umount", path], check=True)

    def test_F1_a_disk_that_is_too_small_is_refused_beforehand(self):
        needed = tandem("plan", self.source, self.scratch / "disk" / "out", *FLAGS, "--json").json["disk"]
        for size, code in ((needed // 2, 74), (needed - 4096, 74), (needed + 65536, 0)):
            with self.disk(size) as disk:
                done = run("convert", self.source, disk / "out", *FLAGS)
                self.assertEqual(done.code, code, done)
                if code:
                    self.assertRegex(done.err, r"convert_c9: \d+ bytes are to be written, and \d+ are free")
                    self.assertEqual(os.listdir(disk), [])
                else:
                    self.assertTrue(same_tree(disk / "out", self.whole))

    def test_F1_a_disk_that_fills_in_the_middle(self):
        """Somebody else takes the room after so many files of weights."""
        source, whole = write_random(self.scratch / "large"), self.scratch / "large-whole"
        flags = ("--max-shard-size", "4MB")
        tandem("convert", source, whole, *flags)
        for tasks in (0, 1, 3, 6):
            with self.disk(100 * MIB) as disk:
                process = subprocess.Popen([TANDEM, "convert", source, disk / "out", *flags], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
                while not (disk / ".out.tandem-work" / "out").exists() or len(list(disk.glob(".out.tandem-work/done/*.json"))) < tasks:
                    self.assertIsNone(process.poll())
                with open(disk / "ballast", "wb") as ballast, contextlib.suppress(OSError):
                    while True:
                        os.write(ballast.fileno(), bytes(1 << 16))
                _, words = process.communicate()
                self.assertEqual(process.returncode, 74, words)
                self.assertRegex(words, r"the disk mounted at \S+/disk is full, \d+ bytes are free")
                self.assertFalse((disk / "out").exists())
                os.remove(disk / "ballast")
                done = tandem("convert", source, disk / "out", *flags)
                if tasks:
                    self.assertIn("went on from an earlier run", done.out)
                self.assertTrue(same_tree(disk / "out", whole))
                self.assertEqual(os.listdir(disk), ["out"])


class Kills(KilledConversions):
    def test_F4_two_hundred_kills_of_the_program(self):
        self.assertGreater(self.kill_at_random(200), 100)


class MemoryLimit(Case):
    """A limit of the kernel, swap off. Control groups of either version; else RLIMIT_DATA, which does not count files that are mapped."""

    def limited(self, limit, *command):
        """Runs a command under the limit: exit code, words, and by what it was limited."""
        group, files = None, []
        for base, names in (("/sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")), ("/sys/fs/cgroup", ("memory.max", "memory.swap.max"))):
            group = Path(base) / f"tandem-test-{os.getpid()}"
            try:
                group.mkdir()
                files = [group / name for name in names if (group / name).exists()]
                files[0].write_text(str(limit))
                for file in files[1:]:
                    file.write_text("0" if file.name == "memory.swap.max" else str(limit))
                break
            except (OSError, IndexError):
                if group.exists():
                    group.rmdir()
                group = None
        if group is None:
            done = subprocess.run(["prlimit", f"--data={limit}", *command], capture_output=True, text=True)
            return done.returncode, done.stderr, "RLIMIT_DATA"
        try:
            inside = f'echo $$ > {group}/cgroup.procs; exec "$@"'
            done = subprocess.run(["sh", "-c", inside, "sh", *command], capture_output=True, text=True)
            return done.returncode, done.stderr, str(files[0].parent.parent)
        finally:
            group.rmdir()

    def write_sparse(self, folder, vocabulary):
        """A model of about 20 GB that is a hole, its embedding 8 GB (2^31 elements are the most). Transposed it would be read 125 times over."""
        c = TL | {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 14, "num_attention_heads": 32, "num_key_value_heads": 8,
                  "head_dim": 128, "vocab_size": vocabulary, "tie_word_embeddings": True, "torch_dtype": "float32"}  # fmt: skip
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(c))
        header, at = {}, 0
        for name, shape in shapes(c):
            size = 4 * math.prod(shape)
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
            at += size
        data = header_bytes(header)
        with open(folder / "model.safetensors", "wb") as file:
            file.write(data)
            file.truncate(len(data) + at)
        return at, len(data), max(entry["data_offsets"][1] - entry["data_offsets"][0] for entry in header.values())

    def test_F7_20_GB_with_a_tensor_of_8_GB_under_256_MiB(self):
        total, header, largest = self.write_sparse(self.scratch / "hf", 500_000)
        self.assertGreater(total, 19e9)
        self.assertGreater(largest, 8e9)
        code, words, by = self.limited(256 * MIB + 3 * header, TANDEM, "convert", self.scratch / "hf", "--sink", "null")
        self.assertEqual(code, 0, (by, words))
        print("limited by", by)

    def test_F7_too_little_memory_is_no_silent_end(self):
        """Less than the program says it needs: it ends with a code of its own or by the kernel, and leaves no output."""
        write_folder(self.scratch / "hf", TL)
        code, words, by = self.limited(2 * MIB, TANDEM, "convert", self.scratch / "hf", self.scratch / "out")
        self.assertIn(code, (71, 127, 137, -9), (by, words))
        self.assertFalse((self.scratch / "out").exists())


if __name__ == "__main__":
    unittest.main()
