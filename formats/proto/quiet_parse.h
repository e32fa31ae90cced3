#pragma once
// Parsing bytes from outside: bounded in depth, and without protobuf's own lines on stderr.

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <climits>
#include <string_view>

namespace tandem {

/// False for bytes that are not one whole message, nest deeper than 100 messages, or are 2 GiB or more.
inline bool parse_quietly(google::protobuf::MessageLite& message, std::string_view bytes) {
  if (bytes.size() > INT_MAX) return false;
  const google::protobuf::LogSilencer silencer;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(100);
  return message.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

}  // namespace tandem
