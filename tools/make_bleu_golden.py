"""Makes tests/data/bleu.json: what the sacrebleu package says about texts of ours.

    python3 -m venv /tmp/sacrebleu && /tmp/sacrebleu/bin/pip install sacrebleu==2.6.0
    /tmp/sacrebleu/bin/python tools/make_bleu_golden.py
"""

import json
import platform
from pathlib import Path

import sacrebleu
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "data" / "bleu.json"

LINES = [
    "The cat sat on the mat.",
    "It cost $3.50, or 1,000.25 in all; don't ask - why?",
    "a.,b ..., 3.,4 .5 5. 6,x x,6",
    "pages 3-4 and x-y, 2024-01-02 --- 7--8",
    'f(x) = {"a": [1, 2], \'b\': x_1 ^ 2} # <tag/> @home | ~5% * \\n + `y`',
    "&quot;R&amp;D&quot; &lt;b&gt; &amp;lt; &nbsp;",
    "two lines-\njoined\nand not",
    "  spaces\there \u00a0and\u2003there\u3000too\u0085 \x1cend \n",
    "Grüße, größe. 12€,3 — naïve… 東京、大阪。",
    "before<skipped>after",
    "ends with a dash-\n",
    "",
]

CORPORA = {
    "equal": [("the quick brown fox jumps over the lazy dog", "the quick brown fox jumps over the lazy dog")],
    "one word": [("the quick brown cat jumps over the lazy dog", "the quick brown fox jumps over the lazy dog")],
    "shorter": [("the quick brown fox jumps", "the quick brown fox jumps over the lazy dog")],
    "longer": [("the quick brown fox jumps over the lazy dog again and again", "the quick brown fox jumps over the lazy dog")],
    "clipped": [("the the the the the the the", "the cat is on the mat")],
    "no four in common": [("a b c x d e f", "a b c y d e f")],
    "no two in common": [("a x b y c z", "a p b q c r")],
    "nothing in common": [("a b c d e", "v w x y z")],
    "several": [
        ("It was 3.5% of $1,000, they said.", "It was 3.5 % of $1,000, she said."),
        ("", "An empty answer."),
        ("An answer to nothing.", ""),
        ('print("hello, world")', 'print("hello, world!")'),
        ("one two three", "one two three"),
    ],
}


def main():
    corpora = {}
    for name, pairs in CORPORA.items():
        texts, references = [text for text, _ in pairs], [reference for _, reference in pairs]
        metric = sacrebleu.BLEU()
        score = metric.corpus_score(texts, [references]).score / 100
        corpora[name] = {"texts": texts, "references": references, "bleu": score}
    golden = {
        "origin": {
            "script": "tools/make_bleu_golden.py",
            "sacrebleu": sacrebleu.__version__,
            "signature": str(metric.get_signature()),
            "python": platform.python_version(),
        },
        "tokens": [{"line": line, "words": Tokenizer13a()(line.rstrip()).split()} for line in LINES],
        "corpora": corpora,
    }
    GOLDEN.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
