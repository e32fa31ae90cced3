#include "engines/dump_engine.h"

#include <gmock/gmock.h>

#include <cstring>

#include "base/test_folder.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

/// A dump of one probe, [1, 2] tokens and 3 logits a token, that tests break in one place.
struct Sample {
  std::map<std::string, std::string> words{{"tandem_dump", "1"},        {"engine", "hf"},
                                           {"dtype", "float32"},        {"levels", "layer,module,model"},
                                           {"prompts", R"(["first"])"}, {"version", "5.0"}};
  HostTensors tensors;

  Sample() {
    tensors["probe/0/input_ids"] = ints({1, 2}, {4, 7});
    tensors["probe/0/attention_mask"] = ints({1, 2}, {1, 1});
    tensors["probe/0/position_ids"] = ints({1, 2}, {0, 1});
    tensors["probe/0/logits"] = floats({1, 2, 3}, 0);
    tensors["probe/0/model.norm"] = floats({1, 2, 4}, 100);
  }
  static HostTensor ints(Shape shape, const std::vector<int32_t>& values) {
    HostTensor tensor{DType::i32, std::move(shape), std::vector<std::byte>(values.size() * 4)};
    std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
    return tensor;
  }
  static HostTensor floats(const Shape& shape, float first) {
    HostTensor tensor{DType::f32, shape, std::vector<std::byte>(byte_count(DType::f32, shape).value())};
    for (size_t i = 0; i * 4 < tensor.data.size(); ++i) {
      const float value = first + static_cast<float>(i);
      std::memcpy(tensor.data.data() + i * 4, &value, 4);
    }
    return tensor;
  }
  HostTensors inputs() const {
    return {{"input_ids", tensors.at("probe/0/input_ids")},
            {"attention_mask", tensors.at("probe/0/attention_mask")},
            {"position_ids", tensors.at("probe/0/position_ids")}};
  }
  std::string written(const std::string& folder) const {
    MemorySource source;
    for (const auto& [name, tensor] : tensors) source.add({name, tensor.dtype, tensor.shape}, tensor.data);
    const std::string path = join(folder, "t.dump");
    const Status done = write_safetensors(real_files(), path, source, file_layout(source.tensors()), words);
    EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message());
    return path;
  }
};

class Dump : public ::testing::Test {
 protected:
  Error refused(const Sample& sample) {
    const auto opened = DumpFile::open(real_files(), sample.written(folder_.path()));
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? Error{} : opened.error();
  }
  std::unique_ptr<Engine> engine(const Sample& sample) {
    auto opened = Engine::start(EngineKind::dump, sample.written(folder_.path()));
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message());
    return std::move(opened).value();
  }
  TestFolder folder_;
};

TEST_F(Dump, AnswersForItsProbeAsItWasRecorded) {
  const Sample sample;
  const auto dump = engine(sample);
  EXPECT_EQ(dump->info().at("engine"), "dump");
  EXPECT_EQ(dump->info().at("made_by"), "hf");
  EXPECT_EQ(dump->info().at("version"), "5.0");
  const auto logits = dump->run("logits", sample.inputs(), {"logits"});
  ASSERT_TRUE(logits.ok()) << logits.error().message();
  EXPECT_EQ(logits.value().at("logits").data, sample.tensors.at("probe/0/logits").data);
  const auto taps = dump->run("taps", sample.inputs(), {});
  ASSERT_TRUE(taps.ok());
  EXPECT_EQ(taps.value().size(), 2u);
  EXPECT_EQ(taps.value().at("model.norm").data, sample.tensors.at("probe/0/model.norm").data);
  const auto last = dump->last_logits(sample.inputs());
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last.value().at("logits").shape, (Shape{1, 1, 3}));
}

TEST_F(Dump, OfTapsThoseThatWereNotRecordedAreLeftOut) {
  const Sample sample;
  const auto taps = engine(sample)->run("taps", sample.inputs(), {"model.norm", "model.layers.0"});
  ASSERT_TRUE(taps.ok());
  EXPECT_EQ(taps.value().size(), 1u);
  EXPECT_TRUE(taps.value().contains("model.norm"));
}

TEST_F(Dump, C9OtherInputsHaveNoAnswer) {
  const Sample sample;
  const auto dump = engine(sample);
  HostTensors inputs = sample.inputs();
  inputs["input_ids"] = Sample::ints({1, 2}, {4, 8});
  const auto other = dump->run("logits", inputs, {});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, ErrorKind::invalid);
  EXPECT_EQ(other.error().text, "the dump has no probe with these inputs");
  inputs = sample.inputs();
  inputs.erase("position_ids");
  EXPECT_FALSE(dump->run("logits", inputs, {}).ok());
}

TEST_F(Dump, C10WhatItCannotTell) {
  const Sample sample;
  const auto dump = engine(sample);
  const auto routing = dump->run("logits", sample.inputs(), {"experts"});
  ASSERT_FALSE(routing.ok());
  EXPECT_EQ(routing.error().text, "the dump has no experts of the probe \"first\"");
  const auto forced = dump->run("logits_forced", sample.inputs(), {});
  ASSERT_FALSE(forced.ok());
  EXPECT_EQ(forced.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(forced.error().text, "a dump cannot run 'logits_forced', only tell what it recorded");
  EXPECT_EQ(dump->values("logits", Scope::entry, {}, {}).error().kind, ErrorKind::unsupported);
}

TEST_F(Dump, IsFoundByAllItsInputsAlone) {
  Sample sample;
  sample.words["prompts"] = R"(["a","b"])";
  for (const auto& [name, tensor] : HostTensors(sample.tensors)) {
    std::string second = name;
    sample.tensors[second.replace(6, 1, "1")] = tensor;
  }
  sample.tensors["probe/1/position_ids"] = Sample::ints({1, 2}, {5, 6});
  sample.tensors["probe/1/logits"] = Sample::floats({1, 2, 3}, 50);
  HostTensors inputs = sample.inputs();
  inputs["position_ids"] = sample.tensors.at("probe/1/position_ids");
  EXPECT_EQ(engine(sample)->run("logits", inputs, {}).value().at("logits").data,
            sample.tensors.at("probe/1/logits").data);
}

TEST_F(Dump, C1AnotherFileOrVersion) {
  Sample sample;
  sample.words["tandem_dump"] = "2";
  EXPECT_EQ(refused(sample).text, "a dump of version \"2\", this program reads \"1\"");
  EXPECT_EQ(refused(sample).kind, ErrorKind::unsupported);
  sample.words.erase("tandem_dump");
  EXPECT_EQ(refused(sample).text, "this is no dump: its metadata has no tandem_dump");
  EXPECT_THAT(refused(sample).where, HasSubstr("t.dump"));
}

TEST_F(Dump, C2WordsOfTheMetadata) {
  const std::tuple<const char*, const char*, const char*> rows[] = {
      {"engine", "", "the metadata has no engine"},
      {"dtype", "int32", "dtype is \"int32\", expected the arithmetic's: float32, bfloat16, ..."},
      {"levels", "model,weights", "levels: \"weights\" is none of layer, module, model"},
      {"levels", "", "levels is empty, expected some of layer, module, model"},
      {"prompts", "first", "prompts is no JSON list of names, one a probe"},
      {"prompts", "[1]", "prompts is no JSON list of names, one a probe"},
      {"config", "[]", "config is not the text of a config.json"},
  };
  for (const auto& [key, value, text] : rows) {
    Sample sample;
    sample.words[key] = value;
    EXPECT_EQ(refused(sample).text, text);
    EXPECT_EQ(refused(sample).rule, "dump_c2");
  }
}

TEST_F(Dump, C3ProbesAndTheirNumbers) {
  Sample sample;
  sample.words["prompts"] = R"(["a","b"])";
  EXPECT_EQ(refused(sample).text, "there are 1 probes, but prompts names 2");
  sample.tensors["probe/2/input_ids"] = Sample::ints({1, 2}, {4, 7});
  EXPECT_EQ(refused(sample).text, "there are 2 probes, but one has the number 2");
  sample.tensors.clear();
  EXPECT_EQ(refused(sample).text, "the dump has no probes");
  sample.tensors["probe/4000000000/logits"] = Sample::floats({1}, 0);
  EXPECT_EQ(refused(sample).text, "a probe has the number 4000000000, at most 100000 are read");
}

TEST_F(Dump, C4WhatIsMissing) {
  for (const std::string input : {"input_ids", "attention_mask", "position_ids"}) {
    Sample sample;
    sample.tensors.erase("probe/0/" + input);
    EXPECT_EQ(refused(sample).text, "probe/0/" + input + " is missing");
  }
  Sample sample;
  sample.tensors.erase("probe/0/logits");
  EXPECT_EQ(refused(sample).text, "probe/0/logits is missing, and levels promises \"model\"");
  sample = Sample();
  sample.tensors.erase("probe/0/model.norm");
  EXPECT_EQ(refused(sample).text, "no probe has a tap, and levels promises \"layer\" or \"module\"");
}

TEST_F(Dump, C5DTypes) {
  Sample sample;
  sample.tensors["probe/0/input_ids"] = Sample::floats({1, 2}, 0);
  EXPECT_EQ(refused(sample).text, "probe/0/input_ids is f32, expected i32");
  sample = Sample();
  sample.tensors["probe/0/logits"] = {DType::bf16, {1, 2, 3}, std::vector<std::byte>(12)};
  EXPECT_EQ(refused(sample).text, "probe/0/logits is bf16, expected f32");
  sample = Sample();
  sample.tensors["probe/0/model.norm"] = {DType::u8, {1, 2}, std::vector<std::byte>(2)};
  EXPECT_EQ(refused(sample).text,
            "probe/0/model.norm is u8, expected a float type, or i32 for chosen experts");
}

TEST_F(Dump, C6Shapes) {
  Sample sample;
  sample.tensors["probe/0/attention_mask"] = Sample::ints({1, 3}, {1, 1, 1});
  EXPECT_EQ(refused(sample).text,
            "probe/0/attention_mask is [1, 3], expected [batch, tokens] as input_ids, and not empty");
  sample = Sample();
  sample.tensors["probe/0/logits"] = Sample::floats({1, 3, 3}, 0);
  EXPECT_EQ(refused(sample).text,
            "probe/0/logits is [1, 3, 3], expected [1, 2, 0] (0: any size), as its inputs have [1, 2]");
  sample = Sample();
  sample.tensors["probe/0/model.norm"] = Sample::floats({2, 4}, 0);
  EXPECT_EQ(refused(sample).text, "probe/0/model.norm is [2, 4], expected [1, ..., 2, ...]");
  sample = Sample();
  for (const std::string input : {"input_ids", "attention_mask", "position_ids"})
    sample.tensors["probe/0/" + input] = Sample::ints({0, 2}, {});
  EXPECT_EQ(refused(sample).text,
            "probe/0/input_ids is [0, 2], expected [batch, tokens] as input_ids, and not empty");
}

TEST_F(Dump, C7ValuesOfInputs) {
  Sample sample;
  sample.tensors["probe/0/input_ids"] = Sample::ints({1, 2}, {4, -7});
  EXPECT_EQ(refused(sample).text, "probe/0/input_ids holds -7, expected no number below 0");
  sample = Sample();
  sample.tensors["probe/0/attention_mask"] = Sample::ints({1, 2}, {1, 2});
  EXPECT_EQ(refused(sample).text, "probe/0/attention_mask holds 2, expected 0 or 1");
  sample.tensors["probe/0/attention_mask"] = Sample::ints({1, 2}, {0, 0});
  EXPECT_EQ(refused(sample).text, "probe/0/attention_mask has no real token");
}

TEST_F(Dump, C8NamesThatAreNoneOfOurs) {
  for (const std::string name :
       {"logits", "probe/x/logits", "probe/00/logits", "probe/0", "probe/0/", "probe//a"}) {
    Sample sample;
    sample.tensors[name] = Sample::floats({1, 2, 3}, 0);
    EXPECT_EQ(refused(sample).text, "a tensor is named \"" + name + "\", expected probe/N/NAME");
  }
}

TEST_F(Dump, ACutFileIsTheReadersError) {
  const std::string path = Sample().written(folder_.path());
  const std::string text = read_text(real_files(), path).value();
  ASSERT_TRUE(write_text(real_files(), path, std::string_view(text).substr(0, text.size() - 1)).ok());
  const auto opened = DumpFile::open(real_files(), path);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::corrupt);
}

TEST_F(Dump, AFileThatIsNotThere) {
  const auto engine = Engine::start(EngineKind::dump, join(folder_.path(), "no.dump"));
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().kind, ErrorKind::missing);
}

}  // namespace
}  // namespace tandem
