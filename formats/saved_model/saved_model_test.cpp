#include "formats/saved_model/saved_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/test_folder.h"
#include "formats/saved_model/checks.h"
#include "formats/saved_model/testing.h"

namespace tandem {
namespace {

using tandem::testing::minimal_spec;
using ::testing::HasSubstr;

const FileSystem& kFiles = real_files();

template <class T>
void expect_refused(const Result<T>& result, std::string_view rule, const std::string& text) {
  ASSERT_FALSE(result.ok()) << "expected " << rule << ": " << text;
  EXPECT_EQ(result.error().rule, rule) << result.error().message();
  EXPECT_THAT(result.error().message(), HasSubstr(text));
}

TEST(Assemble, C1NamesAreSorted) {
  SavedModelSpec spec = minimal_spec();
  std::swap(spec.signatures.at("serving_default").inputs[0], spec.signatures.at("serving_default").inputs[1]);
  expect_refused(assemble(spec), "saved_model_c1", "serving_default");
}

TEST(Assemble, C2OneVariableAPath) {
  SavedModelSpec spec = minimal_spec();
  spec.variables[1].path = spec.variables[0].path;
  expect_refused(assemble(spec), "saved_model_c2", "two variables at 'model/layers/0/w'");
  spec.variables[1].path = "model/layers";
  expect_refused(assemble(spec), "saved_model_c2", "lies inside the variable 'model/layers'");
  spec.variables[1].path = "signatures/x";
  expect_refused(assemble(spec), "saved_model_c2", "two attributes named 'signatures'");
}

TEST(Assemble, C3C4FunctionsAreWhatIsDeclared) {
  SavedModelSpec spec = minimal_spec();
  spec.signatures.at("serving_default").captures[0] = 2;
  expect_refused(assemble(spec), "saved_model_c3", "capture 2 of 2");
  spec = minimal_spec();
  spec.signatures.at("serving_default").function = "nobody";
  expect_refused(assemble(spec), "saved_model_c4", "no function 'nobody'");
  spec = minimal_spec();
  spec.methods.at("logits").inputs[1].dtype = DType::i32;
  expect_refused(assemble(spec), "saved_model_c4", "arguments are not those declared");
}

TEST(Assemble, C6AssetNamesArePlain) {
  for (const char* name : {"../x", "", "a/b", ".hidden", "c:x"}) {
    SavedModelSpec spec = minimal_spec();
    spec.assets[0].name = name;
    expect_refused(assemble(spec), "saved_model_c6", "is not a plain file name");
  }
  SavedModelSpec spec = minimal_spec();
  spec.assets[0].name = "lm head";
  spec.assets[1].name = "lm.head";
  expect_refused(assemble(spec), "saved_model_c6", "two attributes named 'lm_head'");
}

TEST(Assemble, AnInlinedSignatureIsNodesOfTheMainGraph) {
  SavedModelSpec spec = minimal_spec();
  spec.signatures.at("serving_default").inlined = true;
  const auto model = assemble(spec);
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_TRUE(check(model.value()).ok());
  const auto& meta = model.value().meta_graphs(0);
  std::map<std::string, std::string> ops;
  for (const auto& node : meta.graph_def().node()) ops[node.name()] = node.op();
  EXPECT_EQ(meta.signature_def().at("serving_default").outputs().at("y").name(),
            "signature/serving_default/y:0");
  EXPECT_EQ(ops["signature/serving_default/y"], "Identity");
  EXPECT_EQ(ops["lm_head/b.ias/Read/ReadVariableOp"], "ReadVariableOp");
  for (const auto& [name, op] : ops) EXPECT_NE(op, "StatefulPartitionedCall") << name;
}

TEST(Assemble, C8AnInlinedFunctionWithALoop) {
  SavedModelSpec spec = minimal_spec();
  spec.signatures.at("serving_default").inlined = true;
  auto* loop = spec.library[0].mutable_node_def(2);
  loop->set_op("While");
  (*loop->mutable_attr())["body"] = function_attr("nobody");
  expect_refused(assemble(spec), "saved_model_c8", "holds xw, a While, which is no call");
}

TEST(Assemble, C7TwoNodesOfOneName) {
  SavedModelSpec spec = minimal_spec();
  spec.variables[0].path = "serving_default_input_ids";  // the placeholder of the signature
  expect_refused(assemble(spec), "saved_model_c7",
                 "two nodes of the graph are named 'serving_default_input_ids'");
}

TEST(Assemble, EveryVariableIsRestoredUnderItsOwnName) {
  const auto model = assemble(minimal_spec()).value();
  const auto& meta = model.meta_graphs(0);
  EXPECT_EQ(meta.saver_def().restore_op_name(), "saver/restore_all");
  EXPECT_EQ(meta.saver_def().filename_tensor_name(), "saver/filename:0");
  for (const auto& node : meta.graph_def().node())
    if (node.op() == "VarHandleOp") {
      EXPECT_EQ(node.attr().at("shared_name").s(), node.name());
    }
}

TEST(Assemble, WhatWeWritePassesOurOwnChecks) {
  const auto checked = check(assemble(minimal_spec()).value());
  EXPECT_TRUE(checked.ok()) << checked.error().message();
}

/// A folder with the minimal model, whose index is empty.
void write_minimal(const TestFolder& folder) {
  ASSERT_TRUE(write_saved_model(kFiles, folder.path(), minimal_spec()).ok());
  ASSERT_TRUE(write_text(kFiles, folder / "variables/variables.index", "x").ok());
}

TEST(OpenSavedModel, AssetsComeAlong) {
  const TestFolder folder;
  write_minimal(folder);
  const auto opened = open_saved_model(kFiles, folder.path());
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  EXPECT_EQ(opened.value().assets.at("config.json"), "{\"hidden_size\": 2}\n");
  EXPECT_EQ(opened.value().variables_prefix, folder / "variables/variables");
}

TEST(OpenSavedModel, TheSameSpecGivesTheSameBytes) {
  const TestFolder one, two;
  write_minimal(one);
  write_minimal(two);
  EXPECT_TRUE(read_text(kFiles, one / "saved_model.pb").value() ==
              read_text(kFiles, two / "saved_model.pb").value());
}

TEST(OpenSavedModel, T1CutShort) {
  const TestFolder folder;
  write_minimal(folder);
  const std::string bytes = read_text(kFiles, folder / "saved_model.pb").value();
  for (const size_t size : {size_t{0}, size_t{2}, bytes.size() / 2, bytes.size() - 1}) {
    ASSERT_TRUE(write_text(kFiles, folder / "saved_model.pb", bytes.substr(0, size)).ok());
    expect_refused(open_saved_model(kFiles, folder.path()), "T1", "saved_model.pb");
  }
}

TEST(OpenSavedModel, T1TooLarge) {
  const TestFolder folder;
  write_minimal(folder);
  std::filesystem::resize_file(folder / "saved_model.pb", kMaxSavedModelBytes + 1);
  expect_refused(open_saved_model(kFiles, folder.path()), "T1", "536870912");
}

TEST(OpenSavedModel, T2TheErrorNamesFileAndFunction) {
  const TestFolder folder;
  write_minimal(folder);
  auto model = assemble(minimal_spec()).value();
  auto* graph = model.mutable_meta_graphs(0)->mutable_graph_def();
  graph->mutable_library()->mutable_function(0)->mutable_node_def(2)->set_input(0, "nobody");
  ASSERT_TRUE(write_text(kFiles, folder / "saved_model.pb", model.SerializeAsString()).ok());
  expect_refused(open_saved_model(kFiles, folder.path()), "T2",
                 "saved_model.pb, function __inference_forward_1");
  graph->mutable_library()->mutable_function(0)->mutable_node_def(2)->set_input(0, "input_ids");
  graph->mutable_node(0)->set_name("asset/0");
  ASSERT_TRUE(write_text(kFiles, folder / "saved_model.pb", model.SerializeAsString()).ok());
  expect_refused(open_saved_model(kFiles, folder.path()), "T2", folder / "saved_model.pb");
}

TEST(OpenSavedModel, T1NestedTooDeeply) {
  std::string nested;  // 10^5 groups of an unknown field, one in the other
  for (int i = 0; i < 100'000; ++i) nested += "\x7b";
  for (int i = 0; i < 100'000; ++i) nested += "\x7c";
  expect_refused(parse_saved_model(nested), "T1", "nested too deeply");
}

/// The minimal model with a change, checked.
template <class Change>
Status changed(Change change) {
  auto model = assemble(minimal_spec()).value();
  change(*model.mutable_meta_graphs(0)->mutable_graph_def());
  return check(model);
}

tensorflow::NodeDef* node_of_op(tensorflow::GraphDef& graph, const std::string& op) {
  for (auto& node : *graph.mutable_node())
    if (node.op() == op) return &node;
  return nullptr;
}

TEST(Check, T2FunctionsThatCallThemselves) {
  expect_refused(changed([](auto& graph) {
                   auto* function = graph.mutable_library()->mutable_function(1);
                   for (auto& node : *function->mutable_node_def())
                     if (node.attr().contains("f"))
                       (*node.mutable_attr())["f"].mutable_func()->set_name(function->signature().name());
                 }),
                 "T2", "calls itself");
  expect_refused(changed([](auto& graph) {  // in a circle of two
                   auto* first = graph.mutable_library()->mutable_function(0);
                   set_node(first->add_node_def(), "loop", "StatefulPartitionedCall", {},
                            {{"Tin", types_attr({})},
                             {"Tout", types_attr({})},
                             {"f", function_attr(graph.library().function(1).signature().name())}});
                 }),
                 "T2", "calls itself");
  expect_refused(
      changed([](auto& graph) {
        (*node_of_op(graph, "StatefulPartitionedCall")->mutable_attr())["f"].mutable_func()->set_name(
            "nobody");
      }),
      "T2", "function 'nobody' is called, but not in the library");
}

TEST(Check, T2CyclesAndInputsOfNobody) {
  expect_refused(changed([](auto& graph) {
                   auto* nodes = graph.mutable_library()->mutable_function(0)->mutable_node_def();
                   nodes->Mutable(2)->set_input(0, "sum:z:0");  // xw -> masked -> sum -> xw
                 }),
                 "T2", "depends on itself");
  expect_refused(changed([](auto& graph) { node_of_op(graph, "Identity")->set_input(0, "nobody:0"); }), "T2",
                 "input 'nobody:0' of node saver/saved names no node");
  expect_refused(changed([](auto& graph) { node_of_op(graph, "Identity")->set_name("asset/0"); }), "T2",
                 "two nodes are named 'asset/0'");
}

TEST(Check, T2ConstantsAndAttributes) {
  expect_refused(changed([](auto& graph) { node_of_op(graph, "Const")->mutable_attr()->erase("value"); }),
                 "T2", "node asset/0: T2: Const without its attribute value");
  expect_refused(
      changed([](auto& graph) { (*node_of_op(graph, "Const")->mutable_attr())["value"].set_i(1); }), "T2",
      "attribute value of Const is of the wrong type");
  expect_refused(changed([](auto& graph) {
                   (*node_of_op(graph, "Const")->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
                 }),
                 "T2", "the value has dtype 7, the node has 1");
  expect_refused(changed([](auto& graph) {
                   auto* tensor = (*node_of_op(graph, "Const")->mutable_attr())["value"].mutable_tensor();
                   tensor->mutable_tensor_shape()->add_dim()->set_size(-5);
                 }),
                 "T2", "an axis of the value is -5");
  expect_refused(changed([](auto& graph) {
                   auto* node = node_of_op(graph, "Const");
                   (*node->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
                   auto* tensor = (*node->mutable_attr())["value"].mutable_tensor();
                   tensor->set_dtype(tensorflow::DT_FLOAT);
                   tensor->set_tensor_content("abc");
                 }),
                 "T2", "the value of 4 bytes has 3");
  expect_refused(changed([](auto& graph) {
                   (*node_of_op(graph, "VarHandleOp")->mutable_attr())["shared_name"].set_i(1);
                 }),
                 "T2", "attribute shared_name of VarHandleOp is of the wrong type");
}

TEST(Check, T2NamesThatAreNotOneOfAKind) {
  expect_refused(changed([](auto& graph) {
                   auto* signature = graph.mutable_library()->mutable_function(0)->mutable_signature();
                   signature->mutable_input_arg(1)->set_name("attention_mask");
                 }),
                 "T2", "two arguments are named 'attention_mask'");
  expect_refused(
      changed([](auto& graph) { *graph.mutable_library()->add_function() = graph.library().function(0); }),
      "T2", "two functions are named '__inference_forward_1'");
}

TEST(Check, T2TheObjectGraphLeadsToItsOwnNodes) {
  const auto objects = [](auto change) {
    auto model = assemble(minimal_spec()).value();
    change(*model.mutable_meta_graphs(0)->mutable_object_graph_def());
    return check(model);
  };
  expect_refused(
      objects([](auto& graph) { graph.mutable_nodes(0)->mutable_children(0)->set_node_id(10'000); }), "T2",
      "of the object graph leads to no node");
  expect_refused(objects([](auto& graph) {
                   for (auto& [name, function] : *graph.mutable_concrete_functions())
                     function.add_bound_inputs(-1);
                 }),
                 "T2", "is bound to object -1, which does not exist");
}

TEST(OpenSavedModel, T7AssetsOutsideTheFolder) {
  const TestFolder folder;
  write_minimal(folder);
  auto model = assemble(minimal_spec()).value();
  model.mutable_meta_graphs(0)->mutable_asset_file_def(0)->set_filename("../saved_model.pb");
  ASSERT_TRUE(write_text(kFiles, folder / "saved_model.pb", model.SerializeAsString()).ok());
  const auto opened = open_saved_model(kFiles, folder.path());
  expect_refused(opened, "T7", "");
  EXPECT_EQ(opened.error().kind, ErrorKind::unsafe);
}

TEST(OpenSavedModel, T7TwoGraphFiles) {
  const TestFolder folder;
  write_minimal(folder);
  ASSERT_TRUE(write_text(kFiles, folder / "saved_model.pbtxt", "").ok());
  expect_refused(open_saved_model(kFiles, folder.path()), "T7", "both exist");
}

TEST(OpenSavedModel, T7TextFormIsNotRead) {
  const TestFolder folder;
  write_minimal(folder);
  ASSERT_TRUE(kFiles.remove_all(folder / "saved_model.pb").ok());
  const auto absent = open_saved_model(kFiles, folder.path());
  expect_refused(absent, "", "saved_model.pb: this file does not exist");
  EXPECT_EQ(absent.error().kind, ErrorKind::missing);
  ASSERT_TRUE(write_text(kFiles, folder / "saved_model.pbtxt", "").ok());
  expect_refused(open_saved_model(kFiles, folder.path()), "T7", "a SavedModel in text form is not read");
}

TEST(OpenSavedModel, C26TheVariablesIndexIsMissing) {
  const TestFolder folder;
  write_minimal(folder);
  ASSERT_TRUE(kFiles.remove_all(folder / "variables/variables.index").ok());
  expect_refused(open_saved_model(kFiles, folder.path()), "C26", "variables/variables.index");
}

}  // namespace
}  // namespace tandem
