#include "lower/tf/activation.h"
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

/// x cut into the items of its first axis, which has `count`.
std::string items_of(FunctionBuilder& f, const Tensor& x, uint64_t count) {
  return f.node("Unpack", {x.ref},
                {attr("T", x.type.dtype), attr("num", static_cast<int64_t>(count)), attr("axis", int64_t{0})},
                "output");
}

/// Slots (token * top_k + choice) in the order of their experts, so that rows of a batch that chose one
/// expert read it one after the other: from memory once, then from a cache.
struct Order {
  Tensor slots, experts;  ///< i32 [slots]
};

Order by_expert(FunctionBuilder& f, const Tensor& chosen) {
  const TensorType numbers{DType::i32, {Dim("slots")}};
  const Tensor flat{f.node("Reshape", {chosen.ref, f.constant({-1})},
                           {attr("T", DType::i32), attr("Tshape", DType::i32)}, "output"),
                    numbers};
  const std::string count = i32_op(f, "Mul", f.axis(chosen.type.shape[0]), f.axis(chosen.type.shape[2]));
  f.name_axis("slots", count);
  const std::string sorted = f.node(
      "TopKV2", {f.unary("Neg", flat).ref, count},
      {attr("T", DType::i32), attr("sorted", true), attr("Tk", DType::i32), attr("index_type", DType::i32)},
      "values");
  const Tensor slots{FunctionBuilder::nth(sorted, 0, "indices"), numbers};
  return {slots, f.gather(flat, slots, 0)};
}

}  // namespace

Tensor experts_by_token(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                        LowerContext& context) {
  const DType dtype = inputs[0].tensor.type.dtype;
  const std::vector<Dim> shape = inputs[0].tensor.type.shape;
  const bool one = shape[1] == Dim(1);  // else every token is a row by itself
  const Dim batch = one ? shape[0] : Dim("tokens_of_all_rows"), hidden = shape[2];
  if (!one) f.name_axis(batch.symbol, i32_op(f, "Mul", f.axis(shape[0]), f.axis(shape[1])));
  const auto one_a_row = [&](const TfOperand& operand) {
    const Tensor tokens = f.use(operand);
    return one ? tokens : f.reshape(tokens, {batch, Dim(1), tokens.type.shape[2]});
  };
  const Tensor x = one_a_row(inputs[0]), chosen = one_a_row(inputs[1]);
  const Mixture m{static_cast<size_t>(int_attribute(node, "chunks")),
                  string_attribute(node, "layout") == "out_in", string_attribute(node, "hidden_act"),
                  chosen.type.shape.back().size};
  const Order order = by_expert(f, chosen);
  const Dim k(m.top_k);
  const Tensor tokens{f.node("FloorDiv", {order.slots.ref, f.scalar(static_cast<int32_t>(m.top_k))},
                             {attr("T", DType::i32)}, "z"),
                      order.slots.type};
  LoopInputs in;
  in.values = {{"rows", x},
               {"tokens", f.reshape(tokens, {batch, k})},
               {"experts", f.reshape(order.experts, {batch, k, Dim(1)})}};
  for (size_t i = 3; i < inputs.size(); ++i)
    in.weights.push_back({fmt::format("kernel_{}", i - 3), inputs[i]});
  // A turn has top_k slots, so that the graph does not grow with the batch.
  const auto body = [&](FunctionBuilder& b, const std::vector<Tensor>& values,
                        const std::vector<TfOperand>& kernels) {
    const Tensor turn{"counter", {DType::i32, {}}};
    const std::string rows = items_of(b, b.gather(values[0], b.gather(values[1], turn, 0), 0), m.top_k);
    const std::string experts = items_of(b, b.gather(values[2], turn, 0), m.top_k);
    const auto of_slot = [](const std::string& items, uint64_t j) {
      return FunctionBuilder::nth(items, static_cast<int>(j));
    };
    std::vector<std::string> products;
    for (uint64_t j = 0; j < m.top_k; ++j) {
      const Tensor row{of_slot(rows, j), {dtype, {Dim(1), hidden}}};
      products.push_back(one_expert(b, m, row, of_slot(experts, j), kernels).ref);
    }
    return Tensor{b.join(products, dtype), {dtype, {k, hidden}}};
  };
  const Tensor turns = list_loop(f, context, "experts_loop", batch, {dtype, {k, hidden}}, in, body);
  // Back in the order of the slots.
  const std::string scattered =
      f.node("ScatterNd",
             {f.expand_dims(order.slots, -1).ref, f.reshape(turns, {Dim("slots"), hidden}).ref,
              f.shape({Dim("slots"), hidden})},
             {attr("T", dtype), attr("Tindices", DType::i32)}, "output");
  const Tensor products = f.reshape({scattered, {dtype, {Dim("slots"), hidden}}}, {batch, k, hidden});
  const Tensor sums = f.batch_matmul(f.cast(one_a_row(inputs[2]), dtype), products, false);
  return one ? sums : f.reshape(sums, shape);
}

}  // namespace tandem
