"""Certificates: made, signed, checked by our program and by openssl and jq; every flipped bit has a name; hostile ones."""

import base64
import copy
import json
import os
import random
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from common import ROOT, TANDEM, TINY, Case, run, tandem
from tiny import TL, TV3, write_folder

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
FLIPS = 60


# Where tensors lie, read from the bytes by the formats' own descriptions: the program is not asked.


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def entries(block):
    """(key, value) of a leveldb block."""
    restarts = int.from_bytes(block[-4:], "little")
    at, end, key = 0, len(block) - 4 - 4 * restarts, b""
    while at < end:
        shared, at = varint(block, at)
        rest, at = varint(block, at)
        size, at = varint(block, at)
        key = key[:shared] + block[at : at + rest]
        yield key, block[at + rest : at + rest + size]
        at += rest + size


def block_at(data, handle):
    offset, at = varint(handle, 0)
    size, _ = varint(handle, at)
    assert data[offset + size] == 0, "a compressed block"
    return data[offset : offset + size]


def fields(message):
    """Field number -> value of a protobuf message without repeated fields."""
    at, found = 0, {}
    while at < len(message):
        tag, at = varint(message, at)
        if tag & 7 == 0:
            found[tag >> 3], at = varint(message, at)
        elif tag & 7 == 2:
            size, at = varint(message, at)
            at += size
        else:
            at += {5: 4, 1: 8}[tag & 7]
    return found


def bundle_tensors(index):
    """(name, offset, bytes) of each entry of a bundle of one shard."""
    data = index.read_bytes()
    footer = data[-48:]
    _, at = varint(footer, 0)
    _, at = varint(footer, at)
    for _, handle in entries(block_at(data, footer[at:])):
        for key, value in entries(block_at(data, handle)):
            if key:
                entry, name = fields(value), key.decode()
                yield name.removesuffix(VALUE).replace("..", "."), entry.get(4, 0), entry.get(5, 0)


def safetensors_tensors(file):
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            yield name, start + begin, end - begin


def region_at(file, offset):
    """(kind, name) of the region that a byte lies in."""
    if file.suffix == ".safetensors":
        found, between = list(safetensors_tensors(file)), "header"
    elif ".data-" in file.name:
        found, between = list(bundle_tensors(file.with_name(file.name.split(".data-")[0] + ".index"))), "padding"
    else:
        return "file", None
    names = [name for name, begin, size in found if begin <= offset < begin + size]
    assert len(names) <= 1, names
    return ("tensor", names[0]) if names else (between, None)


def flip(file, bit):
    with open(file, "r+b") as handle:
        handle.seek(bit // 8)
        byte = handle.read(1)[0]
        handle.seek(bit // 8)
        handle.write(bytes([byte ^ 1 << bit % 8]))


def statement_of(certificate):
    return json.loads(base64.b64decode(json.loads(certificate.read_text())["payload"]))


def sha256(file):
    return subprocess.run(["openssl", "dgst", "-sha256", "-r", file], capture_output=True, text=True, check=True).stdout.split()[0]


class Certificates(Case):
    def setUp(self):
        super().setUp()
        self.left = write_folder(self.scratch / "model", TV3)
        self.right = self.scratch / "model.tf"
        tandem("convert", self.left, self.right)
        self.certificate = self.scratch / "certificate.json"
        tandem("verify", self.left, self.right, "--levels", "weights", "--certificate", self.certificate)

    def openssl(self, *arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

    def keys(self, name="key"):
        private, public = self.scratch / f"{name}.pem", self.scratch / f"{name}.pub"
        self.openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", private)
        self.openssl("pkey", "-in", private, "-pubout", "-out", public)
        return private, public

    def check(self, *arguments, code=0):
        return tandem("check", self.certificate, "--json", *arguments, code=code).json

    def test_every_file_is_covered_from_end_to_end(self):
        statement = statement_of(self.certificate)
        digests = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
        expected = {}
        for side, folder in (("left", self.left), ("right", self.right)):
            for file in folder.rglob("*"):
                if file.is_file():
                    expected[f"{side}/{file.relative_to(folder)}"] = sha256(file)
        self.assertGreater(len(expected), 5)
        self.assertEqual(digests, expected)
        kinds = set()
        for side, folder in (("left", self.left), ("right", self.right)):
            for file in statement["predicate"]["sides"][side]["files"]:
                at = 0
                for region in file["regions"]:
                    self.assertEqual(region["offset"], at)
                    kind_and_name = region["kind"], region.get("name")
                    self.assertEqual(region_at(folder / file["name"], at), kind_and_name)
                    at += region["bytes"]
                    self.assertEqual(region_at(folder / file["name"], at - 1), kind_and_name)
                    kinds.add(region["kind"])
                self.assertEqual(at, (folder / file["name"]).stat().st_size)
        self.assertEqual(kinds, {"tensor", "header", "padding", "file"})

    def test_a_flipped_bit_is_named_by_file_and_tensor(self):
        places = random.Random(2026)
        files = [(side, file, file.relative_to(folder).as_posix()) for side, folder in (("left", self.left), ("right", self.right)) for file in sorted(folder.rglob("*")) if file.is_file()]
        large = [row for row in files if row[1].suffix == ".safetensors" or ".data-" in row[1].name]
        self.assertEqual(len(large), 2)
        seen = set()
        for number in range(FLIPS):
            side, file, name = places.choice(files if number % 3 == 0 else large)
            bit = places.randrange(8 * file.stat().st_size)
            kind, tensor = region_at(file, bit // 8)
            seen.add(kind)
            flip(file, bit)
            with self.subTest(file=name, bit=bit):
                sides = self.check(code=1)["sides"]
                other = sides["right" if side == "left" else "left"]
                self.assertEqual((other["changed"], other["missing"], other["extra"]), ([], [], []))
                self.assertEqual((sides[side]["missing"], sides[side]["extra"]), ([], []))
                [changed] = sides[side]["changed"]
                self.assertEqual(changed["file"], name)
                [region] = changed["regions"]
                self.assertEqual((region["kind"], region.get("name")), (kind, tensor))
                self.assertLessEqual(region["offset"], bit // 8)
                self.assertLess(bit // 8, region["offset"] + region["bytes"])
            flip(file, bit)
        self.assertLessEqual({"tensor", "file", "header"}, seen)
        self.assertTrue(self.check()["holds"])

    def test_the_words_name_file_and_tensor(self):
        file = self.left / "model.safetensors"
        name, begin, size = next(iter(safetensors_tensors(file)))
        flip(file, 8 * begin)
        words = tandem("check", self.certificate, code=1).out
        self.assertIn(f"changed: left/model.safetensors: tensor {name}, in bytes {begin} to {begin + size}\n", words)
        self.assertIn("right        " + str(self.right) + ": unchanged", words)
        self.assertIn("signature    unsigned\n", words)
        self.assertTrue(words.endswith("the certificate does NOT hold\n"))

    def test_missing_extra_shorter_and_longer_files(self):
        (self.left / "config.json").unlink()
        (self.left / "sub").mkdir()
        (self.left / "sub" / "new").write_text("x")
        (self.left / ".git").mkdir()
        (self.left / ".git" / "HEAD").write_text("x")
        (self.left / "gone").symlink_to("/etc/passwd")
        data = self.right / "variables" / "variables.data-00000-of-00001"
        size = data.stat().st_size
        _, last = region_at(data, size - 1)
        os.truncate(data, size - 1)
        with open(self.right / "saved_model.pb", "ab") as graph:
            graph.write(b"x")
        sides = self.check(code=1)["sides"]
        self.assertEqual(sides["left"]["missing"], ["config.json"])
        self.assertEqual(sides["left"]["extra"], ["gone", "sub/new"])
        self.assertEqual(sides["left"]["changed"], [])
        pb, shard = sides["right"]["changed"]
        self.assertEqual((pb["file"], pb["bytes_now"], pb["regions"]), ("saved_model.pb", pb["bytes"] + 1, []))
        self.assertEqual((shard["bytes"], shard["bytes_now"]), (size, size - 1))
        self.assertEqual([region["name"] for region in shard["regions"]], [last])
        words = tandem("check", self.certificate, code=1).out
        for line in ("missing: left/config.json", "extra: left/sub/new", f"variables.data-00000-of-00001: {size - 1:,} bytes, it had {size:,}"):
            self.assertIn(line, words)

    def test_sides_that_have_moved(self):
        for side in (self.left, self.right):
            shutil.move(side, f"{side}.moved")
        self.assertIn("--left PATH says where the left side is now", tandem("check", self.certificate, code=66).err)
        self.assertTrue(self.check("--left", f"{self.left}.moved", "--right", f"{self.right}.moved/")["holds"])
        swapped = self.check("--left", f"{self.right}.moved", "--right", f"{self.left}.moved", code=1)["sides"]
        self.assertIn("model.safetensors", swapped["left"]["missing"])
        self.assertIn("a folder was compared", tandem("check", self.certificate, "--left", self.certificate, code=65).err)

    def test_signatures(self):
        private, public = self.keys()
        other_private, other_public = self.keys("other")
        self.assertEqual(self.check()["signature"], {"state": "unsigned", "keyids": []})
        self.assertEqual(self.check("--key", public, code=1)["signature"]["state"], "unsigned")

        signed = tandem("sign", self.certificate, "--key", private, "--json").json
        self.assertEqual((signed["signatures"], signed["replaced"]), (1, False))
        self.openssl("pkey", "-pubin", "-in", public, "-outform", "DER", "-out", self.scratch / "der")
        self.assertEqual(signed["keyid"], sha256(self.scratch / "der"))
        self.assertEqual(self.check()["signature"], {"state": "not checked", "keyids": [signed["keyid"]]})
        self.assertIn("NOT CHECKED", tandem("check", self.certificate).out)
        self.assertEqual(self.check("--key", public)["signature"]["state"], "valid")
        self.assertEqual(self.check("--key", other_public, code=1)["signature"]["state"], "other key")

        self.assertTrue(tandem("sign", self.certificate, "--key", private, "--json").json["replaced"])
        self.assertEqual(tandem("sign", self.certificate, "--key", other_private, "--json").json["signatures"], 2)
        for key in (public, other_public):
            self.assertEqual(self.check("--key", key)["signature"]["state"], "valid")

        before = self.certificate.read_text()
        tandem("sign", self.certificate, "--key", private, "--out", self.scratch / "copy.json")
        self.assertEqual(self.certificate.read_text(), before)

        envelope = json.loads(before)
        envelope["payload"] = base64.b64encode(base64.b64decode(envelope["payload"]).replace(b'"tandem":"', b'"tandem":"9')).decode()
        self.certificate.write_text(json.dumps(envelope))
        check = self.check("--key", public, code=1)
        self.assertEqual((check["signature"]["state"], check["unchanged"], check["holds"]), ("wrong", True, False))
        self.assertIn("did not sign this content", tandem("check", self.certificate, "--key", public, code=1).out)

    def test_keys_that_cannot_sign(self):
        private, public = self.keys()
        for name, command in (
            ("p384", ["ecparam", "-name", "secp384r1", "-genkey", "-noout"]),
            ("ed25519", ["genpkey", "-algorithm", "ed25519"]),
            ("rsa", ["genpkey", "-algorithm", "RSA"]),
            ("encrypted", ["pkcs8", "-topk8", "-in", private, "-passout", "pass:a"]),
        ):
            self.openssl(*command, "-out", self.scratch / name)
        (self.scratch / "text").write_text("no key\n")
        before = self.certificate.read_text()
        for code, says, key in (
            (65, "an EC key on the curve secp384r1, expected an EC key on the curve prime256v1", "p384"),
            (65, "an ED25519 key", "ed25519"),
            (65, "an RSA key", "rsa"),
            (65, "the private key is encrypted", "encrypted"),
            (65, 'no private key but a PEM block "PUBLIC KEY"', "key.pub"),
            (65, "no private key in PEM form", "text"),
            (66, "cannot open: No such file", "nowhere"),
            (77, "a directory, not a regular file", "model"),
        ):
            with self.subTest(key=key):
                error = tandem("sign", self.certificate, "--key", self.scratch / key, code=code).err
                self.assertIn(says, error)
                self.assertIn(key, error)
        self.assertIn("no public key but a PEM block", tandem("check", self.certificate, "--key", private, code=65).err)
        self.assertEqual(self.certificate.read_text(), before)
        self.assertEqual([name for name in os.listdir(self.scratch) if ".tandem-" in name], [])

    def test_a_failed_verification_is_certified_and_does_not_hold(self):
        file = self.left / "model.safetensors"
        _, begin, _ = next(iter(safetensors_tensors(file)))
        flip(file, 8 * begin)
        tandem("verify", self.left, self.right, "--levels", "weights", "--certificate", self.certificate, code=1)
        check = self.check(code=1)
        self.assertEqual((check["equal"], check["unchanged"], check["holds"]), (False, True, False))
        self.assertIn("verdict      NOT EQUAL", tandem("check", self.certificate, code=1).out)

    def test_single_files_and_checkpoints(self):
        file = shutil.copy(self.left / "model.safetensors", self.scratch / "one.safetensors")
        checkpoint = self.scratch / "checkpoint" / "variables"
        shutil.copytree(self.right / "variables", checkpoint.parent)
        for asset in (self.right / "assets").iterdir():
            shutil.copy(asset, checkpoint.parent)
        (checkpoint.parent / "another.index").write_text("not ours")
        tandem("verify", file, checkpoint, "--levels", "weights", "--certificate", self.certificate)
        sides = statement_of(self.certificate)["predicate"]["sides"]
        self.assertEqual((sides["left"]["covers"], [f["name"] for f in sides["left"]["files"]]), ("file", ["one.safetensors"]))
        self.assertEqual(sides["right"]["covers"], "checkpoint")
        names = {f["name"] for f in sides["right"]["files"]}
        self.assertLessEqual({"variables.index", "variables.data-00000-of-00001", "config.json", "tandem_rules.json"}, names)
        self.assertNotIn("another.index", names)
        self.assertTrue(self.check()["holds"])
        renamed = shutil.move(file, self.scratch / "two.safetensors")
        self.assertTrue(self.check("--left", renamed, "--right", checkpoint.parent)["holds"])
        (checkpoint.parent / "variables.data-00001-of-00002").write_text("x")
        self.assertEqual(self.check("--left", renamed, code=1)["sides"]["right"]["extra"], ["variables.data-00001-of-00002"])
        (checkpoint.parent / "variables.index").unlink()
        self.assertIn("variables.index", self.check("--left", renamed, code=1)["sides"]["right"]["missing"])

    def test_a_certificate_lies_outside_what_it_covers(self):
        command = ["verify", self.left, self.right, "--levels", "weights", "--certificate"]
        for out in (self.left / "c.json", self.right / "assets" / "c.json", self.left / "config.json"):
            self.assertIn("would be a file of what it covers", tandem(*command, out, code=2).err)
        self.assertIn("cannot create", tandem(*command, self.scratch / "nowhere" / "c.json", code=73).err)
        self.assertIn("is a folder", tandem(*command, self.scratch, code=73).err)
        self.assertTrue(self.check()["holds"])

    def test_links_and_special_files(self):
        (self.left / "loop").symlink_to(".")
        error = run("verify", self.left, self.right, "--levels", "weights", "--certificate", self.certificate)
        self.assertEqual(error.code, 77, error)
        (self.left / "loop").unlink()
        self.assertTrue(self.check()["holds"])
        (self.left / "config.json").unlink()
        (self.left / "config.json").symlink_to("/etc/hostname")
        self.assertIn("a symbolic link leads out of the folder", tandem("check", self.certificate, code=77).err)
        (self.left / "config.json").unlink()
        os.mkfifo(self.left / "config.json")
        self.assertIn("not a regular file", tandem("check", self.certificate, code=77).err)

    def rewrapped(self, edit):
        """The certificate with its statement edited, signatures dropped."""
        statement = copy.deepcopy(statement_of(self.original))
        edit(statement)
        payload = base64.b64encode(json.dumps(statement).encode()).decode()
        envelope = json.loads(self.original.read_text()) | {"payload": payload}
        self.certificate.write_text(json.dumps(envelope))

    def test_hostile_certificates_end_in_one_clear_error(self):
        self.original = Path(shutil.copy(self.certificate, self.scratch / "original.json"))
        envelope = json.loads(self.original.read_text())

        def renamed(name):
            def edit(statement):
                statement["predicate"]["sides"]["left"]["files"][0]["name"] = name
                statement["subject"][0]["name"] = "left/" + name

            return edit

        def first_region(**values):
            return lambda s: s["predicate"]["sides"]["left"]["files"][0]["regions"][0].update(values)

        def without(*way):
            def edit(statement):
                for step in way[:-1]:
                    statement = statement[step]
                del statement[way[-1]]

            return edit

        edits = [
            (77, 'the name "../config.json" has a part "." or ".."', renamed("../config.json")),
            (77, 'the name "/etc/passwd" is absolute', renamed("/etc/passwd")),
            (77, "has a NUL in it", renamed("a\0b")),
            (77, "is empty", renamed("")),
            (77, "longer than 1024 bytes", renamed("a" * 2000)),
            (65, "certificate_c4", first_region(offset=1)),
            (65, "certificate_c4", first_region(bytes=2**64 - 1)),
            (65, "certificate_c4", first_region(bytes=0)),
            (65, "is not a whole number from 0", first_region(bytes=-1)),
            (65, "is not a whole number from 0", first_region(offset=0.5)),
            (65, "is not tensor, header, padding or file", first_region(kind="x")),
            (65, "is not 64 hex digits", first_region(sha256="AB")),
            (65, "certificate_c3", lambda s: s["subject"].pop()),
            (65, "certificate_c3", lambda s: s["subject"].append(s["subject"][0])),
            (65, "certificate_c3", lambda s: s["subject"][0]["digest"].update(sha256="0" * 64)),
            (65, "no file is covered", lambda s: s["predicate"]["sides"]["left"].update(files=[])),
            (65, "one file is covered", lambda s: s["predicate"]["sides"]["right"].update(covers="file")),
            (65, '_type is "x", expected', lambda s: s.update(_type="x")),
            (65, 'predicateType is "https://slsa.dev/provenance/v1"', lambda s: s.update(predicateType="https://slsa.dev/provenance/v1")),
            (65, "predicate.results.equal is not true or false", lambda s: s["predicate"]["results"].update(equal=1)),
            (65, "predicate.sides is not an object", lambda s: s["predicate"].update(sides=[])),
            (65, "predicate.sides.right is missing", without("predicate", "sides", "right")),
            (65, "predicate is missing", without("predicate")),
            (65, "predicate.sides.left.files[0].sha256 is missing", without("predicate", "sides", "left", "files", 0, "sha256")),
        ]
        private, _ = self.keys()
        for code, says, edit in edits:
            with self.subTest(says=says):
                self.rewrapped(edit)
                for arguments in (["check", self.certificate], ["sign", self.certificate, "--key", private]):
                    error = tandem(*arguments, code=code)
                    self.assertIn(says, error.err)
                    self.assertRegex(error.err, r"\Atandem: [^\n]+\n\Z")
                    self.assertEqual(error.out, "")

        payloads = [
            (65, "base64_c1", {"payload": envelope["payload"][:-1]}),
            (65, "no digit of base64", {"payload": "\n" + envelope["payload"][1:]}),
            (65, "json_c", {"payload": base64.b64encode(b"{").decode()}),
            (65, "json_c2", {"payload": base64.b64encode(b"[" * 100_000).decode()}),
            (65, "the payload is not an object", {"payload": base64.b64encode(b"[]").decode()}),
            (65, 'payloadType is "application/json"', {"payloadType": "application/json"}),
            (65, 'no text "payloadType"', {"payloadType": 7}),
            (65, 'no list "signatures"', {"signatures": {}}),
            (65, 'signature 0 has no text "sig"', {"signatures": [{"keyid": "a"}]}),
            (65, "at most 100 are read", {"signatures": [{"sig": "AA=="}] * 101}),
        ]
        for code, says, fields_ in payloads:
            with self.subTest(says=says):
                self.certificate.write_text(json.dumps(envelope | fields_))
                self.assertIn(says, tandem("check", self.certificate, code=code).err)

        for code, says, content in ((65, "json_c1", b""), (65, "json_c1", b"\xff\xfe"), (65, "dsse_c1", b"[]"), (65, "json_c3", b'{"payload":"","payload":""}')):
            self.certificate.write_bytes(content)
            self.assertIn(says, tandem("check", self.certificate, code=code).err)
        with open(self.certificate, "wb") as sparse:
            sparse.truncate(10**10)
        self.assertIn("R3", tandem("check", self.certificate, code=65).err)
        self.assertIn("cannot open", tandem("check", self.scratch / "nowhere", code=66).err)
        self.assertIn("not a regular file", tandem("check", self.scratch, code=77).err)

    def test_a_folder_without_config_is_still_a_folder(self):
        """What a deleted file takes from the format's detection does not stop the check."""
        for name in ("config.json", "model.safetensors"):
            (self.left / name).unlink()
        self.assertEqual(self.check(code=1)["sides"]["left"]["missing"], ["config.json", "model.safetensors"])


class Document(Case):
    """The commands of docs/certificate.md, run as they stand."""

    def blocks(self):
        text = (ROOT / "docs" / "certificate.md").read_text()
        return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)

    def shell(self, block):
        environment = os.environ | {"PATH": f"{TANDEM.parent}:{os.environ['PATH']}"}
        return subprocess.run(["sh", "-euc", block], cwd=self.scratch, env=environment, capture_output=True, text=True)

    def test_openssl_and_jq_alone_verify_signature_and_files(self):
        (self.scratch / "examples").mkdir()
        shutil.copytree(TINY, self.scratch / "examples" / TINY.name)
        make, signature, files = self.blocks()
        for others in (signature, files):
            self.assertNotIn("tandem", others)
        done = self.shell(make)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.shell(signature)
        self.assertEqual((done.returncode, done.stdout), (0, "Verified OK\n"), done.stderr)
        done = self.shell(files)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

        shard = self.scratch / "tiny.tf" / "variables" / "variables.data-00000-of-00001"
        flip(shard, 12345)
        done = self.shell(files)
        self.assertEqual((done.returncode, done.stdout), (0, "changed: right/variables/variables.data-00000-of-00001\n"))
        flip(shard, 12345)

        certificate = self.scratch / "certificate.json"
        tandem("check", certificate, "--key", self.scratch / "public.pem", "--left", self.scratch / "examples" / TINY.name, "--right", self.scratch / "tiny.tf")
        envelope = json.loads(certificate.read_text())
        statement = base64.b64decode(envelope["payload"])
        envelope["payload"] = base64.b64encode(statement.replace(b'"equal":true', b'"equal":null')).decode()
        certificate.write_text(json.dumps(envelope))
        done = self.shell(signature)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Verification failure", done.stdout + done.stderr)

    def test_openssls_signature_is_ours(self):
        """A signature that openssl makes over the recipe's bytes is accepted by check."""
        left = write_folder(self.scratch / "model", TL)
        tandem("convert", left, self.scratch / "tf")
        certificate = self.scratch / "certificate.json"
        tandem("verify", left, self.scratch / "tf", "--levels", "weights", "--certificate", certificate)
        _, signature, _ = self.blocks()
        script = (
            "openssl ecparam -name prime256v1 -genkey -noout -out private.pem\nopenssl pkey -in private.pem -pubout -out public.pem\n"
            + "\n".join(signature.splitlines()[:3])
            + "\nopenssl dgst -sha256 -sign private.pem signed | openssl base64 -A > sig\n"
            + "jq --rawfile sig sig '.signatures = [{keyid: \"any\", sig: $sig}]' certificate.json > signed.json\n"
        )
        done = self.shell(script)
        self.assertEqual(done.returncode, 0, done.stderr)
        check = tandem("check", self.scratch / "signed.json", "--key", self.scratch / "public.pem", "--json").json
        self.assertEqual((check["signature"]["state"], check["signature"]["keyids"]), ("valid", ["any"]))


if __name__ == "__main__":
    unittest.main()
