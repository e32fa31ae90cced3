#include "cli/answer_printer.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cli/command.h"

namespace tandem {
namespace {

constexpr std::string_view kDim = "\x1b[2m", kPlain = "\x1b[0m";

void put(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

/// Terminals take U+0080 to U+009F for commands as well.
std::string without_c1(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool c1 =
        text[i] == '\xc2' && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c1)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    else
      out += text[i];
  }
  return out;
}

/// As for_terminal, but tabs stay.
std::string harmless(std::string_view text) {
  std::string out;
  for (size_t tab = text.find('\t'); tab != text.npos; tab = text.find('\t')) {
    out += for_terminal(text.substr(0, tab)) + '\t';
    text.remove_prefix(tab + 1);
  }
  return without_c1(out + for_terminal(text));
}

}  // namespace

AnswerPrinter::AnswerPrinter()
    : terminal_(isatty(STDOUT_FILENO)), dims_(terminal_ && std::getenv("NO_COLOR") == nullptr) {}

void AnswerPrinter::show(const text::Part& part) {
  if (part.reasoning && !in_reasoning_) {
    put(dims_ ? kDim : "<think>\n");
    in_reasoning_ = true;
  }
  if (!part.reasoning) close_reasoning();
  write(part.text);
}

void AnswerPrinter::end() {
  close_reasoning();
  put("\n");
  std::fflush(stdout);
}

void AnswerPrinter::aside(std::string_view words) {
  if (!terminal_) return;
  if (dims_) put(kDim);
  write(words);
  if (dims_) put(kPlain);
  std::fflush(stdout);
}

void AnswerPrinter::write(std::string_view text) {
  put(terminal_ ? harmless(text) : std::string(text));
  std::fflush(stdout);
}

void AnswerPrinter::close_reasoning() {
  if (!in_reasoning_) return;
  put(dims_ ? kPlain : "\n</think>");
  put("\n\n");
  in_reasoning_ = false;
}

}  // namespace tandem
