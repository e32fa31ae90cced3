#include "verify/dump_side.h"

#include <gmock/gmock.h>

#include "base/test_folder.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A dump with one probe a list of ids, "p0", "p1", ...; those in `bare` have no tap.
std::unique_ptr<DumpFile> dump_of(const TestFolder& folder, const std::string& name,
                                  const std::vector<std::vector<int32_t>>& rows,
                                  const std::set<size_t>& bare = {}) {
  MemorySource source;
  Json prompts = Json::array();
  for (size_t i = 0; i < rows.size(); ++i) {
    prompts.push_back("p" + std::to_string(i));
    for (const auto& [input, tensor] : make_probe("", {rows[i]}, Padding::right).inputs())
      source.add({dump_tensor(i, input), tensor.dtype, tensor.shape}, tensor.data);
    if (bare.contains(i)) continue;
    const Shape shape{1, rows[i].size(), 2};
    source.add({dump_tensor(i, "model.norm"), DType::f32, shape},
               std::vector<std::byte>(byte_count(DType::f32, shape).value()));
  }
  const std::map<std::string, std::string> words{{"tandem_dump", "1"},
                                                 {"engine", "hf"},
                                                 {"dtype", "float32"},
                                                 {"levels", "module"},
                                                 {"prompts", prompts.dump()}};
  EXPECT_TRUE(
      write_safetensors(real_files(), folder / name, source, file_layout(source.tensors()), words).ok());
  auto opened = DumpFile::open(real_files(), folder / name);
  EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message());
  return std::move(opened).value();
}

std::vector<std::string> names(const std::vector<Probe>& probes) {
  std::vector<std::string> found;
  for (const Probe& probe : probes) found.push_back(probe.name);
  return found;
}

TEST(DumpSide, ProbesAreThoseOfTheDump) {
  const TestFolder folder;
  const auto dump = dump_of(folder, "a", {{1, 2}, {3}});
  const auto probes = probes_of_dumps(nullptr, dump.get(), 10);
  ASSERT_TRUE(probes.ok());
  EXPECT_THAT(names(probes.value()), ElementsAre("p0", "p1"));
  EXPECT_THAT(probes.value()[0].input_ids, ElementsAre(1, 2));
  EXPECT_THAT(probes.value()[0].position_ids, ElementsAre(0, 1));
  EXPECT_EQ(dump->find(probes.value()[1].inputs()), &dump->probes()[1]);
}

TEST(DumpSide, OfTwoDumpsThoseThatBothHave) {
  const TestFolder folder;
  const auto left = dump_of(folder, "a", {{1, 2}, {3}}), right = dump_of(folder, "b", {{3}, {4}});
  EXPECT_THAT(names(probes_of_dumps(left.get(), right.get(), 0).value()), ElementsAre("p1"));
  const auto none = probes_of_dumps(left.get(), dump_of(folder, "c", {{5}}).get(), 0);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().text, "the dumps have no probe in common");
}

TEST(DumpSide, C10IdsThatTheOtherSideDoesNotHave) {
  const TestFolder folder;
  const auto dump = dump_of(folder, "a", {{1, 2}, {9}});
  EXPECT_TRUE(probes_of_dumps(dump.get(), nullptr, 10).ok());
  EXPECT_EQ(probes_of_dumps(dump.get(), nullptr, 9).error().text,
            "the probe \"p1\" has the token id 9, the other side's vocab_size is 9");
}

TEST(DumpSide, TapsAreMeasuredWhereEveryDumpHasSome) {
  const TestFolder folder;
  const auto left = dump_of(folder, "a", {{1}, {2}, {3}}, {0});
  const auto right = dump_of(folder, "b", {{1}, {2}, {3}}, {2});
  const auto probes = probes_of_dumps(left.get(), right.get(), 0).value();
  EXPECT_THAT(names(with_taps(probes, left.get(), right.get())), ElementsAre("p1"));
  EXPECT_THAT(names(with_taps(probes, nullptr, right.get())), ElementsAre("p0", "p1"));
  EXPECT_EQ(with_taps(probes, nullptr, nullptr).size(), 3u);
}

TEST(DumpSide, ConfigsThatDiffer) {
  const Json left{{"model_type", "llama"}, {"rms_norm_eps", 1e-6}, {"torch_dtype", "float32"}};
  EXPECT_THAT(config_differences(left, Json()), IsEmpty());
  Json right{{"torch_dtype", "bfloat16"}, {"rms_norm_eps", 1e-6}, {"model_type", "llama"}};
  EXPECT_THAT(config_differences(left, right), IsEmpty());
  right["rms_norm_eps"] = 1e-5;
  right["head_dim"] = 4;
  EXPECT_THAT(config_differences(left, right),
              ElementsAre("the configs differ: head_dim is not there on the left, 4 on the right",
                          "the configs differ: rms_norm_eps is 1e-06 on the left, 1e-05 on the right"));
}

}  // namespace
}  // namespace tandem
