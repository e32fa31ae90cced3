#include "bench/prepare.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <set>

#include "base/file.h"
#include "bench/contender.h"
#include "bench/prepare_bf16.h"
#include "engines/worker_process.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// A folder beside the one that it becomes; gone unless it does.
class Stage {
 public:
  explicit Stage(const std::string& target)
      : target_(target), path_(fmt::format("{}.tandem-part-{}", target, getpid())) {}
  Stage(const Stage&) = delete;
  ~Stage() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Status make() {
    std::error_code failed;
    fs::remove_all(path_, failed);
    if (!fs::create_directories(path_, failed)) return io_error("make a folder", path_, failed.value());
    return {};
  }
  Status keep() {
    std::error_code failed;
    fs::rename(path_, target_, failed);
    if (failed) return io_error("rename to", target_, failed.value());
    return {};
  }
  const std::string& path() const { return path_; }

 private:
  std::string target_, path_;
};

/// One row a file: several contenders may read one.
Result<std::vector<const ContenderRow*>> wanted(const std::vector<std::string>& names) {
  std::vector<const ContenderRow*> rows;
  std::set<std::string> files;
  const auto add = [&](const ContenderRow& row) {
    if (const std::string file = prepared_name(row); !file.empty() && files.insert(file).second)
      rows.push_back(&row);
  };
  for (const std::string& name : names) {
    TANDEM_TRY(const ContenderRow* row, contender_named(name));
    add(*row);
  }
  if (names.empty())
    for (const ContenderRow& row : contenders()) add(row);
  if (rows.empty()) return usage("bench_c8", "{} read nothing that is prepared", fmt::join(names, ", "));
  return rows;
}

Status make_one(const ContenderRow& row, const std::string& model, const std::string& out, double timeout_s) {
  if (row.input == ModelInput::bf16_saved_model) return make_bf16_saved_model(model, out);
  TANDEM_TRY(const WorkerCommand command, python_command(row.python, "bench_prepare.py"));
  TANDEM_TRY(const auto process, WorkerProcess::start(command));
  const Words words{{"op", "prepare"},
                    {"what", row.input == ModelInput::onnx ? "onnx" : "gguf"},
                    {"path", fs::absolute(model).string()},
                    {"out", fs::absolute(out).string()},
                    {"dtype", std::string(row.mode)}};
  TANDEM_TRY(const Message reply, process->call({words, {}}, timeout_s));
  return {};
}

}  // namespace

Result<PrepareReport> bench_prepare(const std::string& model, const std::string& out,
                                    const PrepareOptions& options) {
  TANDEM_TRY(const auto rows, wanted(options.contenders));
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(out, ignored)))
    return make_error(ErrorKind::exists, "bench_c8", "{} is there already; bench prepare makes a new folder",
                      out);
  Stage stage(out.substr(0, out.find_last_not_of('/') + 1));
  TANDEM_CHECK(stage.make());
  PrepareReport report;
  report.folder = out;
  std::optional<Error> first;
  for (const ContenderRow* row : rows) {
    const std::string name = prepared_name(*row), path = join(stage.path(), name);
    if (options.progress) {
      TANDEM_CHECK(options.progress("making " + name));
    }
    const auto begin = std::chrono::steady_clock::now();
    Status made = make_one(*row, model, path, options.timeout_s);
    if (made.ok()) {
      report.made[name] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      continue;
    }
    fs::remove_all(path, ignored);
    report.not_made[name] = made.error().message();
    if (!first) first = std::move(made).error();
  }
  if (options.progress) {
    TANDEM_CHECK(options.progress("renaming"));  // a signal ended the tools too
  }
  if (report.made.empty()) return *first;
  TANDEM_CHECK(stage.keep());
  return report;
}

Json to_json(const PrepareReport& report) {
  return Json{{"folder", report.folder}, {"made", report.made}, {"not_made", report.not_made}};
}

}  // namespace tandem
