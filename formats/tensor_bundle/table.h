#pragma once
// leveldb's sorted table, as TensorFlow writes it for a bundle's index. docs/formats/tensor_bundle.md has the
// grammar.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tandem {

using TableEntries =
    std::vector<std::pair<std::string, std::string>>;  ///< key and value, keys strictly increasing by bytes

/// Reads a whole table; every block's checksum, the order of keys and the restart points are checked. Blocks
/// may be plain or snappy. Errors: T4, with the byte offset in the file; `label` names the file.
Result<TableEntries> read_table(std::string_view file, const std::string& label);

/// The table's bytes, uncompressed, in blocks of about 256 KiB: the bytes that TensorFlow itself writes. Keys
/// must be in order.
std::string write_table(const TableEntries& entries);

}  // namespace tandem
