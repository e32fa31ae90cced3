#include "convert/named_tensors.h"

namespace tandem {
namespace {

/// What stands before the rules' names: nothing, as a rule.
std::string prefix_of(const TensorSource& bundle, const std::vector<TensorPlan>& plans) {
  for (const TensorPlan& plan : plans) {
    if (bundle.find(plan.tf)) return "";
    for (const TensorInfo& info : bundle.tensors())
      if (info.name.ends_with("/" + plan.tf)) return info.name.substr(0, info.name.size() - plan.tf.size());
  }
  return "";
}

void note_missing(const TensorPlan& plan, NamedTensors& named) {
  if (plan.row->in_graph && !plan.row->optional) named.wrong.push_back("missing: " + plan.tf);
  if (!plan.row->in_graph) named.carried.push_back({plan.tf, plan.hf.front(), plan.row->optional});
}

}  // namespace

NamedTensors find_named(const TensorSource& bundle, const RuleTable& rules) {
  NamedTensors named;
  const std::vector<TensorPlan> plans = expand(rules);
  const std::string prefix = prefix_of(bundle, plans);
  for (const TensorPlan& plan : plans) {
    const TensorInfo* found = bundle.find(prefix + plan.tf);
    if (!found)
      note_missing(plan, named);
    else if (found->shape != plan.tf_shape)
      named.wrong.push_back(fmt::format("wrong: {}: shape {}, expected {}", plan.tf, to_string(found->shape),
                                        to_string(plan.tf_shape)));
    else
      named.view.add({plan.tf, found->dtype, found->shape}, bundle, found->name);
  }
  named.view.sort();
  return named;
}

RuleTable rows_where(const RuleTable& table, bool in_graph) {
  RuleTable chosen{table.architecture, {}};
  for (const RuleRow& row : table.rows)
    if (row.in_graph == in_graph) chosen.rows.push_back(row);
  return chosen;
}

}  // namespace tandem
