#include "engines/tf/c_api.h"

#include <dlfcn.h>

namespace tandem {

Result<TfApi> open_tensorflow(const std::string& package_folder) {
  const std::string path = package_folder + "/libtensorflow_cc.so.2";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return unavailable("tf_c1", "TensorFlow cannot be loaded: {}", dlerror())
        .because("`make venv` installs it");
  TfApi api;
  std::string absent;
#define TANDEM_TF_BIND(result, name, parameters)                            \
  api.name = reinterpret_cast<result(*) parameters>(dlsym(library, #name)); \
  if (api.name == nullptr) absent += " " #name;
  TANDEM_TF_FUNCTIONS(TANDEM_TF_BIND)
#undef TANDEM_TF_BIND
  if (!absent.empty())
    return unavailable("tf_c1", "{} lacks{}", path, absent).because("2.12 to 2.21 are known to work");
  return api;
}

}  // namespace tandem
