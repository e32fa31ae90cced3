#include "text/pieces.h"

#include <algorithm>

#include "text/utf8.h"

namespace tandem::text {
namespace {

Characters characters_of(std::string_view text, uint32_t begin, const std::vector<Span>* from) {
  Characters characters;
  characters.reserve(text.size());
  for (uint32_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const uint32_t here = begin + at;
    characters.push_back({point.code, from ? (*from)[here] : Span{here, here + point.size}});
    at += point.size;
  }
  return characters;
}

/// Joins parts as the behavior says; what remains are pieces, but for matches that are removed.
void arrange(Behavior behavior, std::vector<Part>& parts) {
  if (behavior == Behavior::isolated || behavior == Behavior::removed) return;
  if (behavior == Behavior::merged_with_next) std::reverse(parts.begin(), parts.end());
  size_t kept = 0;
  bool previous = false;
  for (const Part part : parts) {
    const bool joins = behavior == Behavior::contiguous ? part.match == previous : part.match && !previous;
    previous = part.match;
    if (joins && kept > 0) {
      Span& last = parts[kept - 1].at;
      last = {std::min(last.begin, part.at.begin), std::max(last.end, part.at.end)};
    } else {
      parts[kept++] = part;
    }
  }
  parts.resize(kept);
  if (behavior == Behavior::merged_with_next) std::reverse(parts.begin(), parts.end());
}

}  // namespace

Pieces::Pieces(std::string_view original) : original_(original) {
  list.push_back({{0, uint32_t(original.size())}, 0, -1});
}

Span Pieces::origin_of(Span at) const {
  if (at.begin == at.end) return at;
  if (changed_) return {from_[at.begin].begin, from_[at.end - 1].end};
  while (at.begin > 0 && !starts_character(original_[at.begin])) --at.begin;
  while (at.end < original_.size() && !starts_character(original_[at.end])) ++at.end;
  return at;
}

Status Pieces::rewrite(const std::function<Status(Characters&, uint32_t)>& change) {
  std::string storage;
  std::vector<Span> from;
  storage.reserve(text().size());
  from.reserve(text().size());
  for (Piece& piece : list) {
    Characters characters = characters_of(text_of(piece), piece.at.begin, changed_ ? &from_ : nullptr);
    if (piece.added < 0) TANDEM_CHECK(change(characters, piece.origin));
    const auto begin = uint32_t(storage.size());
    for (const Character& character : characters) {
      append_utf8(storage, character.code);
      from.resize(storage.size(), character.from);
    }
    if (storage.size() > 2 * kMaxTextBytes)
      return invalid("tokenizer_c6", "a normalizer makes the text longer than {} bytes", 2 * kMaxTextBytes);
    piece.at = {begin, uint32_t(storage.size())};
  }
  storage_ = std::move(storage);
  from_ = std::move(from);
  changed_ = true;
  return {};
}

void parts_of(const std::vector<Span>& matches, size_t size, std::vector<Part>& parts) {
  parts.clear();
  uint32_t done = 0;
  for (const Span& match : matches) {
    if (done < match.begin) parts.push_back({{done, match.begin}, false});
    parts.push_back({match, true});
    done = match.end;
  }
  if (done < size) parts.push_back({{done, uint32_t(size)}, false});
}

Status split(Pieces& pieces, Behavior behavior,
             const std::function<Status(std::string_view, std::vector<Part>&)>& find) {
  std::vector<Piece> cut;
  cut.reserve(pieces.list.size() * 2);
  std::vector<Part> parts;
  for (const Piece& piece : pieces.list) {
    if (piece.added >= 0) {
      cut.push_back(piece);
      continue;
    }
    TANDEM_CHECK(find(pieces.text_of(piece), parts));
    arrange(behavior, parts);
    for (const Part& part : parts) {
      if (part.at.begin == part.at.end || (behavior == Behavior::removed && part.match)) continue;
      const Span at{piece.at.begin + part.at.begin, piece.at.begin + part.at.end};
      cut.push_back({at, pieces.origin_of(at).begin, -1});
    }
  }
  pieces.list = std::move(cut);
  return {};
}

void split_characters(Pieces& pieces, Behavior behavior, bool (*holds)(char32_t)) {
  std::vector<Span> matches;
  (void)split(pieces, behavior, [&](std::string_view text, std::vector<Part>& parts) -> Status {
    matches.clear();
    for (uint32_t at = 0; at < text.size();) {
      const CodePoint point = code_point_at(text, at);
      if (holds(point.code)) matches.push_back({at, at + point.size});
      at += point.size;
    }
    parts_of(matches, text.size(), parts);
    return {};
  });
}

}  // namespace tandem::text
