#pragma once
// The decoders of a tokenizer.json: the words of tokens to text.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace tandem::text {

using Words = std::vector<std::string>;
using Decoder = std::function<void(Words&)>;  ///< what is left at the end is joined

struct MadeDecoder {
  Decoder decode;
  bool bytes_alone = false;  ///< it is ByteLevel: a text is its tokens' bytes, one after the other
};

/// The bytes of one token as ByteLevel decodes it: those that it spells, or its own.
std::string bytes_of_token(std::string_view token);

/// Errors: as make_normalizer.
Result<MadeDecoder> make_decoder(const Json& json, const std::string& place);
std::vector<std::string_view> decoder_types();

}  // namespace tandem::text
