"""Lines that a tokenizer may stumble over, from a seed: words, code, Chinese, emoji, marks, digits, white space, added tokens, bytes."""

import random

WORDS = (
    "the of and to in is that it for was on are as with his they I at be this have from or one had by word but not what all were we when "
    "your can said there use an each which she do how their if will up other about out many then them these so some her would make like "
    "him into time has look two more write go see number no way could people my than first water been call who oil its now find long "
    "down day did get come made may part don't I'm we've they'll it's he'd you're Straße naïve Москва Ελλάδα العربية עברית हिन्दी ไทย 한국어"
).split()
CODE = (
    "def f(x):\n    return x**2 + 1\n", "for(int i=0;i<n;++i){ a[i]+=b[i]; }", "#include <vector>\nint main(){}\n", "SELECT * FROM t WHERE a='b';",
    '{"k": [1, 2.5e-3, null]}', "x = [i for i in range(10) if i%2==0]", "std::vector<std::pair<int,std::string>> v;\t// note",
    "\tif err != nil {\n\t\treturn err\n\t}\n", "https://a.b/c?d=e&f#g", "a_b.c->d::e", "$x = @{$y}[0]; # ok\r\n",
)  # fmt: skip
EMOJI = ("👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "😀", "❤️", "1️⃣", "🧑🏿‍🚀", "☕", "⁉️")
BLOCKS = (
    (0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x64A), (0x900, 0x939), (0xE01, 0xE30), (0x1100, 0x11FF),
    (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2190, 0x21FF), (0x2200, 0x22FF), (0x3041, 0x30FF), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0xE000, 0xE010),
    (0xF900, 0xFAD9), (0xFB00, 0xFB06), (0xFF01, 0xFF5E), (0x1D400, 0x1D433), (0x1F300, 0x1F5FF), (0x20000, 0x20100), (0x2F800, 0x2FA1D), (0, 0x1F),
    (0x7F, 0x9F),
)  # fmt: skip
MARKS = [chr(code) for code in (*range(0x300, 0x340), 0x345, 0x323, 0x5B0, 0x64B, 0x93C, 0x20DD, 0xFE0F, 0x200D, 0x1161, 0x11A8)]
SPACES = (" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\u00a0", "\u3000", "\u2003", "\u180e", "\u200b", "\u0085", "\u2028", " " * 17, "\t\t ")
ODD = ("!!!", "...", "--", "'s", "''", '"q"', "(x)", "$5.00", "don't", "DON'T", "İstanbul", "ΑΣ", "ǅ", "ﬁ", "½", "Ⅷ", "①", "_x_", "'ſ", "ⓐ", "\u200dx", "<0x41>", "▁", "Ġ")


def one_of(choose, block, count):
    return "".join(chr(choose.randint(*block)) for _ in range(count))


def marked(choose):
    return choose.choice("aeionuyEAcÅ가각ßक") + "".join(choose.choice(MARKS) for _ in range(choose.randint(0, 3)))


def with_space(choose, token):
    return choose.choice(("", "", " ", "  ", "x")) + token + choose.choice(("", "", " ", "\n", "y"))


def piece(choose, added):
    kinds = (
        *(lambda: " ".join(choose.choice(WORDS) for _ in range(choose.randint(1, 9))),) * 4,
        lambda: choose.choice(CODE),
        lambda: one_of(choose, (0x4E00, 0x9FA5), choose.randint(1, 12)),
        lambda: choose.choice(EMOJI) * choose.randint(1, 3),
        lambda: "".join(marked(choose) for _ in range(choose.randint(1, 6))),
        lambda: "".join(choose.choice("0123456789") for _ in range(choose.randint(1, 40))),
        lambda: choose.choice(SPACES) * choose.randint(1, 4),
        lambda: with_space(choose, choose.choice(added)) if added else "",
        lambda: bytes(choose.randrange(256) for _ in range(choose.randint(1, 8))).decode("utf-8", "replace"),
        lambda: one_of(choose, choose.choice(BLOCKS), choose.randint(1, 8)),
        lambda: choose.choice(ODD),
    )
    return choose.choice(kinds)()


def corpus(seed, count, added):
    """Every added token in four surroundings, then `count` mixed lines."""
    choose = random.Random(seed)
    for token in added:
        yield from (token, f"a{token}b", f" {token} ", f"{token}\n{token}")
    for _ in range(count):
        yield choose.choice(("", "", " ")).join(piece(choose, added) for _ in range(choose.randint(1, 8)))
