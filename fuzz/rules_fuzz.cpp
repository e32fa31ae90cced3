#include <cstdlib>
#include <set>

#include "fuzz/fuzz.h"
#include "rules/rules.h"

namespace tandem::fuzz {

/// A rule table, as --map reads it. What is accepted prints and reads back as itself, and makes names of one
/// tensor each.
void fuzz_one(std::span<const std::byte> bytes) {
  const auto json = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!json.ok()) return;
  const auto table = rules_from_json(json.value());
  if (!table.ok()) return;
  const auto again = rules_from_json(to_json(table.value()));
  if (!again.ok() || again.value() != table.value()) std::abort();
  std::set<std::string> names;
  for (const TensorPlan& plan : expand(table.value()))
    if (plan.hf.empty() || !names.insert(plan.tf).second) std::abort();
}

std::vector<std::string> seeds() {
  const std::string row =
      R"j({"hf":"layers.{layer}.up.weight","tf":"layers/{layer}/up/kernel","shape":["a","b"],"sizes":[5,3],)j"
      R"j("holes":{"layer":[0,2]},"steps":["block_dequantize(2,2,_scale_inv)","transpose(1,0)"],"dtype":"keep",)j"
      R"j("trainable":true,"in_graph":true})j";
  const std::string experts =
      R"j({"hf":"l.{layer}.experts.{expert}.w","tf":"l/{layer}/experts/w","shape":["a","b"],"sizes":[4,3],)j"
      R"j("holes":{"layer":[2,3],"expert":[0,5]},"steps":["transpose(1,0)","stack(expert,2)"],"dtype":"f32",)j"
      R"j("trainable":false,"in_graph":false,"optional":true})j";
  const std::string embedding =
      R"j({"hf":"embed.weight","tf":"embed/table","shape":["v","h"],"sizes":[7,3],"holes":{},"steps":[],)j"
      R"j("dtype":"bf16","trainable":true,"in_graph":true})j";
  const std::string tied =
      R"j({"hf":"lm_head.weight","tf":"","shape":["v","h"],"sizes":[7,3],"holes":{},"steps":[],"dtype":"keep",)j"
      R"j("trainable":true,"in_graph":true,"tied_to":"embed.weight","optional":true})j";
  const std::string ignored =
      R"j({"hf":"inv_freq","tf":"","shape":["n"],"sizes":[2],"holes":{},"steps":[],"dtype":"keep",)j"
      R"j("trainable":false,"in_graph":false,"ignore":"derived buffer"})j";
  const auto table = [](const std::string& rows) {
    return R"j({"version":1,"architecture":"llama","rows":[)j" + rows + "]}";
  };
  return {table(row), table(experts), table(embedding + "," + tied), table(ignored + "," + row),
          R"({"version":2,"rows":[{"hf":1}]})"};
}

}  // namespace tandem::fuzz
