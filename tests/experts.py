"""The mixture of one decoder layer on its own, for the tests of its rows and of its cost."""

import time

import numpy as np
import tensorflow as tf
from common import tandem
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import function_def_to_graph

import make_fixtures

TOKENS, CHOSEN = 512, 6


def config(experts, hidden, width, changes):
    base = make_fixtures.make_config("deepseek_v3", 0, 1)
    return base | {
        "hidden_size": hidden, "moe_intermediate_size": width, "n_routed_experts": experts, "num_experts_per_tok": CHOSEN,
        "n_group": 1, "topk_group": 1, "num_hidden_layers": 1, "first_k_dense_replace": 0, "num_nextn_predict_layers": 0,
        "torch_dtype": "float32", **changes,
    }  # fmt: skip


class Block:
    """The mixture of one decoder layer, lifted out of a converted model into a graph where any tensor can be fed."""

    def __init__(self, model, hidden, width):
        saved = saved_model_pb2.SavedModel.FromString((model / "saved_model.pb").read_bytes())
        functions = saved.meta_graphs[0].graph_def.library.function
        # The whole layer in the form whose attention is in one piece: it has no loop body to bring along.
        ops = {f.signature.name: {n.op for n in f.node_def} for f in functions}
        definition = next(f for f in functions if {"DynamicPartition", "Softmax"} <= ops[f.signature.name] and "While" not in ops[f.signature.name])
        body = function_def_to_graph.function_def_to_graph(definition).as_graph_def()
        self.graph = tf.Graph()
        with self.graph.as_default():
            rng = np.random.default_rng(1)
            handles = {}
            self.variables = []
            for arg in definition.signature.input_arg:
                if arg.type != tf.resource.as_datatype_enum:
                    continue
                shape = [d.size for d in arg.handle_data[0].shape.dim]
                values = rng.standard_normal(shape, np.float32) / np.sqrt(shape[-2] if len(shape) > 1 else 1)
                variable = tf.compat.v1.get_variable(arg.name, initializer=values.astype(np.float32), use_resource=True)
                handles[arg.name] = variable.handle
                self.variables.append(variable)
            tf.import_graph_def(body, name="", input_map={f"{name}:0": handle for name, handle in handles.items()})
            dense_shapes = ((hidden, width * CHOSEN), (hidden, width * CHOSEN), (width * CHOSEN, hidden))
            self.dense_weights = [
                tf.compat.v1.get_variable(f"dense_{i}", initializer=(rng.standard_normal(s, np.float32) / np.sqrt(s[0])).astype(np.float32), use_resource=True)
                for i, s in enumerate(dense_shapes)
            ]
            operations = self.graph.get_operations()
            products = [o for o in operations if o.type == "MatMul" and o.name.startswith("mlp.experts/")]
            self.rows = [tf.shape(o.inputs[0])[0] for o in products]
            self.mixture = next(o for o in operations if o.name.startswith("mlp.experts/Reshape") and o.inputs[0].op.type == "ScatterNd").outputs[0]
            self.x = self.graph.get_tensor_by_name("post_attention_layernorm/Mul_1:0")
            experts = [v for v in self.variables if "experts" in v.name and "shared" not in v.name]
            self.gradients = tf.gradients(tf.reduce_sum(self.mixture**2), [self.x, *experts])
            self.dense_x = tf.compat.v1.placeholder(tf.float32, [TOKENS, hidden])
            gate = self.dense_x @ self.dense_weights[0]
            self.dense = (gate * tf.sigmoid(gate) * (self.dense_x @ self.dense_weights[1])) @ self.dense_weights[2]
            self.dense_gradients = tf.gradients(tf.reduce_sum(self.dense**2), [self.dense_x, *self.dense_weights])
            settings = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=2, inter_op_parallelism_threads=2)
            self.session = tf.compat.v1.Session(config=settings)
            self.session.run(tf.compat.v1.global_variables_initializer())
            states = rng.standard_normal((1, TOKENS, hidden)).astype(np.float32)
            forced = np.full((1, TOKENS, CHOSEN), -1, np.int32)
            self.feed = {self.x: states, "forced_experts:0": forced, "hidden_states:0": states, self.dense_x: states[0]}

    def run(self, fetches):
        return self.session.run(fetches, self.feed)

    def milliseconds(self, fetches):
        """Time of one run that brings nothing back."""
        operations = [t.op for t in (fetches if isinstance(fetches, list) else [fetches])]
        start = time.perf_counter()
        self.session.run(operations, self.feed)
        return 1000 * (time.perf_counter() - start)


def block(scratch, experts, hidden=512, width=256, **changes):
    """The mixture of a random model with so many experts and these changes of its config, by way of a conversion."""
    name = f"experts_{experts}_{hidden}"
    source = make_fixtures.make_fixture(config(experts, hidden, width, changes), scratch / name)
    tandem("convert", source, scratch / f"{name}.tf")
    return Block(scratch / f"{name}.tf", hidden, width)
