#include "convert/plan_file.h"

#include <algorithm>

#include "convert/retire_source.h"

namespace tandem {
namespace {

constexpr int kVersion = 2;
constexpr size_t kMaxEntries = 1'000'000;
constexpr size_t kMaxText = 4096;

std::string_view spelling(ConvertTarget target) {
  return target == ConvertTarget::saved_model  ? "saved_model"
         : target == ConvertTarget::checkpoint ? "checkpoint"
                                               : "safetensors";
}

Json to_json(const ConvertOptions& options) {
  const auto dtype_or_null = [](const std::optional<DType>& dtype) {
    return dtype ? Json(row(*dtype).long_name) : Json();
  };
  return Json{{"to", options.to ? Json(spelling(*options.to)) : Json()},
              {"dtype", dtype_or_null(options.dtype)},
              {"compute", row(options.compute).long_name},
              {"matmul_precision", row(options.matmul_precision).long_name},
              {"inline", options.inlined},
              {"layout", options.layout == WeightLayout::source ? "source" : "tensorflow"},
              {"place", place_name(options.place)},
              {"stages", options.stages ? Json(*options.stages) : Json()},
              {"delete_source", options.delete_source},
              {"like", options.like},
              {"map", options.map_file},
              {"force", options.force},
              {"allow_tied_head", options.allow_tied_head},
              {"with_mtp", options.with_mtp},
              {"without_mtp", options.without_mtp},
              {"strict", options.strict},
              {"accepted_keys", options.accepted_keys},
              {"max_header_bytes", options.limits.max_header_bytes},
              {"max_tensors", options.limits.max_tensors},
              {"max_shard_bytes", options.max_shard_bytes ? Json(*options.max_shard_bytes) : Json()},
              {"memory", options.memory},
              {"sha256", options.sha256}};
}

/// Takes fields out of one JSON object; the first thing that is wrong is kept.
class Fields {
 public:
  Fields(const Json& json, std::string place) : json_(json), place_(std::move(place)) {
    if (!json.is_object()) wrong("is no object");
  }
  const Json* any(const char* key) {
    ++taken_;
    if (!error_ && !json_.contains(key)) wrong(fmt::format("has no \"{}\"", key));
    return error_ ? nullptr : &json_[key];
  }
  std::string text(const char* key, size_t longest = kMaxText) {
    const Json* value = any(key);
    if (value && (!value->is_string() || value->get_ref<const std::string&>().size() > longest))
      wrong(fmt::format("\"{}\" is no text of at most {} bytes", key, longest));
    return error_ ? std::string() : value->get<std::string>();
  }
  bool boolean(const char* key) {
    const Json* value = any(key);
    if (value && !value->is_boolean()) wrong(fmt::format("\"{}\" is neither true nor false", key));
    return !error_ && value->get<bool>();
  }
  uint64_t size(const char* key) {
    const Json* value = any(key);
    if (value && !value->is_number_unsigned()) wrong(fmt::format("\"{}\" is no whole number from 0", key));
    return error_ ? 0 : value->get<uint64_t>();
  }
  int64_t number(const char* key) {
    const Json* value = any(key);
    if (value && !value->is_number_integer()) wrong(fmt::format("\"{}\" is no whole number", key));
    return error_ ? 0 : value->get<int64_t>();
  }
  const Json& list(const char* key) {
    static const Json none = Json::array();
    const Json* value = any(key);
    if (value && (!value->is_array() || value->size() > kMaxEntries))
      wrong(fmt::format("\"{}\" is no list of at most {} entries", key, kMaxEntries));
    return error_ ? none : *value;
  }
  void wrong(std::string what) {
    if (!error_) error_ = corrupt("plan_c1", "not a plan of this tool: {} {}", place_, what);
  }
  Status done() {
    if (!error_ && json_.size() != taken_) wrong("has fields that are not known");
    return error_ ? Status(*error_) : Status{};
  }

 private:
  const Json& json_;
  std::string place_;
  size_t taken_ = 0;
  std::optional<Error> error_;
};

Result<ConvertOptions> options_from_json(const Json& json) {
  Fields fields(json, "options");
  ConvertOptions options;
  const auto dtype = [&](const char* key, bool may_be_null) -> std::optional<DType> {
    const Json* value = fields.any(key);
    if (!value || (may_be_null && value->is_null())) return {};
    const auto named = value->is_string() ? dtype_named(value->get<std::string>()) : std::nullopt;
    if (!named) fields.wrong(fmt::format("\"{}\" is no dtype", key));
    return named;
  };
  if (const Json* to = fields.any("to"); to && !to->is_null()) {
    const auto target = target_named(to->is_string() ? to->get<std::string>() : "");
    if (target.ok())
      options.to = target.value();
    else
      fields.wrong("\"to\" is no target");
  }
  options.dtype = dtype("dtype", true);
  options.compute = dtype("compute", false).value_or(DType::f32);
  options.matmul_precision = dtype("matmul_precision", false).value_or(DType::f32);
  if (options.matmul_precision != DType::f32 && options.matmul_precision != DType::bf16)
    fields.wrong("\"matmul_precision\" is neither float32 nor bfloat16");
  options.inlined = fields.boolean("inline");
  const std::string layout = fields.text("layout"), place = fields.text("place");
  options.layout = layout == "source" ? WeightLayout::source : WeightLayout::tensorflow;
  if (layout != "source" && layout != "tensorflow") fields.wrong("\"layout\" is no layout");
  if (const auto named = place_named(place))
    options.place = *named;
  else
    fields.wrong("\"place\" is no way to place files");
  options.like = fields.text("like");
  options.map_file = fields.text("map");
  options.force = fields.boolean("force");
  options.delete_source = fields.boolean("delete_source");
  options.allow_tied_head = fields.boolean("allow_tied_head");
  options.with_mtp = fields.boolean("with_mtp");
  options.without_mtp = fields.boolean("without_mtp");
  options.strict = fields.boolean("strict");
  for (const Json& key : fields.list("accepted_keys")) {
    if (key.is_string())
      options.accepted_keys.insert(key.get<std::string>());
    else
      fields.wrong("\"accepted_keys\" are no texts");
  }
  options.limits.max_header_bytes = fields.size("max_header_bytes");
  options.limits.max_tensors = fields.size("max_tensors");
  const auto count = [&](const char* key) -> std::optional<uint64_t> {
    const Json* value = fields.any(key);
    if (!value || value->is_null()) return {};
    if (value->is_number_unsigned() && *value != 0) return value->get<uint64_t>();
    fields.wrong(fmt::format("\"{}\" is no whole number from 1", key));
    return {};
  };
  options.max_shard_bytes = count("max_shard_bytes");
  options.stages = count("stages");
  options.memory = fields.size("memory");
  options.sha256 = fields.boolean("sha256");
  TANDEM_CHECK(fields.done());
  return options;
}

Result<InputFile> input_from_json(const Json& json, size_t index) {
  Fields fields(json, fmt::format("inputs[{}]", index));
  InputFile input{fields.text("path"), fields.size("bytes"), fields.number("modified_ns"),
                  fields.text("sha256", 64), fields.size("header_bytes")};
  TANDEM_CHECK(fields.done());
  return input;
}

Result<PlannedTask> task_from_json(const Json& json, size_t index) {
  Fields fields(json, fmt::format("tasks[{}]", index));
  PlannedTask task{fields.text("file"), fields.size("tensors"), fields.size("bytes")};
  TANDEM_CHECK(fields.done());
  return task;
}

/// The sums that a plan says, and three times the headers, are below 2^64.
bool sums_fit(const ConversionPlan& plan) {
  std::optional<uint64_t> disk = plan.rest_bytes, memory = plan.options.memory;
  for (const PlannedTask& task : plan.tasks) disk = disk ? checked_add(*disk, task.bytes) : disk;
  for (const InputFile& input : plan.inputs) {
    const auto headers = checked_mul(input.header_bytes, 3);
    memory = memory && headers ? checked_add(*memory, *headers) : std::nullopt;
  }
  return disk && memory;
}

}  // namespace

uint64_t ConversionPlan::total_bytes() const {
  uint64_t total = 0;
  for (const PlannedTask& task : tasks) total += task.bytes;
  return total;
}

uint64_t ConversionPlan::disk() const {
  if (options.delete_source) return beside_source + rest_bytes;
  const bool linked = options.layout == WeightLayout::source && options.place != Place::copy;
  // The last task's file is our own; the others are those of the source.
  const uint64_t weights = !linked ? total_bytes() : tasks.empty() ? 0 : tasks.back().bytes;
  return weights + rest_bytes;
}

uint64_t ConversionPlan::peak_memory() const {
  uint64_t headers = 0;
  for (const InputFile& input : inputs) headers += input.header_bytes;
  return options.memory + 3 * headers;
}

ConversionPlan plan_of(const Conversion& conversion, const std::string& source,
                       const std::string& destination, const ConvertOptions& options) {
  ConversionPlan plan;
  plan.source = absolute_path(source);
  plan.destination = absolute_path(destination);
  plan.options = options;
  plan.inputs = conversion.inputs();
  plan.rest_bytes = conversion.rest_bytes();
  plan.options.like = absolute_path(options.like);
  plan.options.map_file = absolute_path(options.map_file);
  plan.options.progress = nullptr;
  for (const DataShard& shard : conversion.shards())
    plan.tasks.push_back({shard.file, shard.tensors.size(), shard.bytes});
  if (options.delete_source)
    plan.beside_source = disk_beside_source(conversion, std::vector<bool>(plan.tasks.size()));
  return plan;
}

TimeEstimate estimated_time(const ConversionPlan& plan, const MachineSpeed& speed) {
  const auto seconds = [](uint64_t bytes, double bytes_per_s) {
    return bytes_per_s > 0 ? static_cast<double>(bytes) / bytes_per_s : 0;
  };
  uint64_t read = 0;
  for (const InputFile& input : plan.inputs) read += input.bytes;
  const bool hashed = plan.options.sha256 && plan.options.layout == WeightLayout::tensorflow;
  return {seconds(read, speed.disk_read), seconds(plan.disk(), speed.disk_write),
          hashed ? seconds(plan.total_bytes(), speed.sha256) : 0};
}

Json to_json(const TimeEstimate& time) {
  return Json{{"seconds", time.all()}, {"read", time.read}, {"write", time.write}, {"hash", time.hash}};
}

Json to_json(const ConversionPlan& plan) {
  Json inputs = Json::array(), tasks = Json::array();
  for (const InputFile& input : plan.inputs)
    inputs.push_back(Json{{"path", input.path},
                          {"bytes", input.bytes},
                          {"modified_ns", input.modified_ns},
                          {"sha256", input.sha256},
                          {"header_bytes", input.header_bytes}});
  for (const PlannedTask& task : plan.tasks)
    tasks.push_back(Json{{"file", task.file}, {"tensors", task.tensors}, {"bytes", task.bytes}});
  return Json{{"tandem_plan", kVersion},           {"source", plan.source},
              {"destination", plan.destination},   {"options", to_json(plan.options)},
              {"bytes", plan.total_bytes()},       {"disk", plan.disk()},
              {"peak_memory", plan.peak_memory()}, {"time", plan.time ? to_json(*plan.time) : Json()},
              {"rest_bytes", plan.rest_bytes},     {"inputs", std::move(inputs)},
              {"tasks", std::move(tasks)}};
}

Result<ConversionPlan> plan_from_text(std::string_view text) {
  TANDEM_TRY(const Json json, parse_json(text));
  Fields fields(json, "the document");
  if (const Json* version = fields.any("tandem_plan"); version && *version != kVersion)
    return corrupt("plan_c1", "plan version {:.20}, this program knows {}", version->dump(), kVersion);
  ConversionPlan plan;
  plan.source = fields.text("source");
  plan.destination = fields.text("destination");
  if (const Json* options = fields.any("options")) {
    TANDEM_TRY(plan.options, options_from_json(*options));
  }
  for (const char* derived : {"bytes", "disk", "peak_memory"}) (void)fields.size(derived);
  (void)fields.any("time");  // of the machine that planned; who carries it out needs none
  plan.rest_bytes = fields.size("rest_bytes");
  for (const Json& entry : fields.list("inputs")) {
    TANDEM_TRY(InputFile input, input_from_json(entry, plan.inputs.size()));
    plan.inputs.push_back(std::move(input));
  }
  for (const Json& entry : fields.list("tasks")) {
    TANDEM_TRY(PlannedTask task, task_from_json(entry, plan.tasks.size()));
    plan.tasks.push_back(std::move(task));
  }
  TANDEM_CHECK(fields.done());
  if (!sums_fit(plan)) return corrupt("plan_c1", "not a plan of this tool: its sizes add up beyond 64 bits");
  return plan;
}

std::string identity(const ConversionPlan& plan) {
  ConversionPlan bare = plan;
  bare.options.force = false;
  bare.options.memory = 0;
  bare.time.reset();
  return to_json(bare).dump(1) + "\n";
}

}  // namespace tandem
