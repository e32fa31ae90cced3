#include "cli/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>

namespace tandem {

struct LineEditor::Terminal {
  std::string prompt;
  EditLine* editor = nullptr;
  History* history = nullptr;
  bool cancelled = false;  ///< by Ctrl-C

  explicit Terminal(std::string words) : prompt(std::move(words)) {
    use_utf8();
    editor = el_init("tandem", stdin, stdout, stderr);
    history = history_init();
    HistEvent event;
    ::history(history, &event, H_SETSIZE, 500);
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_PROMPT, prompt_of);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_HIST, ::history, history);
    // While a line is edited Ctrl-C is a key, not a signal: it must reach neither us nor the workers.
    el_set(editor, EL_SETTY, "-d", "-isig", nullptr);
    el_set(editor, EL_ADDFN, "tandem-cancel", "Throw the line away", cancel);
    el_set(editor, EL_BIND, "^C", "tandem-cancel", nullptr);
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  }
  ~Terminal() {
    history_end(history);
    el_end(editor);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Letters beyond ASCII are edited whole, whatever the locale says.
  static void use_utf8() {
    std::setlocale(LC_CTYPE, "");
    if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
  }
  static Terminal& of(EditLine* editor) {
    void* data = nullptr;
    el_get(editor, EL_CLIENTDATA, &data);
    return *static_cast<Terminal*>(data);
  }
  static char* prompt_of(EditLine* editor) { return of(editor).prompt.data(); }
  static unsigned char cancel(EditLine* editor, int) {
    of(editor).cancelled = true;
    return CC_EOF;
  }
};

LineEditor::LineEditor(std::string prompt) {
  if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
    terminal_ = std::make_unique<Terminal>(std::move(prompt));
}

LineEditor::~LineEditor() = default;

Result<std::optional<std::string>> LineEditor::next() {
  if (!terminal_) return next_from_file();
  terminal_->cancelled = false;
  int count = 0;
  const char* typed = el_gets(terminal_->editor, &count);
  if (terminal_->cancelled) {
    el_reset(terminal_->editor);
    std::fputs("^C\n", stdout);
    return std::optional(std::string());
  }
  if (typed == nullptr || count <= 0) return std::optional<std::string>();
  std::string line(typed, static_cast<size_t>(count));
  if (line.ends_with('\n')) line.pop_back();
  return std::optional(std::move(line));
}

Result<std::optional<std::string>> LineEditor::next_from_file() {
  std::string line;
  int byte = std::fgetc(stdin);
  if (byte == EOF && std::ferror(stdin)) return io_error("read", "standard input", errno);
  if (byte == EOF) return std::optional<std::string>();
  for (; byte != EOF && byte != '\n'; byte = std::fgetc(stdin)) {
    if (line.size() == kMaxLineBytes)
      return invalid("", "a line is longer than {} bytes", kMaxLineBytes).at("standard input");
    line += static_cast<char>(byte);
  }
  return std::optional(std::move(line));
}

void LineEditor::remember(const std::string& line) {
  if (!terminal_) return;
  HistEvent event;
  ::history(terminal_->history, &event, H_ENTER, line.c_str());
}

}  // namespace tandem
