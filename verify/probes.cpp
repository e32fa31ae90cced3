#include "verify/probes.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

namespace tandem {
namespace {

constexpr uint64_t kMaxIds = 1'000'000;
constexpr uint64_t kShortestPrompt = 3, kPromptLengths = 38;

/// Fixed ids below vocab_size (splitmix64): the same on every machine.
class IdGenerator {
 public:
  explicit IdGenerator(uint64_t vocab_size, uint64_t seed = kProbeSeed)
      : vocab_size_(vocab_size), state_(seed) {}
  std::vector<int32_t> next(uint64_t count) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) id = static_cast<int32_t>(number() % vocab_size_);
    return ids;
  }

 private:
  uint64_t number() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t vocab_size_;
  uint64_t state_;
};

HostTensor tensor_of(const std::vector<int32_t>& values, uint64_t batch, uint64_t tokens) {
  HostTensor tensor{DType::i32, {batch, tokens}, std::vector<std::byte>(values.size() * sizeof(int32_t))};
  if (!values.empty()) std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

/// The first positions, and those around each boundary, its double, and the end of the context.
std::vector<int32_t> gapped_positions(const Model& model) {
  std::set<uint64_t> positions{0, 1, 2};
  for (const uint64_t boundary : model.scaling_boundaries)
    for (const uint64_t position : {boundary - 1, boundary, boundary + 1, 2 * boundary})
      positions.insert(position);
  if (model.max_position_embeddings) positions.insert(model.max_position_embeddings - 1);
  std::vector<int32_t> fitting;
  for (const uint64_t position : positions)
    if (position < (1u << 30)) fitting.push_back(static_cast<int32_t>(position));
  return fitting;
}

Probe gapped_probe(const Model& model, IdGenerator& ids) {
  const std::vector<int32_t> positions = gapped_positions(model);
  Probe probe = make_probe("gapped positions", {ids.next(positions.size())}, Padding::right);
  probe.position_ids = positions;
  return probe;
}

}  // namespace

HostTensors Probe::inputs() const {
  return {{"input_ids", tensor_of(input_ids, batch, tokens)},
          {"attention_mask", tensor_of(attention_mask, batch, tokens)},
          {"position_ids", tensor_of(position_ids, batch, tokens)}};
}

Probe make_probe(std::string name, const std::vector<std::vector<int32_t>>& rows, Padding padding) {
  Probe probe;
  probe.name = std::move(name);
  probe.batch = rows.size();
  for (const auto& row : rows) probe.tokens = std::max<uint64_t>(probe.tokens, row.size());
  for (const auto& row : rows) {
    const uint64_t first = padding == Padding::left ? probe.tokens - row.size() : 0;
    int32_t real = 0;
    for (uint64_t t = 0; t < probe.tokens; ++t) {
      const bool is_real = t >= first && t < first + row.size();
      real += is_real;
      probe.input_ids.push_back(is_real ? row[t - first] : 0);
      probe.attention_mask.push_back(is_real);
      probe.position_ids.push_back(std::max(real - 1, 0));
    }
  }
  return probe;
}

std::vector<Probe> default_probes(const Model& model) {
  IdGenerator ids(model.vocab_size);
  std::vector<Probe> probes;
  probes.push_back(make_probe("short", {ids.next(7)}, Padding::right));
  probes.push_back(make_probe("left-padded batch", {ids.next(6), ids.next(11)}, Padding::left));
  probes.push_back(make_probe("right-padded batch", {ids.next(9), ids.next(4)}, Padding::right));
  probes.push_back(make_probe("700 tokens", {ids.next(kLongTokens)}, Padding::right));
  probes.push_back(gapped_probe(model, ids));
  return probes;
}

std::vector<std::vector<int32_t>> random_prompts(uint64_t vocab_size, uint64_t count) {
  IdGenerator ids(vocab_size, kPromptSeed);
  std::vector<std::vector<int32_t>> prompts;
  while (prompts.size() < count)
    prompts.push_back(ids.next(kShortestPrompt + prompts.size() % kPromptLengths));
  return prompts;
}

InnerProbes inner_probes(const std::vector<Probe>& probes) {
  InnerProbes inner;
  const Probe* longest = nullptr;
  for (const Probe& probe : probes) {
    if (probe.batch * probe.tokens <= kLayerTokens) inner.layer.push_back(probe);
    if (!longest || probe.tokens > longest->tokens) longest = &probe;
  }
  const bool only_long = inner.layer.empty();
  if (only_long && longest) inner.layer.push_back(*longest);
  inner.module = inner.layer;
  if (!only_long && longest->batch * longest->tokens > kLayerTokens) inner.module.push_back(*longest);
  return inner;
}

Result<std::vector<Probe>> probes_from_file(const FileSystem& files, const std::string& path,
                                            uint64_t vocab_size) {
  TANDEM_TRY(const std::string text, read_text(files, path, 16'000'000));
  auto probes = probes_from_text(text, vocab_size);
  if (!probes.ok()) return std::move(probes).error().because("in " + path);
  return probes;
}

Result<std::vector<int32_t>> parse_ids(std::string_view line, uint64_t vocab_size) {
  std::vector<int32_t> ids;
  const char* at = line.data();
  const char* const end = at + line.size();
  while (at != end) {
    if (*at == ' ' || *at == ',' || *at == '\t' || *at == '\r') {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [rest, failed] = std::from_chars(at, end, id);
    if (failed != std::errc() || id < 0)
      return invalid("verify_c3", "\"{}\" is no list of token ids", line.substr(0, 80));
    if (static_cast<uint64_t>(id) >= vocab_size)
      return invalid("verify_c3", "token id {} is not below vocab_size {}", id, vocab_size);
    ids.push_back(id);
    at = rest;
  }
  if (ids.empty()) return invalid("verify_c3", "no token ids");
  return ids;
}

Result<std::vector<Probe>> probes_from_text(std::string_view text, uint64_t vocab_size) {
  std::vector<Probe> probes;
  std::vector<std::vector<int32_t>> short_rows;
  uint64_t total = 0, number = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto ids = parse_ids(line, vocab_size);
    if (!ids.ok()) return std::move(ids).error().at(fmt::format("line {}", number));
    total += ids.value().size();
    if (total > kMaxIds) return invalid("verify_c3", "more than {} token ids", kMaxIds);
    if (ids.value().size() <= 64) short_rows.push_back(ids.value());
    probes.push_back(make_probe(fmt::format("line {}", number), {ids.value()}, Padding::right));
  }
  if (probes.empty()) return invalid("verify_c3", "the file has no token ids");
  if (short_rows.size() > 1)
    probes.push_back(make_probe("short lines as one batch", short_rows, Padding::left));
  return probes;
}

}  // namespace tandem
