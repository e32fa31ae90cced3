// tandem plant: a faulty copy of a model, to measure a check with.

#include "convert/plant.h"

#include "cli/command.h"
#include "cli/progress.h"

namespace tandem {
namespace {

struct Flags {
  std::string fault, source, destination;
  bool list = false;
  std::vector<std::string> accepted_keys;
  PlantOptions options;
};

constexpr const char* kFooter =
    "SRC is a SavedModel that tandem made, or a Hugging Face folder; DST is a new folder of the same kind. A "
    "FAULT is\n"
    "a name of the list, or a family of names: then its first that applies. docs/faults.md says what each "
    "does.\n"
    "\n"
    "By default a fault is planted everywhere it applies, as a wrong converter would; those of the family "
    "other\n"
    "in one place. --at names a layer or a module. In a Hugging Face folder, faults of weights are written "
    "into\n"
    "the tensors and faults of the graph into config.json, if a key says them. In a SavedModel the graph is "
    "made\n"
    "anew; the files that tandem keeps in it (tandem_contract.txt) stay the source's: a faulty converter "
    "does "
    "not\n"
    "write down its fault, and only computing can find it.\n"
    "\n"
    "Examples:\n"
    "  tandem plant --list                                      all faults\n"
    "  tandem plant --list ./llm.savedmodel                     and whether each can be planted in a model\n"
    "  tandem plant mask.causal ./llm.savedmodel ./bad          bad.savedmodel sees the future\n"
    "  tandem plant head.tied ./deepseek-llm-7b ./bad.hf        a folder whose head is the embedding\n"
    "  tandem plant transposition ./llm.savedmodel ./bad --at model.layers.1.self_attn.o_proj\n"
    "  tandem verify hf:./deepseek-llm-7b ./bad                 has to end 1";

Json to_json(const FaultRow& row) {
  return Json{{"name", row.name},
              {"cause", row.cause},
              {"help", row.help},
              {"hypothesis", row.hypothesis},
              {"everywhere", !row.once}};
}

Result<int> list(const Flags& flags, bool json) {
  std::vector<Applicable> rows;
  const bool has_model = !flags.fault.empty();  // the first word is the model then
  if (has_model) {
    TANDEM_TRY(rows, applicable_faults(real_files(), flags.fault, flags.options));
  } else {
    for (const FaultRow& row : faults()) rows.push_back({&row, {}});
  }
  if (json) {
    Json all = Json::array();
    for (const Applicable& row : rows) {
      all.push_back(to_json(*row.row));
      if (!has_model) continue;
      all.back()["applies"] = row.why_not.empty();
      if (!row.why_not.empty()) all.back()["why_not"] = row.why_not;
    }
    print_json(Json{{"faults", std::move(all)}});
    return 0;
  }
  std::vector<std::vector<std::string>> table{{"FAULT", "CAUSE"}};
  if (has_model) table[0].push_back("APPLIES");
  table[0].push_back("WHAT");
  for (const Applicable& row : rows) {
    table.push_back({std::string(row.row->name), std::string(row.row->cause)});
    if (has_model) table.back().push_back(row.why_not.empty() ? "yes" : "no");
    table.back().push_back(std::string(row.row->help));
  }
  print_table(table);
  return 0;
}

void print(const PlantReport& report, const std::string& destination) {
  fmt::print("{} ({}) planted, written to {}, a {}\n", report.fault, report.cause, for_terminal(destination),
             report.format);
  for (const std::string& line : report.words) fmt::print("  {}\n", for_terminal(line));
}

Result<int> plant_command(Flags& flags, bool json) {
  flags.options.accepted_keys = {flags.accepted_keys.begin(), flags.accepted_keys.end()};
  if (flags.list) {
    if (!flags.source.empty()) return usage("", "--list takes one model at most");
    return list(flags, json);
  }
  if (flags.destination.empty())
    return usage("", "expected FAULT SRC DST, or --list").because("see tandem plant --help");
  std::optional<Progress> progress("planting");
  flags.options.progress = [&progress](uint64_t done, uint64_t total) -> Status {
    progress->show(done, total);
    return {};
  };
  const Result<PlantReport> report =
      plant_model(real_files(), flags.source, flags.fault, flags.destination, flags.options);
  progress.reset();
  if (!report.ok()) return report.error();
  if (json)
    print_json(to_json(report.value()));
  else
    print(report.value(), flags.destination);
  return 0;
}

}  // namespace

void add_plant(CLI::App& app, Session& session) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      add_command(app, session, "plant", "A faulty copy of a model, to measure a check with", kFooter);
  command->add_option("FAULT", flags->fault, "A fault's name or family; with --list, a model or nothing");
  command->add_option("SRC", flags->source, "SavedModel or Hugging Face folder");
  command->add_option("DST", flags->destination, "New folder");
  command->add_flag("--list", flags->list, "All faults; with a model, whether each can be planted in it");
  command->add_option("--at", flags->options.at,
                      "A layer or module (model.layers.1.self_attn.q_proj); default: wherever it applies");
  add_accepted_keys(*command, flags->accepted_keys);
  add_limits(*command, flags->options.limits);
  command->callback([flags, &session] { session.outcome = plant_command(*flags, session.json); });
}

}  // namespace tandem
