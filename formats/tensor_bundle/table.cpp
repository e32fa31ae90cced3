#include "formats/tensor_bundle/table.h"

#include <snappy.h>

#include "base/hash.h"
#include "formats/tensor_bundle/coding.h"

namespace tandem {
namespace {

constexpr std::string_view kMagic = "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
constexpr size_t kFooterBytes = 48;
constexpr size_t kTrailerBytes = 5;  // compression type, masked CRC-32C
constexpr size_t kMaxBlockBytes = 64ull
                                  << 20;  // TensorFlow aims at 256 KiB; the rest is room for one large pair
constexpr size_t kMaxTableBytes = 1ull << 30;  // of all blocks together, uncompressed
constexpr size_t kBlockBytes = 262144;         // the writer's
constexpr int kDataRestartInterval = 16;

struct BlockHandle {
  uint64_t offset = 0;
  uint64_t size = 0;
};

std::optional<BlockHandle> take_handle(std::string_view& in) {
  const auto offset = take_varint(in);
  const auto size = offset ? take_varint(in) : std::nullopt;
  if (!size) return std::nullopt;
  return BlockHandle{*offset, *size};
}

uint32_t masked_crc(std::string_view bytes) { return mask_crc(crc32c(0, as_bytes(bytes))); }

/// A block's bytes, checked and uncompressed.
Result<std::string> read_block(std::string_view file, BlockHandle handle) {
  const uint64_t room = file.size() - kFooterBytes;
  if (handle.offset > room || handle.size > room - handle.offset ||
      room - handle.offset - handle.size < kTrailerBytes)
    return corrupt("T4", "a block of {} bytes at {} does not fit before the footer at {}", handle.size,
                   handle.offset, room);
  const std::string_view stored = file.substr(handle.offset, handle.size + 1);
  std::string_view trailer = file.substr(handle.offset + handle.size + 1, 4);
  const uint32_t expected = *take_fixed32(trailer);
  if (const uint32_t found = masked_crc(stored); found != expected)
    return corrupt("T4", "block checksum is {:08x}, its bytes give {:08x}", expected, found);
  const std::string_view bytes = stored.substr(0, handle.size);
  const int type = stored.back();
  if (type == 0) return std::string(bytes);
  if (type != 1) return corrupt("T4", "block compression type is {}, expected 0 (none) or 1 (snappy)", type);
  size_t length = 0;
  if (!snappy::GetUncompressedLength(bytes.data(), bytes.size(), &length))
    return corrupt("T4", "snappy block without a length");
  if (length > kMaxBlockBytes)
    return corrupt("T4", "snappy block claims {} bytes, the limit is {}", length, kMaxBlockBytes);
  std::string plain;
  if (!snappy::Uncompress(bytes.data(), bytes.size(), &plain))
    return corrupt("T4", "snappy block is damaged");
  return plain;
}

/// Appends a block's entries. `budget` is what the table may still hold: shared key bytes let a small block
/// claim large keys.
Status parse_block(std::string_view block, TableEntries& entries, uint64_t& budget) {
  if (block.size() < 4) return corrupt("T4", "block of {} bytes has no restart count", block.size());
  std::string_view tail = block.substr(block.size() - 4);
  const uint64_t restart_count = *take_fixed32(tail);
  if (restart_count == 0 || restart_count > (block.size() - 4) / 4)
    return corrupt("T4", "block of {} bytes claims {} restart points", block.size(), restart_count);
  const size_t end = block.size() - 4 - 4 * restart_count;
  std::string_view restarts = block.substr(end, 4 * restart_count);
  std::string_view rest = block.substr(0, end);
  std::string key;
  std::optional<uint32_t> restart = take_fixed32(restarts);
  if (*restart != 0) return corrupt("T4", "first restart point is {}, expected 0", *restart);
  while (!rest.empty()) {
    const size_t at = end - rest.size();
    const auto shared = take_varint(rest);
    const auto unshared = shared ? take_varint(rest) : std::nullopt;
    const auto value_size = unshared ? take_varint(rest) : std::nullopt;
    const auto key_tail = value_size ? take_bytes(rest, *unshared) : std::nullopt;
    const auto value = key_tail ? take_bytes(rest, *value_size) : std::nullopt;
    if (!value) return corrupt("T4", "entry at {} of a block runs past its end", at);
    const bool is_restart = restart && *restart == at;
    if (is_restart) restart = take_fixed32(restarts);
    if (*shared > (is_restart ? 0 : key.size()))
      return corrupt("T4", "entry at {} of a block shares {} bytes with a key of {}", at, *shared,
                     is_restart ? 0 : key.size());
    const uint64_t bytes = *shared + *unshared + *value_size;  // each at most a block's size
    if (bytes > budget) return corrupt("T4", "the table holds more than {} bytes", kMaxTableBytes);
    budget -= bytes;
    std::string next = key.substr(0, *shared).append(*key_tail);
    if (!entries.empty() && next <= entries.back().first)
      return corrupt("T4", "key '{}' follows '{}': keys must increase", printable(next),
                     printable(entries.back().first));
    key = next;
    entries.emplace_back(std::move(next), *value);
  }
  // One restart point may stand at the end of an empty block.
  if (restart && !(end == 0 && restart_count == 1))
    return corrupt("T4", "restart point {} is no entry's start", *restart);
  return {};
}

class BlockBuilder {
 public:
  explicit BlockBuilder(int restart_interval) : restart_interval_(restart_interval) {}

  void add(std::string_view key, std::string_view value) {
    size_t shared = 0;
    if (since_restart_ == restart_interval_) {
      restarts_.push_back(static_cast<uint32_t>(bytes_.size()));
      since_restart_ = 0;
    } else {
      while (shared < last_key_.size() && shared < key.size() && last_key_[shared] == key[shared]) ++shared;
    }
    put_varint(bytes_, shared);
    put_varint(bytes_, key.size() - shared);
    put_varint(bytes_, value.size());
    bytes_.append(key.substr(shared)).append(value);
    last_key_ = key;
    ++since_restart_;
  }

  bool empty() const { return bytes_.empty(); }
  size_t size() const { return bytes_.size() + 4 * restarts_.size() + 4; }

  /// Appends the block with its trailer to the file, and starts anew.
  BlockHandle flush(std::string& file) {
    for (const uint32_t restart : restarts_) put_fixed32(bytes_, restart);
    put_fixed32(bytes_, static_cast<uint32_t>(restarts_.size()));
    const BlockHandle handle{file.size(), bytes_.size()};
    bytes_.push_back(0);  // not compressed
    file += bytes_;
    put_fixed32(file, masked_crc(bytes_));
    *this = BlockBuilder(restart_interval_);
    return handle;
  }

 private:
  int restart_interval_;
  std::string bytes_;
  std::string last_key_;
  std::vector<uint32_t> restarts_{0};
  int since_restart_ = 0;
};

void put_handle(std::string& out, BlockHandle handle) {
  put_varint(out, handle.offset);
  put_varint(out, handle.size);
}

/// A short key that is at least `key` and less than `limit`.
std::string separator(const std::string& key, const std::string& limit) {
  size_t same = 0;
  while (same < key.size() && same < limit.size() && key[same] == limit[same]) ++same;
  if (same == key.size() || same == limit.size()) return key;
  const auto byte = static_cast<uint8_t>(key[same]);
  if (byte == 0xff || byte + 1 >= static_cast<uint8_t>(limit[same])) return key;
  return key.substr(0, same) + static_cast<char>(byte + 1);
}

/// A short key that is at least `key`.
std::string successor(const std::string& key) {
  for (size_t i = 0; i < key.size(); ++i)
    if (const auto byte = static_cast<uint8_t>(key[i]); byte != 0xff)
      return key.substr(0, i) + static_cast<char>(byte + 1);
  return key;
}

}  // namespace

Result<TableEntries> read_table(std::string_view file, const std::string& label) {
  if (file.size() < kFooterBytes)
    return corrupt("T4", "the file has {} bytes, a table's footer alone has {}", file.size(), kFooterBytes)
        .at(label);
  const size_t footer_at = file.size() - kFooterBytes;
  if (!file.ends_with(kMagic))
    return corrupt("T4", "the last 8 bytes are not the magic number of a leveldb table")
        .at(label, file.size() - kMagic.size())
        .because("not a checkpoint index, or cut short");
  std::string_view footer = file.substr(footer_at);
  const auto meta_handle = take_handle(footer);
  const auto index_handle = meta_handle ? take_handle(footer) : std::nullopt;
  if (!index_handle) return corrupt("T4", "the footer's block handles cannot be read").at(label, footer_at);

  uint64_t budget = kMaxTableBytes;
  const auto read = [&](BlockHandle handle, TableEntries& entries) -> Status {
    auto block = read_block(file, handle);
    if (!block.ok()) return std::move(block).error().at(label, handle.offset);
    auto parsed = parse_block(block.value(), entries, budget);
    if (!parsed.ok()) return std::move(parsed).error().at(label, handle.offset);
    return {};
  };
  TableEntries meta, index, entries;
  TANDEM_CHECK(read(*meta_handle, meta));
  TANDEM_CHECK(read(*index_handle, index));
  const std::string* before = nullptr;  // the index key of the block before
  for (const auto& [key, value] : index) {
    std::string_view rest = value;
    const auto handle = take_handle(rest);
    if (!handle)
      return corrupt("T4", "index entry '{}' is no block handle", printable(key))
          .at(label, index_handle->offset);
    const size_t first = entries.size();
    TANDEM_CHECK(read(*handle, entries));
    const bool fits =
        entries.size() > first && entries.back().first <= key && (!before || entries[first].first > *before);
    if (!fits)
      return corrupt("T4", "index key '{}' does not fit its block's keys", printable(key))
          .at(label, handle->offset);
    before = &key;
  }
  return entries;
}

std::string write_table(const TableEntries& entries) {
  std::string file;
  BlockBuilder data(kDataRestartInterval), index(1);
  std::string last_key;
  const auto flush = [&](const std::string& index_key) {
    std::string handle;
    put_handle(handle, data.flush(file));
    index.add(index_key, handle);
  };
  for (const auto& [key, value] : entries) {
    assert(last_key < key || &key == &entries.front().first);
    const bool large = key.size() + value.size() >= 2 * kBlockBytes;
    if (!data.empty() && (large || data.size() >= kBlockBytes)) flush(separator(last_key, key));
    data.add(key, value);
    last_key = key;
  }
  if (!data.empty()) flush(successor(last_key));
  std::string footer;
  put_handle(footer, BlockBuilder(kDataRestartInterval).flush(file));  // meta-index, empty
  put_handle(footer, index.flush(file));
  footer.resize(kFooterBytes - kMagic.size());
  return file.append(footer).append(kMagic);
}

}  // namespace tandem
