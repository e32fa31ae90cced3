#include "arch/architecture.h"

#include <array>

#include "arch/deepseek_v3/deepseek_v3.h"
#include "arch/llama/llama.h"

namespace tandem {
namespace {

constexpr std::array kArchitectures = std::to_array<ArchitectureRow>({
    {"llama", make_llama},
    {"deepseek_v3", make_deepseek_v3},
});

}  // namespace

std::span<const ArchitectureRow> architectures() { return kArchitectures; }

Result<Model> make_model(const Json& config, const ArchOptions& options) {
  const auto found = config.find("model_type");
  if (!config.is_object() || found == config.end() || !found->is_string())
    return invalid("arch_c1", "model_type is missing, expected the name of an architecture")
        .at("config.json");
  const std::string model_type = found->get<std::string>();
  std::vector<std::string_view> known;
  for (const ArchitectureRow& row : architectures()) {
    if (row.model_type == model_type) return row.make(config, options);
    known.push_back(row.model_type);
  }
  return unsupported("arch_c2", "model_type is \"{}\", known are {}", model_type, fmt::join(known, ", "))
      .at("config.json");
}

}  // namespace tandem
