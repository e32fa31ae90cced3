#include "generate/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem {

NextToken greedy(Engine& engine, std::vector<bool> allowed) {
  return [&engine, allowed = std::move(allowed)](const std::vector<int32_t>& ids) -> Result<int32_t> {
    TANDEM_TRY(NextLogits logits, next_logits(engine, {ids}));
    if (std::any_of(logits.values.begin(), logits.values.end(),
                    [](float value) { return std::isnan(value); }))
      return not_equal("verify_c4", "the logits hold NaN");
    keep_allowed(logits.values, allowed);
    return most_likely(logits.values);
  };
}

NextToken sampled(Engine& engine, const SamplingOptions& options, std::vector<bool> allowed) {
  return [&engine, options, allowed = std::move(allowed),
          step = uint64_t{0}](const std::vector<int32_t>& ids) mutable -> Result<int32_t> {
    TANDEM_TRY(NextLogits logits, next_logits(engine, {ids}));
    if (!allowed.empty())
      for (size_t id = 0; id < logits.values.size(); ++id)
        if (id >= allowed.size() || !allowed[id]) logits.values[id] = -std::numeric_limits<float>::infinity();
    return sample_token(logits.values, ids, options, 0, step++);
  };
}

std::string_view name(Finish finish) {
  switch (finish) {
    case Finish::stop_token:
      return "stop_token";
    case Finish::stop_string:
      return "stop_string";
    case Finish::length:
      return "length";
    case Finish::interrupted:
      return "interrupted";
  }
  return {};
}

Result<Generated> generate(const NextToken& next, std::vector<int32_t> ids, const GenerateOptions& options) {
  Generated made;
  const auto ends = [&](int32_t id) {
    return std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end();
  };
  while (made.ids.size() < options.max_new_tokens) {
    if (options.interrupted && options.interrupted()) {
      made.finish = Finish::interrupted;
      break;
    }
    TANDEM_TRY(const int32_t id, next(ids));
    ids.push_back(id);
    made.ids.push_back(id);
    if (ends(id)) {
      made.finish = Finish::stop_token;
      break;
    }
    if (options.go_on && !options.go_on(id)) {
      made.finish = Finish::stop_string;
      break;
    }
  }
  return made;
}

}  // namespace tandem
