// Writes a SavedModel with one variable, y = x * w, into the folder named on
// the command line, for saved_model_python_test.py.

#include <cstdio>
#include <cstring>

#include "formats/saved_model/testing.h"
#include "formats/tensor_bundle/tensor_bundle.h"

namespace tandem {
namespace {

Status write(const std::string& folder) {
  const FileSystem& files = real_files();
  TANDEM_CHECK(files.make_directories(folder));
  const SavedModelSpec spec = testing::minimal_spec();
  TANDEM_CHECK(write_saved_model(files, folder, spec));
  TANDEM_TRY(const auto bundle, TensorBundleWriter::create(files, join(folder, "variables/variables")));
  const std::vector<std::vector<float>> values{{2, 3}, {0.5}};
  for (size_t i = 0; i < values.size(); ++i) {
    const SavedVariable& variable = spec.variables[i];
    TANDEM_CHECK(bundle->add(value_key(variable.path), variable.dtype, variable.shape,
                             [&](uint64_t offset, std::span<std::byte> out) -> Status {
                               std::memcpy(out.data(), std::as_bytes(std::span(values[i])).data() + offset,
                                           out.size());
                               return {};
                             }));
  }
  TANDEM_CHECK(bundle->add_string(std::string(kObjectGraphKey), checkpoint_object_graph(spec.variables)));
  return bundle->finish();
}

}  // namespace
}  // namespace tandem

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const auto written = tandem::write(arguments[1]);
  if (!written.ok()) std::fprintf(stderr, "%s\n", written.error().message().c_str());
  return written.ok() ? 0 : 1;
}
