#pragma once
// Lines that a person types.

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace tandem {

/// Reads lines from the standard input: at a terminal with editing and a history (libedit), elsewhere as they
/// come.
class LineEditor {
 public:
  explicit LineEditor(std::string prompt);
  ~LineEditor();
  /// The next line without its end; "" for one that Ctrl-C threw away; none at the end of the input. Errors:
  /// io; invalid for a line above kMaxLineBytes.
  Result<std::optional<std::string>> next();
  /// Adds a line to the history.
  void remember(const std::string& line);

  static constexpr size_t kMaxLineBytes = size_t(1) << 20;

 private:
  struct Terminal;
  Result<std::optional<std::string>> next_from_file();
  std::unique_ptr<Terminal> terminal_;  ///< null where the input is none
};

}  // namespace tandem
