#include "base/host_tensor.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(HostTensor, InAnotherDtypeValuesAreRoundedToNearestEven) {
  // 0x3F808000 and 0x3F818000 lie between two bf16 each: the even ones are 0x3F80 and 0x3F82.
  const HostTensor wide{DType::f32,
                        {2},
                        {std::byte{0x00}, std::byte{0x80}, std::byte{0x80}, std::byte{0x3F}, std::byte{0x00},
                         std::byte{0x80}, std::byte{0x81}, std::byte{0x3F}}};
  const HostTensor narrow = in_dtype(wide, DType::bf16).value();
  EXPECT_EQ(narrow.dtype, DType::bf16);
  EXPECT_EQ(narrow.shape, wide.shape);
  EXPECT_EQ(narrow.data,
            (std::vector<std::byte>{std::byte{0x80}, std::byte{0x3F}, std::byte{0x82}, std::byte{0x3F}}));
}

TEST(HostTensor, InItsOwnDtypeItIsTheSame) {
  const HostTensor tensor{DType::f16, {1}, {std::byte{0x01}, std::byte{0x3C}}};
  EXPECT_EQ(in_dtype(tensor, DType::f16).value().data, tensor.data);
}

}  // namespace
}  // namespace tandem
