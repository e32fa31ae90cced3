#include "formats/saved_model/inline.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

namespace tandem {
namespace {

using ::testing::ElementsAre;

tensorflow::GraphDef graph_of(const std::string& text) {
  tensorflow::GraphDef graph;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &graph));
  return graph;
}

/// inner(a) -> the two outputs of a TopKV2, its indices first; outer(x, y) -> inner(x + y)'s outputs.
const std::string kFunctions = R"(library {
  function {
    signature { name: "inner" input_arg { name: "a" } output_arg { name: "i" } output_arg { name: "v" } }
    node_def { name: "k" op: "Const" attr { key: "_tandem_values" value { b: true } } }
    node_def { name: "best" op: "TopKV2" input: "a" input: "k:output:0" input: "^k" }
    ret { key: "i" value: "best:indices:0" }
    ret { key: "v" value: "best:values:0" }
  }
  function {
    signature { name: "outer" input_arg { name: "x" } input_arg { name: "y" }
                output_arg { name: "one" } output_arg { name: "two" } }
    node_def { name: "sum" op: "AddV2" input: "x" input: "y" }
    node_def { name: "call" op: "StatefulPartitionedCall" input: "sum:z:0"
               attr { key: "f" value { func { name: "inner" } } } }
    ret { key: "one" value: "call:output:1" }
    ret { key: "two" value: "call:output:0" }
  }
})";

TEST(Inline, FunctionsBecomeNodesUnderTheNamesOfTheirCalls) {
  tensorflow::GraphDef graph = graph_of(kFunctions);
  const auto outputs = inline_function(graph, "outer", {"in", "other:1"}, "sig");
  ASSERT_TRUE(outputs.ok()) << outputs.error().message();
  EXPECT_THAT(outputs.value(), ElementsAre("sig/call/best", "sig/call/best:1"));
  ASSERT_EQ(graph.node_size(), 3);
  EXPECT_EQ(graph.node(0).name(), "sig/sum");
  EXPECT_THAT(graph.node(0).input(), ElementsAre("in", "other:1"));
  EXPECT_TRUE(graph.node(1).attr().empty());
  EXPECT_EQ(graph.node(2).name(), "sig/call/best");
  EXPECT_THAT(graph.node(2).input(), ElementsAre("sig/sum", "sig/call/k", "^sig/call/k"));
}

TEST(Inline, C8WhatIsNoCallOrNotThereIsNamed) {
  const auto failure = [](const std::string& node) {
    tensorflow::GraphDef graph =
        graph_of("library { function { signature { name: \"f\" input_arg { name: \"x\" } } node_def { " +
                 node + " } } }");
    return inline_function(graph, "f", {"in"}, "sig").error().message();
  };
  EXPECT_EQ(
      failure("name: \"w\" op: \"While\" input: \"x\" attr { key: \"body\" value { func { name: \"g\" } } }"),
      "saved_model_c8: f holds w, a While, which is no call");
  EXPECT_EQ(failure("name: \"n\" op: \"Neg\" input: \"later:y:0\""),
            "saved_model_c8: f reads later:y:0, which is not there before it");
  EXPECT_EQ(failure("name: \"c\" op: \"PartitionedCall\" attr { key: \"f\" value { func { name: \"g\" } } }"),
            "saved_model_c8: no function g");
  tensorflow::GraphDef graph = graph_of(kFunctions);
  EXPECT_EQ(inline_function(graph, "inner", {}, "sig").error().message(),
            "saved_model_c8: inner is called with 0 inputs, and has 1");
}

}  // namespace
}  // namespace tandem
