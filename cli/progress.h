#pragma once
// A line on stderr that says how far a long command is; nothing when stderr is no terminal.

#include <cstdint>
#include <string>

#include "base/result.h"

namespace tandem {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();  ///< wipes the line
  void show(uint64_t done, uint64_t total);

 private:
  std::string what_;
  bool terminal_;
  int percent_ = -1;
};

/// For work whose length nobody knows: one line, written over; an error once a signal came, so that the work
/// ends.
Status show_step(std::string_view step);
void clear_step();

}  // namespace tandem
