#pragma once
// Writes the body of one TensorFlow function: nodes with readable names, constants written once, shapes by
// axis name.

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contract/type.h"
#include "tensorflow/core/framework/function.pb.h"

namespace tandem {

/// A value in a function body: how a node refers to it ("add:z:0", or an argument's bare name), and its
/// contract type.
struct Tensor {
  std::string ref;
  TensorType type;
};

/// An operand of a lowering: a value, or a weight that is still a resource handle.
struct TfOperand {
  Tensor tensor;                 ///< for a weight: ref is the handle, type is what it is computed with
  std::optional<DType> storage;  ///< for a weight: the dtype that the variable keeps
};

using Attr = std::pair<std::string, tensorflow::AttrValue>;
Attr attr(std::string name, DType dtype);
Attr attr(std::string name, int64_t value);
Attr attr(std::string name, bool value);
Attr attr(std::string name, std::vector<DType> dtypes);
Attr shape_attr(std::string name, const std::vector<int64_t>& shape);  ///< -1: unknown axis
Attr shapes_attr(std::string name,
                 const std::vector<std::optional<std::vector<int64_t>>>& shapes);  ///< nothing: unknown rank
Attr attr(std::string name, const std::vector<std::string>& texts);
Attr text_attr(std::string name, const std::string& text);
Attr function_attr(std::string name, const std::string& function);
tensorflow::DataType tf_dtype(DType dtype);
/// Fixed axes as they are, named axes as -1.
std::vector<int64_t> static_shape(const TensorType& type);

/// The attribute that says where each contract value of a function is: a list of "name dtype-number ref"
/// ("q_rotated 1 q_rotated/concat:output:0"). It stands on the function's first node: TensorFlow keeps a
/// node's attributes that begin with "_", but Python loads no function with attributes that it does not know.
inline constexpr std::string_view kValuesAttribute = "_tandem_values";

class FunctionBuilder {
 public:
  explicit FunctionBuilder(std::string name);

  /// Explicit arguments, in call order.
  Tensor argument(const std::string& name, const TensorType& type);
  /// A resource argument: the handle of a variable.
  std::string resource(const std::string& name, DType storage, const std::vector<int64_t>& shape);
  /// A tensor list argument.
  Tensor variant(const std::string& name);
  void result(const std::string& name, const Tensor& tensor);
  void variant_result(const std::string& name, const std::string& ref);
  void resource_result(const std::string& name, const std::string& ref);
  void set_attribute(const Attr& attribute);
  /// On the first node; there must be one.
  void set_node_attribute(const Attr& attribute);
  void set_last_node_attribute(const Attr& attribute);
  tensorflow::FunctionDef finish();

  /// The readable prefix of the nodes that follow ("self_attn.q_proj/").
  void scope(const std::string& name);

  /// One node; returns "name:output:0". Further outputs: see nth.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attr>& attrs, const std::string& output);
  /// Output `index` of the node that `ref` belongs to, under another output name if given.
  static std::string nth(const std::string& ref, int index, const std::string& output = {});

  // Constants, each written once a function.
  std::string constant(const std::vector<int32_t>& values);           ///< rank 1
  std::string matrix(const std::vector<std::vector<int32_t>>& rows);  ///< rank 2
  std::string scalar(int32_t value);
  std::string scalar(DType dtype, double value);  ///< a float dtype
  std::string table(DType dtype, const std::vector<double>& values, const std::vector<int64_t>& shape);

  /// The value of an operand: a weight is read and cast to the type it is computed with, once a function.
  Tensor use(const TfOperand& operand);
  /// A weight as it is stored, read but not cast.
  Tensor read(const TfOperand& weight);
  Tensor cast(const Tensor& x, DType dtype);

  /// An axis as an i32 scalar; the named axes of the arguments are known.
  std::string axis(const Dim& dim);
  /// Makes a computed i32 scalar known as a named axis.
  void name_axis(const std::string& symbol, const std::string& scalar) { axes_[symbol] = scalar; }
  /// A whole shape as an i32 vector, -1 where `dims` holds {}.
  std::string shape(const std::vector<std::optional<Dim>>& dims);

  /// What `make` made when it was first asked for under this key.
  Tensor once(const std::string& key, const std::function<Tensor()>& make);

  // The commonest nodes.
  Tensor binary(const std::string& op, const Tensor& x, const Tensor& y);  ///< AddV2, Mul, Sub, ...: x's type
  Tensor unary(const std::string& op, const Tensor& x);                    ///< Square, Rsqrt, Sigmoid, ...
  Tensor same(const Tensor& x);                                            ///< Identity
  Tensor same_after(const Tensor& x, const Tensor& before);  ///< Identity, once `before` is there
  Tensor reshape(const Tensor& x, const std::vector<Dim>& shape);
  Tensor flatten_rows(const Tensor& x);  ///< [..., n] to [rows, n]
  Tensor transpose(const Tensor& x, const std::vector<int32_t>& axes);
  Tensor expand_dims(const Tensor& x, int32_t axis);
  std::string join(const std::vector<std::string>& parts, DType dtype);  ///< along the first axis
  Tensor concat_last(const Tensor& x, const Tensor& y);
  /// Elements begin, begin + stride, ... below end of the last axis.
  Tensor slice_last(const Tensor& x, int32_t begin, int32_t end, int32_t stride = 1);
  Tensor gather(const Tensor& x, const Tensor& indices, int32_t axis, int32_t batch_dims = 0);
  /// x[index]: shares x's buffer.
  Tensor item(const Tensor& x, int32_t index);
  Tensor batch_matmul(const Tensor& x, const Tensor& y, bool transpose_y);
  /// x [..., in] times kernel [in, out], or [out, in] transposed.
  Tensor matmul(const Tensor& x, const Tensor& kernel, bool transpose_kernel);
  std::string range(const std::string& begin, const std::string& end);  ///< i32
  std::string call(const std::string& function, const std::vector<std::string>& inputs,
                   const std::vector<DType>& explicit_types, size_t resources,
                   const std::vector<DType>& outputs);

 private:
  void add_result(const std::string& name, tensorflow::DataType dtype, const std::string& ref);
  std::string unique_name(const std::string& base);
  std::string const_node(const std::string& key, const tensorflow::TensorProto& value);

  tensorflow::FunctionDef def_;
  std::string scope_;
  std::map<std::string, int> used_;               // node names
  std::map<std::string, std::string> constants_;  // by value
  std::map<std::string, Tensor> reads_;           // weights already read, by handle and dtype
  std::map<std::string, std::string> axes_;       // scalars of named axes
  std::map<std::string, std::pair<std::string, int>> axis_sources_;  // named axis to argument and position
  std::map<std::string, TensorType> arguments_;
  std::map<std::string, Tensor> made_;  // by once()'s key
};

}  // namespace tandem
