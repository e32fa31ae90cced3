#include "engines/serve.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "engines/last_token.h"
#include "engines/timed_run.h"

namespace tandem {
namespace {

Result<Message> answer(const Message& request, const ModelLoader& load, std::unique_ptr<ServedModel>& model) {
  const std::string op = word(request.words, "op");
  if (op == "load") {
    TANDEM_TRY(model, load(request.words));
    Message reply{model->info(), {}};
    reply.words.emplace("ok", "1");
    return reply;
  }
  if (op != "run" && op != "values" && op != "edit" && op != "time" && op != "compilations")
    return usage("protocol_c6", "unknown op '{}'", op);
  if (!model) return usage("protocol_c6", "op={} before op=load", op);
  if (op == "time") return timed_run(*model, request);
  if (op == "compilations")
    return Message{{{"ok", "1"}, {"compilations", std::to_string(model->compilations())}}, {}};
  if (op == "edit") {
    TANDEM_CHECK(model->edit(word(request.words, "contract"), request.tensors));
    return Message{{{"ok", "1"}}, {}};
  }
  const std::string entry = word(request.words, "entry");
  const std::vector<std::string> outputs = split_names(word(request.words, "outputs"));
  const bool last = word(request.words, "tokens") == "last";
  if (op == "run" && last && entry == "logits" && outputs == std::vector<std::string>{"logits"}) {
    TANDEM_TRY(HostTensors results, model->last_logits(request.tensors));
    return Message{{{"ok", "1"}}, std::move(results)};
  }
  const Scope scope = word(request.words, "scope") == "block" ? Scope::block : Scope::entry;
  TANDEM_TRY(HostTensors results, op == "run" ? model->run(entry, request.tensors, outputs)
                                              : model->values(entry, scope, request.tensors, outputs));
  if (last) {
    TANDEM_CHECK(keep_last_logits(results));
  }
  return Message{{{"ok", "1"}}, std::move(results)};
}

/// As answer; what a framework throws becomes an error too.
Result<Message> guarded_answer(const Message& request, const ModelLoader& load,
                               std::unique_ptr<ServedModel>& model) {
  try {
    return answer(request, load, model);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorKind::memory, "engine_c7", "out of memory during {}", word(request.words, "op"));
  } catch (const std::exception& exception) {
    const std::string_view what = exception.what();
    return invalid("engine_c8", "{}", what.substr(0, what.find('\n')));
  }
}

}  // namespace

Result<HostTensors> ServedModel::last_logits(const HostTensors& inputs) {
  TANDEM_TRY(HostTensors outputs, run("logits", inputs, {"logits"}));
  TANDEM_CHECK(keep_last_logits(outputs));
  return outputs;
}

Result<HostTensors> ServedModel::values(const std::string& entry, Scope, const HostTensors&,
                                        const std::vector<std::string>&) {
  return unsupported("engine_c9", "this engine cannot look inside '{}'", entry);
}

Status ServedModel::edit(const std::string&, const HostTensors&) {
  return unsupported("engine_c9", "this engine cannot run an edited contract");
}

Status serve(int socket, const ModelLoader& load) {
  std::unique_ptr<ServedModel> model;
  while (true) {
    auto request = receive_message(socket);
    if (!request.ok()) return request.error().rule == "protocol_c4" ? Status() : request.error();
    if (word(request.value().words, "op") == "quit") return {};
    auto reply = guarded_answer(request.value(), load, model);
    TANDEM_CHECK(send_message(socket, reply.ok() ? reply.value() : Message{error_words(reply.error()), {}}));
  }
}

void serve_and_exit(const ModelLoader& load) {
  const Status served = serve(3, load);
  if (!served.ok()) fprintf(stderr, "%s\n", served.error().message().c_str());
  fflush(nullptr);
  _exit(served.ok() ? 0 : exit_code(served.error().kind));
}

void give_freed_memory_back() { mallopt(M_MMAP_THRESHOLD, 1 << 20); }

bool is_wanted(const std::vector<std::string>& outputs, std::string_view name) {
  return outputs.empty() || std::find(outputs.begin(), outputs.end(), name) != outputs.end();
}

}  // namespace tandem
