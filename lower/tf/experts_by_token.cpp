#include "lower/tf/experts.h"
#include "lower/tf/list_loop.h"

namespace tandem {
namespace {

std::string i32_op(FunctionBuilder& f, const std::string& op, const std::string& x, const std::string& y) {
  return f.node(op, {x, y}, {attr("T", DType::i32)}, "z");
}

/// One expert's number, as far as it is in a chunk: its place there (held inside), and how many of it: 0
/// or 1.
struct Place {
  std::string begin, end;  ///< i32[1], for StridedSlice
  std::string count;       ///< i32[1]; empty if there is one chunk
};

Place place_in(FunctionBuilder& f, const std::string& expert, uint64_t first, uint64_t size, bool alone) {
  Place place;
  std::string local = expert;
  if (!alone) {
    const auto last = static_cast<int32_t>(size - 1);
    local = i32_op(f, "Sub", expert, f.constant({static_cast<int32_t>(first)}));
    const std::string held =
        i32_op(f, "Maximum", i32_op(f, "Minimum", local, f.constant({last})), f.constant({0}));
    const std::string is_here = f.node("Equal", {held, local}, {attr("T", DType::i32)}, "z");
    place.count = f.cast({is_here, {DType::boolean, {Dim(1)}}}, DType::i32).ref;
    local = held;
  }
  place.begin = local;
  place.end = i32_op(f, "AddV2", local, f.constant({1}));
  return place;
}

/// A part of the first axis: StridedSlice shares the buffer of what it cuts there.
Tensor slice_first(FunctionBuilder& f, const Tensor& x, const std::string& begin, const std::string& end,
                   bool one) {
  std::vector<Attr> attributes{attr("T", x.type.dtype), attr("Index", DType::i32)};
  if (one) attributes.push_back(attr("shrink_axis_mask", int64_t{1}));
  Tensor y = x;
  y.ref = f.node("StridedSlice", {x.ref, begin, end, f.constant({1})}, attributes, "output");
  if (one)
    y.type.shape.erase(y.type.shape.begin());
  else
    y.type.shape[0] = Dim("here");
  return y;
}

/// x [1, in] times a kernel, for one row: BatchMatMulV3 does it in the thread that calls it, where MatMul
/// wakes the others, which takes longer than the product.
Tensor row_product(FunctionBuilder& f, const Tensor& x, const Tensor& kernel, bool out_in) {
  const DType dtype = x.type.dtype;
  return {f.node("BatchMatMulV3", {x.ref, kernel.ref},
                 {attr("Ta", dtype), attr("Tb", dtype), attr("Tout", dtype), attr("adj_x", false),
                  attr("adj_y", out_in)},
                 "output"),
          {dtype, {x.type.shape[0], kernel.type.shape[out_in ? 0 : 1]}}};
}

struct Mixture {
  size_t chunks;
  bool out_in;
  std::string hidden_act;
  uint64_t top_k;
};

/// down(act(gate(x)) * up(x)) of one expert for x [1, hidden]. Of several chunks, those without the expert
/// have no row.
Tensor one_expert(FunctionBuilder& f, const Mixture& m, const Tensor& x, const std::string& expert,
                  const std::vector<TfOperand>& kernels) {
  std::vector<std::string> parts;
  uint64_t first = 0;
  for (size_t c = 0; c < m.chunks; ++c) {
    const uint64_t size = kernels[c].tensor.type.shape[0].size;
    const Place at = place_in(f, expert, first, size, m.chunks == 1);
    first += size;
    const Tensor rows = m.chunks == 1 ? x : slice_first(f, x, f.constant({0}), at.count, false);
    const auto product = [&](const Tensor& in, size_t projection) {
      const TfOperand& stack = kernels[projection * m.chunks + c];
      const Tensor kernel = slice_first(f, f.read(stack), at.begin, at.end, true);
      return row_product(f, in, f.cast(kernel, stack.tensor.type.dtype), m.out_in);
    };
    const Tensor gate = product(rows, 0), up = product(rows, 1);
    parts.push_back(product(gate_few_rows(f, m.hidden_act, gate, up), 2).ref);
  }
  return {m.chunks == 1 ? parts[0] : f.join(parts, x.type.dtype), x.type};
}

}  // namespace

Tensor experts_by_token(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                        LowerContext& context) {
  const Tensor x = f.use(inputs[0]), chosen = f.use(inputs[1]);
  const DType dtype = x.type.dtype;
  const Mixture m{static_cast<size_t>(int_attribute(node, "chunks")),
                  string_attribute(node, "layout") == "out_in", string_attribute(node, "hidden_act"),
                  chosen.type.shape.back().size};
  LoopInputs in;
  in.values = {{"rows", x}, {"chosen", chosen}, {"weights", f.cast(f.use(inputs[2]), dtype)}};
  for (size_t i = 3; i < inputs.size(); ++i)
    in.weights.push_back({fmt::format("kernel_{}", i - 3), inputs[i]});
  const Dim hidden = x.type.shape.back();
  const auto body = [&](FunctionBuilder& b, const std::vector<Tensor>& values,
                        const std::vector<TfOperand>& kernels) {
    const Tensor turn{"counter", {DType::i32, {}}};
    const auto of_turn = [&](const Tensor& value) { return b.gather(value, turn, 0); };  // [1, n]
    const Tensor row = of_turn(values[0]), weights = of_turn(values[2]);
    const Tensor ids = b.reshape(of_turn(values[1]), {Dim(m.top_k), Dim(1)});
    const std::string experts =
        b.node("Unpack", {ids.ref},
               {attr("T", DType::i32), attr("num", static_cast<int64_t>(m.top_k)), attr("axis", int64_t{0})},
               "output");
    std::vector<std::string> products;
    for (uint64_t j = 0; j < m.top_k; ++j)
      products.push_back(
          one_expert(b, m, row, FunctionBuilder::nth(experts, static_cast<int>(j)), kernels).ref);
    const Tensor all{b.join(products, dtype), {dtype, {Dim(m.top_k), hidden}}};
    return b.matmul(weights, all, false);
  };
  const Tensor mixed =
      list_loop(f, context, "experts_loop", x.type.shape[0], {dtype, {Dim(1), hidden}}, in, body);
  return {mixed.ref, x.type};
}

}  // namespace tandem
