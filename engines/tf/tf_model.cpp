#include "engines/tf/tf_model.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "engines/seen_rows.h"
#include "engines/tf/compilations.h"
#include "engines/tf/staged_model.h"
#include "engines/tf/steps.h"
#include "engines/tf/stream_graph.h"
#include "formats/saved_model/saved_model.h"
#include "formats/saved_model/stage_bundles.h"

namespace tandem {
namespace {

/// TensorFlow's status codes that say something about kind; all others are `unavailable`.
struct CodeRow {
  int code;
  ErrorKind kind;
};
constexpr CodeRow kCodes[] = {
    {3, ErrorKind::invalid},       // INVALID_ARGUMENT
    {5, ErrorKind::missing},       // NOT_FOUND
    {8, ErrorKind::memory},        // RESOURCE_EXHAUSTED
    {9, ErrorKind::invalid},       // FAILED_PRECONDITION
    {12, ErrorKind::unsupported},  // UNIMPLEMENTED
    {15, ErrorKind::corrupt},      // DATA_LOSS
};

ErrorKind kind_of(int code) {
  for (const CodeRow& entry : kCodes)
    if (entry.code == code) return entry.kind;
  return ErrorKind::unavailable;
}

class StatusBox {
 public:
  explicit StatusBox(const TfApi& api) : api_(api), status_(api.TF_NewStatus(), api.TF_DeleteStatus) {}
  TF_Status* get() { return status_.get(); }
  /// What TensorFlow said, as one line of bounded length.
  Status taken() const {
    const int code = api_.TF_GetCode(status_.get());
    if (code == 0) return {};
    std::string text(std::string_view(api_.TF_Message(status_.get())).substr(0, 2000));
    for (char& c : text)
      if (c == '\n' || c == '\t') c = ' ';
    return make_error(kind_of(code), "tf_c5", "TensorFlow: {}", text);
  }

 private:
  const TfApi& api_;
  Owned<TF_Status> status_;
};

class TfModel : public LoadedModel {
 public:
  explicit TfModel(const TfApi& api) : api_(api), graph_(api.TF_NewGraph(), api.TF_DeleteGraph) {}
  ~TfModel() override {
    StatusBox status(api_);
    if (session_ != nullptr) api_.TF_DeleteSession(session_, status.get());
  }

  Status load(const std::string& path, int threads, bool compiled) {
    StatusBox status(api_);
    TANDEM_TRY(const auto options, session_options(threads));
    const Owned<TF_Buffer> meta_graph(api_.TF_NewBuffer(), api_.TF_DeleteBuffer);
    const char* const tags[] = {"serve"};
    session_ = api_.TF_LoadSessionFromSavedModel(options.get(), nullptr, path.c_str(), tags, 1, graph_.get(),
                                                 meta_graph.get(), status.get());
    TANDEM_CHECK(status.taken());
    TANDEM_TRY(signatures_,
               signatures_of({static_cast<const std::byte*>(meta_graph->data), meta_graph->length}));
    definition_.assign(static_cast<const char*>(meta_graph->data), meta_graph->length);
    const auto run = [this](const std::string& key, const auto& inputs) {
      return run_signature(key, inputs);
    };
    steps_ = compiled ? compiled_steps(api_, signatures_, run) : growing_steps(api_, signatures_, run);
    if (!compiled) return {};
    if (!steps_)
      return unsupported("tf_c15", "the SavedModel has no signatures prefill_xla and decode_xla").at(path);
    return count_compilations();
  }

  Status count_compilations() override {
    TANDEM_CHECK(parse_definition());
    compilations_ = Compilations(*model_);
    return {};
  }

  /// The graph without its weights: each part restores its own.
  Status load_to_stream(const std::string& path, int threads) {
    TANDEM_TRY(SavedModelFolder folder, open_saved_model(real_files(), path));
    for (tensorflow::MetaGraphDef& graph : *folder.proto.mutable_meta_graphs())
      if (std::ranges::count(graph.meta_info_def().tags(), "serve") != 0) model_ = std::move(graph);
    if (!model_) return invalid("tf_c2", "no graph with the tag \"serve\"").at(path);
    definition_ = model_->SerializeAsString();
    TANDEM_TRY(signatures_, signatures_of(std::as_bytes(std::span(definition_))));
    TANDEM_CHECK(entry_values(*model_, "with_positions"));
    TANDEM_TRY(stream_, checkpoint_keys(*model_, path));
    PartGraph whole;
    whole.graph = model_->graph_def();
    TANDEM_CHECK(import(whole, ""));
    threads_ = threads;
    return renew_session();
  }

  EngineInfo info() const override { return {{"engine", "tensorflow"}, {"version", api_.TF_Version()}}; }

  Result<HostTensors> run(const std::string& entry, const HostTensors& inputs,
                          const std::vector<std::string>& outputs) override {
    TANDEM_TRY(const Signature* const signature, signature_for(signatures_, entry));
    TANDEM_CHECK(check_inputs(*signature, inputs));
    for (const std::string& output : outputs)
      if (!signature->outputs.contains(output))
        return invalid("tf_c6", "entry '{}' has no output '{}'", entry, output);

    SessionRun run;
    for (const auto& [name, argument] : signature->outputs) {
      if (!is_wanted(outputs, name)) continue;
      TANDEM_TRY(run.targets.emplace_back(), place(argument.tensor));
      run.names.push_back(name);
    }
    if (stream_) return values(entry, Scope::entry, inputs, run.names);
    for (const auto& [name, tensor] : inputs) {
      TANDEM_CHECK(add_feed(run, signature->inputs.at(name).tensor, tensor));
    }
    return run_session(run);
  }

  uint64_t compilations() const override { return compilations_.count(); }

  Result<HostTensors> last_logits(const HostTensors& inputs) override {
    if (!steps_ || !positions_follow_mask(inputs)) return ServedModel::last_logits(inputs);
    return last_logits_by(*steps_, seen_, inputs);
  }

  Result<HostTensors> values(const std::string& entry, Scope scope, const HostTensors& given,
                             const std::vector<std::string>& outputs) override {
    PartRequest request{entry == "logits" ? "with_positions" : entry, scope, {}, outputs};
    for (const auto& [name, tensor] : given) request.given[name] = row(tensor.dtype).tensorflow;
    return values_of(request, given);
  }

  const Signatures& signatures() const override { return signatures_; }

  Result<std::set<std::string>> value_names(const std::string& signature) override {
    TANDEM_CHECK(parse_definition());
    TANDEM_TRY(const EntryValues found, entry_values(*model_, signature));
    std::set<std::string> names;
    for (const EntryValue& value : found.values) names.insert(value.name);
    for (const auto& [name, node] : found.results) names.insert(name);
    return names;
  }

  Result<std::set<std::string>> needs(const PartRequest& request) override {
    TANDEM_TRY(const std::vector<Imported>* steps, steps_for(request));
    std::set<std::string> names;
    for (const Imported& step : *steps)
      for (const std::string& name : step.feeds)
        if (request.given.contains(name)) names.insert(name);
    return names;
  }

  Result<HostTensors> values_of(const PartRequest& request, const HostTensors& given) override {
    TANDEM_TRY(const std::vector<Imported>* steps, steps_for(request));
    HostTensors made, wanted;
    const auto value_of = [&](const std::string& name) -> const HostTensor& {
      const auto value = made.find(name);
      return value == made.end() ? given.at(name) : value->second;
    };
    for (const Imported& step : *steps) {
      if (stream_) TANDEM_CHECK(renew_session());
      SessionRun run;
      run.names = step.outputs;
      for (const std::string& name : step.feeds) {
        TANDEM_CHECK(add_feed(run, step.prefix + "/given/" + name + ":0", value_of(name)));
      }
      for (size_t i = 0; i < step.outputs.size(); ++i) {
        TANDEM_TRY(run.targets.emplace_back(), place(fmt::format("{}/part:{}", step.prefix, i)));
      }
      for (const std::string& node : step.also)
        run.also.push_back(api_.TF_GraphOperationByName(graph_.get(), (step.prefix + "/" + node).c_str()));
      TANDEM_TRY(HostTensors results, run_session(run));
      made.merge(results);
      for (const std::string& name : step.finished) made.erase(name);
    }
    for (const std::string& name : request.outputs) {
      auto value = made.extract(name);
      wanted[name] =
          value ? std::move(value.mapped()) : given.at(name);  // the steps make all that is not given
    }
    return wanted;
  }

  Result<TfTensors> run_signature(const std::string& key,
                                  const std::map<std::string, TF_Tensor*>& inputs) override {
    const Signature& signature = signatures_.at(key);
    SessionRun run;
    std::vector<Shape> shapes;
    for (const auto& [name, argument] : signature.inputs) {
      if (!inputs.contains(name)) return corrupt("tf_c14", "signature {} takes {}, not asked for", key, name);
      TANDEM_TRY(run.sources.emplace_back(), place(argument.tensor));
      run.values.push_back(inputs.at(name));
      shapes.push_back(shape_of(api_, *inputs.at(name)));
    }
    for (const auto& [name, argument] : signature.outputs) {
      TANDEM_TRY(run.targets.emplace_back(), place(argument.tensor));
      run.names.push_back(name);
    }
    TANDEM_TRY(auto results, raw_run(run));
    compilations_.ran(key, shapes);
    TfTensors outputs;
    for (size_t i = 0; i < run.names.size(); ++i) outputs.emplace(run.names[i], std::move(results[i]));
    return outputs;
  }

 private:
  /// A part of the functions that has become a part of the graph.
  struct Imported {
    std::string prefix;
    std::vector<std::string> feeds, outputs;
    std::vector<std::string> also;   ///< nodes that are run besides
    std::set<std::string> finished;  ///< values that are needed no more
  };

  /// What one run of the session is given, and what it is asked for.
  struct SessionRun {
    std::vector<TF_Output> sources;
    std::vector<Owned<TF_Tensor>> feeds;
    std::vector<TF_Tensor*> values;
    std::vector<TF_Output> targets;
    std::vector<const TF_Operation*> also;
    std::vector<std::string> names;  ///< of what `targets` give
  };

  Result<Owned<TF_SessionOptions>> session_options(int threads) const {
    StatusBox status(api_);
    Owned<TF_SessionOptions> options(api_.TF_NewSessionOptions(), api_.TF_DeleteSessionOptions);
    const std::string config = session_config(threads);
    api_.TF_SetConfig(options.get(), config.data(), config.size(), status.get());
    TANDEM_CHECK(status.taken());
    return options;
  }

  /// A session keeps the executor of each step that it ran, some 30 MB of graph, for good.
  Status renew_session() {
    StatusBox status(api_);
    if (session_ != nullptr) api_.TF_DeleteSession(std::exchange(session_, nullptr), status.get());
    TANDEM_CHECK(status.taken());
    TANDEM_TRY(const auto options, session_options(threads_));
    session_ = api_.TF_NewSession(graph_.get(), options.get(), status.get());
    return status.taken();
  }

  Status add_feed(SessionRun& run, const std::string& tensor, const HostTensor& value) const {
    TANDEM_TRY(run.sources.emplace_back(), place(tensor));
    TANDEM_TRY(Owned<TF_Tensor> feed, to_tensorflow(api_, value));
    run.values.push_back(feed.get());
    run.feeds.push_back(std::move(feed));
    return {};
  }

  /// The parts for a request, in order; made once. One, unless an entry is streamed.
  Result<const std::vector<Imported>*> steps_for(const PartRequest& request) {
    std::string key = fmt::format("{}/{}/{}", request.signature, static_cast<int>(request.scope),
                                  fmt::join(request.outputs, ","));
    for (const auto& [name, dtype] : request.given) key += fmt::format("/{}:{}", name, dtype);
    if (const auto found = parts_.find(key); found != parts_.end()) return &found->second;
    TANDEM_CHECK(parse_definition());
    std::vector<StreamStep> steps;
    if (stream_) {
      TANDEM_TRY(steps, make_stream_steps(*model_, request));
    } else {
      TANDEM_TRY(PartGraph part, make_part_graph(*model_, request));
      steps.push_back({std::move(part), request.outputs, {}});
    }
    std::vector<Imported> imported;
    for (StreamStep& step : steps) {
      Imported one{fmt::format("part_{}", part_count_++),
                   step.part.feeds,
                   std::move(step.outputs),
                   {},
                   std::move(step.finished)};
      if (stream_) one.also = add_restoring(step.part, *stream_);
      TANDEM_CHECK(import(make_unique_names(std::move(step.part), one.prefix), one.prefix));
      imported.push_back(std::move(one));
    }
    return &parts_.emplace(std::move(key), std::move(imported)).first->second;
  }

  Status parse_definition() {
    if (model_) return {};
    model_.emplace();
    if (!model_->ParseFromString(definition_)) return corrupt("tf_c2", "the MetaGraphDef does not parse");
    return {};
  }

  /// Functions of one graph have names of their own.
  static PartGraph make_unique_names(PartGraph part, const std::string& prefix) {
    const auto rename = [&](tensorflow::NodeDef& node) {
      const auto function = node.mutable_attr()->find("f");
      if (function == node.mutable_attr()->end()) return;
      std::string& name = *function->second.mutable_func()->mutable_name();
      if (name.starts_with("tandem_part_")) name += "_" + prefix;
    };
    for (tensorflow::NodeDef& node : *part.graph.mutable_node()) rename(node);
    for (tensorflow::FunctionDef& function : *part.graph.mutable_library()->mutable_function()) {
      function.mutable_signature()->set_name(function.signature().name() + "_" + prefix);
      for (tensorflow::NodeDef& node : *function.mutable_node_def()) rename(node);
    }
    return part;
  }

  Status import(const PartGraph& part, const std::string& prefix) {
    const Owned<TF_ImportGraphDefOptions> options(api_.TF_NewImportGraphDefOptions(),
                                                  api_.TF_DeleteImportGraphDefOptions);
    if (!prefix.empty()) api_.TF_ImportGraphDefOptionsSetPrefix(options.get(), prefix.c_str());
    for (const auto& [node, variable] : part.handles) {
      TANDEM_TRY(const TF_Output handle, place(variable + ":0"));
      api_.TF_ImportGraphDefOptionsAddInputMapping(options.get(), node.c_str(), 0, handle);
    }
    const std::string bytes = part.graph.SerializeAsString();
    const Owned<TF_Buffer> buffer(api_.TF_NewBufferFromString(bytes.data(), bytes.size()),
                                  api_.TF_DeleteBuffer);
    StatusBox status(api_);
    api_.TF_GraphImportGraphDef(graph_.get(), buffer.get(), options.get(), status.get());
    return status.taken();
  }

  Result<std::vector<Owned<TF_Tensor>>> raw_run(const SessionRun& run) {
    StatusBox status(api_);
    std::vector<TF_Tensor*> results(run.targets.size(), nullptr);
    api_.TF_SessionRun(session_, nullptr, run.sources.data(), run.values.data(),
                       static_cast<int>(run.values.size()), run.targets.data(), results.data(),
                       static_cast<int>(results.size()), run.also.data(), static_cast<int>(run.also.size()),
                       nullptr, status.get());
    std::vector<Owned<TF_Tensor>> owned;
    for (TF_Tensor* result : results) owned.emplace_back(result, api_.TF_DeleteTensor);
    TANDEM_CHECK(status.taken());
    return owned;
  }

  Result<HostTensors> run_session(const SessionRun& run) {
    TANDEM_TRY(const auto owned, raw_run(run));
    HostTensors tensors;
    for (size_t i = 0; i < run.names.size(); ++i) {
      TANDEM_TRY(HostTensor tensor, from_tensorflow(api_, *owned[i], run.names[i]));
      tensors.emplace(run.names[i], std::move(tensor));
    }
    return tensors;
  }

  /// "name:1" as an operation and its output.
  Result<TF_Output> place(const std::string& tensor) const {
    const size_t colon = tensor.rfind(':');
    TF_Output output{api_.TF_GraphOperationByName(graph_.get(), tensor.substr(0, colon).c_str()), 0};
    if (colon != tensor.npos)
      std::from_chars(tensor.data() + colon + 1, tensor.data() + tensor.size(), output.index);
    if (output.oper == nullptr || output.index < 0 ||
        output.index >= api_.TF_OperationNumOutputs(output.oper))
      return corrupt("tf_c7", "a signature names '{}', which is not in the graph", tensor);
    return output;
  }

  const TfApi& api_;
  Owned<TF_Graph> graph_;
  TF_Session* session_ = nullptr;
  Signatures signatures_;
  std::string definition_;  ///< the MetaGraphDef, serialised
  std::optional<tensorflow::MetaGraphDef> model_;
  int threads_ = 0;                       ///< of the sessions, when streaming
  std::optional<CheckpointKeys> stream_;  ///< where parts restore their variables from, when streaming
  std::map<std::string, std::vector<Imported>> parts_;
  size_t part_count_ = 0;
  std::unique_ptr<Steps> steps_;  ///< null: the model has no signatures for it
  SeenRows seen_;                 ///< by steps_
  Compilations compilations_;     ///< of steps_
};

}  // namespace

std::string session_config(int threads) {
  // graph_options { place_pruned_graph: true }: what a call needs is placed and optimised, not the whole
  // model again for each signature and part that is run first.
  std::string bytes("\x52\x02\x30\x01");
  if (threads <= 0) return bytes;
  for (const int field : {2, 5}) {  // intra_op_parallelism_threads, inter_op_parallelism_threads
    bytes.push_back(static_cast<char>(field << 3));
    auto value = static_cast<unsigned>(threads);
    for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(0x80 | (value & 0x7f)));
    bytes.push_back(static_cast<char>(value));
  }
  return bytes;
}

namespace {

Result<std::unique_ptr<LoadedModel>> load_one(const TfApi& api, const std::string& path, const Words& words,
                                              bool compiled) {
  auto model = std::make_unique<TfModel>(api);
  const int threads = atoi(word(words, "threads").c_str());
  TANDEM_CHECK(word(words, "stream") == "1" ? model->load_to_stream(path, threads)
                                            : model->load(path, threads, compiled));
  return std::unique_ptr<LoadedModel>(std::move(model));
}

}  // namespace

Result<std::unique_ptr<ServedModel>> load_saved_model(const TfApi& api, const Words& words) {
  const std::string path = word(words, "path");
  const bool stream = word(words, "stream") == "1", compiled = word(words, "compiled") == "1";
  if (stream) {
    give_freed_memory_back();
    // TensorFlow's own pool, made at the first tensor, keeps what it once had.
    setenv("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "1", 1);
  }
  TANDEM_TRY(const PathKind staged, real_files().kind(join(path, kStagesFile)));
  if (staged != PathKind::file) {
    TANDEM_TRY(std::unique_ptr<LoadedModel> model, load_one(api, path, words, compiled));
    return std::unique_ptr<ServedModel>(std::move(model));
  }
  TANDEM_TRY(const StageManifest manifest, read_stages(real_files(), path));
  std::vector<std::unique_ptr<LoadedModel>> stages;
  for (size_t i = 0; i < manifest.stages.size(); ++i) {
    TANDEM_TRY(stages.emplace_back(), load_one(api, join(path, manifest.folder(i)), words, false));
  }
  const StepKind steps = stream ? StepKind::none : compiled ? StepKind::compiled : StepKind::growing;
  return staged_model(api, manifest, std::move(stages), steps);
}

}  // namespace tandem
