#include <cstdlib>

#include "fuzz/fuzz.h"
#include "text/stream_decoder.h"
#include "text/testing.h"

namespace tandem::fuzz {
namespace {

using text::byte_bpe;
using text::Sections;
using text::tokenizer_json;
using text::word_piece;

/// What a tokenizer is tried with: the bytes of its own file, and a few hard ones.
std::vector<std::string> texts_for(std::string_view json) {
  return {std::string(json.substr(0, 2000)), "", " a  b\n\n 123 \xff\xe4\xbd",
          "e\xcc\x81\xf0\x9f\x91\xa9\xe2\x80\x8d <m> <s>", std::string(300, 'a')};
}

}  // namespace

void fuzz_one(std::span<const std::byte> bytes) {
  const std::string_view json(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto tokenizer = text::Tokenizer::parse(json);
  if (!tokenizer.ok()) return;
  text::EncodeMemory memory;
  for (const std::string& text : texts_for(json)) {
    const auto encoding =
        tokenizer.value().encode(text, memory, {.add_special_tokens = true, .details = true});
    if (!encoding.ok()) continue;
    const text::Encoding& got = encoding.value();
    if (got.pieces.size() != got.ids.size() || got.offsets.size() != got.ids.size()) std::abort();
    (void)tokenizer.value().decode(got.ids);
    text::StreamDecoder stream(tokenizer.value());
    for (const uint32_t id : got.ids) (void)stream.step(id);
    (void)stream.finish();
  }
}

std::vector<std::string> seeds() {
  const std::string bytes =
      R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})";
  const std::string split = R"j({"type":"Split","pattern":{"Regex":"\\p{N}{1,3}| ?\\p{L}+|\\s+(?!\\S)"},)j"
                            R"j("behavior":"MergedWithNext","invert":false})j";
  const std::string added =
      R"([{"id":1,"content":"<m>","single_word":true,"lstrip":true,"rstrip":true,"normalized":true,"special":true}])";
  const std::string metaspace =
      R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true})";
  const std::string unigram =
      R"({"type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[["<unk>",0],["<m>",-1],["▁a",-1.5],["<0x61>",-2]]})";
  return {
      tokenizer_json({.model = byte_bpe({{"Ġ", "a"}, {"a", "a"}, {"aa", "aa"}}),
                      .pre_tokenizer = bytes,
                      .post_processor = bytes,
                      .decoder = bytes}),
      tokenizer_json(
          {.model = byte_bpe({{"1", "2"}}, R"(,"ignore_merges":true)"),
           .normalizer =
               R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Replace","pattern":{"Regex":" +"},"content":"_"}]})",
           .pre_tokenizer = R"({"type":"Sequence","pretokenizers":[)" + split + "," + bytes + "]}"}),
      tokenizer_json(
          {.model = word_piece({"<m>", "a", "##a", "e"}),
           .normalizer =
               R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true})",
           .pre_tokenizer = R"({"type":"BertPreTokenizer"})",
           .post_processor = R"({"type":"BertProcessing","sep":["e",4],"cls":["a",2]})",
           .decoder = R"({"type":"WordPiece","prefix":"##","cleanup":true})",
           .added = added}),
      tokenizer_json(
          {.model = unigram,
           .normalizer = R"({"type":"Precompiled","precompiled_charsmap":"BAAAAAAEAABYAA=="})",
           .pre_tokenizer = metaspace,
           .decoder =
               R"({"type":"Sequence","decoders":[)" + metaspace +
               R"(,{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":1}]})",
           .added = added}),
      tokenizer_json(
          {.model =
               R"({"type":"BPE","vocab":{"<unk>":0,"a</w>":1,"##b":2},"merges":[],"unk_token":"<unk>","continuing_subword_prefix":"##","end_of_word_suffix":"</w>"})"}),
  };
}

}  // namespace tandem::fuzz
