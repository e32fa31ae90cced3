#include "engines/tf/staged_model.h"

#include <algorithm>

#include "base/dtype.h"

namespace tandem {
namespace {

constexpr const char *kIn = "hidden_states", *kOut = "hidden_states_out";

bool is_of_one_layer(std::string_view key) { return key.starts_with("layer_"); }

std::string signature_of(const std::string& entry) { return entry == "logits" ? "with_positions" : entry; }

class StagedModel : public ServedModel {
 public:
  StagedModel(const TfApi& api, StageManifest manifest, std::vector<std::unique_ptr<LoadedModel>> stages)
      : api_(api), manifest_(std::move(manifest)), stages_(std::move(stages)) {}

  Status join(StepKind steps) {
    std::vector<const Signatures*> all;
    for (const auto& stage : stages_) all.push_back(&stage->signatures());
    signatures_ = joined_signatures(all);
    for (size_t i = 0; i < stages_.size(); ++i) {
      const auto found = all[i]->find("with_positions");
      if (found == all[i]->end() || found->second.inputs.contains(kIn) != (i > 0) ||
          found->second.outputs.contains(kOut) != (i + 1 < stages_.size()))
        return corrupt("stages_c5", "{} does not take or give hidden states as {} says", manifest_.folder(i),
                       kStagesFile);
    }
    const auto run = [this](const std::string& key, const auto& inputs) { return run_chain(key, inputs); };
    if (steps == StepKind::growing) steps_ = growing_steps(api_, signatures_, run);
    if (steps == StepKind::compiled) steps_ = compiled_steps(api_, signatures_, run);
    if (steps == StepKind::compiled && !steps_)
      return unsupported("tf_c15", "the stages have no signatures prefill_xla and decode_xla");
    if (steps == StepKind::compiled)
      for (const auto& stage : stages_) TANDEM_CHECK(stage->count_compilations());
    return {};
  }

  uint64_t compilations() const override {
    uint64_t count = 0;
    for (const auto& stage : stages_) count += stage->compilations();
    return count;
  }

  EngineInfo info() const override {
    EngineInfo info = stages_.front()->info();
    info["stages"] = std::to_string(stages_.size());
    return info;
  }

  Result<HostTensors> run(const std::string& entry, const HostTensors& inputs,
                          const std::vector<std::string>& outputs) override {
    TANDEM_TRY(const Signature* signature, signature_for(signatures_, entry));
    if (is_of_one_layer(entry)) return stage_of(entry).run(entry, inputs, outputs);
    TANDEM_CHECK(check_inputs(*signature, inputs));
    for (const std::string& output : outputs)
      if (!signature->outputs.contains(output))
        return invalid("tf_c6", "entry '{}' has no output '{}'", entry, output);
    HostTensors found, hidden;
    for (size_t i = 0; i < stages_.size(); ++i) {
      const Signature& own = stages_[i]->signatures().at(signature_of(entry));
      HostTensors given = std::move(hidden);
      hidden.clear();
      for (const auto& [name, argument] : own.inputs)
        if (name != kIn) given[name] = inputs.at(name);
      std::vector<std::string> wanted;
      for (const auto& [name, argument] : own.outputs)
        if (name == kOut || is_wanted(outputs, name)) wanted.push_back(name);
      if (wanted.empty()) break;
      TANDEM_TRY(HostTensors made, stages_[i]->run(entry, given, wanted));
      if (auto out = made.extract(kOut)) hidden[kIn] = std::move(out.mapped());
      found.merge(made);
    }
    return found;
  }

  Result<HostTensors> last_logits(const HostTensors& inputs) override {
    if (!steps_ || !positions_follow_mask(inputs)) return ServedModel::last_logits(inputs);
    return last_logits_by(*steps_, seen_, inputs);
  }

  Result<HostTensors> values(const std::string& entry, Scope scope, const HostTensors& given,
                             const std::vector<std::string>& outputs) override {
    if (is_of_one_layer(entry)) {
      TANDEM_TRY(const Signature* signature, signature_for(signatures_, entry));
      (void)signature;
      return stage_of(entry).values(entry, scope, given, outputs);
    }
    TANDEM_TRY(std::vector<PartRequest> requests, requests_for(signature_of(entry), scope, given, outputs));
    HostTensors found;
    HostTensor hidden;
    for (size_t i = 0; i < stages_.size(); ++i) {
      if (requests[i].outputs.empty()) continue;
      HostTensors own = given_to(i, given);
      if (i > 0 && !own.contains(kIn)) own[kIn] = std::move(hidden);
      TANDEM_TRY(HostTensors made, stages_[i]->values_of(requests[i], own));
      for (auto& [name, tensor] : made) {
        if (name != kOut) {
          found[name] = std::move(tensor);
          continue;
        }
        const std::string& whole = manifest_.stages[i + 1].hidden_states;
        if (std::ranges::count(outputs, whole) > 0) found[whole] = tensor;
        hidden = std::move(tensor);
      }
    }
    for (const std::string& name : outputs)
      if (!found.contains(name)) found[name] = given.at(name);
    return found;
  }

 private:
  LoadedModel& stage_of(const std::string& entry) {
    return **std::ranges::find_if(stages_,
                                  [&](const auto& stage) { return stage->signatures().contains(entry); });
  }

  /// A value of the whole contract under the name that it has in a stage.
  std::string name_in(size_t stage, const std::string& name) const {
    if (stage > 0 && name == manifest_.stages[stage].hidden_states) return kIn;
    if (stage + 1 < stages_.size() && name == manifest_.stages[stage + 1].hidden_states) return kOut;
    return name;
  }
  HostTensors given_to(size_t stage, const HostTensors& given) const {
    HostTensors own;
    for (const auto& [name, tensor] : given) own[name_in(stage, name)] = tensor;
    return own;
  }

  /// What each stage is asked for; nothing of those whose values nobody needs.
  Result<std::vector<PartRequest>> requests_for(const std::string& signature, Scope scope,
                                                const HostTensors& given,
                                                const std::vector<std::string>& outputs) {
    std::vector<PartRequest> requests(stages_.size());
    for (size_t i = 0; i < stages_.size(); ++i) {
      requests[i] = {signature, scope, {}, {}};
      for (const auto& [name, tensor] : given)
        requests[i].given[name_in(i, name)] = row(tensor.dtype).tensorflow;
    }
    for (const std::string& name : outputs) {
      if (given.contains(name)) continue;
      TANDEM_TRY(const size_t stage, stage_with(signature, name));
      requests[stage].outputs.push_back(name_in(stage, name));
    }
    for (size_t i = stages_.size(); i-- > 1;) {
      if (requests[i].outputs.empty() || requests[i].given.contains(kIn)) continue;
      requests[i].given[kIn] = stages_[i]->signatures().at("with_positions").inputs.at(kIn).dtype;
      TANDEM_TRY(const std::set<std::string> needed, stages_[i]->needs(requests[i]));
      if (needed.contains(kIn) && std::ranges::count(requests[i - 1].outputs, kOut) == 0)
        requests[i - 1].outputs.push_back(kOut);
    }
    return requests;
  }

  /// The first stage that computes a value; hidden states are made by the stage before the one they enter.
  Result<size_t> stage_with(const std::string& signature, const std::string& name) {
    for (size_t i = 0; i < stages_.size(); ++i) {
      TANDEM_TRY(const std::set<std::string> names, stages_[i]->value_names(signature));
      if (names.contains(name_in(i, name)) && name_in(i, name) != kIn) return i;
    }
    return invalid("tf_c11", "no value '{}' behind '{}'", name, signature);
  }

  /// A signature of all stages, one after the other.
  Result<TfTensors> run_chain(const std::string& key, const std::map<std::string, TF_Tensor*>& inputs) {
    TfTensors found;
    Owned<TF_Tensor> hidden(nullptr, api_.TF_DeleteTensor);
    for (const auto& stage : stages_) {
      std::map<std::string, TF_Tensor*> given;
      for (const auto& [name, argument] : stage->signatures().at(key).inputs)
        if (name == kIn)
          given[name] = hidden.get();
        else if (const auto input = inputs.find(name); input != inputs.end())
          given[name] = input->second;
      TANDEM_TRY(TfTensors made, stage->run_signature(key, given));
      if (auto out = made.extract(kOut)) hidden = std::move(out.mapped());
      found.merge(made);
    }
    return found;
  }

  const TfApi& api_;
  StageManifest manifest_;
  std::vector<std::unique_ptr<LoadedModel>> stages_;
  Signatures signatures_;
  std::unique_ptr<Steps> steps_;
  SeenRows seen_;  ///< by steps_
};

}  // namespace

Signatures joined_signatures(const std::vector<const Signatures*>& stages) {
  Signatures joined;
  for (const Signatures* stage : stages)
    for (const auto& [key, signature] : *stage) {
      const auto has_it = [&](const Signatures* other) { return other->contains(key); };
      if (!is_of_one_layer(key) && !std::ranges::all_of(stages, has_it)) continue;
      joined[key].inputs.insert(signature.inputs.begin(), signature.inputs.end());
      joined[key].outputs.insert(signature.outputs.begin(), signature.outputs.end());
      if (is_of_one_layer(key)) continue;
      joined[key].inputs.erase(kIn);
      joined[key].outputs.erase(kOut);
    }
  return joined;
}

Result<std::unique_ptr<ServedModel>> staged_model(const TfApi& api, const StageManifest& manifest,
                                                  std::vector<std::unique_ptr<LoadedModel>> stages,
                                                  StepKind steps) {
  auto model = std::make_unique<StagedModel>(api, manifest, std::move(stages));
  TANDEM_CHECK(model->join(steps));
  return std::unique_ptr<ServedModel>(std::move(model));
}

}  // namespace tandem
