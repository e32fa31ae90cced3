#pragma once
// What the commands share: each adds itself to the command line and leaves its outcome in the session.

#include <CLI/CLI.hpp>
#include <optional>

#include "base/json.h"
#include "formats/safetensors/safetensors.h"

namespace tandem {

/// One run of the program.
struct Session {
  bool json = false;                   ///< results and errors as JSON
  std::optional<Result<int>> outcome;  ///< exit code of the command that was chosen, or its error
};

void add_inspect(CLI::App& app, Session& session);
void add_map(CLI::App& app, Session& session);
void add_convert(CLI::App& app, Session& session);
void add_verify(CLI::App& app, Session& session);
void add_run(CLI::App& app, Session& session);

/// A subcommand with --json and a footer of examples.
CLI::App* add_command(CLI::App& app, Session& session, const std::string& name, const std::string& what,
                      const std::string& footer);

/// --max-header-bytes and --max-tensors: limits that a trusted file may pass.
void add_limits(CLI::App& command, SafetensorsLimits& limits);

/// Ends a run: says an error on stderr, one line or JSON, and gives the exit code.
int finish(const Session& session);

// How results are written.
std::string with_commas(uint64_t number);  ///< "6,910,365,696"
std::string human_bytes(uint64_t bytes);   ///< "1.4 GB"
std::string for_terminal(
    std::string_view text);  ///< control characters from files as \xNN, so that they cannot drive a terminal
void print_json(const Json& json);
/// A table with aligned columns; the first row is its head.
void print_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace tandem
