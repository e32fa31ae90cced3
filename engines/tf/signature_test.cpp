#include "engines/tf/signature.h"

#include <gmock/gmock.h>

#include "engines/tf/tf_model.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace tandem {
namespace {

Signatures two_signatures() {
  tensorflow::MetaGraphDef proto;
  for (const char* key : {"serving_default", "with_positions"}) {
    auto& signature = (*proto.mutable_signature_def())[key];
    auto& input = (*signature.mutable_inputs())["input_ids"];
    input.set_name(std::string(key) + "_input_ids:0");
    input.set_dtype(tensorflow::DT_INT32);
    input.mutable_tensor_shape()->add_dim()->set_size(-1);
    input.mutable_tensor_shape()->add_dim()->set_size(-1);
  }
  const std::string bytes = proto.SerializeAsString();
  return signatures_of(std::as_bytes(std::span(bytes))).value();
}

TEST(Signature, LogitsMeansWithPositions) {
  const Signatures signatures = two_signatures();
  EXPECT_EQ(signature_for(signatures, "logits").value(), &signatures.at("with_positions"));
  EXPECT_EQ(signature_for(signatures, "serving_default").value(), &signatures.at("serving_default"));
}

TEST(Signature, C2MetaGraphThatDoesNotParse) {
  const std::string bytes = "\xff\xff\xff";
  EXPECT_EQ(signatures_of(std::as_bytes(std::span(bytes))).error().rule, "tf_c2");
}

TEST(Signature, C3UnknownSignatureListsTheOthers) {
  EXPECT_EQ(signature_for(two_signatures(), "layer_9").error().message(),
            "tf_c3: the SavedModel has no signature 'layer_9'; it has serving_default, with_positions");
}

TEST(Signature, C4EveryWrongInputIsNamed) {
  const Signatures signatures = two_signatures();
  const Signature& signature = signatures.at("serving_default");
  const HostTensor good{DType::i32, {2, 3}, {}};
  EXPECT_TRUE(check_inputs(signature, {{"input_ids", good}}).ok());
  EXPECT_EQ(check_inputs(signature, {{"input_ids", {DType::i64, {2, 3}, {}}}}).error().text,
            "input 'input_ids' is int64[2, 3], expected int32[?, ?]");
  EXPECT_EQ(check_inputs(signature, {{"input_ids", {DType::i32, {3}, {}}}}).error().text,
            "input 'input_ids' is int32[3], expected int32[?, ?]");
  EXPECT_EQ(check_inputs(signature, {{"ids", good}}).error().text,
            "input 'input_ids' is missing; there is no input 'ids'");
}

TEST(SessionConfig, IsAConfigProto) {
  const std::string pruned("\x52\x02\x30\x01");
  EXPECT_EQ(session_config(0), pruned);
  EXPECT_EQ(session_config(2), pruned + "\x10\x02\x28\x02");
  EXPECT_EQ(session_config(300), pruned + "\x10\xac\x02\x28\xac\x02");
}

/// Signatures with these inputs and outputs, types aside.
Signature with(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  Signature signature;
  for (const std::string& name : inputs) signature.inputs[name] = {};
  for (const std::string& name : outputs) signature.outputs[name] = {};
  return signature;
}

TEST(CachesOf, ThePairsOfOutputAndInput) {
  const Signature prefill = with({"input_ids", "attention_mask"}, {"logits", "present_key_0"});
  const Signature decode = with({"input_ids", "attention_mask", "past_key_0"}, {"logits", "present_key_0"});
  EXPECT_EQ(caches_of({{"prefill", prefill}, {"decode", decode}}),
            (std::map<std::string, std::string>{{"present_key_0", "past_key_0"}}));
  EXPECT_TRUE(caches_of({{"prefill", prefill}}).empty());
  EXPECT_TRUE(caches_of({{"prefill", decode}, {"decode", decode}}).empty());
  EXPECT_TRUE(caches_of({{"prefill", prefill}, {"decode", prefill}}).empty());
  const Signature other =
      with({"input_ids", "attention_mask", "past_key_0", "step"}, {"logits", "present_key_0"});
  EXPECT_TRUE(caches_of({{"prefill", prefill}, {"decode", other}}).empty());
}

}  // namespace
}  // namespace tandem
