#pragma once
// Reading config.json: every key is read by somebody or named in an error, and all problems come in one
// report.

#include <list>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"

namespace tandem {

/// Typed access to the keys of one JSON object. A key with value null counts as absent.
class ConfigReader {
 public:
  /// `label` stands before key names in messages ("rope_scaling."); empty for the top level.
  ConfigReader(const Json& object, std::string label);

  bool has(std::string_view key);             ///< present and not null; marks the key as read
  bool contains(std::string_view key) const;  ///< present, null included
  /// A whole number in [min, max]. Missing or wrong: a problem is noted and min is returned.
  uint64_t size(std::string_view key, uint64_t min, uint64_t max);
  uint64_t size_or(std::string_view key, uint64_t fallback, uint64_t min, uint64_t max);
  double number(std::string_view key);  ///< finite
  double number_or(std::string_view key, double fallback);
  bool boolean_or(std::string_view key, bool fallback);
  std::string text_or(std::string_view key, const std::string& fallback);
  std::vector<int64_t> ids(std::string_view key);  ///< one token id or a list of them; empty where absent
  const Json* object_or_null(std::string_view key);

  void mark_read(std::string_view key) { read_.insert(std::string(key)); }
  /// Notes a problem with a key; it is reported by finish().
  void problem(std::string_view key, const std::string& text);
  /// Keys that are present, not read, not harmless and not accepted.
  std::vector<std::string> unread(const std::set<std::string>& accepted) const;
  /// A reader for an object inside this one; it lives as long as this reader, and finish() reports it too.
  ConfigReader& nested(const Json& object, std::string label);
  /// All problems, those of nested readers and unread keys included, as one error (kind invalid, rule C1); ok
  /// if there are none.
  Status finish(const std::set<std::string>& accepted) const;

 private:
  const Json* find(std::string_view key);
  const Json& object_;
  std::string label_;
  std::set<std::string, std::less<>> read_;
  std::vector<std::string> problems_;
  std::list<ConfigReader> nested_;
};

/// A config key that changes nothing of what is computed, and why. The one list of them is in
/// harmless_keys.cpp.
struct HarmlessKey {
  std::string_view key;
  std::string_view reason;
};
bool is_harmless(std::string_view key);

/// Bounds that no published model comes near: they keep products of sizes far from overflow.
inline constexpr uint64_t kMaxWidth = 1 << 20;  ///< of hidden sizes and ranks
inline constexpr uint64_t kMaxVocab = 1 << 24;
inline constexpr uint64_t kMaxLayers = 4096;
inline constexpr uint64_t kMaxHeads = 1 << 14;
inline constexpr uint64_t kMaxExperts = 1 << 14;
inline constexpr uint64_t kMaxPositions = 1ull << 28;
/// Layers and experts may each be many, but not both: a small config must not ask for names without end.
inline constexpr uint64_t kMaxTensors = 1'000'000;

}  // namespace tandem
