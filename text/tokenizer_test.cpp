#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>

#include "base/base64.h"
#include "text/stream_decoder.h"
#include "text/testing.h"

namespace tandem::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr const char* kBytes =
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
constexpr const char* kSpaces = R"({"type":"WhitespaceSplit"})";
constexpr const char* kByteDecoder = R"({"type":"ByteLevel"})";

std::string error_of(const Sections& sections) {
  const auto tokenizer = parse(sections);
  return tokenizer.ok() ? "no error" : tokenizer.error().message();
}

Words pieces_of(const std::string& normalizer, const std::string& pre_tokenizer, std::string_view text,
                const std::vector<std::string>& tokens) {
  return encode({.model = word_piece(tokens), .normalizer = normalizer, .pre_tokenizer = pre_tokenizer}, text)
      .pieces;
}

TEST(Tokenizer, ByteLevelBpeMergesByRankAndKeepsOffsets) {
  const Encoding encoding = encode(
      {.model = byte_bpe({{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"Ġ", "hell"}}), .pre_tokenizer = kBytes},
      "hell hellé");
  EXPECT_THAT(encoding.pieces, ElementsAre("hell", "Ġhell", "Ã", "©"));
  EXPECT_THAT(encoding.offsets, ElementsAre(Span{0, 4}, Span{4, 9}, Span{9, 10}, Span{9, 10}));
}

TEST(Tokenizer, LongWordsMergeAsShortOnes) {
  const auto merges = byte_bpe({{"a", "b"}, {"a", "a"}, {"aa", "ab"}, {"b", "aa"}, {"aaab", "aaab"}});
  const Sections sections{.model = merges, .pre_tokenizer = kBytes};
  std::string text;
  for (int i = 0; i < 12; ++i) text += "aaab";  // 48 bytes: the long way
  EXPECT_EQ(encode(sections, text).pieces, Words(6, "aaabaaab"));
  EXPECT_EQ(encode(sections, text.substr(0, 32)).pieces, Words(4, "aaabaaab"));
}

TEST(Tokenizer, AMergeThatMakesAnEarlierOnePossibleIsFollowedAtOnce) {
  // Rank 0 needs what rank 1 makes: at the first "bc" made, "a bc" comes before the second "bc".
  const Sections sections{.model = byte_bpe({{"b", "c"}, {"a", "bc"}}), .pre_tokenizer = kBytes};
  EXPECT_EQ(encode(sections, "abcabc").pieces, Words(2, "abc"));
}

TEST(Tokenizer, IgnoreMergesTakesAWholeWord) {
  const std::string model = byte_bpe({{"a", "b"}, {"c", "d"}, {"ab", "cd"}}, R"(,"ignore_merges":true)");
  EXPECT_THAT(encode({.model = model, .pre_tokenizer = kBytes}, "abcd").pieces, ElementsAre("abcd"));
}

TEST(Tokenizer, ByteFallbackSpellsWhatIsNotInTheVocabulary) {
  Json vocabulary{{"<unk>", 0}, {"a", 1}, {"<0xC3>", 2}, {"<0xA9>", 3}};
  const std::string model = fmt::format(
      R"({{"type":"BPE","vocab":{},"merges":[],"unk_token":"<unk>","byte_fallback":true,"fuse_unk":true}})",
      vocabulary.dump());
  EXPECT_THAT(encode({.model = model}, "aé").ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(encode({.model = model}, "axya").ids, ElementsAre(1, 0, 1));  // fused
}

TEST(Tokenizer, WordPieceTakesTheLongestAndFailsAsAWhole) {
  EXPECT_EQ(pieces_of("null", kSpaces, "unaffable unx", {"un", "una", "##aff", "##able", "##ffable"}),
            (Words{"una", "##ffable", "[UNK]"}));
  EXPECT_EQ(pieces_of("null", kSpaces, "aaaaaaaaaaaaaaaaaaaaa", {"a", "##a"}),
            Words{"[UNK]"});  // 21 characters
}

TEST(Tokenizer, UnigramTakesTheBestSum) {
  const char* model =
      R"({"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1],["b",-1],["ab",-1.5],["abc",-9],["c",-1]]})";
  const Encoding encoding = encode({.model = model}, "abcXYa");
  EXPECT_THAT(encoding.pieces, ElementsAre("ab", "c", "XY", "a"));
  EXPECT_THAT(encoding.ids, ElementsAre(3, 5, 0, 1));
}

TEST(Tokenizer, UnigramWithoutAnUnknownTokenSaysWhatItLacks) {
  EXPECT_THAT(encode({.model = R"({"type":"Unigram","unk_id":null,"vocab":[["a",-1]]})"}, "ab").pieces[0],
              HasSubstr("tokenizer_c7: \"b\" is not"));
}

struct Normalized {
  const char* json;
  const char* text;
  const char* expected;
};
class Normalizers : public testing::TestWithParam<Normalized> {};
TEST_P(Normalizers, Change) {
  const Normalized& row = GetParam();
  // One token in two halves shows what the model saw: an added token is matched in the normalized text.
  const std::string added = fmt::format(
      R"([{{"id":1,"content":{},"single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false}}])",
      Json(row.expected).dump());
  const Sections sections{.model = word_piece({}), .normalizer = row.json, .added = added};
  EXPECT_THAT(encode(sections, row.text).ids, ElementsAre(1));
}
INSTANTIATE_TEST_SUITE_P(
    Each, Normalizers,
    testing::Values(
        Normalized{R"({"type":"NFC"})", "e\u0301", "é"}, Normalized{R"({"type":"NFD"})", "é", "e\u0301"},
        Normalized{R"({"type":"NFKC"})", "ﬁ", "fi"}, Normalized{R"({"type":"NFKD"})", "½", "1\u20442"},
        Normalized{R"({"type":"Lowercase"})", "ÀB", "àb"},
        Normalized{R"({"type":"StripAccents"})", "e\u0301", "e"},
        Normalized{R"({"type":"Strip","strip_left":true,"strip_right":true})", " a ", "a"},
        Normalized{R"({"type":"Replace","pattern":{"Regex":"[0-9]+"},"content":"#"})", "a12b", "a#b"},
        Normalized{R"({"type":"Replace","pattern":{"String":"."},"content":""})", "a.b", "ab"},
        Normalized{R"({"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"}]})", "é",
                   "e"}));

TEST(Tokenizer, PrependByteLevelAndBertNormalizers) {
  EXPECT_EQ(pieces_of(R"({"type":"Prepend","prepend":"_"})", "null", "a", {"_a"}), Words{"_a"});
  EXPECT_EQ(pieces_of(R"({"type":"ByteLevel"})", "null", "é", {"Ã©"}), Words{"Ã©"});
  const char* bert =
      R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true})";
  EXPECT_EQ(pieces_of(bert, kSpaces, "É\u0007中b", {"e", "中", "b"}), (Words{"e", "中", "b"}));
}

TEST(Tokenizer, PrecompiledMapsByItsTrie) {
  // The key "a" -> "X": unit 0 has base 1; at 1 ^ 'a' = 96 the label and a leaf; base 2 from there: 96 ^ 98.
  std::string bytes(4 + 4 * 128, '\0');
  const auto put = [&](size_t unit, uint32_t value) { std::memcpy(bytes.data() + 4 + 4 * unit, &value, 4); };
  const uint32_t size = 4 * 128;
  std::memcpy(bytes.data(), &size, 4);
  put(0, 1 << 10);
  put(96, 'a' | 0x100 | (96 ^ 2) << 10);
  put(2, 1u << 31 | 0);
  bytes += std::string("X\0", 2);
  const std::string map = to_base64(std::as_bytes(std::span(bytes)));
  const std::string json = fmt::format(R"({{"type":"Precompiled","precompiled_charsmap":"{}"}})", map);
  EXPECT_EQ(pieces_of(json, "null", "ab", {"Xb"}), Words{"Xb"});
  EXPECT_THAT(error_of({.model = word_piece({}),
                        .normalizer = R"({"type":"Precompiled","precompiled_charsmap":"/////w=="})"}),
              HasSubstr("tokenizer_c3: a character map's trie of 4294967295 bytes, 0 follow"));
}

struct Cut {
  const char* json;
  const char* text;
  Words expected;
};
class PreTokenizers : public testing::TestWithParam<Cut> {};
TEST_P(PreTokenizers, CutAndLoseNothingElse) {
  const Cut& row = GetParam();
  EXPECT_EQ(pieces_of("null", row.json, row.text, row.expected), row.expected);
}
#define SPLIT(behavior, invert) \
  R"({"type":"Split","pattern":{"Regex":"-+"},"behavior":")" behavior R"(","invert":)" invert "}"
INSTANTIATE_TEST_SUITE_P(
    Each, PreTokenizers,
    testing::Values(
        Cut{SPLIT("Isolated", "false"), "a--b-c", {"a", "--", "b", "-", "c"}},
        Cut{SPLIT("Removed", "false"), "a--b-c", {"a", "b", "c"}},
        Cut{SPLIT("Removed", "true"), "a--b-c", {"--", "-"}},
        Cut{SPLIT("MergedWithPrevious", "false"), "a--b-c", {"a--", "b-", "c"}},
        Cut{SPLIT("MergedWithNext", "false"), "a--b-c", {"a", "--b", "-c"}},
        Cut{R"({"type":"Split","pattern":{"String":"-"},"behavior":"Contiguous","invert":false})",
            "a--b",
            {"a", "--", "b"}},
        Cut{R"({"type":"Digits","individual_digits":true})", "a12", {"a", "1", "2"}},
        Cut{R"({"type":"Digits","individual_digits":false})", "a12b", {"a", "12", "b"}},
        Cut{R"({"type":"Whitespace"})", "a_1 $%b", {"a_1", "$%", "b"}},
        Cut{R"({"type":"WhitespaceSplit"})", "a,\u3000b", {"a,", "b"}},
        Cut{R"({"type":"BertPreTokenizer"})", "a, b", {"a", ",", "b"}},
        Cut{R"({"type":"Punctuation","behavior":"Isolated"})", "a.$", {"a", ".", "$"}},
        Cut{R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})",
            "a b",
            {"▁a", "▁b"}},
        Cut{R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":false})",
            "a b",
            {"a▁b"}},
        Cut{R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Digits","individual_digits":true}]})",
            "a1 2",
            {"a", "1", "2"}}));

TEST(Tokenizer, T10LiteralAndPatternAreToldApart) {
  const auto cut = [](const std::string& kind) {
    const std::string json =
        R"({"type":"Split","pattern":{")" + kind + R"(":"."},"behavior":"Isolated","invert":false})";
    return pieces_of("null", json, "ab.c", {"a", "b", "ab", ".", "c"});
  };
  EXPECT_EQ(cut("String"), (Words{"ab", ".", "c"}));
  EXPECT_EQ(cut("Regex"), (Words{"a", "b", ".", "c"}));
}

std::string isolated(const std::string& pattern) {
  return fmt::format(R"({{"type":"Split","pattern":{{"Regex":{}}},"behavior":"Isolated","invert":false}})",
                     Json(pattern).dump());
}

TEST(Tokenizer, T01EachDeepSeekGenerationHasItsOwnCuts) {
  const std::vector<std::string> tokens{"ab", " ab", "123", "1", "2", "3", "4", " "};
  const std::string llm = R"({"type":"Sequence","pretokenizers":[)" + isolated(R"([\r\n])") + "," +
                          isolated(R"(\s?\p{L}+)") + "," + isolated(R"(\s?\p{P}+)") + "," +
                          R"({"type":"Digits","individual_digits":true}]})";
  EXPECT_EQ(pieces_of("null", llm, "ab1234 ab", tokens), (Words{"ab", "1", "2", "3", "4", " ab"}));
  const std::string v3 = R"({"type":"Sequence","pretokenizers":[)" + isolated(R"(\p{N}{1,3})") + "," +
                         isolated(R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s+)") +
                         "]}";
  EXPECT_EQ(pieces_of("null", v3, "ab1234 ab", tokens), (Words{"ab", "123", "4", " ab"}));
}

std::string added(const std::string& content, const std::string& flag) {
  Json token{{"id", 1},         {"content", content},  {"single_word", false}, {"lstrip", false},
             {"rstrip", false}, {"normalized", false}, {"special", true}};
  if (!flag.empty()) token[flag] = true;
  return Json::array({token}).dump();
}

TEST(Tokenizer, AddedTokensTakeTheirSpaceAndStandAlone) {
  const auto pieces = [](const std::string& flag, std::string_view text) {
    return encode({.model = word_piece({"<m>", "a", "b", "##<m>"}),
                   .pre_tokenizer = kSpaces,
                   .added = added("<m>", flag)},
                  text)
        .pieces;
  };
  EXPECT_EQ(pieces("", "a <m> b"), (Words{"a", "<m>", "b"}));
  EXPECT_EQ(pieces("lstrip", "a  <m> b"), (Words{"a", "  <m>", "b"}));
  EXPECT_EQ(pieces("rstrip", "a <m> \n b"), (Words{"a", "<m> \n ", "b"}));
  EXPECT_EQ(pieces("single_word", "a<m> <m>"), (Words{"a", "##<m>", "<m>"}));
}

TEST(Tokenizer, PostProcessorsPutTokensAround) {
  const auto around = [](const std::string& json) {
    return encode({.model = word_piece({"[CLS]", "[SEP]", "a"}), .post_processor = json}, "a").pieces;
  };
  const Words expected{"[CLS]", "a", "[SEP]"};
  EXPECT_EQ(around(R"({"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]})"), expected);
  EXPECT_EQ(
      around(
          R"({"type":"RobertaProcessing","sep":["[SEP]",2],"cls":["[CLS]",1],"trim_offsets":true,"add_prefix_space":true})"),
      expected);
  const std::string pieces =
      R"([{"SpecialToken":{"id":"C","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"S","type_id":0}}])";
  const std::string json =
      R"({"type":"TemplateProcessing","single":)" + pieces +
      R"(,"pair":[],"special_tokens":{)"
      R"("C":{"id":"C","ids":[1],"tokens":["[CLS]"]},"S":{"id":"S","ids":[2],"tokens":["[SEP]"]}}})";
  EXPECT_EQ(around(json), expected);
  EXPECT_EQ(around(R"({"type":"Sequence","processors":[)" + json + "]}"), expected);
}

TEST(Tokenizer, ByteLevelPostProcessorTrimsOffsets) {
  const Encoding encoding =
      encode({.model = byte_bpe({{"Ġ", "a"}}),
              .pre_tokenizer = kBytes,
              .post_processor = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true})"},
             "b a");
  EXPECT_THAT(encoding.offsets, ElementsAre(Span{0, 1}, Span{2, 3}));
}

std::string decoded(const std::string& decoder, const std::vector<std::string>& tokens) {
  const auto tokenizer = parse({.model = word_piece(tokens), .decoder = decoder});
  if (!tokenizer.ok()) return tokenizer.error().message();
  std::vector<uint32_t> ids;
  for (const std::string& token : tokens) ids.push_back(*tokenizer.value().id_of(token));
  return tokenizer.value().decode(ids);
}

TEST(Tokenizer, Decoders) {
  EXPECT_EQ(decoded("null", {"a", "b"}), "a b");
  EXPECT_EQ(decoded(kByteDecoder, {"Ã", "©", "Ġx"}), "é x");
  EXPECT_EQ(decoded(R"({"type":"WordPiece","prefix":"##","cleanup":true})", {"do", "##ing", "it", "."}),
            "doing it.");
  EXPECT_EQ(decoded(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})",
                    {"▁a", "▁b"}),
            "a b");
  EXPECT_EQ(decoded(R"({"type":"ByteFallback"})", {"<0xC3>", "<0xA9>", "a", "<0xFF>"}), "éa\ufffd");
  const char* llama =
      R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
      R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})";
  EXPECT_EQ(decoded(llama, {"▁a", "▁b"}), "a b");
}

TEST(Tokenizer, WhatIsNotSupportedIsNamed) {
  EXPECT_THAT(error_of({.model = R"({"type":"WordLevel","vocab":{}})"}),
              HasSubstr("tokenizer_c2: model: type \"WordLevel\" is not supported"));
  EXPECT_THAT(error_of({.model = word_piece({}), .normalizer = R"({"type":"Nmt"})"}),
              HasSubstr("normalizer: type \"Nmt\""));
  EXPECT_THAT(error_of({.model = word_piece({}), .normalizer = R"({"type":"NFC","x":1})"}),
              HasSubstr("normalizer: NFC: \"x\" is not a key"));
  EXPECT_THAT(
      error_of({.model = word_piece({}),
                .pre_tokenizer = R"({"type":"Sequence","pretokenizers":[{"type":"UnicodeScripts"}]})"}),
      HasSubstr("pre_tokenizer: Sequence.pretokenizers[0]: type \"UnicodeScripts\""));
  EXPECT_THAT(error_of({.model = word_piece({}), .decoder = R"({"type":"CTC"})"}),
              HasSubstr("decoder: type \"CTC\""));
  EXPECT_THAT(error_of({.model = byte_bpe({}, R"(,"dropout":0.1)")}),
              HasSubstr("\"dropout\" is for training"));
}

TEST(Tokenizer, VocabularyAndMergesMustFit) {
  EXPECT_THAT(error_of({.model = R"({"type":"BPE","vocab":{"a":0,"b":0},"merges":[]})"}),
              HasSubstr("tokens \"a\" and \"b\" have the same id 0"));
  EXPECT_THAT(error_of({.model = R"({"type":"BPE","vocab":{"a":99999999},"merges":[]})"}),
              HasSubstr("at most 4194304"));
  EXPECT_THAT(error_of({.model = R"({"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]})"}),
              HasSubstr("merge 0 needs \"ab\""));
  EXPECT_THAT(
      error_of(
          {.model = word_piece({"<m>"}),
           .added =
               R"([{"id":5,"content":"<m>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}])"}),
      HasSubstr("has id 5, but 1 in the model's vocabulary"));
  EXPECT_THAT(
      error_of(
          {.model = word_piece({}),
           .added =
               R"([{"id":5,"content":"<m>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}])"}),
      HasSubstr("has id 5, expected the next free one, 1"));
}

TEST(Tokenizer, TruncationAndPaddingAreReported) {
  std::string json = tokenizer_json({.model = word_piece({"a"})});
  json.replace(json.find("\"truncation\":null"), 17,
               R"("truncation":{"max_length":128,"strategy":"LongestFirst","stride":0})");
  const auto tokenizer = Tokenizer::parse(json);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(tokenizer.value().not_applied().truncation, "to 128 tokens");
  EXPECT_FALSE(tokenizer.value().not_applied().padding);
}

Tokenizer bytes() {
  return parse({.model = byte_bpe({{"h", "e"}, {"Ġ", "Ġ"}, {"ä", "½"}, {"ä½", "ł"}, {"ð", "Ł"}}),
                .pre_tokenizer = kBytes,
                .decoder = kByteDecoder})
      .value();
}

TEST(Tokenizer, DecodingGivesBackEveryText) {
  const Tokenizer tokenizer = bytes();
  EncodeMemory memory;
  EXPECT_TRUE(rc::check([&](const std::string& raw) {
    const std::string text = valid_utf8(raw);
    const auto encoding = tokenizer.encode(raw, memory);
    RC_ASSERT(encoding.ok());
    RC_ASSERT(tokenizer.decode(encoding.value().ids) == text);
  }));
}

TEST(StreamDecoder, GivesTheSameTextInWholeCharacters) {
  const Tokenizer tokenizer = bytes();
  EXPECT_TRUE(rc::check([&](const std::vector<uint8_t>& ids) {
    StreamDecoder stream(tokenizer);
    std::string text;
    for (const uint8_t id : ids) {
      const std::string part = stream.step(id);
      RC_ASSERT(valid_utf8(part) == part);
      text += part;
    }
    text += stream.finish();
    RC_ASSERT(text == tokenizer.decode({ids.begin(), ids.end()}));
  }));
}

TEST(StreamDecoder, T09WaitsForTheEndOfACharacter) {
  const Tokenizer tokenizer = bytes();
  EncodeMemory memory;
  StreamDecoder stream(tokenizer);
  Words parts;
  for (const uint32_t id : tokenizer.encode("he😀", memory).value().ids) parts.push_back(stream.step(id));
  EXPECT_THAT(parts, ElementsAre("he", "", "", "😀"));
  StreamDecoder cut(tokenizer);
  EXPECT_EQ(cut.step(0xe4), "");
  EXPECT_EQ(cut.step(0xbd), "");
  EXPECT_EQ(cut.finish(), "\ufffd");
}

TEST(StreamDecoder, WordsThatDependOnTheirNeighbours) {
  const auto tokenizer = parse({.model = word_piece({"do", "##ing", "it", "."}),
                                .decoder = R"({"type":"WordPiece","prefix":"##","cleanup":true})"});
  StreamDecoder stream(tokenizer.value());
  Words parts;
  for (const uint32_t id : {1, 2, 3, 4}) parts.push_back(stream.step(id));
  EXPECT_THAT(parts, ElementsAre("do", "ing", " it", "."));
  EXPECT_EQ(stream.finish(), "");
}

TEST(Tokenizer, AHugeWordEndsInTime) {
  const Sections sections{.model = byte_bpe({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}),
                          .pre_tokenizer = kBytes};
  const auto tokenizer = parse(sections);
  EncodeMemory memory;
  const auto encoding = tokenizer.value().encode(std::string(1'000'000, 'a'), memory);
  ASSERT_TRUE(encoding.ok());
  EXPECT_EQ(encoding.value().ids.size(), 125'000);
}

}  // namespace
}  // namespace tandem::text
