#include "bench/prepare_bf16.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "convert/convert.h"
#include "convert/open_model.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// A folder for what is made on the way.
class Parts {
 public:
  explicit Parts(const std::string& out) : path_(out + ".parts") { fs::create_directories(path_, ignored_); }
  Parts(const Parts&) = delete;
  ~Parts() { fs::remove_all(path_, ignored_); }
  std::string operator/(const std::string& name) const { return join(path_, name); }

 private:
  std::string path_;
  std::error_code ignored_;  ///< who writes there says what is wrong
};

bool has_bf16_kernels(const TensorSource& tensors) {
  return std::ranges::all_of(tensors.tensors(), [](const TensorInfo& info) {
    return info.shape.size() < 2 || info.dtype == DType::bf16;
  });
}

Status converted(const std::string& from, const std::string& to, const ConvertOptions& options) {
  const auto report = convert(real_files(), from, to, options);
  return report.ok() ? Status() : Status(report.error());
}

}  // namespace

Status make_bf16_saved_model(const std::string& model, const std::string& out) {
  const Parts parts(out);
  TANDEM_TRY(const OpenedModel opened, open_model(real_files(), model, {}));
  std::string folder = model;
  ConvertOptions as_stored;
  as_stored.layout = WeightLayout::source;
  as_stored.matmul_precision = DType::bf16;
  as_stored.place = Place::copy;
  if (!has_bf16_kernels(opened.tensors())) {
    ConvertOptions rounded;
    rounded.dtype = DType::bf16;
    folder = parts / "folder";
    TANDEM_CHECK(converted(model, parts / "rounded.savedmodel", rounded));
    TANDEM_CHECK(converted(parts / "rounded.savedmodel", folder, {}));
    as_stored.place = Place::hard_link;
  }
  TANDEM_CHECK(converted(folder, parts / "out.savedmodel", as_stored));
  std::error_code failed;
  fs::rename(parts / "out.savedmodel", out, failed);
  if (failed) return io_error("rename to", out, failed.value());
  return {};
}

}  // namespace tandem
