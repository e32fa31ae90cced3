#include "engines/protocol.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "formats/safetensors/safetensors.h"

namespace tandem {
namespace {

static_assert(std::endian::native == std::endian::little, "lengths travel as they lie in memory");

Error closed() { return unavailable("protocol_c4", "the other side has closed the connection"); }

/// Waits until the socket is ready for `events`.
Status wait_ready(int socket, short events, Deadline deadline) {
  while (true) {
    int wait_ms = -1;
    if (deadline != kNoDeadline) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
      if (left <= 0) return unavailable("protocol_c5", "no answer in time");
      wait_ms = static_cast<int>(std::min<int64_t>(left, 3'600'000));
    }
    pollfd entry{socket, events, 0};
    const int ready = poll(&entry, 1, wait_ms);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return io_error("poll", "the worker's socket", errno);
  }
}

Status send_bytes(int socket, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    TANDEM_CHECK(wait_ready(socket, POLLOUT, deadline));
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return closed();
    } else if (errno != EINTR && errno != EAGAIN) {
      return io_error("send to", "the worker's socket", errno);
    }
  }
  return {};
}

Status receive_bytes(int socket, std::span<std::byte> out, Deadline deadline) {
  while (!out.empty()) {
    TANDEM_CHECK(wait_ready(socket, POLLIN, deadline));
    const ssize_t got = ::recv(socket, out.data(), out.size(), MSG_DONTWAIT);
    if (got > 0) {
      out = out.subspan(static_cast<size_t>(got));
    } else if (got == 0 || errno == ECONNRESET) {
      return closed();
    } else if (errno != EINTR && errno != EAGAIN) {
      return io_error("receive from", "the worker's socket", errno);
    }
  }
  return {};
}

}  // namespace

Deadline seconds_from_now(double seconds) {
  const auto wait = std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8));
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(wait);
}

std::string word(const Words& words, const std::string& name) {
  const auto found = words.find(name);
  return found == words.end() ? std::string() : found->second;
}

std::string join_names(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ","));
}

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    if (comma != 0) names.emplace_back(text.substr(0, comma));
    text = comma == text.npos ? std::string_view() : text.substr(comma + 1);
  }
  return names;
}

Words error_words(const Error& error) {
  return {{"ok", "0"},
          {"kind", std::string(name(error.kind))},
          {"rule", error.rule},
          {"text", error.text},
          {"where", error.where},
          {"hint", error.hint}};
}

Error error_from_words(const Words& words) {
  const std::string kind_name = word(words, "kind");
  for (int number = 0; number <= static_cast<int>(ErrorKind::config); ++number) {
    const auto kind = static_cast<ErrorKind>(number);
    if (name(kind) == kind_name)
      return Error{kind, word(words, "rule"), word(words, "text"), word(words, "where"),
                   {},   word(words, "hint")};
  }
  return corrupt("protocol_c3", "a reply that is neither ok=1 nor an error of a known kind (kind '{}')",
                 kind_name);
}

Status send_message(int socket, const Message& message, Deadline deadline) {
  std::vector<TensorInfo> infos;
  uint64_t data_bytes = 0;
  for (const auto& [name, tensor] : message.tensors) {
    TANDEM_TRY(const uint64_t bytes, byte_count(tensor.dtype, tensor.shape));
    if (bytes != tensor.data.size())
      return invalid("protocol_c1", "tensor '{}' has {} bytes, its shape {} of {} needs {}", name,
                     tensor.data.size(), to_string(tensor.shape), tensor.dtype, bytes);
    data_bytes += bytes;  // of bytes that lie in memory: cannot overflow
    infos.push_back({name, tensor.dtype, tensor.shape});
  }
  TANDEM_TRY(const std::string header, safetensors_header(infos, message.words));
  const uint64_t frame_bytes = header.size() + data_bytes;
  if (frame_bytes > kMaxFrameBytes)
    return invalid("protocol_c1", "a message of {} bytes, at most {} can travel", frame_bytes,
                   kMaxFrameBytes);

  TANDEM_CHECK(send_bytes(socket, std::as_bytes(std::span(&frame_bytes, 1)), deadline));
  TANDEM_CHECK(send_bytes(socket, std::as_bytes(std::span(header)), deadline));
  for (const auto& [name, tensor] : message.tensors) TANDEM_CHECK(send_bytes(socket, tensor.data, deadline));
  return {};
}

Result<Message> receive_message(int socket, Deadline deadline) {
  uint64_t frame_bytes = 0;
  TANDEM_CHECK(receive_bytes(socket, std::as_writable_bytes(std::span(&frame_bytes, 1)), deadline));
  if (frame_bytes > kMaxFrameBytes)
    return corrupt("protocol_c1", "a message of {} bytes is announced, at most {} can travel", frame_bytes,
                   kMaxFrameBytes);

  constexpr uint64_t kPiece = 16 << 20;
  std::vector<std::byte> frame;
  while (frame.size() < frame_bytes) {
    const size_t begin = frame.size();
    const uint64_t size = std::min(kPiece, frame_bytes - begin);
    frame.resize(begin + size);
    TANDEM_CHECK(receive_bytes(socket, std::span(frame).subspan(begin), deadline));
  }
  auto file = parse_safetensors(std::move(frame), "message");
  if (!file.ok()) return corrupt("protocol_c2", "not a message: {}", file.error().message());

  Message message;
  message.words = file.value()->metadata();
  for (const TensorInfo& info : file.value()->tensors()) {
    HostTensor tensor{info.dtype, info.shape, {}};
    TANDEM_TRY(const uint64_t bytes, byte_count(info.dtype, info.shape));
    tensor.data.resize(bytes);
    TANDEM_CHECK(file.value()->read(info.name, 0, tensor.data));
    message.tensors.emplace(info.name, std::move(tensor));
  }
  return message;
}

}  // namespace tandem
