#pragma once
// Numbers as leveldb's files spell them. Readers take from the front of a view, which shrinks; nothing when
// it is too short.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

void put_varint(std::string& out,
                uint64_t value);  ///< 7 bits a byte, low bits first, high bit set on all but the last
void put_fixed32(std::string& out, uint32_t value);  ///< little-endian
void put_fixed64(std::string& out, uint64_t value);
std::optional<uint64_t> take_varint(std::string_view& in);
std::optional<uint32_t> take_fixed32(std::string_view& in);
std::optional<std::string_view> take_bytes(std::string_view& in, uint64_t count);

/// A key for a message: bytes that are not printable ASCII as \xNN, long keys cut.
std::string printable(std::string_view key);

}  // namespace tandem
