#include "generate/generate.h"

#include <algorithm>
#include <limits>

namespace tandem {

Result<int32_t> choose(std::span<const float> logits, const std::vector<int32_t>& ids, const Choice& choice) {
  std::vector<float> values(logits.begin(), logits.end());
  if (!choice.allowed.empty())
    for (size_t id = 0; id < values.size(); ++id)
      if (id >= choice.allowed.size() || !choice.allowed[id])
        values[id] = -std::numeric_limits<float>::infinity();
  return sample_token(values, ids, choice.sampling, choice.row, ids.size() - choice.prompt_tokens);
}

NextToken chosen(Engine& engine, Choice choice) {
  return [&engine, choice = std::move(choice)](const std::vector<int32_t>& ids) -> Result<int32_t> {
    TANDEM_TRY(const NextLogits logits, next_logits(engine, {ids}));
    return choose(logits.values, ids, choice);
  };
}

NextToken greedy(Engine& engine, std::vector<bool> allowed) {
  return chosen(engine, {.allowed = std::move(allowed)});
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
