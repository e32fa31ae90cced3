#include "text/stream_decoder.h"

#include "text/decoder.h"
#include "text/utf8.h"

namespace tandem::text {

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

std::string StreamDecoder::step(uint32_t id) {
  if (skip_special_tokens_ && tokenizer_.is_special(id)) return {};
  return tokenizer_.decodes_bytes() ? step_bytes(id) : step_words(id);
}

std::string StreamDecoder::step_bytes(uint32_t id) {
  const auto token = tokenizer_.token_of(id);
  if (!token) return {};
  bytes_ += bytes_of_token(*token);
  const size_t whole = complete_prefix(bytes_);
  std::string text = valid_utf8(std::string_view(bytes_).substr(0, whole));
  bytes_.erase(0, whole);
  return text;
}

// Other decoders look at their neighbours, so the tokens that wait are decoded together with those that came
// just before, and only what is new is shown.
std::string StreamDecoder::step_words(uint32_t id) {
  ids_.push_back(id);
  const std::string text = tokenizer_.decode(ids_, skip_special_tokens_);
  const bool whole =
      text.size() > shown_text_.size() && text.starts_with(shown_text_) && !text.ends_with("\xef\xbf\xbd");
  if (!whole) return {};
  std::string added = text.substr(shown_text_.size());
  ids_.erase(ids_.begin(), ids_.begin() + std::ptrdiff_t(shown_));
  shown_ = ids_.size();
  shown_text_ = tokenizer_.decode(ids_, skip_special_tokens_);
  return added;
}

std::string StreamDecoder::finish() {
  std::string text = valid_utf8(bytes_);
  bytes_.clear();
  if (!ids_.empty()) {
    const std::string all = tokenizer_.decode(ids_, skip_special_tokens_);
    text += all.substr(std::min(all.size(), shown_text_.size()));
  }
  ids_.clear();
  shown_ = 0;
  shown_text_.clear();
  return text;
}

}  // namespace tandem::text
