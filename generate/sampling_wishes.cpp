#include "generate/sampling_wishes.h"

#include <string>
#include <vector>

namespace tandem {
namespace {

/// What is said goes over what is there.
void apply(const SamplingWishes& wishes, SamplingOptions& options) {
  options.temperature = wishes.temperature.value_or(options.temperature);
  options.top_k = wishes.top_k.value_or(options.top_k);
  options.top_p = wishes.top_p.value_or(options.top_p);
  options.min_p = wishes.min_p.value_or(options.min_p);
  options.repetition_penalty = wishes.repetition_penalty.value_or(options.repetition_penalty);
  options.seed = wishes.seed.value_or(options.seed);
}

bool describes_a_draw(const SamplingWishes& wishes) {
  return wishes.temperature || wishes.top_k || wishes.top_p || wishes.min_p || wishes.seed;
}

}  // namespace

Status check_flags(const SamplingWishes& flags) {
  if (flags.do_sample == false && describes_a_draw(flags))
    return usage("",
                 "--greedy takes the most likely token: of the flags of sampling it goes with "
                 "--repetition-penalty alone");
  SamplingOptions options;
  apply(flags, options);
  return check(options);
}

Result<SamplingOptions> sampling_options(const SamplingWishes& flags, const SamplingWishes& file,
                                         uint64_t seed) {
  SamplingOptions options{.top_k = kDefaultTopK, .seed = seed};
  apply(file, options);
  apply(flags, options);
  const bool samples = flags.do_sample.value_or(describes_a_draw(flags) || file.do_sample.value_or(false));
  if (!samples || options.temperature == 0)
    options = {.temperature = 0, .repetition_penalty = options.repetition_penalty};
  if (const Status fits = check(options); !fits.ok())
    return invalid("generation_c1", "{}", fits.error().text).at("generation_config.json");
  return options;
}

Json to_json(const SamplingOptions& options) {
  Json json{{"do_sample", draws(options)}, {"repetition_penalty", options.repetition_penalty}};
  if (!draws(options)) return json;
  json["temperature"] = options.temperature;
  json["top_k"] = options.top_k;
  json["top_p"] = options.top_p;
  json["min_p"] = options.min_p;
  json["seed"] = options.seed;
  return json;
}

std::string flags_of(const SamplingOptions& options) {
  return fmt::format("--temperature {} --top-k {} --top-p {} --min-p {} --repetition-penalty {} --seed {}",
                     options.temperature, options.top_k, options.top_p, options.min_p,
                     options.repetition_penalty, options.seed);
}

}  // namespace tandem
