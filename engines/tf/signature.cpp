#include "engines/tf/signature.h"

#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace tandem {
namespace {

SignatureArgument argument_of(const tensorflow::TensorInfo& info) {
  SignatureArgument argument{info.name(), info.dtype(), info.tensor_shape().unknown_rank(), {}};
  for (const auto& dim : info.tensor_shape().dim()) argument.shape.push_back(dim.size());
  return argument;
}

std::string dtype_name(int number) {
  const auto dtype = dtype_of_tensorflow(number);
  return dtype ? std::string(row(*dtype).long_name) : fmt::format("DataType {}", number);
}

bool fits(const SignatureArgument& argument, const HostTensor& tensor) {
  if (row(tensor.dtype).tensorflow != argument.dtype) return false;
  if (argument.any_rank) return true;
  if (tensor.shape.size() != argument.shape.size()) return false;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis)
    if (argument.shape[axis] >= 0 && static_cast<uint64_t>(argument.shape[axis]) != tensor.shape[axis])
      return false;
  return true;
}

std::string declared(const SignatureArgument& argument) {
  if (argument.any_rank) return dtype_name(argument.dtype) + " of any shape";
  std::vector<std::string> sizes;
  for (const int64_t size : argument.shape) sizes.push_back(size < 0 ? "?" : std::to_string(size));
  return fmt::format("{}[{}]", dtype_name(argument.dtype), fmt::join(sizes, ", "));
}

}  // namespace

Result<Signatures> signatures_of(std::span<const std::byte> meta_graph_def) {
  tensorflow::MetaGraphDef proto;
  if (!proto.ParseFromArray(meta_graph_def.data(), static_cast<int>(meta_graph_def.size())))
    return corrupt("tf_c2", "TensorFlow's MetaGraphDef of {} bytes does not parse", meta_graph_def.size());
  Signatures signatures;
  for (const auto& [key, definition] : proto.signature_def()) {
    Signature& signature = signatures[key];
    for (const auto& [name, info] : definition.inputs()) signature.inputs[name] = argument_of(info);
    for (const auto& [name, info] : definition.outputs()) signature.outputs[name] = argument_of(info);
  }
  return signatures;
}

Result<const Signature*> signature_for(const Signatures& signatures, const std::string& entry) {
  const std::string key = entry == "logits" ? "with_positions" : entry;
  if (const auto found = signatures.find(key); found != signatures.end()) return &found->second;
  std::vector<std::string> known;
  for (const auto& [name, signature] : signatures) known.push_back(name);
  return invalid("tf_c3", "the SavedModel has no signature '{}'; it has {}", key, fmt::join(known, ", "));
}

Status check_inputs(const Signature& signature, const HostTensors& inputs) {
  std::vector<std::string> problems;
  for (const auto& [name, argument] : signature.inputs) {
    const auto given = inputs.find(name);
    if (given == inputs.end())
      problems.push_back(fmt::format("input '{}' is missing", name));
    else if (!fits(argument, given->second))
      problems.push_back(fmt::format("input '{}' is {}{}, expected {}", name,
                                     row(given->second.dtype).long_name, to_string(given->second.shape),
                                     declared(argument)));
  }
  for (const auto& [name, tensor] : inputs)
    if (!signature.inputs.contains(name)) problems.push_back(fmt::format("there is no input '{}'", name));
  if (!problems.empty()) return invalid("tf_c4", "{}", fmt::join(problems, "; "));
  return {};
}

std::map<std::string, std::string> caches_of(const Signatures& signatures) {
  const auto prefill = signatures.find("prefill"), decode = signatures.find("decode");
  if (prefill == signatures.end() || decode == signatures.end()) return {};
  const auto &in = decode->second.inputs, &out = decode->second.outputs;
  std::map<std::string, std::string> caches;
  for (const auto& [name, argument] : prefill->second.outputs) {
    if (!out.contains(name)) return {};
    if (name == "logits") continue;
    if (!name.starts_with("present_")) return {};
    caches[name] = "past_" + name.substr(std::string_view("present_").size());
    if (!in.contains(caches[name])) return {};
  }
  const bool whole = out.size() == prefill->second.outputs.size() && out.contains("logits") &&
                     prefill->second.inputs.size() == 2 && in.size() == caches.size() + 2;
  for (const char* name : {"input_ids", "attention_mask"})
    if (!whole || !in.contains(name) || !prefill->second.inputs.contains(name)) return {};
  return caches;
}

}  // namespace tandem
