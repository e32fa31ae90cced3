// tandem map: the structure contract. Every tensor's name, shape and dtype on both sides, and the steps
// between.

#include "cli/map_infer.h"
#include "convert/structure_map.h"

namespace tandem {
namespace {

struct MapOptions {
  std::string path;
  std::string check;
  std::string out;
  std::vector<std::string> accepted_keys;
  bool infer = false;
  bool guess = false;
  std::string other;
  SafetensorsLimits limits;
};

constexpr const char* kFooter =
    "Examples:\n"
    "  tandem map ./deepseek-v3                     the table, from a checkpoint or a config.json alone\n"
    "  tandem map ./deepseek-v3 --out v3.map.json   the same as JSON: review it, sign it, keep it\n"
    "  tandem map ./deepseek-v3 --check v3.map.json every difference between the two; ends 1 if there is "
    "one\n"
    "  tandem convert --map edited.map.json ./deepseek-v3 ./out\n"
    "\n"
    "  tandem map --infer ./deepseek-v3 ./port/ckpt-7     two checkpoints of unknown kinship: pairs tensors "
    "by "
    "their values\n"
    "  tandem map --infer ./deepseek-v3 ./port --out rules.json\n"
    "\n"
    "--infer looks at names, dtypes, shapes and values alone, proves each pair element by element, and ends "
    "1 "
    "where a tensor\n"
    "stays unpaired or values cannot decide. It writes a rule table, the \"rules\" of a map.\n"
    "\n"
    "In the JSON, \"rules\" is what convert --map reads; \"tensors\" is written out for people and for "
    "--check.";

std::string join_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

void print(const StructureMap& map) {
  std::vector<std::vector<std::string>> rows{
      {"HUGGING FACE", "DTYPE", "SHAPE", "TENSORFLOW", "DTYPE", "SHAPE", "STEPS"}};
  for (const MappedTensor& tensor : map.tensors) {
    const std::string from =
        tensor.hf.size() == 1 ? tensor.hf[0] : fmt::format("{} .. {}", tensor.hf.front(), tensor.hf.back());
    rows.push_back({from, std::string(row(tensor.hf_dtype).long_name), to_string(tensor.hf_shape), tensor.tf,
                    std::string(row(tensor.tf_dtype).long_name), to_string(tensor.tf_shape),
                    join_words(tensor.steps)});
  }
  print_table(rows);
  for (const std::string& tie : map.tied) fmt::print("tied: {}\n", for_terminal(tie));
  fmt::print("{} tensors\n", with_commas(map.tensors.size()));
}

Result<int> check_map(const OpenedModel& opened, const MapOptions& options, bool json) {
  TANDEM_TRY(const std::string text, read_text(real_files(), options.check, 1'000'000'000));
  auto stored = map_from_text(text);
  if (!stored.ok()) return std::move(stored).error().at(options.check);
  const std::vector<std::string> differences = differences_from(stored.value(), opened);
  if (json) {
    print_json(Json{{"equal", differences.empty()}, {"differences", differences}});
  } else {
    for (const std::string& line : differences) fmt::print("{}\n", for_terminal(line));
    fmt::print("{}\n", differences.empty() ? "equal" : fmt::format("{} differences", differences.size()));
  }
  return differences.empty() ? 0 : exit_code(ErrorKind::not_equal);
}

Result<int> map(const MapOptions& options, bool json) {
  if (options.infer && options.other.empty())
    return usage("", "--infer needs two checkpoints").because("tandem map --infer A B");
  if (options.infer)
    return infer_map({options.path, options.other, options.out, options.guess, options.limits}, json);
  if (!options.other.empty())
    return usage("", "map reads one path, \"{}\" is a second", options.other)
        .because("--infer pairs two checkpoints");
  TANDEM_TRY(const OpenedModel opened,
             open_model(real_files(), options.path, {.limits = options.limits, .allow_no_weights = true}));
  if (!options.check.empty()) return check_map(opened, options, json);
  TANDEM_TRY(const StructureMap map,
             structure_map(opened, {{options.accepted_keys.begin(), options.accepted_keys.end()}}));
  if (!options.out.empty()) {
    Status written = write_text(real_files(), options.out, to_text(map));
    if (!written.ok()) return cannot_create(std::move(written).error());
  }
  if (json)
    fmt::print("{}", to_text(map));
  else if (options.out.empty())
    print(map);
  return 0;
}

}  // namespace

void add_map(CLI::App& app, Session& session) {
  auto options = std::make_shared<MapOptions>();
  CLI::App* command =
      add_command(app, session, "map",
                  "The structure contract: every tensor on both sides, and the steps between", kFooter);
  command->add_option("PATH", options->path, "Folder, .safetensors file, SavedModel, or checkpoint prefix")
      ->required();
  command->add_option("OTHER", options->other, "With --infer, the other checkpoint");
  auto* check = command->add_option("--check", options->check,
                                    "Compare a stored map with PATH, and list all differences");
  command->add_option("--out", options->out, "Write the JSON to a file instead of a table")->excludes(check);
  auto* infer = command
                    ->add_flag("--infer", options->infer,
                               "Pair the tensors of PATH and OTHER by their values, and find the rules")
                    ->excludes(check);
  command
      ->add_flag("--guess", options->guess,
                 "With --infer, also write rules for equal tensors that names or order alone decide")
      ->needs(infer);
  add_accepted_keys(*command, options->accepted_keys);
  add_limits(*command, options->limits);
  command->callback([options, &session] { session.outcome = map(*options, session.json); });
}

}  // namespace tandem
