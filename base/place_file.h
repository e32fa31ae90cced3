#pragma once
// A file under a second name, with or without bytes of its own.

#include <string>

#include "base/result.h"

namespace tandem {

enum class Place {
  hard_link,  ///< one file with two names: writing to one changes the other
  reflink,    ///< a file of its own that shares blocks until one is written to (btrfs, xfs)
  copy,       ///< a file of its own
};

/// Makes `to`, which must not exist, a name or a clone of the file `from`. Not for Place::copy. Errors: io;
/// the hint says where the disk cannot do it.
Status place_file(const std::string& from, const std::string& to, Place place);

}  // namespace tandem
