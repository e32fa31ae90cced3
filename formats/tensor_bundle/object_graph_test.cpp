// Names of variables by edges, as Python's savers lay them.

#include "formats/tensor_bundle/object_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/tensor_bundle/tensor_bundle.h"
#include "tensorflow/core/protobuf/trackable_object_graph.pb.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Adds an edge; nodes come into being as they are named.
void edge(tensorflow::TrackableObjectGraph& graph, int from, const std::string& name, int to) {
  while (graph.nodes_size() <= std::max(from, to)) graph.add_nodes();
  auto* child = graph.mutable_nodes(from)->add_children();
  child->set_local_name(name);
  child->set_node_id(to);
}

void value(tensorflow::TrackableObjectGraph& graph, int node, const std::string& key) {
  auto* attribute = graph.mutable_nodes(node)->add_attributes();
  attribute->set_name("VARIABLE_VALUE");
  attribute->set_checkpoint_key(key);
}

TEST(ObjectGraph, WhatIsWrittenIsReadBack) {
  const std::vector<TrackedVariable> variables{
      {"model/layers/0/w", "k0"}, {"model/layers/1/w", "k1"}, {"lm_head/kernel", "k2"}};
  const auto names = names_by_key(object_graph(variables)).value();
  ASSERT_EQ(names.size(), 3u);
  for (const TrackedVariable& variable : variables)
    EXPECT_THAT(names.at(variable.key), ElementsAre(variable.path));
}

TEST(ObjectGraph, AnyPathIsWrittenInOnePass) {
  const std::vector<TrackedVariable> variables{{"/w", "k0"}, {"a//w", "k1"}, {"b.0/w", "k2"}, {"/", "k3"}};
  const auto names = names_by_key(object_graph(variables)).value();
  EXPECT_EQ(names.size(), 4u);
  EXPECT_THAT(names.at("k1"), ElementsAre("a//w"));
  EXPECT_THAT(names.at("k2"), ElementsAre("b.0/w"));
}

TEST(ObjectGraph, TheModelsPathIsPreferredOverTheRootsLists) {
  tensorflow::TrackableObjectGraph
      graph;  // as tf.saved_model.save leaves it: the lists come first and are shorter
  edge(graph, 0, "variables", 1);
  edge(graph, 1, "0", 2);
  edge(graph, 0, "model", 3);
  edge(graph, 3, "layers", 4);
  edge(graph, 4, "0", 5);
  edge(graph, 5, "w", 2);
  value(graph, 2, "variables/0/.ATTRIBUTES/VARIABLE_VALUE");
  const auto names = names_by_key(graph.SerializeAsString()).value();
  EXPECT_THAT(names.at("variables/0/.ATTRIBUTES/VARIABLE_VALUE"),
              ElementsAre("model/layers/0/w", "variables/0"));
}

TEST(ObjectGraph, ACheckpointOfTheModelIsReadFromTheModel) {
  tensorflow::TrackableObjectGraph graph;  // tf.train.Checkpoint(model=loaded, optimizer=...)
  edge(graph, 0, "optimizer", 6);
  edge(graph, 6, "_trainable_variables", 7);
  edge(graph, 7, "0", 4);
  edge(graph, 0, "model", 1);
  edge(graph, 1, "model", 2);
  edge(graph, 2, "layers", 3);
  edge(graph, 3, "w", 4);
  edge(graph, 0, "save_counter", 5);
  value(graph, 4, "w");
  value(graph, 5, "counter");
  const auto names = names_by_key(graph.SerializeAsString()).value();
  EXPECT_EQ(names.at("w").front(), "model/layers/w");
  EXPECT_EQ(names.at("counter").front(), "save_counter");
}

TEST(ObjectGraph, T4EdgesToNowhereAndCircles) {
  tensorflow::TrackableObjectGraph graph;
  edge(graph, 0, "a", 1);
  edge(graph, 1, "back", 0);
  edge(graph, 1, "self", 1);
  value(graph, 1, "k");
  EXPECT_THAT(names_by_key(graph.SerializeAsString()).value().at("k"), ElementsAre("a", "a/self"));
  graph.mutable_nodes(1)->mutable_children(0)->set_node_id(7);
  const auto bad = names_by_key(graph.SerializeAsString());
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message(), HasSubstr("T4: edge 'back' of the object graph leads to node 7 of 2"));
}

TEST(ObjectGraph, DotsInKeysAreDoubled) {
  EXPECT_EQ(value_key("a/b.c"), "a/b..c/.ATTRIBUTES/VARIABLE_VALUE");
}

}  // namespace
}  // namespace tandem
