#include "generate/speculative.h"

#include <algorithm>
#include <cstring>

namespace tandem {
namespace {

constexpr const char* kEntry = "generate_greedy_speculative";
constexpr uint64_t kTokensACall = 64;  // so that Ctrl-C and --stop are seen, and a call's time has an end

HostTensor one_number(uint64_t value) {
  const auto number = static_cast<int32_t>(std::min<uint64_t>(value, INT32_MAX));
  HostTensor tensor{DType::i32, {1}, std::vector<std::byte>(sizeof number)};
  std::memcpy(tensor.data.data(), &number, sizeof number);
  return tensor;
}

/// The numbers of an output, of one row.
Result<std::vector<int32_t>> numbers(const HostTensors& outputs, const std::string& name) {
  const auto found = outputs.find(name);
  if (found == outputs.end() || found->second.dtype != DType::i32 || found->second.shape.empty() ||
      found->second.shape[0] != 1 || found->second.data.size() % sizeof(int32_t) != 0)
    return unavailable("speculative_c1", "the engine gave no output {} of one row of int32", name);
  std::vector<int32_t> values(found->second.data.size() / sizeof(int32_t));
  if (!values.empty()) std::memcpy(values.data(), found->second.data.data(), found->second.data.size());
  return values;
}

Result<uint64_t> count_of(const HostTensors& outputs, const std::string& name) {
  TANDEM_TRY(const std::vector<int32_t> values, numbers(outputs, name));
  if (values.size() != 1 || values[0] < 0)
    return unavailable("speculative_c1", "the engine's output {} is no count of one row", name);
  return static_cast<uint64_t>(values[0]);
}

Result<std::vector<int32_t>> made(Engine& engine, const std::vector<int32_t>& ids, uint64_t most,
                                  Drafts& drafts) {
  HostTensors inputs = make_probe("", {ids}, Padding::left).inputs();
  inputs.erase("position_ids");
  inputs["max_new_tokens"] = one_number(most);
  const auto answer = engine.run(kEntry, inputs);
  if (!answer.ok() && answer.error().rule == "tf_c3")
    return Error(answer.error()).because("tandem convert --with-mtp makes a SavedModel that drafts");
  TANDEM_TRY(const HostTensors outputs, answer);
  TANDEM_TRY(const uint64_t drafted, count_of(outputs, "drafted"));
  TANDEM_TRY(const uint64_t accepted, count_of(outputs, "accepted"));
  TANDEM_TRY(const uint64_t length, count_of(outputs, "lengths"));
  TANDEM_TRY(std::vector<int32_t> tokens, numbers(outputs, "tokens"));
  if (length == 0 || length > tokens.size())
    return unavailable("speculative_c1", "the engine's row has {} tokens of {}", length, tokens.size());
  drafts.drafted += drafted;
  drafts.accepted += accepted;
  tokens.resize(length);
  return tokens;
}

}  // namespace

NextToken speculative(Engine& engine, uint64_t most, std::vector<bool> allowed, Drafts& drafts) {
  return [&engine, &drafts, most, allowed = std::move(allowed), ready = std::vector<int32_t>(),
          at = size_t(0), given = uint64_t(0)](const std::vector<int32_t>& ids) mutable -> Result<int32_t> {
    if (at == ready.size()) {
      TANDEM_TRY(ready, made(engine, ids, std::min(std::max<uint64_t>(most, given + 1) - given, kTokensACall),
                             drafts));
      at = 0;
    }
    const int32_t id = ready[at++];
    ++given;
    if (!allowed.empty() && (id < 0 || static_cast<size_t>(id) >= allowed.size() || !allowed[id]))
      return unsupported("speculative_c2", "the model chose {}, which is the id of no token", id)
          .because("without --speculative such ids are never chosen");
    return id;
  };
}

}  // namespace tandem
