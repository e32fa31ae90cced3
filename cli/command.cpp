#include "cli/command.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/shape.h"
#include "base/signals.h"

namespace tandem {
namespace {

Json to_json(const Error& error) {
  Json json{{"kind", name(error.kind)}, {"exit_code", exit_code(error.kind)}, {"text", error.text}};
  if (!error.rule.empty()) json["rule"] = error.rule;
  if (!error.where.empty()) json["where"] = error.where;
  if (error.offset) json["offset"] = *error.offset;
  if (!error.hint.empty()) json["hint"] = error.hint;
  return json;
}

/// A Ctrl-C at a terminal reaches the workers too: how they died is not what is to be told.
Error told(const Error& error) {
  return interrupted() && error.rule == "engine_c2" ? unavailable("", "stopped by a signal") : error;
}

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

CLI::App* add_command(CLI::App& app, Session& session, const std::string& name, const std::string& what,
                      const std::string& footer) {
  CLI::App* command = app.add_subcommand(name, what);
  command->footer(footer);
  command->add_flag("--json", session.json, "Write the result (and errors, on stderr) as JSON");
  return command;
}

void add_limits(CLI::App& command, SafetensorsLimits& limits) {
  command
      .add_option("--max-header-bytes", limits.max_header_bytes,
                  "Largest safetensors header that is read (default 100000000)")
      ->check(whole_number());
  command.add_option("--max-tensors", limits.max_tensors, "Most tensors in one file (default 1000000)")
      ->check(whole_number());
}

void add_accepted_keys(CLI::App& command, std::vector<std::string>& keys) {
  command.add_option("--accept-key", keys, "A config key that nobody reads, accepted by name; repeatable")
      ->allow_extra_args(false);
}

CLI::Validator whole_number() {
  const auto check = [](std::string& text) -> std::string {
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
    if (!digits) return fmt::format("\"{}\" is no whole number from 0", text);
    uint64_t value = 0;  // larger ones would become the largest, without a word
    const bool fits = std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
    return fits ? "" : fmt::format("{} is above 2^64 - 1", text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator positive_number() {
  const auto check = [](std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool whole_text = !text.empty() && end == text.c_str() + text.size();
    return whole_text && std::isfinite(value) && value > 0 ? ""
                                                           : fmt::format("\"{}\" is no number above 0", text);
  };
  return CLI::Validator(check, "");
}

Result<uint64_t> bytes_named(const std::string& flag, std::string_view text) {
  constexpr std::pair<std::string_view, uint64_t> kUnits[] = {{"", 1},
                                                              {"B", 1},
                                                              {"KB", 1'000},
                                                              {"MB", 1'000'000},
                                                              {"GB", 1'000'000'000},
                                                              {"TB", 1'000'000'000'000},
                                                              {"KiB", 1ull << 10},
                                                              {"MiB", 1ull << 20},
                                                              {"GiB", 1ull << 30},
                                                              {"TiB", 1ull << 40}};
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  for (const auto& [spelling, bytes] : kUnits)
    if (error == std::errc{} && number > 0 && unit == spelling)
      if (const auto product = checked_mul(number, bytes)) return *product;
  return usage("", "{} {}: expected bytes, as 5GB or 256MiB", flag, text);
}

int finish(Session& session) {
  if (!session.outcome) return 0;
  errno = 0;
  if ((std::fflush(stdout) != 0 || std::ferror(stdout)) && session.outcome->ok())
    session.outcome = io_error("write", "standard output", errno ? errno : EIO);
  if (session.outcome->ok()) return session.outcome->value();
  const Error error = told(session.outcome->error());
  const std::string text =
      session.json ? dump(Json{{"error", to_json(error)}}, -1) : "tandem: " + for_terminal(error.message());
  std::fputs((text + "\n").c_str(), stderr);  // where that fails, the exit code has to do
  return exit_code(error.kind);
}

std::string with_commas(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, ",");
  return digits;
}

std::string human_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string for_terminal(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n') || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

void print_json(const Json& json) { fmt::print("{}\n", dump(json, 2)); }

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i + 1 == row.size() ? row[i] : fmt::format("{:<{}}  ", row[i], widths[i]);
    fmt::print("{}\n", for_terminal(line));
  }
}

}  // namespace tandem
