#pragma once
// A text on its way to tokens: changed by normalizers, cut into pieces, and each byte knows where it is from.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/span.h"
#include "text/unicode.h"

namespace tandem::text {

/// A part of a text that later steps treat by itself.
struct Piece {
  Span at;              ///< bytes of Pieces::text()
  uint32_t origin = 0;  ///< where it starts in the original, in bytes
  int64_t added = -1;   ///< id of the added token that it is, which nothing changes any more; or -1
};

class Pieces {
 public:
  /// One piece, the whole of valid UTF-8, which must outlive this. At most kMaxTextBytes.
  explicit Pieces(std::string_view original);
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  std::string_view text() const { return changed_ ? std::string_view(storage_) : original_; }
  std::string_view text_of(const Piece& piece) const {
    return text().substr(piece.at.begin, piece.at.end - piece.at.begin);
  }
  /// Where bytes [begin, end) of text() are from, in whole characters of the original.
  Span origin_of(Span at) const;

  /// Rewrites each piece that is no added token: `change` gets its characters, and the origin of its start.
  Status rewrite(const std::function<Status(Characters&, uint32_t origin)>& change);

  std::vector<Piece> list;

 private:
  std::string_view original_;
  bool changed_ = false;
  std::string storage_;
  std::vector<Span> from_;  ///< of each byte of storage_
};

constexpr size_t kMaxTextBytes = size_t(1) << 30;

/// What becomes of what a pattern matches.
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// A part between or on matches.
struct Part {
  Span at;  ///< bytes of the piece
  bool match = false;
};
/// The whole of a piece of `size` bytes as parts, from the places of its matches.
void parts_of(const std::vector<Span>& matches, size_t size, std::vector<Part>& parts);
/// Cuts each piece that is no added token. `find` fills in the parts of one; empty pieces are dropped.
Status split(Pieces& pieces, Behavior behavior,
             const std::function<Status(std::string_view, std::vector<Part>&)>& find);
/// The same, where each character that holds is a match.
void split_characters(Pieces& pieces, Behavior behavior, bool (*holds)(char32_t));

}  // namespace tandem::text
