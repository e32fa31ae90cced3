"""DeepSeek-V3's 163 shards as sparse files (headers alone are real): inspect and plan read them in 2 s and 200 MiB."""

import json
import math
import subprocess
import unittest

from common import TANDEM, Case, tandem
from tiny import TV3, header_bytes, shapes

MIB = 1 << 20
SHARD_BYTES = 4.25e9
V3 = TV3 | {
    "vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61,
    "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4,
    "first_k_dense_replace": 3, "max_position_embeddings": 163840, "torch_dtype": "bfloat16",
    "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]},
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                     "original_max_position_embeddings": 4096, "type": "yarn"},
}  # fmt: skip


def stored(c):
    """Name, dtype, shape and bytes of every tensor, as the published checkpoint has them."""
    for name, shape in shapes(c):
        if name.endswith("e_score_correction_bias"):
            yield name, "F32", shape, 4 * math.prod(shape)
        elif "_proj" in name and "eh_proj" not in name:
            yield name, "F8_E4M3", shape, math.prod(shape)
            blocks = [-(-size // 128) for size in shape]
            yield name + "_scale_inv", "F32", blocks, 4 * math.prod(blocks)
        else:
            yield name, "BF16", shape, 2 * math.prod(shape)


def write_sparse(folder, c, shard_bytes=SHARD_BYTES):
    """Files whose data is a hole; the number of shards."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(c))
    shards, filled = [{}], 0
    for name, dtype, shape, size in stored(c):
        if filled + size > shard_bytes and shards[-1]:
            shards.append({})
            filled = 0
        shards[-1][name] = {"dtype": dtype, "shape": shape, "data_offsets": [filled, filled + size]}
        filled += size
    weight_map = {}
    for number, header in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):06}.safetensors"
        data = header_bytes(header)
        with open(folder / file, "wb") as out:
            out.write(data)
            out.truncate(len(data) + max(entry["data_offsets"][1] for entry in header.values()))
        weight_map |= dict.fromkeys(header, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return len(shards)


class Scale(Case):
    def measured(self, *arguments):
        """What a command prints; it takes 2 s of processor at most, and 200 MiB."""
        command = ["/usr/bin/time", "-q", "-f", "%U %S %M", "-o", self.scratch / "time", TANDEM, *arguments]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        user, system, peak = (self.scratch / "time").read_text().split()
        self.assertLess(float(user) + float(system), 2)
        self.assertLess(int(peak) * 1024, 200 * MIB)
        return json.loads(done.stdout)

    def test_inspect_plan_and_slice_of_deepseek_v3(self):
        source = self.scratch / "v3"
        self.assertEqual(write_sparse(source, V3), 163)
        found = self.measured("inspect", source, "--json")
        self.assertEqual((found["tensors"], len(found["shards"]), found["blocks"]), (91991, 163, []))
        plan = self.measured("plan", source, self.scratch / "out", "--max-shard-size", "20GB", "--json")
        self.assertEqual(len(plan["inputs"]), 165)
        self.assertGreater(plan["bytes"], 1.3e12)
        self.assertLess(max(task["bytes"] for task in plan["tasks"]), 20.1e9)
        self.assertLess(plan["peak_memory"], 350e6)
        self.assertEqual(sum(task["tensors"] for task in plan["tasks"]), len(tandem("map", source, "--json").json["tensors"]))
        refused = tandem("convert", source, self.scratch / "out", code=65)
        self.assertIn("expected a positive finite number", refused.err)  # the holes are zeros, and so are the scales


if __name__ == "__main__":
    unittest.main()
