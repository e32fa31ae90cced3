#pragma once
// Reads the keys of one JSON object of a tokenizer.json, and sees that none is left over.

#include <optional>
#include <set>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace tandem::text {

/// Errors of all calls: tokenizer_c1, with the place ("pre_tokenizer.pretokenizers[2]: ByteLevel") and the
/// key.
class Fields {
 public:
  /// `json` must outlive this.
  static Result<Fields> of(const Json& json, std::string place);

  Result<bool> boolean(const char* key, std::optional<bool> fallback = {});
  Result<std::string> string(const char* key, std::optional<std::string> fallback = {});
  Result<std::optional<std::string>> optional_string(const char* key);  ///< null or absent: none
  Result<uint64_t> number(const char* key, std::optional<uint64_t> fallback = {});
  Result<char32_t> character(const char* key);  ///< a string of one character
  /// A member of any type; null if it is absent or null.
  const Json* member(const char* key);
  Result<const Json*> required(const char* key);

  void ignore(const char* key) { read_.insert(key); }
  /// An error that names all keys that nobody read.
  Status all_read() const;
  /// An error at this place.
  Error wrong(std::string what) const;
  const std::string& place() const { return place_; }

 private:
  const Json* json_ = nullptr;
  std::string place_;
  std::set<std::string> read_;
};

}  // namespace tandem::text
