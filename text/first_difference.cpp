#include "text/first_difference.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/model_text.h"

namespace tandem::text {

std::string first_difference(const Tokenizer& left, const std::vector<int32_t>& left_ids,
                             const Tokenizer& right, const std::vector<int32_t>& right_ids) {
  const auto [at, other] =
      std::mismatch(left_ids.begin(), left_ids.end(), right_ids.begin(), right_ids.end());
  if (at == left_ids.end() && other == right_ids.end()) return {};
  const auto shown = [](const Tokenizer& tokenizer, const std::vector<int32_t>& ids, auto place) {
    return place == ids.end() ? std::string("the end") : id_with_piece(tokenizer, *place);
  };
  return fmt::format("position {} is {} on the left and {} on the right", at - left_ids.begin(),
                     shown(left, left_ids, at), shown(right, right_ids, other));
}

}  // namespace tandem::text
