"""docs/schemas/: every command's --json, run for real, is as its schema says; so are errors and certificates."""

import base64
import copy
import json
import re
import shutil
import subprocess
import unittest

from common import EXAMPLES, ROOT, TINY, TINY_FP8, Case, run, tandem
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from tiny import TL, write_folder

FOLDER = ROOT / "docs" / "schemas"
SCHEMAS = {path.name.removesuffix(".schema.json"): json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.schema.json"))}
REGISTRY = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values())
# Objects that may get fields without a new version: those of verify, wherever they stand.
OPEN = {"verify", "certificate"}


def problems(schema, document):
    errors = Draft202012Validator(SCHEMAS[schema], registry=REGISTRY).iter_errors(document)
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in errors]


def objects(schema):
    """Every subschema that describes an object by its properties."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


class Schemas(Case):
    def valid(self, schema, document):
        self.assertEqual(problems(schema, document), [])
        return document

    def refused(self, schema, document):
        self.assertNotEqual(problems(schema, document), [])

    def test_schemas_are_schemas_and_closed(self):
        for name, schema in SCHEMAS.items():
            with self.subTest(schema=name):
                Draft202012Validator.check_schema(schema)
                self.assertEqual(schema["$id"], f"https://tandem.dev/schemas/{name}.schema.json")
                self.assertEqual(schema["$schema"], Draft202012Validator.META_SCHEMA["$id"])
                for each in objects(schema):
                    self.assertIn("additionalProperties", each)
                    self.assertLessEqual(set(each.get("required", [])), set(each["properties"]))
                    if name not in OPEN:
                        self.assertIs(each["additionalProperties"], False)

    def test_every_command_with_json_has_its_schema(self):
        commands = re.findall(r"^  ([\w-]+)  ", tandem("--help").out.split("Subcommands:")[1], re.MULTILINE)
        self.assertGreater(len(commands), 6)
        listed = (FOLDER / "README.md").read_text()
        for command in commands:
            self.assertRegex(listed, rf"`tandem {command}( [a-z]+)? --json`")
        for name in SCHEMAS:
            self.assertIn(f"`{name}.schema.json`", listed)

    def test_inspect(self):
        for model in (TINY, TINY_FP8, TINY / "model.safetensors"):
            self.valid("inspect", run("inspect", model, "--json").json)
        folder = write_folder(self.scratch / "broken", TL)
        (folder / "config.json").write_text(json.dumps(TL | {"unknown_key": 1}))
        blocked = self.valid("inspect", tandem("inspect", folder, "--json", code=65).json)
        self.assertNotEqual(blocked["blocks"], [])
        self.refused("inspect", blocked | {"more": 1})

    def test_map(self):
        file = self.scratch / "map.json"
        for model in (TINY, TINY_FP8, write_folder(self.scratch / "llama", TL)):
            self.valid("map", tandem("map", model, "--json").json)
            tandem("map", model, "--out", file)
            self.valid("map", json.loads(file.read_text()))
        self.valid("map-check", tandem("map", model, "--check", file, "--json").json)
        self.valid("map-check", tandem("map", TINY, "--check", file, "--json", code=1).json)

    def test_convert(self):
        there, back = self.scratch / "there", self.scratch / "back"
        for arguments in ((TINY, there), (there, back), (TINY_FP8, self.scratch / "cast", "--dtype", "float16")):
            self.valid("convert", tandem("convert", *arguments, "--json").json)

    def test_slice(self):
        for number, flags in enumerate(((), ("--with-mtp",))):
            self.valid("slice", tandem("slice", TINY, self.scratch / str(number), "--layers", ":2", "--json", *flags).json)

    def test_stages(self):
        out = self.scratch / "stages"
        self.valid("convert", tandem("convert", TINY, out, "--stages", 2, "--json").json)
        document = self.valid("stages", json.loads((out / "stages.json").read_text()))
        self.refused("stages", document | {"more": 1})
        self.valid("inspect", tandem("inspect", out, "--json").json)
        self.valid("plan", tandem("plan", TINY, self.scratch / "other", "--stages", 2, "--json").json)

    def test_plan_tasks_and_their_manifests(self):
        plan = self.scratch / "plan.json"
        flags = ("--max-shard-size", "2MB", "--dtype", "float32", "--accept-key", "x")
        self.valid("plan", tandem("plan", TINY, self.scratch / "tf", *flags, "--out", plan, "--json").json)
        document = self.valid("plan", json.loads(plan.read_text()))
        self.refused("plan", document | {"more": 1})
        self.valid("run-task", tandem("run-task", plan, "--task", "1/2", "--json").json)
        tandem("run-task", plan, "--task", "0/2")
        notes = sorted((self.scratch / ".tf.tandem-work" / "done").glob("*.json"))
        self.assertEqual(len(notes), len(document["tasks"]))
        for note in notes:
            self.valid("task", json.loads(note.read_text()))
        self.valid("convert", tandem("finalize", plan, "--json").json)
        self.valid("plan", tandem("plan", self.scratch / "tf", self.scratch / "back", "--like", TINY, "--json").json)

    def test_map_infer(self):
        model = write_folder(self.scratch / "llama", TL)
        tandem("convert", model, self.scratch / "tf")
        found = self.valid("map-infer", run("map", "--infer", model, self.scratch / "tf", "--json").json)
        self.assertNotEqual(found["pairs"], [])
        self.valid("map-infer", run("map", "--infer", model, TINY, "--json").json)

    def test_plant(self):
        self.valid("plant-list", tandem("plant", "--list", "--json").json)
        tandem("convert", TINY, self.scratch / "tf")
        self.valid("plant-list", tandem("plant", "--list", self.scratch / "tf", "--json").json)
        self.valid("plant", tandem("plant", "epsilon", self.scratch / "tf", self.scratch / "bad", "--json").json)

    def test_tokenize(self):
        for flags in ((), ("--explain",)):
            done = run("tokenize", "--tokenizer", TINY, "--jsonl", self.text_lines(), "--json", *flags)
            for line in done.out.splitlines():
                self.valid("tokenize", json.loads(line))
            self.assertEqual(len(done.out.splitlines()), 2)
        self.refused("tokenize", json.loads(line) | {"more": 1})

    def text_lines(self):
        path = self.scratch / "lines.jsonl"
        path.write_text('"a b"\n"naïve"\n')
        return path

    def test_run(self):
        tandem("convert", TINY, self.scratch / "tf")
        for model in (TINY, self.scratch / "tf"):
            self.valid("run", tandem("run", model, "--tokens", "0,335", "--max-new-tokens", "2", "--json").json)
        short = ("--max-new-tokens", "2", "--json")
        written = self.valid("run", tandem("run", TINY, "def", *short).json)
        self.refused("run", written | {"more": 1})
        self.valid("run", tandem("run", TINY, "def", "--stop", written["text"][-1], *short).json)
        self.valid("run", tandem("run", TINY, "--chat", "def", *short).json)
        self.valid("run", tandem("run", self.scratch / "tf", "--tokens", "0,335", "--max-new-tokens", "1", "--stats", "--json").json)
        self.valid("run-compare", tandem("run", TINY, "def", "--compare", "torch", *short).json)
        tandem("plant", "rotary.pairing", self.scratch / "tf", self.scratch / "bad")
        parted = self.valid("run-compare", run("run", TINY, "def area(width, height):", "--compare", self.scratch / "bad", "--max-new-tokens", "8", "--json").json)
        self.assertIsNotNone(parted["first_difference"])

    def test_record_and_verify_of_a_dump(self):
        dump = self.scratch / "a.dump"
        self.valid("record", tandem("record", TINY, "--out", dump, "--levels", "model", "--json").json)
        self.valid("verify", tandem("verify", TINY, f"dump:{dump}", "--levels", "model", "--no-float64", "--json").json)

    def test_chat_template(self):
        (self.scratch / "t.jinja").write_text("{{ messages[0].role }}")
        (self.scratch / "m.json").write_text('[{"role": "user"}]')
        answer = self.valid("chat-template", tandem("chat-template", self.scratch / "t.jinja", "--messages", self.scratch / "m.json", "--json").json)
        self.assertEqual(answer["text"], "user")

    def test_verify_certificate_sign_and_check(self):
        model = shutil.copytree(TINY, self.scratch / "model")
        right = self.scratch / "tf"
        tandem("convert", model, right)
        certificate = self.scratch / "certificate.json"
        report = self.valid("verify", tandem("verify", model, right, "--json", "--certificate", certificate).json)
        self.assertTrue(report["equal"])
        envelope = self.valid("envelope", json.loads(certificate.read_text()))
        statement = self.valid("certificate", json.loads(base64.b64decode(envelope["payload"])))
        self.assertEqual(statement["predicate"]["results"], report)
        how = statement["predicate"]["how"]
        self.assertEqual([row["level"] for row in how["prompts"]], [level for level in report["levels"] if level != "weights"])
        self.assertEqual({(row["source"], row["seed"]) for row in how["prompts"]}, {("built in", 2026)})
        self.assertEqual(how["prompts"][-1]["prompts"], report["levels"]["model"]["prompts"])
        self.assertEqual(how["rules"]["left"], how["rules"]["right"])

        key = self.scratch / "private.pem"
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], check=True)
        signed = self.valid("sign", tandem("sign", certificate, "--key", key, "--json").json)
        self.valid("envelope", json.loads(certificate.read_text()))
        self.refused("sign", signed | {"keyid": "x"})
        self.valid("check", tandem("check", certificate, "--json").json)
        data = bytearray((model / "model.safetensors").read_bytes())
        data[-1] ^= 1
        (model / "model.safetensors").write_bytes(data + b"x")
        (model / "more").write_text("x")
        (right / "saved_model.pb").unlink()
        changed = self.valid("check", tandem("check", certificate, "--json", code=1).json)
        self.refused("check", changed | {"holds": 1})

    def test_a_verify_that_fails(self):
        model = write_folder(self.scratch / "model", TL)
        tandem("convert", model, self.scratch / "tf")
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.1}))
        data = bytearray((model / "model.safetensors").read_bytes())
        data[-1] ^= 1
        (model / "model.safetensors").write_bytes(data)
        report = self.valid("verify", tandem("verify", model, self.scratch / "tf", "--json", code=1).json)
        self.assertFalse(report["levels"]["weights"]["equal"] or report["levels"]["model"]["equal"])
        self.assertNotEqual(report["levels"]["weights"]["differences"], [])
        for level in ("weights", "layer", "module", "model"):
            alone = self.valid("verify", tandem("verify", model, self.scratch / "tf", "--levels", level, "--json", code=1).json)
            self.assertEqual(list(alone["levels"]), [level])
            self.assertFalse(alone["levels"][level]["equal"])
            wrong = copy.deepcopy(alone)
            del wrong["levels"][level]["equal"]
            self.refused("verify", wrong)
        self.assertIsNotNone(report["divergence"])
        self.valid("verify", report | {"new": 1, "levels": report["levels"] | {"new": {"equal": True}}})
        self.refused("verify", report | {"levels": {}})

    def test_errors(self):
        text = self.scratch / "text"
        text.write_text("{")
        for code, arguments in (
            (2, ["convert"]), (2, ["nothing"]), (65, ["inspect", text]), (66, ["map", self.scratch / "nowhere"]), (2, ["convert", TINY, TINY]),
            (66, ["verify", TINY, self.scratch / "nowhere"]), (73, ["map", TINY, "--out", text / "x"]), (65, ["run", TINY, "--tokens", "x"]), (65, ["check", text]), (65, ["check", TINY, "--key", text]),
            (65, ["sign", text, "--key", text]), (66, ["convert", EXAMPLES / "tiny-deepseek-v3-lora", self.scratch / "out"]),
        ):  # fmt: skip
            with self.subTest(arguments=arguments):
                error = tandem(*arguments, "--json", code=code)
                self.assertEqual(error.out, "")
                self.assertEqual(self.valid("error", json.loads(error.err))["error"]["exit_code"], code)
        self.refused("error", {"error": {"kind": "new", "exit_code": 2, "text": ""}})


if __name__ == "__main__":
    unittest.main()
