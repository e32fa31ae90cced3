#include "verify/basis.h"

#include "base/hash.h"

namespace tandem {
namespace {

void add_line(Sha256& hash, const Probe& probe) {
  std::string line = fmt::format("{} {} {}", probe.name, probe.batch, probe.tokens);
  for (const auto* values : {&probe.input_ids, &probe.attention_mask, &probe.position_ids})
    for (const int32_t value : *values) line += fmt::format(" {}", value);
  line += '\n';
  hash.update(as_bytes(line));
}

}  // namespace

std::string rules_sha256(const RuleTable& rules) { return sha256_hex(as_bytes(to_json(rules).dump())); }

PromptSet prompt_set(std::string level, const std::vector<Probe>& probes, const std::string& tokens_file,
                     uint64_t seed) {
  PromptSet set;
  set.level = std::move(level);
  set.source = tokens_file.empty() ? "built in" : tokens_file;
  if (tokens_file.empty()) set.seed = seed;
  set.probes = probes.size();
  Sha256 hash;
  for (const Probe& probe : probes) {
    set.prompts += probe.batch;
    for (const int32_t real : probe.attention_mask) set.tokens += real != 0;
    add_line(hash, probe);
  }
  set.sha256 = hash.hex();
  return set;
}

Json to_json(const PromptSet& prompts) {
  Json json{{"level", prompts.level},     {"source", prompts.source}, {"probes", prompts.probes},
            {"prompts", prompts.prompts}, {"tokens", prompts.tokens}, {"sha256", prompts.sha256}};
  if (prompts.seed) json["seed"] = *prompts.seed;
  return json;
}

}  // namespace tandem
