#pragma once
// TensorFlow's C API, opened at run time from the pip package: declarations of ours for the few functions we
// call. Source: tensorflow/c/c_api.h. The library must not meet a shared protobuf in this process.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

struct TF_Status;
struct TF_Graph;
struct TF_Session;
struct TF_SessionOptions;
struct TF_Tensor;
struct TF_Operation;
struct TF_ImportGraphDefOptions;
struct TF_Buffer {
  const void* data;
  size_t length;
  void (*data_deallocator)(void* data, size_t length);
};
struct TF_Output {
  TF_Operation* oper;
  int index;
};

namespace tandem {

// One row a function: result, name, parameters.
#define TANDEM_TF_FUNCTIONS(F)                                                                            \
  F(const char*, TF_Version, ())                                                                          \
  F(TF_Status*, TF_NewStatus, ())                                                                         \
  F(void, TF_DeleteStatus, (TF_Status*))                                                                  \
  F(int, TF_GetCode, (const TF_Status*))                                                                  \
  F(const char*, TF_Message, (const TF_Status*))                                                          \
  F(TF_Buffer*, TF_NewBuffer, ())                                                                         \
  F(void, TF_DeleteBuffer, (TF_Buffer*))                                                                  \
  F(TF_Tensor*, TF_AllocateTensor, (int dtype, const int64_t* dims, int num_dims, size_t bytes))          \
  F(void, TF_DeleteTensor, (TF_Tensor*))                                                                  \
  F(int, TF_TensorType, (const TF_Tensor*))                                                               \
  F(void*, TF_TensorData, (const TF_Tensor*))                                                             \
  F(size_t, TF_TensorByteSize, (const TF_Tensor*))                                                        \
  F(int, TF_NumDims, (const TF_Tensor*))                                                                  \
  F(int64_t, TF_Dim, (const TF_Tensor*, int axis))                                                        \
  F(TF_Graph*, TF_NewGraph, ())                                                                           \
  F(void, TF_DeleteGraph, (TF_Graph*))                                                                    \
  F(TF_Operation*, TF_GraphOperationByName, (TF_Graph*, const char* name))                                \
  F(int, TF_OperationNumOutputs, (TF_Operation*))                                                         \
  F(TF_Buffer*, TF_NewBufferFromString, (const void* bytes, size_t length))                               \
  F(TF_ImportGraphDefOptions*, TF_NewImportGraphDefOptions, ())                                           \
  F(void, TF_DeleteImportGraphDefOptions, (TF_ImportGraphDefOptions*))                                    \
  F(void, TF_ImportGraphDefOptionsSetPrefix, (TF_ImportGraphDefOptions*, const char* prefix))             \
  F(void, TF_ImportGraphDefOptionsAddInputMapping,                                                        \
    (TF_ImportGraphDefOptions*, const char* source, int index, TF_Output target))                         \
  F(void, TF_GraphImportGraphDef,                                                                         \
    (TF_Graph*, const TF_Buffer* graph_def, const TF_ImportGraphDefOptions*, TF_Status*))                 \
  F(TF_SessionOptions*, TF_NewSessionOptions, ())                                                         \
  F(void, TF_DeleteSessionOptions, (TF_SessionOptions*))                                                  \
  F(void, TF_SetConfig, (TF_SessionOptions*, const void* config_proto, size_t bytes, TF_Status*))         \
  F(TF_Session*, TF_NewSession, (TF_Graph*, const TF_SessionOptions*, TF_Status*))                        \
  F(void, TF_DeleteSession, (TF_Session*, TF_Status*))                                                    \
  F(TF_Session*, TF_LoadSessionFromSavedModel,                                                            \
    (const TF_SessionOptions*, const TF_Buffer* run_options, const char* folder, const char* const* tags, \
     int num_tags, TF_Graph*, TF_Buffer* meta_graph_def, TF_Status*))                                     \
  F(void, TF_SessionRun,                                                                                  \
    (TF_Session*, const TF_Buffer* run_options, const TF_Output* inputs, TF_Tensor* const* input_values,  \
     int num_inputs, const TF_Output* outputs, TF_Tensor** output_values, int num_outputs,                \
     const TF_Operation* const* targets, int num_targets, TF_Buffer* run_metadata, TF_Status*))

/// The functions, by their own names. The library stays loaded until the process ends.
struct TfApi {
#define TANDEM_TF_POINTER(result, name, parameters) result(*name) parameters = nullptr;
  TANDEM_TF_FUNCTIONS(TANDEM_TF_POINTER)
#undef TANDEM_TF_POINTER
};

/// Opens libtensorflow_cc.so.2 in the folder of the tensorflow package.
/// Errors: tf_c1 (unavailable) it cannot be loaded, or lacks a function.
Result<TfApi> open_tensorflow(const std::string& package_folder);

}  // namespace tandem
