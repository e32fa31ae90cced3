#include "convert/tensor_view.h"

#include <gmock/gmock.h>

#include "convert/named_tensors.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> made;
  for (const int value : values) made.push_back(static_cast<std::byte>(value));
  return made;
}

MemorySource two() {
  MemorySource source;
  source.add({"a", DType::u8, {3}}, bytes({1, 2, 3}));
  source.add({"b", DType::u8, {2}}, bytes({4, 5}));
  return source;
}

TEST(TensorView, ReadsUnderANewNameInCanonicalOrder) {
  const MemorySource source = two();
  TensorView view;
  view.add({"layers.10", DType::u8, {2}}, source, "b");
  view.add({"layers.2", DType::u8, {3}}, source, "a");
  view.sort();
  EXPECT_EQ(view.tensors()[0].name, "layers.2");
  std::vector<std::byte> out(1);
  ASSERT_TRUE(view.read("layers.10", 1, out).ok());
  EXPECT_EQ(out, bytes({5}));
  EXPECT_EQ(view.read("a", 0, out).error().kind, ErrorKind::missing);
}

TEST(WatchedSource, TellsTheBytesOfEachRead) {
  const MemorySource source = two();
  uint64_t seen = 0;
  const WatchedSource watched(source, [&](uint64_t count) -> Status {
    seen += count;
    return {};
  });
  std::vector<std::byte> out(2);
  ASSERT_TRUE(watched.read("a", 0, out).ok());
  ASSERT_TRUE(watched.read("b", 1, std::span(out).first(1)).ok());
  EXPECT_EQ(seen, 3u);
}

TEST(WatchedSource, AnErrorOfTheWatcherIsTheReads) {
  const MemorySource source = two();
  const WatchedSource watched(source, [](uint64_t) -> Status { return unavailable("", "stop"); });
  std::vector<std::byte> out(2);
  EXPECT_EQ(watched.read("b", 0, out).error().text, "stop");
}

RuleTable one_row(bool in_graph) {
  RuleRow row;
  row.hf = "norm.weight";
  row.tf = "model/norm/weight";
  row.shape = {"hidden_size"};
  row.sizes = {2};
  row.in_graph = in_graph;
  return {"toy", {row}};
}

MemorySource named(const std::string& name, uint64_t size) {
  MemorySource source;
  source.add({name, DType::u8, {size}}, std::vector<std::byte>(size));
  return source;
}

TEST(NamedTensors, AreFoundUnderThePrefixThatPythonGaveThem) {
  const MemorySource bundle = named("wrapped/model/norm/weight", 2);
  const NamedTensors found = find_named(bundle, one_row(true));
  ASSERT_EQ(found.view.tensors().size(), 1u);
  EXPECT_EQ(found.view.tensors()[0].name, "model/norm/weight");
  EXPECT_THAT(found.wrong, IsEmpty());
}

TEST(NamedTensors, MissingOnesAreSortedByWhetherTheGraphNeedsThem) {
  const MemorySource bundle = named("other", 2);
  EXPECT_THAT(find_named(bundle, one_row(true)).wrong, ElementsAre("missing: model/norm/weight"));
  ASSERT_EQ(find_named(bundle, one_row(false)).carried.size(), 1u);
  EXPECT_EQ(find_named(bundle, one_row(false)).carried[0].hf, "norm.weight");
  EXPECT_THAT(find_named(bundle, one_row(false)).wrong, IsEmpty());
}

TEST(NamedTensors, ACarriedTensorThatMayBeAbsentIsStillReported) {
  // What was lost in a re-save and what never was look the same here; the record of the original tells them
  // apart.
  RuleTable rules = one_row(false);
  rules.rows[0].optional = true;
  const MemorySource bundle = named("other", 2);
  const NamedTensors found = find_named(bundle, rules);
  ASSERT_EQ(found.carried.size(), 1u);
  EXPECT_TRUE(found.carried[0].optional);
}

TEST(NamedTensors, AnotherShapeIsSaid) {
  const MemorySource bundle = named("model/norm/weight", 3);
  EXPECT_THAT(find_named(bundle, one_row(true)).wrong,
              ElementsAre("wrong: model/norm/weight: shape [3], expected [2]"));
}

}  // namespace
}  // namespace tandem
