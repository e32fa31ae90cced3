#include "engines/dump_file.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace tandem {
namespace {

constexpr std::string_view kPrefix = "probe/";
constexpr uint64_t kMaxProbes = 100'000;
constexpr size_t kShownWord = 200;
constexpr std::string_view kHint = "docs/recording.md says how a dump is made";

template <class List>
bool is_one_of(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

/// A name or word from the file as it may stand in a message.
std::string shown(std::string_view text) {
  std::string line;
  for (const char c : text.substr(0, kShownWord)) line += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return line;
}

/// "probe/12/model.norm" to 12 and "model.norm".
struct PlaceName {
  uint64_t probe = 0;
  std::string name;
};
std::optional<PlaceName> place_of(std::string_view tensor) {
  if (!tensor.starts_with(kPrefix)) return std::nullopt;
  tensor.remove_prefix(kPrefix.size());
  PlaceName place;
  const auto [rest, failed] = std::from_chars(tensor.data(), tensor.data() + tensor.size(), place.probe);
  const std::string_view number(tensor.data(), static_cast<size_t>(rest - tensor.data()));
  tensor.remove_prefix(number.size());
  if (failed != std::errc() || number != std::to_string(place.probe) || tensor.size() < 2 || tensor[0] != '/')
    return std::nullopt;
  place.name = tensor.substr(1);
  return place;
}

std::vector<int32_t> numbers_in(const HostTensor& tensor) {
  std::vector<int32_t> values(tensor.data.size() / sizeof(int32_t));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(int32_t));
  return values;
}

}  // namespace

std::string dump_tensor(size_t probe, std::string_view name) {
  return fmt::format("{}{}/{}", kPrefix, probe, name);
}

Result<std::unique_ptr<DumpFile>> DumpFile::open(const FileSystem& files, const std::string& path,
                                                 const SafetensorsLimits& limits) {
  auto dump = std::make_unique<DumpFile>();
  dump->path_ = path;
  TANDEM_TRY(dump->file_, SafetensorsFile::open(files, path, limits));
  Status read = dump->read_metadata();
  if (read.ok()) read = dump->read_names();
  for (size_t i = 0; i < dump->probes_.size() && read.ok(); ++i) read = dump->read_probe(dump->probes_[i]);
  if (!read.ok()) return std::move(read).error().at(path);
  return dump;
}

Status DumpFile::read_metadata() {
  const auto& words = file_->metadata();
  const auto word = [&](const std::string& key) {
    const auto found = words.find(key);
    return found == words.end() ? std::string() : found->second;
  };
  const std::string version = word("tandem_dump");
  if (version.empty())
    return corrupt("dump_c1", "this is no dump: its metadata has no tandem_dump").because(std::string(kHint));
  if (version != kDumpVersion)
    return unsupported("dump_c1", "a dump of version \"{}\", this program reads \"{}\"", shown(version),
                       kDumpVersion);
  made_by_ = word("engine");
  if (made_by_.empty()) return corrupt("dump_c2", "the metadata has no engine").because(std::string(kHint));
  const auto dtype = dtype_named(word("dtype"));
  if (!dtype || !is_float(*dtype))
    return corrupt("dump_c2", "dtype is \"{}\", expected the arithmetic's: float32, bfloat16, ...",
                   shown(word("dtype")));
  dtype_ = *dtype;
  const std::string list = word("levels");
  for (std::string_view rest = list; !rest.empty();) {
    const std::string_view level = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), level.size() + 1));
    if (!is_one_of(kDumpLevels, level))
      return corrupt("dump_c2", "levels: \"{}\" is none of {}", shown(level), fmt::join(kDumpLevels, ", "));
    levels_.insert(std::string(level));
  }
  if (levels_.empty())
    return corrupt("dump_c2", "levels is empty, expected some of {}", fmt::join(kDumpLevels, ", "));
  auto prompts = parse_json(word("prompts"));
  if (!prompts.ok() || !prompts.value().is_array())
    return corrupt("dump_c2", "prompts is no JSON list of names, one a probe");
  for (const Json& name : prompts.value()) {
    if (!name.is_string()) return corrupt("dump_c2", "prompts is no JSON list of names, one a probe");
    prompts_.push_back(shown(name.get<std::string>()));
  }
  if (const std::string text = word("config"); !text.empty()) {
    auto config = parse_json(text);
    if (!config.ok() || !config.value().is_object())
      return corrupt("dump_c2", "config is not the text of a config.json{}",
                     config.ok() ? "" : ": " + config.error().text);
    config_ = std::move(config).value();
  }
  for (const auto& [key, value] : words)
    if (!is_one_of(std::initializer_list<std::string_view>{"tandem_dump", "format", "config", "prompts",
                                                           "levels", "engine", "path"},
                   key))
      info_[shown(key)] = shown(value);
  info_["engine"] = "dump";
  info_["made_by"] = shown(made_by_);
  info_["path"] = path_;
  return {};
}

Status DumpFile::read_names() {
  std::map<uint64_t, DumpProbe> found;
  for (const TensorInfo& tensor : file_->tensors()) {
    const auto place = place_of(tensor.name);
    if (!place)
      return corrupt("dump_c8", "a tensor is named \"{}\", expected probe/N/NAME", shown(tensor.name))
          .because(std::string(kHint));
    if (place->probe >= kMaxProbes)
      return corrupt("dump_c3", "a probe has the number {}, at most {} are read", place->probe, kMaxProbes);
    DumpProbe& probe = found[place->probe];
    if (is_one_of(kDumpInputs, place->name))
      probe.inputs[place->name] = {tensor.dtype, tensor.shape, {}};  // its data comes in read_probe
    else if (is_one_of(kDumpResults, place->name))
      probe.results.emplace(place->name, tensor);
    else
      probe.taps.emplace(place->name, tensor);
  }
  if (found.empty()) return corrupt("dump_c3", "the dump has no probes").because(std::string(kHint));
  if (found.rbegin()->first + 1 != found.size())
    return corrupt("dump_c3", "there are {} probes, but one has the number {}", found.size(),
                   found.rbegin()->first);
  if (found.size() != prompts_.size())
    return corrupt("dump_c3", "there are {} probes, but prompts names {}", found.size(), prompts_.size());
  for (auto& [number, probe] : found) {
    probe.name = prompts_[number];
    probes_.push_back(std::move(probe));
  }
  return {};
}

Status DumpFile::read_probe(DumpProbe& probe) {
  const auto number = static_cast<size_t>(&probe - probes_.data());
  for (const std::string_view input : kDumpInputs) {
    const std::string name = dump_tensor(number, input);
    const auto given = probe.inputs.find(std::string(input));
    if (given == probe.inputs.end()) return corrupt("dump_c4", "{} is missing", name);
    const TensorInfo info{name, given->second.dtype, given->second.shape};
    if (info.dtype != DType::i32) return corrupt("dump_c5", "{} is {}, expected i32", name, info.dtype);
    if (input == kDumpInputs[0] && info.shape.size() == 2) {
      probe.batch = info.shape[0];
      probe.tokens = info.shape[1];
    }
    if (info.shape != Shape{probe.batch, probe.tokens} || probe.batch == 0 || probe.tokens == 0)
      return corrupt("dump_c6", "{} is {}, expected [batch, tokens] as input_ids, and not empty", name,
                     to_string(info.shape));
    TANDEM_TRY(given->second, read(info));
  }
  for (const std::string_view input : kDumpInputs)
    for (const int32_t value : numbers_in(probe.inputs.at(std::string(input))))
      if (value < 0 || (input == "attention_mask" && value > 1))
        return corrupt("dump_c7", "{} holds {}, expected {}", dump_tensor(number, input), value,
                       input == "attention_mask" ? "0 or 1" : "no number below 0");
  const std::vector<int32_t> mask = numbers_in(probe.inputs.at("attention_mask"));
  if (std::find(mask.begin(), mask.end(), 1) == mask.end())
    return corrupt("dump_c7", "{} has no real token", dump_tensor(number, "attention_mask"));
  return check_results(probe);
}

Status DumpFile::check_results(const DumpProbe& probe) {
  const auto number = static_cast<size_t>(&probe - probes_.data());
  const auto expect = [&](const std::string& name, DType dtype, const Shape& shape) -> Status {
    const auto found = probe.results.find(name);
    if (found == probe.results.end()) return {};
    const TensorInfo& info = found->second;
    if (info.dtype != dtype) return corrupt("dump_c5", "{} is {}, expected {}", info.name, info.dtype, dtype);
    bool fits = info.shape.size() == shape.size();
    for (size_t axis = 0; fits && axis < shape.size(); ++axis)
      fits = shape[axis] ? info.shape[axis] == shape[axis] : info.shape[axis] > 0;
    if (!fits)
      return corrupt("dump_c6", "{} is {}, expected {} (0: any size), as its inputs have [{}, {}]", info.name,
                     to_string(info.shape), to_string(shape), probe.batch, probe.tokens);
    return {};
  };
  TANDEM_CHECK(expect("logits", DType::f32, {probe.batch, probe.tokens, vocab_size_}));
  TANDEM_CHECK(expect("experts", DType::i32, {probe.batch, 0, probe.tokens, 0}));
  TANDEM_CHECK(expect("router_margin", DType::f32, {probe.batch, 0, probe.tokens}));
  const auto logits = probe.results.find("logits");
  if (logits != probe.results.end()) vocab_size_ = logits->second.shape[2];
  if (logits == probe.results.end() && levels_.contains("model"))
    return corrupt("dump_c4", "{} is missing, and levels promises \"model\"", dump_tensor(number, "logits"));
  for (const auto& [name, tap] : probe.taps) {
    if (!is_float(tap.dtype) && tap.dtype != DType::i32)
      return corrupt("dump_c5", "{} is {}, expected a float type, or i32 for chosen experts", shown(tap.name),
                     tap.dtype);
    const Shape& shape = tap.shape;
    const bool fits = shape.size() >= 2 && shape[0] == probe.batch &&
                      std::find(shape.begin() + 1, shape.end(), probe.tokens) != shape.end();
    if (!fits)
      return corrupt("dump_c6", "{} is {}, expected [{}, ..., {}, ...]", shown(tap.name), to_string(shape),
                     probe.batch, probe.tokens);
  }
  const bool last = number + 1 == probes_.size();
  const bool taps =
      std::any_of(probes_.begin(), probes_.end(), [](const DumpProbe& p) { return !p.taps.empty(); });
  if (last && !taps && (levels_.contains("layer") || levels_.contains("module")))
    return corrupt("dump_c4", "no probe has a tap, and levels promises \"layer\" or \"module\"");
  return {};
}

bool DumpFile::has_routing() const {
  return std::all_of(probes_.begin(), probes_.end(), [](const DumpProbe& probe) {
    return probe.results.contains("experts") && probe.results.contains("router_margin");
  });
}

const DumpProbe* DumpFile::find(const HostTensors& inputs) const {
  const auto equal = [&](const DumpProbe& probe) {
    if (inputs.size() != probe.inputs.size()) return false;
    for (const auto& [name, tensor] : probe.inputs) {
      const auto given = inputs.find(name);
      if (given == inputs.end() || given->second.dtype != tensor.dtype ||
          given->second.shape != tensor.shape || given->second.data != tensor.data)
        return false;
    }
    return true;
  };
  const auto found = std::find_if(probes_.begin(), probes_.end(), equal);
  return found == probes_.end() ? nullptr : &*found;
}

Result<HostTensor> DumpFile::read(const TensorInfo& tensor) const {
  TANDEM_TRY(const uint64_t bytes, byte_count(tensor.dtype, tensor.shape));
  HostTensor read{tensor.dtype, tensor.shape, std::vector<std::byte>(bytes)};
  TANDEM_CHECK(file_->read(tensor.name, 0, read.data));
  return read;
}

}  // namespace tandem
