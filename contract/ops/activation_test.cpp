#include "contract/ops/activation.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

namespace tandem {
namespace {

struct Known {
  std::string_view name;
  double at_minus_3, at_minus_half, at_1;
};

// Worked out in arithmetic of 40 digits. The two forms of gelu part in the fourth digit.
constexpr Known kKnown[] = {
    {"silu", -0.14227761953270034, -0.18877033439907272, 0.73105857863000488},
    {"gelu", -0.0040496940948902836, -0.15426876936299345, 0.84134474606854295},
    {"gelu_pytorch_tanh", -0.0036373920817730188, -0.15428599017485608, 0.84119199060827670},
    {"relu", 0, 0, 1},
};

TEST(Activation, EachComputesItsFormula) {
  ASSERT_EQ(std::size(kKnown), activations().size());
  for (const Known& known : kKnown) {
    const Activation* act = find_activation(known.name);
    ASSERT_TRUE(act) << known.name;
    EXPECT_NEAR((*act)(-3.0), known.at_minus_3, 1e-14) << known.name;
    EXPECT_NEAR((*act)(-0.5), known.at_minus_half, 1e-14) << known.name;
    EXPECT_NEAR((*act)(1.0), known.at_1, 1e-14) << known.name;
    EXPECT_NEAR((*act)(-3.0f), known.at_minus_3, 5e-7) << known.name;  // 1 + erf(...) loses what is near -1
    EXPECT_NEAR((*act)(1.0f), known.at_1, 1e-7) << known.name;
  }
}

TEST(Activation, FarFromZeroItIsZeroOrTheIdentityAndNaNStays) {
  for (const Activation& act : activations()) {
    EXPECT_EQ(act(-1000.0), 0) << act.name;  // exp(1000) overflows, and its reciprocal is 0
    EXPECT_EQ(act(-1000.0f), 0) << act.name;
    EXPECT_EQ(act(0.0), 0) << act.name;
    EXPECT_EQ(act(1000.0), 1000) << act.name;
    EXPECT_TRUE(std::isnan(act(std::nan("")))) << act.name;
  }
}

TEST(Activation, NamesAndAliasesAreUnique) {
  std::set<std::string_view> names;
  for (const Activation& act : activations()) {
    EXPECT_TRUE(names.insert(act.name).second) << act.name;
    for (const std::string_view alias : act.aliases) EXPECT_TRUE(names.insert(alias).second) << alias;
    EXPECT_FALSE(act.formula.empty()) << act.name;
  }
}

TEST(Activation, ConfigsMayUseAliasesAndContractsMayNot) {
  EXPECT_EQ(find_activation("silu"), published_activation("silu"));
  EXPECT_EQ(published_activation("swish")->name, "silu");
  EXPECT_EQ(published_activation("gelu_new")->name, "gelu_pytorch_tanh");
  EXPECT_EQ(find_activation("swish"), nullptr);
  EXPECT_EQ(published_activation("quick_gelu"), nullptr);
  EXPECT_EQ(published_activation(""), nullptr);
  EXPECT_EQ(published_activations(),
            "\"silu\", \"swish\", \"gelu\", \"gelu_python\", \"gelu_pytorch_tanh\", \"gelu_python_tanh\", "
            "\"gelu_new\", \"gelu_accurate\", \"relu\"");
}

}  // namespace
}  // namespace tandem
