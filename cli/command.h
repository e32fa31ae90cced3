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
void add_slice(CLI::App& app, Session& session);
void add_plan(CLI::App& app, Session& session);
void add_run_task(CLI::App& app, Session& session);
void add_finalize(CLI::App& app, Session& session);
void add_verify(CLI::App& app, Session& session);
void add_run(CLI::App& app, Session& session);
void add_record(CLI::App& app, Session& session);
void add_plant(CLI::App& app, Session& session);
void add_bench(CLI::App& app, Session& session);
void add_sign(CLI::App& app, Session& session);
void add_check(CLI::App& app, Session& session);
void add_tokenize(CLI::App& app, Session& session);
void add_chat_template(CLI::App& app, Session& session);

/// A subcommand with --json and a footer of examples.
CLI::App* add_command(CLI::App& app, Session& session, const std::string& name, const std::string& what,
                      const std::string& footer);

/// --max-header-bytes and --max-tensors: limits that a trusted file may pass.
void add_limits(CLI::App& command, SafetensorsLimits& limits);

/// --accept-key, as often as there are keys; one key each, so that a path may follow.
void add_accepted_keys(CLI::App& command, std::vector<std::string>& keys);

// Checks of numbers, in words that a user can act on.
CLI::Validator whole_number();     ///< digits alone, below 2^64
CLI::Validator positive_number();  ///< above 0 and finite

/// A number of bytes: "1000000", "5GB" (5e9), "256MiB". Errors: usage, naming the flag; also for 0.
Result<uint64_t> bytes_named(const std::string& flag, std::string_view text);

/// Ends a run: says an error on stderr, one line or JSON, and gives the exit code. What did not reach stdout
/// (a full disk) is an error too.
int finish(Session& session);

// How results are written.
std::string with_commas(uint64_t number);  ///< "6,910,365,696"
std::string human_bytes(uint64_t bytes);   ///< "1.4 GB"
std::string for_terminal(
    std::string_view text);  ///< control characters from files as \xNN, so that they cannot drive a terminal
void print_json(const Json& json);
/// A table with aligned columns; the first row is its head.
void print_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace tandem
