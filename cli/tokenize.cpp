// tandem tokenize: text to token ids and back, a line at a time.

#include <cstdio>

#include "cli/command.h"
#include "text/model_text.h"
#include "text/utf8.h"

namespace tandem {
namespace {

struct TokenizeOptions {
  std::string tokenizer;
  std::string lines;
  bool decode = false;
  bool explain = false;
  bool no_special_tokens = false;
  bool keep_special_tokens = false;
};

constexpr const char* kFooter =
    "Reads a JSON string a line and writes an object with \"ids\" a line; with --decode, reads such objects "
    "or "
    "bare lists\n"
    "of ids and writes strings. Ids, pieces and offsets (in characters) are those of the tokenizers "
    "library.\n"
    "\n"
    "Examples:\n"
    "  tandem tokenize --tokenizer ./model <<< '\"The capital of France is\"'\n"
    "  tandem tokenize --tokenizer ./model --jsonl prompts.jsonl > ids.jsonl\n"
    "  tandem tokenize --tokenizer ./model/tokenizer.json --decode --jsonl ids.jsonl\n"
    "  tandem tokenize --tokenizer ./model --explain <<< '\"naïve 12345\"'   which piece is which part of "
    "the "
    "text\n"
    "\n"
    "Bytes that are no UTF-8 are read as U+FFFD. Truncation and padding that a tokenizer.json asks for are "
    "not "
    "applied.\n"
    "A kind of normalizer, model or decoder that we lack is an error with its name (docs/tokenizer.md lists "
    "them).";

constexpr size_t kMaxLineBytes = size_t(2) << 30;

/// Lines of a file or of the standard input, one at a time.
class Lines {
 public:
  static Result<Lines> open(const std::string& path) {
    Lines lines;
    lines.name_ = path.empty() ? "standard input" : path;
    if (!path.empty()) {
      TANDEM_TRY(lines.file_, real_files().open(path));
    }
    return lines;
  }

  /// The next line without its end, or none. Errors: io; invalid for one above kMaxLineBytes.
  Result<std::optional<std::string>> next() {
    std::string line;
    while (true) {
      const size_t end = buffer_.find('\n', at_);
      line.append(buffer_, at_, end == buffer_.npos ? end : end - at_);
      if (end != buffer_.npos) {
        at_ = end + 1;
        return found(std::move(line));
      }
      if (line.size() > kMaxLineBytes)
        return invalid("", "line {} is longer than {} bytes", number_ + 1, kMaxLineBytes).at(name_);
      TANDEM_TRY(const bool more, fill());
      if (!more && line.empty()) return std::optional<std::string>{};
      if (!more) return found(std::move(line));
    }
  }
  /// "FILE line N", of the line that was read last.
  std::string place() const { return fmt::format("{} line {}", name_, number_); }

 private:
  Result<std::optional<std::string>> found(std::string line) {
    ++number_;
    return std::optional(std::move(line));
  }

  Result<bool> fill() {
    at_ = 0;
    buffer_.resize(size_t(1) << 20);
    size_t count = 0;
    if (file_) {
      count = std::min<uint64_t>(buffer_.size(), file_->size() - offset_);
      TANDEM_CHECK(file_->read(offset_, std::as_writable_bytes(std::span(buffer_.data(), count))));
    } else {
      count = std::fread(buffer_.data(), 1, buffer_.size(), stdin);
      if (count == 0 && std::ferror(stdin)) return io_error("read", name_, errno);
    }
    offset_ += count;
    buffer_.resize(count);
    return count > 0;
  }

  std::string name_;
  std::unique_ptr<ReadableFile> file_;
  uint64_t offset_ = 0, number_ = 0;
  std::string buffer_;
  size_t at_ = 0;
};

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string ids_line(const std::vector<uint32_t>& ids) {
  std::string line = "{\"ids\":[";
  for (size_t i = 0; i < ids.size(); ++i)
    line.append(i > 0 ? "," : "").append(fmt::format_int(ids[i]).c_str());
  return line + "]}";
}

Json explained(const text::Encoding& encoding) {
  Json offsets = Json::array();
  for (const text::Span& span : encoding.offsets) offsets.push_back({span.begin, span.end});
  return Json{{"ids", encoding.ids}, {"pieces", encoding.pieces}, {"offsets", std::move(offsets)}};
}

Error wrong_line(std::string_view expected, const std::string& place) {
  return invalid("", "expected {}", expected).at(place);
}

Result<std::string> encode_line(const text::Tokenizer& tokenizer, text::EncodeMemory& memory,
                                const TokenizeOptions& options, const std::string& line,
                                const std::string& place) {
  auto json = parse_json(text::valid_utf8(line), {.max_bytes = 4 * kMaxLineBytes});
  if (!json.ok()) return std::move(json).error().at(place);
  if (!json.value().is_string()) return wrong_line("a JSON string", place);
  auto encoding =
      tokenizer.encode(json.value().get_ref<const std::string&>(), memory,
                       {.add_special_tokens = !options.no_special_tokens, .details = options.explain});
  if (!encoding.ok()) return std::move(encoding).error().at(place);
  return options.explain ? dump(explained(encoding.value())) : ids_line(encoding.value().ids);
}

Result<std::string> decode_line(const text::Tokenizer& tokenizer, const TokenizeOptions& options,
                                const std::string& line, const std::string& place) {
  auto parsed = parse_json(line, {.max_bytes = kMaxLineBytes});
  if (!parsed.ok()) return std::move(parsed).error().at(place);
  const Json& json = parsed.value();
  const Json& list = json.is_object() && json.contains("ids") ? json["ids"] : json;
  const auto is_id = [](const Json& id) {
    return id.is_number_unsigned() && id.get<uint64_t>() <= UINT32_MAX;
  };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_id))
    return wrong_line("a list of ids, or an object with \"ids\"", place);
  return dump(Json(tokenizer.decode(list.get<std::vector<uint32_t>>(), !options.keep_special_tokens)));
}

void say_what_is_not_applied(const text::NotApplied& sections) {
  if (sections.truncation)
    fmt::print(stderr, "note: the tokenizer asks for truncation {}: not applied\n", *sections.truncation);
  if (sections.padding)
    fmt::print(stderr, "note: the tokenizer asks for padding {}: not applied\n",
               for_terminal(*sections.padding));
}

/// Where the class beside the file would cut texts otherwise.
Status say_what_the_class_is(const text::Tokenizer& tokenizer, const std::string& folder) {
  const std::string config = join(folder, "tokenizer_config.json");
  TANDEM_TRY(const PathKind kind, real_files().kind(config));
  if (kind != PathKind::file) return {};
  TANDEM_TRY(const std::string text, read_text(real_files(), config));
  const auto note = text::note_on_class(tokenizer, text);
  // Ids do not hang on it: a config that cannot be read is no reason to stop.
  if (!note.ok())
    fmt::print(stderr, "note: {}\n", for_terminal(note.error().message()));
  else if (!note.value().empty())
    fmt::print(stderr, "note: {}\n", for_terminal(note.value()));
  return {};
}

Result<int> tokenize(const TokenizeOptions& options, bool json) {
  TANDEM_TRY(const text::Tokenizer tokenizer, text::read_tokenizer(real_files(), options.tokenizer));
  TANDEM_TRY(Lines lines, Lines::open(options.lines));
  if (!json) {
    say_what_is_not_applied(tokenizer.not_applied());
    TANDEM_CHECK(say_what_the_class_is(tokenizer, options.tokenizer));
  }
  text::EncodeMemory memory;
  while (true) {
    TANDEM_TRY(const std::optional<std::string> line, lines.next());
    if (!line) return 0;
    if (line->empty()) continue;
    TANDEM_TRY(std::string out, options.decode
                                    ? decode_line(tokenizer, options, *line, lines.place())
                                    : encode_line(tokenizer, memory, options, *line, lines.place()));
    out += '\n';
    std::fwrite(out.data(), 1, out.size(), stdout);
  }
}

}  // namespace

void add_tokenize(CLI::App& app, Session& session) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command =
      add_command(app, session, "tokenize", "Text to token ids and back, a line at a time", kFooter);
  command->add_option("--tokenizer", options->tokenizer, "A tokenizer.json, or a folder that holds one")
      ->required();
  command->add_option("--jsonl", options->lines, "Read lines from a file (default: standard input)");
  auto* decode = command->add_flag("--decode", options->decode, "Ids to text");
  command->add_flag("--explain", options->explain, "Write pieces and offsets beside the ids")
      ->excludes(decode);
  command
      ->add_flag("--no-special-tokens", options->no_special_tokens,
                 "Leave out the tokens that the post-processor puts around a text")
      ->excludes(decode);
  command
      ->add_flag("--keep-special-tokens", options->keep_special_tokens,
                 "With --decode, write special tokens too")
      ->needs(decode);
  command->callback([options, &session] { session.outcome = tokenize(*options, session.json); });
}

}  // namespace tandem
