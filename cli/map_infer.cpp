#include "cli/map_infer.h"

#include <memory>

#include "base/signals.h"
#include "cli/progress.h"
#include "convert/open_model.h"
#include "kinship/table.h"

namespace tandem {
namespace {

using kinship::Doubt;
using kinship::Kinship;
using kinship::Link;
using kinship::Side;

constexpr size_t kShownNames = 6;

/// A checkpoint's tensors; nothing else of the model is looked at.
struct Tensors {
  std::string path;
  ModelFormat format;
  std::unique_ptr<TensorSource> source;
};

Result<Tensors> open_tensors(const std::string& path, const SafetensorsLimits& limits) {
  TANDEM_TRY(const ModelFormat format, detect(real_files(), path));
  Tensors opened{path, format, nullptr};
  if (is_tensorflow(format)) {
    const std::string prefix = format == ModelFormat::saved_model ? join(path, "variables/variables") : path;
    TANDEM_TRY(opened.source, TensorBundle::open(real_files(), prefix));
  } else {
    TANDEM_TRY(opened.source, HfFolder::open(real_files(), path, {.limits = limits}));
  }
  return opened;
}

/// Both checkpoints, and which of them plays which side of a rule table: a TensorFlow one is tf; of two of
/// one kind the left is hf.
struct Sides {
  Tensors left, right;
  bool left_is_hf;
  const Tensors& of(Side side) const { return (side == kinship::hf) == left_is_hf ? left : right; }
  std::string_view word(Side side) const { return (side == kinship::hf) == left_is_hf ? "left" : "right"; }
};

Result<uint64_t> bytes_of(const TensorSource& source) {
  uint64_t bytes = 0;
  for (const TensorInfo& info : source.tensors()) {
    TANDEM_TRY(const uint64_t own, byte_count(info.dtype, info.shape));
    bytes += own;
  }
  return bytes;
}

std::vector<std::string> names_of(const std::vector<const TensorInfo*>& infos) {
  std::vector<std::string> names;
  for (const TensorInfo* info : infos) names.push_back(info->name);
  return names;
}

Json to_json(const Link& link) {
  const std::vector<std::string> joined{link.joined->name};
  const std::vector<std::string> parts = names_of(link.parts);
  Json json{{"hf", link.side == kinship::hf ? joined : parts},
            {"tf", link.side == kinship::tf ? joined : parts},
            {"steps", in_words(link)}};
  if (link.joined->dtype != link.as || link.parts[0]->dtype != link.as)
    json["equal_in"] = row(link.as).long_name;
  return json;
}

Json to_json(const std::vector<Link>& links) {
  Json json = Json::array();
  for (const Link& link : links) json.push_back(to_json(link));
  return json;
}

Json to_json(const Kinship& found, const kinship::Written& written, const Sides& sides) {
  Json json{{"certain", found.certain()},
            {"hf_side", sides.word(kinship::hf)},
            {"tf_side", sides.word(kinship::tf)},
            {"pairs", to_json(found.links)}};
  json["copies"] = Json::array();
  for (const kinship::Tie& tie : found.ties)
    json["copies"].push_back(
        {{"side", sides.word(tie.side)}, {"copy", tie.copy->name}, {"of", tie.of->name}});
  json["ambiguous"] = Json::array();
  for (const Doubt& doubt : found.doubts)
    json["ambiguous"].push_back({{"why", doubt.why},
                                 {"hf", names_of(doubt.hf)},
                                 {"tf", names_of(doubt.tf)},
                                 {"guess", to_json(doubt.guess)}});
  json["unpaired"] = Json::array();
  for (const kinship::Unpaired& lone : found.unpaired)
    json["unpaired"].push_back(
        {{"side", sides.word(lone.side)}, {"tensor", lone.tensor->name}, {"hint", lone.hint}});
  json["in_words"] = written.words;
  json["rules"] = tandem::to_json(written.table);
  return json;
}

std::string some_of(const std::vector<const TensorInfo*>& infos) {
  std::string text;
  for (size_t i = 0; i < infos.size() && i < kShownNames; ++i) text += (i ? ", " : "") + infos[i]->name;
  if (infos.size() > kShownNames) text += fmt::format(" and {} more", infos.size() - kShownNames);
  return text;
}

std::string holes_of(const RuleRow& rule) {
  std::string text;
  for (const auto& [hole, range] : rule.holes)
    text += fmt::format("{}{} {}..{}", text.empty() ? "" : ", ", hole, range.begin, range.end - 1);
  return text;
}

std::string steps_of_rule(const RuleRow& rule) {
  if (!rule.tied_to.empty()) return "tied to " + rule.tied_to;
  std::string text;
  for (const Step& step : rule.steps) text += (text.empty() ? "" : " ") + to_string(step);
  if (rule.dtype != "keep") text += (text.empty() ? "" : " ") + rule.dtype;
  return text;
}

void print(const RuleTable& table) {
  std::vector<std::vector<std::string>> rows{{"HUGGING FACE", "SHAPE", "TENSORFLOW", "STEPS", "FOR"}};
  for (const RuleRow& rule : table.rows)
    rows.push_back({rule.hf, to_string(rule.sizes), rule.tf, steps_of_rule(rule), holes_of(rule)});
  if (rows.size() > 1) print_table(rows);
}

size_t without_doubt(const Kinship& found, const Sides& sides, Side side) {
  size_t count = sides.of(side).source->tensors().size();
  for (const kinship::Unpaired& lone : found.unpaired) count -= lone.side == side;
  for (const Doubt& doubt : found.doubts) count -= (side == kinship::hf ? doubt.hf : doubt.tf).size();
  return count;
}

void print(const Kinship& found, const kinship::Written& written, const Sides& sides, bool table) {
  if (table) print(written.table);
  for (const std::string& line : written.words) fmt::print("in words: {}\n", for_terminal(line));
  for (const Doubt& doubt : found.doubts) {
    fmt::print("ambiguous: {}: {} ({}) and {} ({})\n", doubt.why, for_terminal(some_of(doubt.hf)),
               sides.word(kinship::hf), for_terminal(some_of(doubt.tf)), sides.word(kinship::tf));
    for (size_t i = 0; i < doubt.guess.size() && i < kShownNames; ++i)
      fmt::print("  a guess by name and order: {} -> {}, {}\n", for_terminal(some_of(doubt.guess[i].parts)),
                 for_terminal(doubt.guess[i].joined->name), in_words(doubt.guess[i]));
  }
  for (const kinship::Unpaired& lone : found.unpaired)
    fmt::print("unpaired: {} {} {} ({}){}{}\n", for_terminal(lone.tensor->name),
               row(lone.tensor->dtype).long_name, to_string(lone.tensor->shape), sides.word(lone.side),
               lone.hint.empty() ? "" : ": ", for_terminal(lone.hint));
  for (const Side side : {kinship::hf, kinship::tf})
    fmt::print("{}: {} of {} tensors paired without doubt\n", for_terminal(sides.of(side).path),
               with_commas(without_doubt(found, sides, side)),
               with_commas(sides.of(side).source->tensors().size()));
  fmt::print("{} rules, {} in words; every pair compared element by element\n",
             with_commas(written.table.rows.size()), with_commas(written.words.size()));
}

/// The file appears whole or not at all.
Status write_whole(const std::string& path, const std::string& text) {
  const std::string staged = path + ".partial";
  Status status = write_text(real_files(), staged, text);
  if (status.ok()) status = real_files().rename(staged, path);
  if (!status.ok()) (void)real_files().remove_all(staged);
  return status;
}

}  // namespace

Result<int> infer_map(const InferOptions& options, bool json) {
  TANDEM_TRY(Tensors left, open_tensors(options.left, options.limits));
  TANDEM_TRY(Tensors right, open_tensors(options.right, options.limits));
  const bool left_is_hf = !is_tensorflow(left.format) || is_tensorflow(right.format);
  const Sides sides{std::move(left), std::move(right), left_is_hf};
  TANDEM_TRY(const uint64_t left_bytes, bytes_of(*sides.left.source));
  TANDEM_TRY(const uint64_t right_bytes, bytes_of(*sides.right.source));
  std::optional<Progress> shown("pairing tensors");
  uint64_t done = 0;
  const uint64_t total = 2 * left_bytes + right_bytes;  // read once for fingerprints, then compared
  const auto progress = [&](uint64_t bytes) -> Status {
    done += bytes;
    shown->show(std::min(done, total), total);
    if (interrupted()) return unavailable("", "stopped by a signal");
    return {};
  };
  TANDEM_TRY(const Kinship found,
             kinship::find_kinship(*sides.of(kinship::hf).source, *sides.of(kinship::tf).source, progress));
  shown.reset();
  const kinship::Written written = write_rules(found, options.guess);
  TANDEM_CHECK(check(written.table));
  if (!options.out.empty()) {
    Status stored = write_whole(options.out, tandem::to_json(written.table).dump(1) + "\n");
    if (!stored.ok()) return cannot_create(std::move(stored).error());
  }
  if (json)
    print_json(to_json(found, written, sides));
  else
    print(found, written, sides, options.out.empty());
  return found.certain() ? 0 : exit_code(ErrorKind::not_equal);
}

}  // namespace tandem
