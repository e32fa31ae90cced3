#pragma once
// Collects everything that is wrong, so that one report has it all.

#include <string>
#include <vector>

#include "base/result.h"

namespace tandem {

class Problems {
 public:
  template <class... Args>
  void add(std::string_view rule, fmt::format_string<Args...> format, Args&&... args) {
    if (lines_.empty()) rule_ = rule;
    if (++count_ <= kMost) lines_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  bool empty() const { return lines_.empty(); }
  /// Success, or an invalid Error: the first problem's rule, one problem a line.
  Status status() const {
    if (lines_.empty()) return {};
    std::string text = lines_[0];
    for (size_t i = 1; i < lines_.size(); i++) text += "\n" + lines_[i];
    if (count_ > kMost) text += fmt::format("\nand {} more", count_ - kMost);
    return Error{ErrorKind::invalid, rule_, std::move(text), {}, {}, {}};
  }

 private:
  static constexpr size_t kMost = 1000;  // lines; a hostile table must not make a message of its own size
  size_t count_ = 0;
  std::string rule_;
  std::vector<std::string> lines_;
};

}  // namespace tandem
