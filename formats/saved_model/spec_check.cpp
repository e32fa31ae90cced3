#include "formats/saved_model/spec_check.h"

#include <algorithm>
#include <array>
#include <set>

#include "formats/saved_model/node_builder.h"

namespace tandem {
namespace {

bool is_sorted_by_name(const std::vector<TensorSpec>& specs) {
  return std::adjacent_find(specs.begin(), specs.end(), [](const TensorSpec& a, const TensorSpec& b) {
           return a.name >= b.name;
         }) == specs.end();
}

Status check_variables(const SavedModelSpec& spec) {
  std::set<std::string_view> paths;
  for (const SavedVariable& variable : spec.variables)
    if (variable.path.empty() || !paths.insert(variable.path).second)
      return invalid("saved_model_c2", "two variables at '{}'", variable.path);
  for (const std::string_view path : paths)
    for (size_t slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1))
      if (paths.contains(path.substr(0, slash)))
        return invalid("saved_model_c2", "variable '{}' lies inside the variable '{}'", path,
                       path.substr(0, slash));
  return {};
}

/// The root's attributes: components of paths, methods, assets, and those that
/// every model has.
Status check_root_names(const SavedModelSpec& spec) {
  std::set<std::string> components;
  for (const SavedVariable& variable : spec.variables)
    components.insert(variable.path.substr(0, variable.path.find('/')));
  std::set<std::string> names = components;
  const auto add = [&](const std::string& name, std::string_view rule) -> Status {
    if (!names.insert(name).second)
      return invalid(std::string(rule), "the root has two attributes named '{}'", name);
    return {};
  };
  for (const char* fixed : {"variables", "trainable_variables", "signatures"})
    TANDEM_CHECK(add(fixed, "saved_model_c2"));
  for (const auto& [name, method] : spec.methods) TANDEM_CHECK(add(name, "saved_model_c2"));
  for (const SavedAsset& asset : spec.assets)
    TANDEM_CHECK(add(asset_attribute(asset.name), "saved_model_c6"));
  return {};
}

Status check_arguments(const SavedFunction& function, const tensorflow::OpDef& signature,
                       const SavedModelSpec& spec) {
  const auto mismatch = [&](std::string_view what) {
    return invalid("saved_model_c4", "function {}: its {} are not those declared", function.function, what);
  };
  if (static_cast<size_t>(signature.input_arg_size()) != function.inputs.size() + function.captures.size())
    return mismatch("arguments");
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const auto& argument = signature.input_arg(static_cast<int>(i));
    if (argument.name() != function.inputs[i].name ||
        argument.type() != to_tensorflow(function.inputs[i].dtype))
      return mismatch("arguments");
  }
  for (size_t i = 0; i < function.captures.size(); ++i) {
    if (function.captures[i] >= spec.variables.size())
      return invalid("saved_model_c3", "function {}: capture {} of {} variables", function.function,
                     function.captures[i], spec.variables.size());
    if (signature.input_arg(static_cast<int>(function.inputs.size() + i)).type() != tensorflow::DT_RESOURCE)
      return mismatch("captures");
  }
  if (static_cast<size_t>(signature.output_arg_size()) != function.outputs.size()) return mismatch("outputs");
  for (size_t i = 0; i < function.outputs.size(); ++i) {
    const auto& output = signature.output_arg(static_cast<int>(i));
    if (output.name() != function.outputs[i].name ||
        output.type() != to_tensorflow(function.outputs[i].dtype))
      return mismatch("outputs");
  }
  return {};
}

Status check_functions(const SavedModelSpec& spec) {
  std::map<std::string_view, const tensorflow::OpDef*> library;
  for (const auto& function : spec.library) library[function.signature().name()] = &function.signature();
  for (const auto* functions : {&spec.signatures, &spec.methods}) {
    for (const auto& [key, function] : *functions) {
      if (!is_sorted_by_name(function.inputs) || !is_sorted_by_name(function.outputs))
        return invalid("saved_model_c1",
                       "{}: inputs and outputs must be sorted by name, each "
                       "name once",
                       key)
            .because("Python binds tensors to names in sorted order");
      const auto found = library.find(function.function);
      if (found == library.end())
        return invalid("saved_model_c4", "{}: no function '{}' in the library", key, function.function);
      TANDEM_CHECK(check_arguments(function, *found->second, spec));
    }
  }
  return {};
}

Status check_assets(const SavedModelSpec& spec) {
  for (const SavedAsset& asset : spec.assets) {
    const bool plain = !asset.name.empty() && asset.name.size() <= 255 && asset.name[0] != '.' &&
                       asset.name.find_first_of(std::string_view("/\\:\0", 4)) == std::string::npos;
    if (!plain) return invalid("saved_model_c6", "asset '{}' is not a plain file name", asset.name);
  }
  return {};
}

}  // namespace

std::string asset_attribute(std::string_view file_name) {
  std::string name;
  for (const char c : file_name) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name.push_back(word ? c : '_');
  }
  return name;
}

Status check(const SavedModelSpec& spec) {
  TANDEM_CHECK(check_variables(spec));
  TANDEM_CHECK(check_functions(spec));
  TANDEM_CHECK(check_assets(spec));
  return check_root_names(spec);
}

}  // namespace tandem
