"""tandem tokenize against the `tokenizers` wheel: ids, pieces, offsets and decoded text, on published files and on small trained ones.

TANDEM_TOKENIZER_LINES sets how many lines each tokenizer gets (default 6,000; the nightly run takes 50,000).
"""

import json
import os
import random
import struct
import subprocess
import unittest

from common import TANDEM, TINY, Case
from make_smollm2 import smollm2
from make_tokenizers import tokenizer as published
from tokenizer_corpus import CODE, EMOJI, WORDS, corpus
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LINES = int(os.environ.get("TANDEM_TOKENIZER_LINES", 6000))
SEED = 7
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def run(arguments, lines):
    """One JSON document a line in, one a line out."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([TANDEM, "tokenize", "--json", *map(str, arguments)], input=text.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    return [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]


def character_map(table):
    """A precompiled_charsmap: a double array of the keys, and their texts. Built state by state at the first free base."""
    texts, starts = b"", {}
    for key, text in table.items():
        starts[key.encode()] = len(texts)
        texts += text.encode() + b"\0"
    units, used, bases = {0: 0}, {0}, set()

    def place(state, prefix):
        following = sorted({key[len(prefix)] for key in starts if key.startswith(prefix) and len(key) > len(prefix)})
        labels = ([0] if prefix in starts else []) + following
        base = next(base for base in range(1, 1 << 20) if base not in bases and not any(base ^ label in used for label in labels))
        bases.add(base)
        used.update(base ^ label for label in labels)
        units[state] = units.get(state, 0) | (base ^ state) << 10 | (0x100 if prefix in starts else 0)
        if prefix in starts:
            units[base] = starts[prefix] | 1 << 31
        for label in following:
            units[base ^ label] = label
            place(base ^ label, prefix + bytes([label]))

    place(0, b"")
    trie = struct.pack(f"<{max(units) + 256}I", *(units.get(i, 0) for i in range(max(units) + 256)))
    return struct.pack("<I", len(trie)) + trie + texts


def training_text():
    choose = random.Random(SEED)
    return [" ".join(choose.choice(WORDS) for _ in range(20)) for _ in range(400)] + list(CODE) * 20 + list(EMOJI)


def trained(model, trainer, normalizer=None, pre_tokenizer=None, decoder=None, post_processor=None, added=()):
    made = Tokenizer(model)
    if normalizer:
        made.normalizer = normalizer
    if pre_tokenizer:
        made.pre_tokenizer = pre_tokenizer
    made.train_from_iterator(training_text(), trainer)
    if decoder:
        made.decoder = decoder
    if post_processor:
        made.post_processor = post_processor
    for token in added:
        (made.add_special_tokens if token.special else made.add_tokens)([token])
    return made


def byte_level(normalizer, pre_tokenizer, post_processor, added=(), **model):
    trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    return trained(models.BPE(**model), trainer, normalizer, pre_tokenizer, decoders.ByteLevel(), post_processor, added)


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


SOME_ADDED = (
    AddedToken("<s>", special=True), AddedToken("<mask>", lstrip=True, special=True), AddedToken("<r>", rstrip=True, normalized=False),
    AddedToken("word", single_word=True, normalized=False), AddedToken("Naïve", normalized=True), AddedToken("<|a|>", special=True),
    AddedToken("<|a|><|b|>", special=True),
)  # fmt: skip


# Small stand-ins, one for each family whose published file has no package here.
def gpt2():
    return byte_level(None, pre_tokenizers.ByteLevel(add_prefix_space=True), processors.ByteLevel(trim_offsets=True), SOME_ADDED)


def roberta():
    around = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return byte_level(None, pre_tokenizers.ByteLevel(add_prefix_space=False), around)


def llama3():
    cut = pre_tokenizers.Sequence([split(LLAMA3), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return byte_level(None, cut, processors.ByteLevel(trim_offsets=False), SOME_ADDED, ignore_merges=True)


def qwen2():
    cut = pre_tokenizers.Sequence([split(LLAMA3.replace("{1,3}", "")), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return byte_level(normalizers.NFC(), cut, None, SOME_ADDED)


def o200k():
    return byte_level(None, pre_tokenizers.Sequence([split(O200K), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), None)


def bytes_then_split():
    """The byte alphabet before the last cut, and as a normalizer."""
    cut = pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.Punctuation("merged_with_previous")])
    return byte_level(normalizers.ByteLevel(), cut, None)


def llama2():
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))], show_progress=False)
    normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    made = trained(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True), trainer, normalizer, None, decoder)
    # As published: byte tokens are in the model and not found in texts.
    described = json.loads(made.to_str())
    described["added_tokens"] = described["added_tokens"][:1]
    return Tokenizer.from_str(json.dumps(described))


def suffix_bpe():
    """Words' ends marked, unknown characters not fused, digits cut."""
    trainer = trainers.BpeTrainer(vocab_size=500, end_of_word_suffix="</w>", special_tokens=["<unk>"], show_progress=False)
    cut = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(individual_digits=False)])
    return trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), trainer, normalizers.Lowercase(), cut)


def bert_cased():
    trainer = trainers.WordPieceTrainer(vocab_size=700, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False)
    around = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=None)
    model = models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=30)
    return trained(model, trainer, normalizer, pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(), around)


def t5():
    table = {"ﬁ": "fi", "①": "1", "\u00a0": " ", "ａ": "a", "İ": "I\u0307", "½": "1/2", "가": "ga", "\t": " ", "é": "e\u0301", "e\u0301": "é", "\u200b": ""}
    # sentencepiece's own map is not in a package here; this one has its layout.
    normalizer = normalizers.Sequence([normalizers.Precompiled(character_map(table)), normalizers.Replace(Regex(" {2,}"), " ")])
    trainer = trainers.UnigramTrainer(vocab_size=400, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False)
    around = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    metaspace = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    return trained(models.Unigram(), trainer, normalizer, metaspace, decoders.Metaspace(), around, SOME_ADDED)


def unigram_first():
    """A space before the text alone, compatibility forms, and marks stripped."""
    normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip(), normalizers.NFKC()])
    trainer = trainers.UnigramTrainer(vocab_size=400, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False)
    cut = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    return trained(models.Unigram(), trainer, normalizer, cut, decoders.Metaspace(prepend_scheme="first"), None, SOME_ADDED)


def whitespace_words():
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=["[UNK]"], show_progress=False)
    cut = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), split(r"\d+", "merged_with_next"), split("e", "contiguous"), split("[a-z]+", "removed", True)])
    return trained(models.WordPiece(unk_token="[UNK]"), trainer, normalizers.NFD(), cut, decoders.WordPiece(cleanup=False))


STAND_INS = (gpt2, roberta, llama3, qwen2, o200k, bytes_then_split, llama2, suffix_bpe, bert_cased, t5, unigram_first, whitespace_words)


class Tokenizers(Case):
    def agree(self, path, count, seed):
        wheel = Tokenizer.from_file(str(path))
        wheel.no_truncation()
        wheel.no_padding()
        added = [token["content"] for token in json.loads(path.read_text())["added_tokens"]]
        lines = list(corpus(seed, count, added))
        expected = wheel.encode_batch(lines)
        found = run(["--tokenizer", path, "--explain"], lines)
        self.assertEqual(len(found), len(lines))
        for line, theirs, ours in zip(lines, expected, found):
            self.assertEqual(ours["ids"], theirs.ids, ascii(line))
            self.assertEqual(ours["pieces"], theirs.tokens, ascii(line))
            self.assertEqual(ours["offsets"], [list(span) for span in theirs.offsets], ascii(line))
        ids = [theirs.ids for theirs in expected]
        self.same_text(wheel.decode_batch(ids), run(["--tokenizer", path, "--decode"], ids), lines)
        kept = wheel.decode_batch(ids, skip_special_tokens=False)
        self.same_text(kept, run(["--tokenizer", path, "--decode", "--keep-special-tokens"], ids), lines)
        bare = [theirs.ids for theirs in wheel.encode_batch(lines[-200:], add_special_tokens=False)]
        self.assertEqual([ours["ids"] for ours in run(["--tokenizer", path, "--no-special-tokens"], lines[-200:])], bare)
        return len(lines)

    def same_text(self, expected, found, lines):
        for line, theirs, ours in zip(lines, expected, found, strict=True):
            self.assertEqual(ours, theirs, ascii(line))

    def test_published_files(self):
        files = {"tiny": TINY / "tokenizer.json", "smollm2": smollm2() / "tokenizer.json", "deepseek": published("deepseek-v3"), "minilm": published("minilm")}
        total = 0
        for name, path in files.items():
            with self.subTest(tokenizer=name):
                total += self.agree(path, LINES, SEED)
        self.assertGreater(total, 4 * LINES)

    def test_stand_ins(self):
        for number, make in enumerate(STAND_INS):
            with self.subTest(tokenizer=make.__name__):
                path = self.scratch / f"{make.__name__}.json"
                make().save(str(path))
                self.agree(path, LINES // 3, SEED + number)

    def test_bytes_that_are_no_utf_8(self):
        choose = random.Random(SEED)
        raw = [bytes(choose.choice((choose.randrange(256), *b"ab\xe2\x82\xac\xf0\x9f\x98\x80\xed\xa0\x80")) for _ in range(30)) for _ in range(500)]
        raw = [line.translate(None, bytes(range(32)) + b'"\\') for line in raw]
        done = subprocess.run([TANDEM, "tokenize", "--tokenizer", TINY], input=b"".join(b'"' + line + b'"\n' for line in raw), capture_output=True, check=True)
        wheel = Tokenizer.from_file(str(TINY / "tokenizer.json"))
        expected = [wheel.encode(line.decode("utf-8", "replace")).ids for line in raw]
        self.assertEqual([json.loads(line)["ids"] for line in done.stdout.split(b"\n")[:-1]], expected)


if __name__ == "__main__":
    unittest.main()
