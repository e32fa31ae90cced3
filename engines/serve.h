#pragma once
// The worker's side of the protocol, for workers in C++.

#include <functional>

#include "engines/protocol.h"

namespace tandem {

/// A loaded model, inside a worker.
class ServedModel {
 public:
  virtual ~ServedModel() = default;
  virtual EngineInfo info() const = 0;  ///< engine, version, ...: part of the reply to op=load
  virtual Result<HostTensors> run(const std::string& entry, const HostTensors& inputs,
                                  const std::vector<std::string>& outputs) = 0;
  /// See Engine; by default what run() gives for "logits", cut.
  virtual Result<HostTensors> last_logits(const HostTensors& inputs);
  // See Engine. Unsupported unless a model knows better.
  virtual Result<HostTensors> values(const std::string& entry, Scope scope, const HostTensors& given,
                                     const std::vector<std::string>& outputs);
  virtual Status edit(const std::string& contract, const HostTensors& weights);
  virtual uint64_t compilations() const { return 0; }
};
/// Loads the model that the words of op=load describe (path, threads, dtype).
using ModelLoader = std::function<Result<std::unique_ptr<ServedModel>>(const Words& words)>;

/// Answers messages on a socket until op=quit or the client's end.
Status serve(int socket, const ModelLoader& load);

/// A worker's main: serves file descriptor 3 and ends the process, skipping the frameworks' own slow
/// goodbyes.
[[noreturn]] void serve_and_exit(const ModelLoader& load);

/// For workers that stream: gives blocks of 1 MiB and more back to the system when they are freed. Without
/// it glibc takes the first such block that is freed for a sign to keep all up to 32 MiB.
void give_freed_memory_back();

/// True if a tensor is wanted: outputs is empty, or names it.
bool is_wanted(const std::vector<std::string>& outputs, std::string_view name);

}  // namespace tandem
