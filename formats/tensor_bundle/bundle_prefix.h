#pragma once
// Which file is the checkpoint? A bundle is a prefix, not a file; people pass any of its files, or the
// folder.

#include <string>

#include "base/file.h"

namespace tandem {

/// The prefix meant by: a prefix; PREFIX.index; PREFIX.data-00000-of-00001; a folder with a `checkpoint`
/// state file (whose path is looked for inside that folder, also when it is an absolute path from another
/// machine); a folder with one .index file. Errors: C26 no index beside data files; C24 nothing there, or
/// several bundles and no state file; X1 a state file that points outside.
Result<std::string> bundle_prefix(const FileSystem& files, const std::string& path);

}  // namespace tandem
