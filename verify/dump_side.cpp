#include "verify/dump_side.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace tandem {
namespace {

/// Written by tools, read by nobody who computes.
constexpr std::string_view kIdleKeys[] = {"_name_or_path", "architectures",        "auto_map", "dtype",
                                          "torch_dtype",   "transformers_version", "use_cache"};

std::vector<int32_t> numbers_in(const HostTensor& tensor) {
  std::vector<int32_t> values(tensor.data.size() / sizeof(int32_t));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(int32_t));
  return values;
}

std::string value_of(const Json& config, const std::string& key) {
  const auto found = config.find(key);
  return found == config.end() ? "not there" : found->dump().substr(0, 200);
}

}  // namespace

Probe probe_of(const DumpProbe& recorded) {
  Probe probe;
  probe.name = recorded.name;
  probe.batch = recorded.batch;
  probe.tokens = recorded.tokens;
  probe.input_ids = numbers_in(recorded.inputs.at("input_ids"));
  probe.attention_mask = numbers_in(recorded.inputs.at("attention_mask"));
  probe.position_ids = numbers_in(recorded.inputs.at("position_ids"));
  return probe;
}

Result<std::vector<Probe>> probes_of_dumps(const DumpFile* left, const DumpFile* right, uint64_t vocab_size) {
  const DumpFile& first = left ? *left : *right;
  std::vector<Probe> probes;
  for (const DumpProbe& recorded : first.probes())
    if (!left || !right || right->find(recorded.inputs)) probes.push_back(probe_of(recorded));
  if (probes.empty())
    return invalid("verify_c10", "the dumps have no probe in common")
        .at(first.path())
        .because("record both with the same prompts");
  for (const Probe& probe : probes) {
    const int32_t largest = *std::max_element(probe.input_ids.begin(), probe.input_ids.end());
    if (vocab_size && static_cast<uint64_t>(largest) >= vocab_size)
      return invalid("verify_c10", "the probe \"{}\" has the token id {}, the other side's vocab_size is {}",
                     probe.name, largest, vocab_size)
          .at(first.path());
  }
  return probes;
}

std::vector<Probe> with_taps(const std::vector<Probe>& probes, const DumpFile* left, const DumpFile* right) {
  std::vector<Probe> found;
  for (const Probe& probe : probes) {
    const auto has = [&](const DumpFile* dump) {
      const DumpProbe* recorded = dump ? dump->find(probe.inputs()) : nullptr;
      return !dump || (recorded && !recorded->taps.empty());
    };
    if (has(left) && has(right)) found.push_back(probe);
  }
  return found;
}

std::vector<std::string> config_differences(const Json& left, const Json& right) {
  std::vector<std::string> lines;
  if (!left.is_object() || !right.is_object()) return lines;
  std::set<std::string> keys;
  for (const Json* config : {&left, &right})
    for (const auto& [key, value] : config->items()) keys.insert(key);
  for (const std::string_view idle : kIdleKeys) keys.erase(std::string(idle));
  for (const std::string& key : keys) {
    const std::string a = value_of(left, key), b = value_of(right, key);
    if (a != b)
      lines.push_back(fmt::format("the configs differ: {} is {} on the left, {} on the right", key, a, b));
  }
  return lines;
}

}  // namespace tandem
