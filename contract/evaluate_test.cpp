#include "contract/evaluate.h"

#include <gmock/gmock.h>

#include "contract/check.h"
#include "contract/text.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

/// Two layers that each add their own weight to the rows of a table.
constexpr std::string_view kText =
    "contract 1\n"
    "compute f32\n"
    "weight layers.0.offset: f32[1, 1, 2]\n"
    "weight layers.1.offset: f32[1, 1, 2]\n"
    "weight embed: f32[3, 2]\n"
    "block layer(x: f32[1, 1, 2]) weights (offset: f32[1, 1, 2]) {\n"
    "  y = add(x, @offset)  # tap sum\n"
    "  return y\n"
    "}\n"
    "entry hidden(ids: i32[1, 1], other: i32[batch, tokens], mask: i32[batch, tokens]) {\n"
    "  x_0 = embedding(ids, @embed)  # tap embed\n"
    "  x_1 = call(x_0, at=\"layers.0\", block=\"layer\")\n"
    "  x_2 = call(x_1, at=\"layers.1\", block=\"layer\")\n"
    "  return x_2\n"
    "}\n";

template <class Number>
Result<Value<Number>> weight(const std::string& name) {
  if (name == "embed") return Value<Number>{{3, 2}, {0, 1, 10, 11, 20, 21}};
  if (name == "layers.0.offset") return Value<Number>{{1, 1, 2}, {100, 200}};
  return Value<Number>{{1, 1, 2}, {1000, 2000}};
}

template <class Number>
Values<Number> inputs(Number id) {
  return {{"ids", {{1, 1}, {id}}}, {"other", {{1, 2}, {0, 0}}}, {"mask", {{1, 2}, {1, 1}}}};
}

template <class Number>
Result<Values<Number>> run(const Contract& contract, const Values<Number>& in, bool with_taps = false,
                           const WeightLookup<Number>& weights = weight<Number>) {
  return evaluate<Number>(contract, contract.entries[0], in, weights, with_taps);
}

class Evaluate : public ::testing::Test {
 protected:
  Contract contract = parse_contract(kText).value();
};

TEST_F(Evaluate, EveryCallHasTheWeightsOfItsPlace) {
  ASSERT_TRUE(check(contract).ok());
  const auto out = run<double>(contract, inputs(1.0)).value();
  EXPECT_EQ(out.size(), 1u);
  EXPECT_THAT(out.at("x_2").data, ElementsAre(1110, 2211));
  EXPECT_THAT(run<float>(contract, inputs(1.0f)).value().at("x_2").data, ElementsAre(1110, 2211));
}

TEST_F(Evaluate, TapsHaveFullNames) {
  const auto out = run<double>(contract, inputs(2.0), true).value();
  EXPECT_EQ(out.size(), 4u);
  EXPECT_THAT(out.at("embed").data, ElementsAre(20, 21));
  EXPECT_THAT(out.at("layers.0.sum").data, ElementsAre(120, 221));
  EXPECT_THAT(out.at("layers.1.sum").data, ElementsAre(1120, 2221));
}

TEST_F(Evaluate, C1InputsAreThereAndFit) {
  auto in = inputs(1.0);
  in.at("mask").shape = {2, 1};  // as many elements, but other's tokens are 2
  EXPECT_EQ(run<double>(contract, in).error().message(),
            "evaluate_c1: input mask has shape [2, 1], expected i32[batch, tokens]");
  in.erase("mask");
  EXPECT_EQ(run<double>(contract, in).error().message(), "evaluate_c1: input mask is missing");
  in = inputs(1.0);
  in.at("ids").data.clear();
  EXPECT_EQ(run<double>(contract, in).error().message(),
            "evaluate_c1: input ids has shape [1, 1], expected i32[1, 1]");
}

TEST_F(Evaluate, C2WeightsFit) {
  const auto wrong = [](const std::string&) -> Result<Value<double>> {
    return Value<double>{{3}, {0, 0, 0}};
  };
  EXPECT_THAT(run<double>(contract, inputs(1.0), false, wrong).error().message(),
              ::testing::EndsWith("evaluate_c2: weight embed has shape [3], expected [3, 2]"));
}

TEST_F(Evaluate, C3OtherPrecisionsRunInF64Only) {
  contract.compute = DType::bf16;
  EXPECT_EQ(run<float>(contract, inputs(1.0f)).error().message(),
            "evaluate_c3: the contract computes in bf16, this evaluation in f32 (evaluate it in f64, which "
            "rounds nothing)");
  EXPECT_TRUE(run<double>(contract, inputs(1.0)).ok());
}

TEST_F(Evaluate, ErrorsNameTheValueAndItsPlace) {
  EXPECT_EQ(run<double>(contract, inputs(3.0)).error().message(),
            "x_0 in entry hidden: embedding_c3: id 3 is not in the vocabulary of 3 tokens");
}

}  // namespace
}  // namespace tandem
