"""tokenizer_test.py with 50,000 lines for each published file."""

import os
import unittest

os.environ["TANDEM_TOKENIZER_LINES"] = "50000"

from tokenizer_test import Tokenizers  # noqa: E402, F401

if __name__ == "__main__":
    unittest.main()
