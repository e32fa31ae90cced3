#pragma once
// Messages between the client and a worker, on a stream socket; engine.h says which there are.
//
//   message = u64 LE frame length, frame        (frame: a safetensors file; its __metadata__ holds the words)

#include <chrono>

#include "engines/engine.h"

namespace tandem {

inline constexpr uint64_t kMaxFrameBytes = 8ull << 30;

using Words = std::map<std::string, std::string>;
using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();
Deadline seconds_from_now(double seconds);

struct Message {
  Words words;
  HostTensors tensors;
};

/// A word's value, or "" if there is no such word.
std::string word(const Words& words, const std::string& name);

/// Names in one word: "a,b". Names with a comma cannot travel, and no tensor of ours has one.
std::string join_names(const std::vector<std::string>& names);
std::vector<std::string> split_names(std::string_view text);

/// A failure as words (ok=0, kind, rule, text, where, hint), and back. A reply without a known kind becomes
/// corrupt.
Words error_words(const Error& error);
Error error_from_words(const Words& words);

/// Sends one message. Errors: protocol_c1 (invalid) over kMaxFrameBytes, or a tensor whose data has not the
/// size of its shape; protocol_c4 (unavailable) the other side has closed; protocol_c5 (unavailable) the
/// deadline has passed.
Status send_message(int socket, const Message& message, Deadline deadline = kNoDeadline);

/// Receives one message. The memory taken grows with what has arrived, not with what the length claims.
/// Errors: protocol_c1 (corrupt) longer than kMaxFrameBytes; protocol_c2 (corrupt) not a safetensors file;
/// protocol_c4 (unavailable) closed before a whole message; protocol_c5 (unavailable) the deadline has
/// passed.
Result<Message> receive_message(int socket, Deadline deadline = kNoDeadline);

}  // namespace tandem
