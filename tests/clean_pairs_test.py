"""A clean pair gives no alarm: 200 random tiny models, every level but weights of each (issue 4, done-when 1; nightly).

TANDEM_CLEAN_PAIRS=N takes N of each architecture in place of 100. Every fourth is held against transformers, the others against
PyTorch running the contract, which starts faster.
"""

import os
import shutil
import unittest

from common import Case, fixtures, run, tandem

COUNT = int(os.environ.get("TANDEM_CLEAN_PAIRS", "100"))
SEED = 7  # not that of the other tests: models that nothing was ever tuned on


class CleanPairs(Case):
    def check(self, model_type):
        alarms = []
        for index, source in enumerate(fixtures(model_type, COUNT, SEED)):
            graph = self.scratch / "graph"
            tandem("convert", source, graph, "--dtype", "float32")
            engine = "hf" if index % 4 == 0 else "torch"
            result = run("verify", f"{engine}:{source}", f"tf:{graph}", "--levels", "layer,module,model", "--threads", 1)
            if result.code != 0:
                alarms.append(f"{source.name} ({engine}): {result!r}")
            shutil.rmtree(graph)
        print(f"{model_type}: {len(alarms)} alarms over {COUNT} clean pairs", flush=True)
        self.assertEqual(alarms, [], "\n".join(alarms))

    def test_llama(self):
        self.check("llama")

    def test_deepseek_v3(self):
        self.check("deepseek_v3")


if __name__ == "__main__":
    unittest.main()
