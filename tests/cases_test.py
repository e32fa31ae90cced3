"""Rows of the hostile cases and the public reports, against the program itself: exit code, message, time, memory, and nothing left.

Each input is made from a few integers. The rows that need a framework are in cases_frameworks_test.py; docs/cases.md has the whole list.
"""

import json
import math
import os
import re
import shutil
import stat
import struct
import subprocess
import time
import unittest

from common import ROOT, TANDEM, TINY, TINY_FP8, Case, config, run, tandem, tensors
from tiny import TL, TV3, bf16, f32, header_bytes, safetensors, weights, write_folder, write_index

MIB = 1 << 20


def raw(path):
    """Every tensor of a folder as (dtype, shape, bytes)."""
    found = {}
    for file in sorted(path.glob("*.safetensors")):
        data = file.read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:start]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                found[name] = (entry["dtype"], entry["shape"], data[start + begin : start + end])
    return found


class Measured:
    """One run of the program: exit code, both outputs, seconds and peak resident bytes."""

    def __init__(self, scratch, *arguments):
        report = scratch.parent / (scratch.name + ".peak")
        started = time.monotonic()
        command = ["/usr/bin/time", "-q", "-f", "%M", "-o", report, TANDEM, *arguments]
        done = subprocess.run([str(part) for part in command], capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        self.seconds = time.monotonic() - started
        self.code = done.returncode
        self.out, self.err = done.stdout.decode(), done.stderr.decode()
        self.peak = int(report.read_text()) * 1024
        report.unlink()

    def __repr__(self):
        return f"exit code {self.code} after {self.seconds:.2f} s, {self.peak >> 20} MiB\n{self.out[-2000:]}\n{self.err[-2000:]}"


class Rows(Case):
    def setUp(self):
        super().setUp()
        self.count = 0

    def folder(self, c=TL, entries=None, shards=1):
        self.count += 1
        return write_folder(self.scratch / f"in{self.count}", c, entries, shards)

    def file(self, data):
        """A folder of TL whose one file of weights is `data`."""
        folder = self.folder()
        (folder / "model.safetensors").write_bytes(data)
        return folder

    def sharded(self, edit, c=TL):
        """A folder of two shards; `edit` may change the index's weight_map."""
        folder = self.folder(c, shards=2)
        path = folder / "model.safetensors.index.json"
        index = json.loads(path.read_text())
        edit(index["weight_map"])
        write_index(folder, index["weight_map"], index["metadata"]["total_size"])
        return folder

    def saved_model(self, c=TL):
        self.count += 1
        made = self.scratch / f"made{self.count}"
        tandem("convert", self.folder(c), made)
        return made

    def refused(self, source, code, *words, arguments=(), metadata=0, command="convert"):
        """The source is refused: code and words, in time and memory, without a signal, leaving nothing."""
        before = sorted(os.listdir(self.scratch))
        destination = [self.scratch / "out"] if command == "convert" else []
        done = Measured(self.scratch, command, source, *destination, *arguments)
        self.assertEqual(done.code, code, (source, done))
        for word in words:
            self.assertIn(word, done.err, done)
        self.assertLess(done.seconds, 2, done)
        self.assertLess(done.peak, 64 * MIB + 2 * metadata, done)
        self.assertEqual(sorted(os.listdir(self.scratch)), before)
        if command == "convert":
            self.refused_in_steps(source, code, arguments)
            self.assertEqual(sorted(os.listdir(self.scratch)), before)
        return done

    def refused_in_steps(self, source, code, arguments):
        """plan and run-task say the same: of what headers show the one, of what data shows the other."""
        plan = self.scratch.parent / (self.scratch.name + ".plan.json")
        planned = run("plan", source, self.scratch / "out", "--out", plan, *arguments)
        if planned.code:
            self.assertEqual(planned.code, code, (source, planned))
            return
        done = run("run-task", plan, "--task", "0/1")
        if done.code == 0:  # of all that is written together, as values that overflow
            done = run("finalize", plan)
        self.assertEqual(done.code, code, (source, done))
        plan.unlink()
        shutil.rmtree(self.scratch / ".out.tandem-work", ignore_errors=True)

    def converted(self, source, *arguments, metadata=0, seconds=20):
        """The source is accepted; what the program said."""
        out = self.scratch / "out"
        done = Measured(self.scratch, "convert", source, out, *arguments)
        self.assertEqual(done.code, 0, done)
        self.assertLess(done.seconds, seconds)
        self.assertLess(done.peak, 64 * MIB + 2 * metadata, done)
        shutil.rmtree(out)
        return done.out

    def there_and_back(self, source, *arguments):
        """The folder that comes back from TensorFlow."""
        self.count += 1
        there, back = self.scratch / f"there{self.count}", self.scratch / f"back{self.count}"
        tandem("convert", source, there, *arguments)
        tandem("convert", there, back)
        return back


def one(**changes):
    """A file with one tensor x: F32[1]."""
    return header_bytes({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} | changes}) + bytes(4)


def entries(*ranges):
    header = {f"t{i}": {"dtype": "U8", "shape": [max(end - begin, 0)], "data_offsets": [begin, end]} for i, (begin, end) in enumerate(ranges)}
    return header_bytes(header) + bytes(max(end for _, end in ranges))


class Safetensors(Rows):
    @classmethod
    def setUpClass(cls):
        cls.good = safetensors(weights(TL), {"format": "pt"})

    def refuse(self, data, *words, **more):
        return self.refused(self.file(data), 65, *words, **more)

    def test_S1_shorter_than_a_header_length(self):
        for size in range(8):
            self.refuse(self.good[:size], f"S1: the file has {size} bytes")

    def test_S2_header_length_beyond_the_file(self):
        for length in (2**64 - 1, 2**63, len(self.good) + 1):
            self.refuse(struct.pack("<Q", length) + self.good[8:], "S2", str(length))
        folder = self.file(struct.pack("<Q", 100_000_001) + b"{")
        os.truncate(folder / "model.safetensors", 300_000_000)
        self.refused(folder, 65, "C05", "100000001", "100000000")

    def test_S4_not_one_json_object(self):
        for header in (b"[]", b"{", b"{} x", b" {}", b"\xef\xbb\xbf{}", b"{}{}", b"{'a':1}"):
            self.refuse(header_bytes(header), "S4")
        self.converted(self.file(safetensors(weights(TL), pad=4096)))  # spaces after the } are legal

    def test_S5_a_million_brackets(self):
        for head, tail, rule in ((b'{"a":', b"}", "S5"), (b'{"__metadata__":{"a":', b"}}", "S16")):
            self.refuse(header_bytes(head + b"[" * 1_000_000 + b"]" * 1_000_000 + tail), rule, metadata=2_000_000)
            self.refuse(header_bytes(head + b"[" * 1_000_000), "S4")

    def test_S6_duplicate_keys(self):
        entry = b'{"dtype":"F32","shape":[],"data_offsets":[%d,%d]}'
        for second in (b"a", b"\\u0061"):
            header = b'{"a":' + entry % (0, 4) + b',"' + second + b'":' + entry % (4, 8) + b"}"
            self.refuse(header_bytes(header) + bytes(8), 'S6: tensor "a" stands twice')

    def test_S8_holes_overlaps_and_reversed_ranges(self):
        for ranges in ([(0, 4), (5, 8)], [(1, 4)], [(0, 4), (3, 8)], [(4, 2)]):
            self.refuse(entries(*ranges), "S8")

    def test_S9_bytes_after_the_last_tensor(self):
        self.refuse(self.good + b"PK\x05\x06" + bytes(18), "S9: 22 bytes after the last tensor")
        self.refuse(self.good + b"<html>", "S9")

    def test_S10_cut_off(self):
        self.refuse(self.good[:-1], "S10", "1 are missing")
        self.refuse(self.good[:-4096], "S10", "4096 are missing")
        self.refuse(self.good[:1000], "are missing", "cut off")

    def test_S11_sizes_overflow(self):
        for shape in ([2, 2**64 - 2], [2**62, 2], [2**63], [2**32, 2**32]):
            self.refuse(one(shape=shape), "S11", '"x"')

    def test_S13_size_is_not_that_of_its_range(self):
        for end in (3, 5):
            self.refuse(one(data_offsets=[0, end])[:-4] + bytes(end), "S13", f"span {end}")

    def test_S14_scalars_and_empty_tensors(self):
        odd = {"scalar": f32([], [1.5]), "none": f32([2, 0], []), "zero": f32([0], [])}
        report = run("inspect", self.folder(TL, weights(TL) | odd), "--json").json
        self.assertEqual(report["tensors"], 24)
        self.assertEqual([line for line in report["blocks"] if "unexpected" not in line], [])
        self.refuse(one(shape=[0, 2**63], data_offsets=[0, 0])[:-4], "S14")

    def test_S15_unknown_dtypes(self):
        for dtype in ("f32", "F4", "F8_E8M0", "COMPLEX", ""):
            self.refuse(one(dtype=dtype), f'S15: tensor "x" has the dtype "{dtype}"', "BF16, F16, F8_E4M3")

    def test_S16_metadata(self):
        for value in (1, None, ["a"], {"a": "b"}):
            self.refuse(header_bytes({"__metadata__": {"a": value}}), "S16")
        large = 50_000_000
        said = self.converted(self.file(safetensors(weights(TL), {"a": "x" * large})), metadata=large)
        self.assertLess(len(said), 10_000)

    def test_S18_misaligned_data_is_a_warning(self):
        for metadata in ({"a": "x" * pad} for pad in range(8)):
            data = safetensors(weights(TL), metadata, pad=1)
            aligned = int.from_bytes(data[:8], "little") % 8 == 0
            self.assertEqual("not a multiple of 8" in self.converted(self.file(data)), not aligned)

    def test_S19_every_bit_of_the_strangest_floats_survives(self):
        words = [0x7FC00001, 0x7F800001, 0xFF800001, 0x80000000, 0x00000001, 0x7F800000, 0xFF800000, 0xFFFFFFFF]
        entry = "F32", [32, 16], struct.pack("<512I", *(words * 64))
        source = self.folder(TL, weights(TL) | {"lm_head.weight": entry})
        back = self.there_and_back(source)
        self.assertEqual(raw(back)["lm_head.weight"], entry)
        report = tandem("verify", source, back, "--levels", "weights", "--json").json
        self.assertTrue(report["equal"])

    def test_P16_another_format_under_our_name(self):
        self.refuse(b"PK\x03\x04" + bytes(100), "P16", "zip")
        folder = self.folder()
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        self.refused(folder, 65, "P16")

    def test_C05_a_header_above_the_limit_and_the_flag_that_raises_it(self):
        names = (b'"t%07d_%s":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % (i, b"x" * 14) for i in range(1_500_000))
        folder = self.file(b"")
        with open(folder / "model.safetensors", "wb") as file:
            file.write(header_bytes(b"{" + b",".join(names) + b"}"))
        size = (folder / "model.safetensors").stat().st_size - 8
        self.assertGreater(size, 110_000_000)
        self.refused(folder, 65, f"C05: the header has {size} bytes, the limit is 100000000", "--max-header-bytes")
        raised = ("--max-header-bytes", 200_000_000)
        done = Measured(self.scratch, "inspect", folder, *raised)
        self.assertEqual(done.code, 65)
        self.assertIn("R3: more than 1000000 tensors (--max-tensors", done.err)
        done = Measured(self.scratch, "inspect", folder, *raised, "--max-tensors", 2_000_000)
        self.assertIn("1,500,000", done.out)
        self.refuse(struct.pack("<Q", 2**63) + b"{}", "S2", str(2**63))

    def test_C06_what_a_failed_download_leaves(self):
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 4976698672\n"
        self.assertEqual(int.from_bytes(pointer[:8], "little"), 2336927755350992246)
        self.refuse(pointer, "large-file pointer", "4976698672 bytes")
        self.refuse(b"<!DOCTYPE html><html>404</html>", "not a safetensors file but an HTML page")
        self.refuse(self.good[:-1], 'tensor "lm_head.weight" is cut off', "1 are missing")

    def test_C08_scalars_and_empty_tensors_keep_their_shape(self):
        odd = {"s": f32([], [1.5]), "e": f32([0], []), "f": f32([3, 0, 2], []), "o": f32([1], [2.5])}
        file = self.scratch / "odd.safetensors"
        file.write_bytes(safetensors(odd))
        rows = {line.split()[0]: line for line in tandem("inspect", file, code=65).out.splitlines()}  # 65: no config
        self.assertIn(" 4 ", rows["tensors"])

    def test_C13_format_is_written_and_not_needed(self):
        source = self.file(safetensors(weights(TL)))
        data = (self.there_and_back(source) / "model.safetensors").read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        self.assertEqual(header["__metadata__"]["format"], "pt")


class Shards(Rows):
    def test_X1_shard_names_that_leave(self):
        names = ["../../etc/passwd", "/etc/passwd", "a//b", "C:\\x", "a\0b", "x" * 5000, "", ".", "..", "../x.safetensors"]
        for name in names:
            self.refused(self.sharded(lambda shards, name=name: shards.update({"lm_head.weight": name})), 77, "X1")

    def test_X2_links_that_leave(self):
        for name in ("model.safetensors", "config.json"):
            folder = self.folder()
            target = self.scratch / f"outside-{name}"
            (folder / name).rename(target)
            (folder / name).symlink_to(target)
            self.refused(folder, 77, "R5", "leads out of the folder")
        folder = self.sharded(lambda shards: shards.update({"lm_head.weight": "sub/model.safetensors"}))
        (folder / "sub").symlink_to(self.folder())
        self.refused(folder, 77)

    def test_X2_hard_links(self):
        folder, other = self.folder(), self.scratch / "other.safetensors"
        os.link(folder / "model.safetensors", other)
        self.assertIn("the file has other names too (hard links)", self.converted(folder))
        if os.getuid() != 0:
            self.skipTest("only root can give a file to another user")
        os.chown(other, 12345, -1)
        self.refused(folder, 77, "X2: is a hard link to a file of user 12345")

    def test_X4_every_difference_in_one_report(self):
        def edit(shards):
            shards["nope"] = "model-00001-of-00002.safetensors"
            shards["other"] = "model-00003-of-00002.safetensors"
            del shards["model.norm.weight"]

        self.refused(self.sharded(edit), 65, "3 places", '"model.norm.weight" of shard', 'tensor "nope" is not in shard', "model-00003-of-00002")
        folder = self.folder(shards=2)
        twice = raw(folder)
        (folder / "model-00002-of-00002.safetensors").write_bytes(safetensors(twice))
        self.refused(folder, 65, "X4")

    def test_X6_not_regular_files_and_no_hang(self):
        for kind in (stat.S_IFIFO, stat.S_IFSOCK):
            folder = self.folder()
            (folder / "model.safetensors").unlink()
            os.mknod(folder / "model.safetensors", kind | 0o600)
            self.refused(folder, 77, "X6", "not a regular file")
        folder = self.folder()
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors").mkdir()
        self.refused(folder, 77, "X6: is a directory")
        self.refused("/dev/zero", 77, "X6")

    def fp8(self, edit):
        """The fp8 example as one file, a scale changed."""
        entries = raw(TINY_FP8)
        name = next(name for name in sorted(entries) if name.endswith("_scale_inv"))
        edit(entries, name)
        self.count += 1
        return write_folder(self.scratch / f"fp8-{self.count}", config(TINY_FP8), entries), name

    def test_X8_scales_that_are_missing_or_wrong(self):
        source, name = self.fp8(lambda entries, name: entries.pop(name))
        self.refused(source, 65, f"without its scales {name}")
        source, name = self.fp8(lambda entries, name: entries.update({name: f32([9], [1.0] * 9)}))
        self.refused(source, 65, name, "shape [9], expected")
        for value in (0.0, -1.0, math.nan, math.inf):

            def edit(entries, name, value=value):
                shape = entries[name][1]
                entries[name] = f32(shape, [value] * math.prod(shape))

            source, name = self.fp8(edit)
            self.refused(source, 65, name, "expected a positive finite number")

    def test_D05_a_scale_entry_removed_is_an_error_that_names_it(self):
        source, name = self.fp8(lambda entries, name: entries.pop(name))
        self.refused(source, 65, name)

    def test_C10_index_and_shards_differ(self):
        folder = self.folder(shards=2)
        (folder / "model-00002-of-00002.safetensors").unlink()
        self.refused(folder, 65, "model-00002-of-00002.safetensors", "is missing", "model.norm.weight")
        wrong = self.sharded(lambda shards: shards.update({"lm_head.weight": "model-00002-of-00002.safetensors"}))
        self.refused(wrong, 65, '"lm_head.weight"', "model-00002-of-00002.safetensors")
        outside = self.sharded(lambda shards: shards.update({"lm_head.weight": "../x.safetensors"}))
        self.refused(outside, 77, "../x.safetensors")

    def test_C12_files_beside_the_shards_are_ignored_and_named(self):
        folder = self.folder(shards=2)
        (folder / "model.safetensors").write_bytes(safetensors({"lm_head.weight": f32([1], [9.0])}))
        (folder / "consolidated.safetensors").write_bytes(b"junk")
        said = self.converted(folder)
        for name in ("model.safetensors", "consolidated.safetensors"):
            self.assertIn(f'"{name}" is ignored', said)
        back = self.there_and_back(folder)
        self.assertEqual(tensors(back), tensors(self.folder()))


class Config(Rows):
    def refuse(self, changes, *words, c=TL):
        folder = self.folder(c)
        (folder / "config.json").write_text(json.dumps(c | changes))
        self.refused(folder, 65, *words)
        self.assertEqual(run("inspect", folder).code, 65)

    def test_C1_sizes_out_of_range_with_field_and_expected_value(self):
        for value in (0, -1, 2**40, "4096", 16.5, [16], True):
            self.refuse({"hidden_size": value}, "config.json: C1: hidden_size is", "expected a whole number from 1 to")
        self.refuse({"num_attention_heads": 3}, "num_key_value_heads is 2, expected a divisor of num_attention_heads = 3")
        self.refuse({"head_dim": 3}, "head_dim is 3, expected an even number")
        for changes in ({"n_routed_experts": 0}, {"num_experts_per_tok": 9}, {"topk_group": 5}, {"n_group": 3}):
            self.refuse(changes, f"{next(iter(changes))} is {next(iter(changes.values()))}, expected", c=TV3)

    def test_C1_layers_that_are_not_the_tensors(self):
        self.refuse({"num_hidden_layers": 3}, "9 problems", "missing: model.layers.2.mlp.down_proj.weight")
        self.refuse({"num_hidden_layers": 1}, "9 problems", "unexpected: model.layers.1.mlp.down_proj.weight")

    def test_C1_all_problems_come_in_one_report(self):
        self.refuse({"vocab_size": 0, "intermediate_size": "x", "bogus": 1}, "vocab_size", "intermediate_size", "bogus is a key that nothing here reads")

    def test_C1_a_key_that_nobody_reads_is_accepted_by_name(self):
        folder = self.folder(TL | {"bogus": 1})
        self.refused(folder, 65, "bogus", "--accept-key")
        self.converted(folder, "--accept-key", "bogus")

    def test_C1_config_that_is_no_json(self):
        folder = self.folder()
        for text in (b"", b"[", b"[" * 1_000_000, b"[]", b'{"a":1,"a":2}', b"\xff\xfe"):
            (folder / "config.json").write_bytes(text)
            self.refused(folder, 65, "config.json")

    def test_R12_a_router_in_a_dense_layer_is_unexpected(self):
        self.refuse({"first_k_dense_replace": 2}, "unexpected: model.layers.1.mlp.gate.weight", "missing: model.layers.1.mlp.gate_proj.weight", c=TV3)

    def test_R07_R11_what_is_not_computed_is_refused_by_name(self):
        self.refuse({"rope_scaling": {"rope_type": "longrope", "factor": 4.0}}, "longrope")
        self.refuse({"scoring_func": "softmax"}, 'scoring_func is "softmax"', c=TV3)
        self.refuse({"topk_method": "group_limited_greedy"}, "topk_method", c=TV3)


class Tensorflow(Rows):
    """Broken SavedModels and checkpoints."""

    INDEX, DATA = "variables/variables.index", "variables/variables.data-00000-of-00001"

    def setUp(self):
        super().setUp()
        self.good = self.saved_model()

    def broken(self, edit):
        self.count += 1
        folder = self.scratch / f"broken{self.count}"
        shutil.copytree(self.good, folder)
        edit(folder)
        return folder

    def edited(self, name, edit):
        return self.broken(lambda folder: (folder / name).write_bytes(edit((folder / name).read_bytes())))

    def refuse(self, folder, code, *words):
        """convert, inspect, and run before TensorFlow sees the file."""
        self.refused(folder, code, *words)
        self.refused(folder, code, *words, command="inspect")
        self.refused(folder, code, *words, command="run", arguments=("--tokens", "1,2", "--engine", "tf"))

    def test_T1_cut_large_deep_and_unknown(self):
        for keep in (-7, 70_000, 1):
            self.refuse(self.edited("saved_model.pb", lambda data, keep=keep: data[:keep]), 65, "saved_model.pb: T1")
        self.refuse(self.broken(lambda folder: os.truncate(folder / "saved_model.pb", 2**31 + 1)), 65, "T1", str(2**31 + 1))

        def a_gigabyte_of_an_unknown_field(folder):
            path = folder / "saved_model.pb"
            with open(path, "ab") as file:
                file.write(b"\xfa\x3f" + varint(10**9))
            os.truncate(path, path.stat().st_size + 10**9)

        self.refuse(self.broken(a_gigabyte_of_an_unknown_field), 65, "T1")
        nested = b""
        for _ in range(100_000):
            nested = b"\x12" + varint(len(nested)) + nested
        self.refuse(self.edited("saved_model.pb", lambda _: nested), 65, "T1", "nested too deeply")

    def test_T4_broken_index(self):
        changes = {
            "not the magic number": lambda data: data[:-1] + b"\0",
            "block checksum": lambda data: data[:30] + bytes([data[30] ^ 1]) + data[31:],
        }
        for words, edit in changes.items():
            self.refuse(self.edited(self.INDEX, edit), 65, "variables.index", "T4", words)
        for size in (0, 1, 47, 500):
            self.refuse(self.edited(self.INDEX, lambda data, size=size: data[:size]), 65, "T4")

    def test_T5_a_data_file_that_is_too_short(self):
        self.refuse(self.edited(self.DATA, lambda data: data[:-4]), 65, "T5", "takes bytes")
        checkpoint = self.scratch / "checkpoint"
        tandem("convert", self.folder(), checkpoint, "--to", "checkpoint")
        os.truncate(checkpoint / "model.data-00000-of-00001", 100)
        self.refused(checkpoint, 65, "T5")

    def test_T7_assets_outside_and_two_graphs(self):
        asset = self.edited("saved_model.pb", lambda data: data.replace(b"\x0bconfig.json", b"\x0b../nfig.jso"))
        self.refuse(asset, 77, "T7", "../nfig.jso")
        both = self.broken(lambda folder: (folder / "saved_model.pbtxt").write_text("x"))
        self.refuse(both, 65, "T7", "saved_model.pbtxt")

    def test_C26_without_the_variables_index(self):
        folder = self.broken(lambda folder: (folder / self.INDEX).unlink())
        self.refuse(folder, 65, "C26", "variables/variables.index")
        done = tandem("verify", folder, self.good, "--levels", "weights", code=65)
        self.assertIn("variables/variables.index", done.err)
        done = tandem("run", folder, "--tokens", "1,2", code=65)  # an error and not numbers
        self.assertEqual(done.out, "")

    def test_F10_a_flipped_bit_is_found_and_named(self):
        flipped = self.edited(self.DATA, lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:])
        done = tandem("verify", flipped, self.good, "--levels", "weights", code=1)
        self.assertIn("model.norm.weight (float32 and float32): differs first at element 14", done.out)
        self.refused(flipped, 65, "model/norm/weight")

    def test_C09_big_endian_is_refused_by_name(self):
        little, big = bytes.fromhex("08011a020801"), bytes.fromhex("080110017800")  # one shard; and endianness BIG, and a field of nobody

        def edit(data):
            size = first_block(data)
            block = data[:size].replace(little, big, 1)
            self.assertNotEqual(block, data[:size])
            return block + struct.pack("<I", masked(crc32c(block))) + data[size + 4 :]

        self.refuse(self.edited(self.INDEX, edit), 65, "C09", "big-endian")


class Models(Rows):
    """Names, ties, layers and dtypes: what a conversion makes of sound checkpoints."""

    def frequencies(self, factor):
        return {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": f32([2], [factor, 0.01 * factor]) for i in (0, 1)}

    def test_N09_stored_rotary_frequencies(self):
        without, made = self.saved_model(), self.scratch / "with"
        said = tandem("convert", self.folder(TL, weights(TL) | self.frequencies(1)), made).out
        self.assertIn("not converted: model.layers.0.self_attn.rotary_emb.inv_freq", said)
        self.assertNotIn("warning", said)
        for file in ("variables/variables.data-00000-of-00001", "variables/variables.index", "assets/tandem_contract.txt"):
            self.assertEqual((without / file).read_bytes(), (made / file).read_bytes(), file)
        self.assertEqual((without / "saved_model.pb").read_bytes(), (made / "saved_model.pb").read_bytes())
        doubled = self.folder(TL, weights(TL) | self.frequencies(2))
        self.assertIn("warning: model.layers.1.self_attn.rotary_emb.inv_freq: the stored frequencies disagree", self.converted(doubled))
        self.refused(doubled, 65, "2 problems", "model.layers.0.self_attn.rotary_emb.inv_freq", arguments=("--strict",))

    def test_N13_the_block_after_the_last_layer_is_carried(self):
        source = self.folder(TV3)
        extra = {name for name in weights(TV3) if name.startswith("model.layers.3.")}
        listed = tandem("map", source, "--json").json["tensors"]
        self.assertEqual({name for entry in listed if not entry["in_graph"] for name in entry["hf"]}, extra)
        self.assertIn("carried, not run", tandem("inspect", source).out)
        self.assertEqual(tensors(self.there_and_back(source)), tensors(source))

    def test_N13_layers_61_and_62_of_63_are_layers(self):
        c = TV3 | {"num_hidden_layers": 63, "num_nextn_predict_layers": 0, "n_routed_experts": 4, "n_group": 1, "topk_group": 1}
        source = self.folder(c)
        listed = tandem("map", source, "--json").json["tensors"]
        run_layers = {name.split(".")[2] for entry in listed if entry["in_graph"] for name in entry["hf"] if ".layers." in name}
        self.assertEqual(run_layers, {str(layer) for layer in range(63)})
        self.assertEqual(tensors(self.there_and_back(source)), tensors(source))

    def test_N16_shuffled_files_give_the_same_output(self):
        sorted_by_text = dict(sorted(weights(TL | {"num_hidden_layers": 12}).items()))
        shuffled = dict(sorted(sorted_by_text.items(), key=lambda item: hash(item[0])))
        outputs = []
        for entries in (sorted_by_text, shuffled):
            source, out = self.folder(TL | {"num_hidden_layers": 12}, entries), self.scratch / f"out{len(outputs)}"
            tandem("convert", source, out)
            outputs.append({file.relative_to(out): file.read_bytes() for file in out.rglob("*") if file.is_file()})
        self.assertEqual(outputs[0], outputs[1])

    def test_N20_tied_weights_under_either_name(self):
        tied, both = TL | {"tie_word_embeddings": True}, weights(TL)
        both["lm_head.weight"] = both["model.embed_tokens.weight"]
        names = "model.embed_tokens.weight", "lm_head.weight"
        variables = []
        for kept, dropped in (names, names[::-1]):
            source = self.folder(tied, {name: entry for name, entry in both.items() if name != dropped})
            report = tandem("convert", source, self.scratch / kept, "--json").json
            shared = [tensor for tensor in report["tensors"] if set(tensor["from"]) & set(names)]
            self.assertEqual(len(shared), 1, shared)
            variables.append((shared[0]["name"], shared[0]["crc32c"]))
            back = self.scratch / f"back-{kept}"
            tandem("convert", self.scratch / kept, back)
            self.assertEqual(tensors(back), tensors(source))  # one copy, under the name it had
        self.assertEqual(variables[0], variables[1])

    def test_N22_a_missing_head_is_tied_only_when_asked_for(self):
        headless = {name: entry for name, entry in weights(TL).items() if name != "lm_head.weight"}
        source = self.folder(TL, headless)
        self.refused(source, 65, "missing: lm_head.weight", "--allow-tied-head")
        out = self.scratch / "tied"
        said = tandem("convert", source, out, "--allow-tied-head").out
        self.assertIn("lm_head.weight is missing and was tied to the embedding, as --allow-tied-head asks", said)
        self.assertIs(json.loads((out / "assets" / "config.json").read_text())["tie_word_embeddings"], True)
        tandem("convert", out, self.scratch / "back")
        self.assertIs(config(self.scratch / "back")["tie_word_embeddings"], True)
        self.assertEqual(tensors(self.scratch / "back"), tensors(source))
        self.refused(self.folder(), 65, "lm_head.weight is in the checkpoint", arguments=("--allow-tied-head",))

    def test_N23_biases_that_the_config_does_not_announce(self):
        biased = weights(TL | {"attention_bias": True})
        biased = {name: entry for name, entry in biased.items() if not name.endswith("o_proj.bias")}
        names = [f"unexpected: model.layers.{layer}.self_attn.{part}_proj.bias" for layer in (0, 1) for part in "qkv"]
        self.refused(self.folder(TL, biased), 65, "6 problems", *names)

    def test_D01_all_bf16_patterns_cross_and_return(self):
        wide = TL | {"vocab_size": 4096, "torch_dtype": "bfloat16"}
        entries = {name: bf16(entry) for name, entry in weights(wide).items()}
        patterns = struct.pack("<65536H", *range(65536))
        for name in ("model.embed_tokens.weight", "lm_head.weight"):  # the second is transposed on the way
            entries[name] = ("BF16", [4096, 16], patterns)
        source, there = self.folder(wide, entries), self.scratch / "there"
        tandem("convert", source, there)
        self.assertTrue(patterns in (there / "variables" / "variables.data-00000-of-00001").read_bytes())
        tandem("convert", there, self.scratch / "back")
        self.assertEqual(tensors(self.scratch / "back"), tensors(source))

    def test_D02_f32_to_bf16_rounds_to_nearest_even(self):
        wide, narrow = [0x3F808000, 0x3F818000, 0x3F808001, 0x3DCCCCCD, 0x80000000, 0x00018000], [0x3F80, 0x3F82, 0x3F81, 0x3DCD, 0x8000, 0x0002]
        entries = weights(TL)
        dtype, shape, data = entries["lm_head.weight"]
        entries["lm_head.weight"] = (dtype, shape, struct.pack("<6I", *wide) + data[24:])
        back = self.there_and_back(self.folder(TL, entries), "--dtype", "bfloat16")
        dtype, _, data = raw(back)["lm_head.weight"]
        self.assertEqual((dtype, list(struct.unpack("<6H", data[:12]))), ("BF16", narrow))

    def test_D05_scales_are_multiplied_in_and_leave_the_output(self):
        names = [name for name in tensors(TINY_FP8) if name.endswith("_scale_inv")]
        self.assertGreater(len(names), 10)
        report = tandem("convert", TINY_FP8, self.scratch / "made", "--dtype", "float32", "--json").json
        self.assertFalse([t["name"] for t in report["tensors"] if "scale" in t["name"]])
        back = self.scratch / "back"
        tandem("convert", self.scratch / "made", back)
        self.assertFalse([name for name in tensors(back) if name.endswith("_scale_inv")])

    def test_D08_the_router_bias_stays_float32_in_every_output(self):
        source, bias = self.folder(TV3), "model.layers.1.mlp.gate.e_score_correction_bias"
        saved, checkpoint, back = self.scratch / "saved", self.scratch / "checkpoint", self.scratch / "back"
        for out, more in ((saved, ()), (checkpoint, ("--to", "checkpoint"))):
            report = tandem("convert", source, out, "--dtype", "bfloat16", "--json", *more).json
            dtypes = {tensor["name"]: tensor["dtype"] for tensor in report["tensors"]}
            kept = [name for name, dtype in dtypes.items() if dtype == "float32"]
            self.assertEqual(len(kept), 3, kept)  # layers 1 and 2, and the block of the multi-token prediction
            self.assertTrue(all(name.endswith("e_score_correction_bias") for name in kept), kept)
        for made in (saved, checkpoint):
            tandem("convert", made, back, "--force")
            self.assertEqual(raw(back)[bias], raw(source)[bias])
            self.assertEqual(raw(back)["lm_head.weight"][0], "BF16")

    def test_D11_each_tensor_keeps_its_dtype(self):
        mixed = {name: entry if name == "model.norm.weight" else bf16(entry) for name, entry in weights(TL).items()}
        source = self.folder(TL | {"torch_dtype": "bfloat16"}, mixed)
        back = self.there_and_back(source)
        self.assertEqual(raw(back), raw(source))
        out = self.scratch / "wide"
        report = tandem("convert", source, out, "--dtype", "float32", "--json").json
        self.assertEqual({tensor["dtype"] for tensor in report["tensors"]}, {"float32"})
        self.assertIn("stored as float32, as --dtype asks", report["remarks"])

    def test_D04_overflow_in_float16_is_refused_by_tensor_and_count(self):
        entries = weights(TL)
        dtype, shape, data = entries["lm_head.weight"]
        entries["lm_head.weight"] = (dtype, shape, struct.pack("<3f", 70144, -70144, 1.0) + data[12:])
        self.refused(self.folder(TL, entries), 65, "lm_head/kernel: 2 finite values do not fit float16", arguments=("--dtype", "float16"))

    def test_G03_two_conversions_give_the_same_bytes(self):
        source = self.folder(TV3)
        outputs = []
        for number in (1, 2):
            out = self.scratch / f"out{number}"
            tandem("convert", source, out)
            outputs.append({file.relative_to(out): file.read_bytes() for file in out.rglob("*") if file.is_file()})
        self.assertEqual(outputs[0], outputs[1])


def crc32c_table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


TABLE = list(crc32c_table())


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def masked(crc):
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def first_block(table):
    """Where the first block's checksum stands in a leveldb table."""
    crc = 0
    for size in range(1, len(table) - 4):
        crc = crc32c(table[size - 1 : size], crc)
        if masked(crc) == int.from_bytes(table[size : size + 4], "little"):
            return size
    raise AssertionError("no block ends with its checksum")


class Document(unittest.TestCase):
    """docs/cases.md names tests that exist, under the ids that they carry."""

    ROWS = """S1 S2 S4 S5 S6 S8 S9 S10 S11 S13 S14 S15 S16 S18 S19 X1 X2 X4 X6 X8 C1 T1 T2 T4 T5 T7 N09 N10 N13 N15 N20 N22 N23 L05
              T06 D01 D02 D05 D08 D10 D11 C05 C06 C08 C09 C10 C12 C13 C26 M01 M02 M06 F1 F2 F4 F6 F7 F8 F10 G01 G03 G05 G08 G11 R01 R02 R04 R05 R07 R09 R11 R12 R13""".split()

    def test_every_row_has_tests_and_they_exist(self):
        there = set()
        folders = [folder for folder in ROOT.iterdir() if folder.is_dir() and not folder.name.startswith((".", "build"))]
        for path in (path for folder in folders for path in folder.rglob("*_test.cpp")):
            there |= {f"{suite}.{name}" for suite, name in re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", path.read_text(), re.MULTILINE)}
        for path in (ROOT / "tests").glob("*_test.py"):
            there |= {f"{path.name}:{name}" for name in re.findall(r"def (test_\w+)", path.read_text())}
        rows = dict(re.findall(r"^\| ([A-Z]\d+) \| (.*) \|$", (ROOT / "docs" / "cases.md").read_text(), re.MULTILINE))
        self.assertEqual(set(self.ROWS) - set(rows), set())
        for row, cell in rows.items():
            named = re.findall(r"`([^`]+)`", cell)
            self.assertTrue(named, row)
            self.assertEqual(set(named) - there, set(), row)
            self.assertEqual([name for name in named if row not in re.split(r"[._:]|(?<=\d)(?=[A-Za-z])|(?<=[a-z])(?=[A-Z])", name)], [], row)


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))



class Text(Case):
    def test_T03_the_tokenizer_file_wins_over_the_class_label(self):
        model = shutil.copytree(TINY, self.scratch / "model")  # byte-level; its config names LlamaTokenizerFast
        (self.scratch / "text.jsonl").write_text('"How are you doing?"\n')
        read = tandem("tokenize", "--tokenizer", model, "--jsonl", self.scratch / "text.jsonl")
        self.assertIn("names the class LlamaTokenizerFast, which cuts texts at blanks; tokenizer.json cuts them into bytes, and is followed", read.err)
        (self.scratch / "ids.jsonl").write_text(read.out)
        self.assertEqual(tandem("tokenize", "--tokenizer", model, "--decode", "--jsonl", self.scratch / "ids.jsonl").out, '"How are you doing?"\n')
        config = model / "tokenizer_config.json"
        config.write_text(config.read_text().replace("LlamaTokenizerFast", "PreTrainedTokenizerFast"))
        same = tandem("tokenize", "--tokenizer", model, "--jsonl", self.scratch / "text.jsonl")
        self.assertEqual((same.out, same.err), (read.out, ""))


if __name__ == "__main__":
    unittest.main()
