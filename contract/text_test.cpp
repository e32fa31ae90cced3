#include "contract/text.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

namespace tandem {
namespace {

Contract sample() {
  Contract contract;
  contract.weights = {{"model.layers.0.norm.weight", DType::bf16, {4}, true},
                      {"model.bias", DType::f32, {}, false}};
  Block block{"layer", {{"x", f32({"batch", "tokens", 4})}}, {{"norm.weight", f32({4})}}, {}, {"y", "x"}};
  block.nodes = {{"rms_norm", {{"x", false}, {"norm.weight", true}}, {{"epsilon", 1e-6}}, {"y"}, "norm"}};
  contract.blocks = {block};
  Block entry{"logits", {{"x", f32({"batch", "tokens", 4})}}, {}, {}, {"y"}};
  entry.nodes = {{"call",
                  {{"x", false}},
                  {{"at", std::string("model.layers.0")}, {"block", std::string("layer")}},
                  {"y", "z"},
                  ""}};
  contract.entries = {entry};
  return contract;
}

constexpr std::string_view kSampleText =
    "contract 1\n"
    "compute f32\n"
    "weight model.layers.0.norm.weight: bf16[4]\n"
    "weight model.bias: f32[] frozen\n"
    "block layer(x: f32[batch, tokens, 4]) weights (norm.weight: f32[4]) {\n"
    "  y = rms_norm(x, @norm.weight, epsilon=1e-06)  # tap norm\n"
    "  return y, x\n"
    "}\n"
    "entry logits(x: f32[batch, tokens, 4]) {\n"
    "  y, z = call(x, at=\"model.layers.0\", block=\"layer\")\n"
    "  return y\n"
    "}\n";

TEST(ContractText, PrintsTheFormOfTheManual) {
  EXPECT_EQ(print(sample()), kSampleText);
  EXPECT_TRUE(parse_contract(kSampleText).value() == sample());
}

Attribute reparsed(const Attribute& attribute) {
  Contract contract;
  contract.blocks = {{"b", {}, {}, {{"op", {}, {{"value", attribute}}, {"y"}, ""}}, {"y"}}};
  const auto parsed = parse_contract(print(contract));
  return parsed.ok() ? parsed.value().blocks[0].nodes[0].attributes.at("value")
                     : Attribute(parsed.error().message());
}

TEST(ContractText, AttributesKeepTheirKindAndEveryBit) {
  const std::vector<Attribute> attributes{true,
                                          false,
                                          int64_t{0},
                                          INT64_MIN,
                                          INT64_MAX,
                                          0.1,
                                          1.0,
                                          -0.0,
                                          1e22,
                                          5e-324,
                                          std::nextafter(1.0, 2.0),
                                          HUGE_VAL,
                                          std::string(),
                                          std::string("a \"b\" \\ \n\x7f\xc3\xa9"),
                                          std::vector<int64_t>{},
                                          std::vector<int64_t>{1, -2},
                                          std::vector<double>{},
                                          std::vector<double>{1.0, 0.5}};
  for (const Attribute& attribute : attributes)
    EXPECT_TRUE(reparsed(attribute) == attribute) << attribute.index();
  EXPECT_TRUE(std::signbit(std::get<double>(reparsed(-0.0))));
}

// One line of the sample replaced; the answer names the line and what was expected.
std::string broken(std::string_view line, std::string_view replacement) {
  std::string text(kSampleText);
  text.replace(text.find(line), line.size(), replacement);
  const auto parsed = parse_contract(text);
  return parsed.ok() ? "parsed" : parsed.error().message();
}

TEST(ContractText, C1ErrorsNameTheLine) {
  EXPECT_EQ(parse_contract("").error().message(), "text_c1: line 1: expected \"contract 1\", found the end");
  EXPECT_EQ(broken("contract 1", "contract 2"), "text_c1: line 1: expected \"contract 1\", found \"2\"");
  EXPECT_EQ(broken("compute f32", "compute float32"),
            "text_c1: line 3: expected a dtype instead of float32 before, found \"weight "
            "model.layers.0.norm.wei\"");
  EXPECT_EQ(broken("f32[] frozen", "f32[n]"),
            "text_c1: line 5: expected fixed sizes for weight model.bias, found "
            "\"block layer(x: f32[batch, toke\"");
  EXPECT_EQ(
      broken("x: f32[batch, tokens, 4]) weights", "x: f33[4]) weights"),
      "text_c1: line 5: expected a type (\"f33[4]\" is not a type: no such dtype (expected something like "
      "\"f32[batch, 160]\")), found \"f33[4]) weights (norm.weight: \"");
  EXPECT_EQ(broken("epsilon=1e-06", "epsilon=1e999"),
            "text_c1: line 6: expected a value (a number, \"text\", true, false or a list), found \"1e999)  "
            "# tap norm\"");
  EXPECT_EQ(broken("epsilon=1e-06", "epsilon=1.0, epsilon=1.0"),
            "text_c1: line 6: expected attribute epsilon once only, found \")  # tap norm\"");
  EXPECT_EQ(broken("epsilon=1e-06", "epsilon=1.0, x"),
            "text_c1: line 6: expected '=' after x: operands come first, found \")  # tap norm\"");
  EXPECT_EQ(broken("epsilon=1e-06", "epsilon=[1, 2.0]"),
            "text_c1: line 6: expected a list of one kind of number, found \"])  # tap norm\"");
  EXPECT_EQ(broken("# tap norm", "# norm"), "text_c1: line 6: expected tap, found \"norm\"");
  EXPECT_EQ(broken("\"layer\")", "\"layer)"),
            "text_c1: line 11: expected the closing '\"' of a text, found \"return y\"");
  EXPECT_EQ(broken("\"layer\")", "\"la\\yer\")"),
            "text_c1: line 10: expected \\\", \\\\ or \\xNN after a backslash, found \"er\")\"");
  EXPECT_EQ(broken("y, z = call", "= call"),
            "text_c1: line 10: expected the name of a value, or return, found \"= call(x, "
            "at=\"model.layers.0\",\"");
  EXPECT_EQ(broken("  return y\n}\n", "  return y\n}\nweight w: f32[]\n"),
            "text_c1: line 13: expected weights, then blocks, then entries, found \"weight w: f32[]\"");
}

// A text cut off anywhere is an error, never a crash or a smaller contract.
TEST(ContractText, EveryCutIsAnError) {
  const std::string text(kSampleText);
  const size_t entry = text.find("entry"), block = text.find("block");
  for (size_t size = 0; size + 1 < text.size(); ++size) {
    const std::string cut = text.substr(0, size);
    const auto parsed = parse_contract(cut);
    // Whole items may be missing at the end; a contract without them is a contract.
    if (parsed.ok()) {
      EXPECT_TRUE(size <= block || size == entry || size == entry - 1) << cut;
    }
  }
}

// --- print then parse is the identity, over random contracts ---

using rc::gen::arbitrary;
using rc::gen::container;
using rc::gen::element;
using rc::gen::inRange;

std::string any_name() {
  const auto letters = rc::gen::elementOf(std::string("abcxyzABC_019.-"));
  return *rc::gen::elementOf(std::string("abcxyz_")) + *container<std::string>(*inRange(0, 6), letters);
}

std::vector<std::string> any_names(int least) {
  std::vector<std::string> names;
  for (int i = *inRange(least, 3); i > 0; --i) names.push_back(any_name());
  return names;
}

TensorType any_type() {
  TensorType type{kDTypes[*inRange<size_t>(0, kDTypes.size())].dtype, {}};
  for (int i = *inRange(0, 4); i > 0; --i)
    type.shape.push_back(*arbitrary<bool>() ? Dim(*arbitrary<uint64_t>())
                                            : Dim(*element<std::string>("batch", "t_1")));
  return type;
}

Attribute any_attribute() {
  const auto number = [] { return rc::gen::suchThat<double>([](double x) { return !std::isnan(x); }); };
  switch (*inRange(0, 6)) {
    case 0:
      return *arbitrary<bool>();
    case 1:
      return *arbitrary<int64_t>();
    case 2:
      return *number();
    case 3:
      return *arbitrary<std::string>();
    case 4:
      return *arbitrary<std::vector<int64_t>>();
    default:
      return *container<std::vector<double>>(number());
  }
}

Node any_node() {
  Node node{any_name(), {}, {}, any_names(1), *arbitrary<bool>() ? any_name() : ""};
  for (const std::string& name : any_names(0)) node.inputs.push_back({name, *arbitrary<bool>()});
  for (const std::string& name : any_names(0)) node.attributes.emplace(name, any_attribute());
  if (node.outputs[0] == "return") node.outputs[0] = "returned";
  return node;
}

std::vector<Parameter> any_parameters() {
  std::vector<Parameter> parameters;
  for (const std::string& name : any_names(0)) parameters.push_back({name, any_type()});
  return parameters;
}

Block any_block() {
  Block block{any_name(), any_parameters(), any_parameters(), {}, any_names(1)};
  for (int i = *inRange(0, 4); i > 0; --i) block.nodes.push_back(any_node());
  return block;
}

TEST(ContractText, PrintThenParseIsTheIdentity) {
  EXPECT_TRUE(rc::check("parse(print(contract)) == contract", [] {
    Contract contract;
    contract.compute = kDTypes[*inRange<size_t>(0, kDTypes.size())].dtype;
    for (int i = *inRange(0, 3); i > 0; --i)
      contract.weights.push_back({any_name(), kDTypes[*inRange<size_t>(0, kDTypes.size())].dtype,
                                  *arbitrary<Shape>(), *arbitrary<bool>()});
    for (int i = *inRange(0, 3); i > 0; --i) contract.blocks.push_back(any_block());
    for (int i = *inRange(0, 3); i > 0; --i) contract.entries.push_back(any_block());
    const std::string text = print(contract);
    const auto parsed = parse_contract(text);
    if (!parsed.ok()) RC_FAIL(parsed.error().message() + "\n" + text);
    RC_ASSERT(parsed.value() == contract);
    RC_ASSERT(print(parsed.value()) == text);
  }));
}

}  // namespace
}  // namespace tandem
