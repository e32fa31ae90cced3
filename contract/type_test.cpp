#include "contract/type.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(TensorType, TextAndBack) {
  for (const TensorType& type : {f32({"batch", "tokens", 160}), i32({}), bf16({0, UINT64_MAX}), f64({"_a1"})})
    EXPECT_EQ(parse_type(to_string(type)).value(), type);
  EXPECT_EQ(to_string(f32({"batch", "tokens", 160})), "f32[batch, tokens, 160]");
  EXPECT_EQ(parse_type(" f32 [ batch,2 ] ").value(), f32({"batch", 2}));
}

TEST(TensorType, C1AnythingElseIsAnError) {
  const auto why = [](std::string_view text) { return parse_type(text).error().text; };
  const std::string hint = " (expected something like \"f32[batch, 160]\")";
  EXPECT_EQ(why("f32"), "\"f32\" is not a type: it has no [sizes]" + hint);
  EXPECT_EQ(why("float32[2]"), "\"float32[2]\" is not a type: no such dtype" + hint);
  EXPECT_EQ(why("f32[2,]"), "\"f32[2,]\" is not a type: an axis is missing after the last comma" + hint);
  for (const char* text :
       {"f32[,2]", "f32[-1]", "f32[18446744073709551616]", "f32[a b]", "f32[1x]", "f32[[]"})
    EXPECT_EQ(why(text),
              fmt::format("\"{}\" is not a type: an axis is neither a size nor a name", text) + hint);
}

}  // namespace
}  // namespace tandem
