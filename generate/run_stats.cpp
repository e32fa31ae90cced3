#include "generate/run_stats.h"

#include <algorithm>
#include <numeric>

namespace tandem {

Status warm_up(Engine& engine, const std::vector<uint64_t>& lengths, RunStats& stats) {
  const Stopwatch watch;
  for (const uint64_t length : lengths)
    for (const uint64_t tokens : {length, length + 1}) {
      TANDEM_CHECK(next_logits(engine, {std::vector<int32_t>(tokens, 0)}));
    }
  TANDEM_TRY(stats.compilations_before, engine.compilations());
  stats.warm_up = WarmUp{watch.seconds(), stats.compilations_before};
  return {};
}

NextToken begin_answer(RunStats& stats, NextToken next, uint64_t prompt_tokens) {
  stats.prompt_tokens = prompt_tokens;
  stats.token_s.clear();
  return [next = std::move(next), &stats](const std::vector<int32_t>& ids) {
    const Stopwatch watch;
    auto token = next(ids);
    stats.token_s.push_back(watch.seconds());
    return token;
  };
}

Status end_answer(RunStats& stats, Engine& engine) {
  TANDEM_TRY(const uint64_t now, engine.compilations());
  stats.compilations = now - stats.compilations_before;
  stats.compilations_before = now;
  return {};
}

std::optional<double> per_token_s(const RunStats& stats) {
  if (stats.drafts && !stats.token_s.empty())
    return std::accumulate(stats.token_s.begin(), stats.token_s.end(), 0.0) /
           static_cast<double>(stats.token_s.size());
  if (stats.token_s.size() < 2) return {};
  std::vector<double> later(stats.token_s.begin() + 1, stats.token_s.end());
  const auto middle = later.begin() + static_cast<std::ptrdiff_t>(later.size() / 2);
  std::nth_element(later.begin(), middle, later.end());
  if (later.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(later.begin(), middle)) / 2;
}

Json to_json(const RunStats& stats) {
  const auto or_null = [](std::optional<double> seconds) { return seconds ? Json(*seconds) : Json(nullptr); };
  Json json{
      {"load_s", stats.load_s}, {"first_token_s", nullptr}, {"per_token_s", or_null(per_token_s(stats))}};
  if (!stats.token_s.empty()) json["first_token_s"] = stats.token_s.front();
  json["compilations"] = Json{{"answer", stats.compilations}};
  if (stats.drafts)
    json["drafts"] = Json{{"drafted", stats.drafts->drafted}, {"accepted", stats.drafts->accepted}};
  if (!stats.warm_up) return json;
  json["warm_up_s"] = stats.warm_up->seconds;
  json["compilations"]["warm_up"] = stats.warm_up->compilations;
  return json;
}

std::string to_text(const RunStats& stats) {
  std::string text = fmt::format("load          {:.2f} s\n", stats.load_s);
  if (stats.warm_up)
    text += fmt::format("warm-up       {:.2f} s, {} compilations\n", stats.warm_up->seconds,
                        stats.warm_up->compilations);
  if (!stats.token_s.empty())
    text += fmt::format("first token   {:.1f} ms, after {} tokens\n", stats.token_s.front() * 1e3,
                        stats.prompt_tokens);
  const std::string of = stats.drafts ? fmt::format("mean of {}, several at once", stats.token_s.size())
                                      : fmt::format("median of {}", stats.token_s.size() - 1);
  if (const auto seconds = per_token_s(stats))
    text += fmt::format("per token     {:.1f} ms, {:.1f} a second ({})\n", *seconds * 1e3, 1 / *seconds, of);
  if (stats.drafts && stats.drafts->drafted > 0)
    text += fmt::format(
        "drafts        {}, {} accepted ({:.1f} %)\n", stats.drafts->drafted, stats.drafts->accepted,
        100.0 * static_cast<double>(stats.drafts->accepted) / static_cast<double>(stats.drafts->drafted));
  return text + fmt::format("compilations  {}\n", stats.compilations);
}

}  // namespace tandem
