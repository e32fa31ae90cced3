#pragma once
// A checkpoint carried from one side to the other, streaming; the output appears whole or not at all.

#include <functional>
#include <set>

#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"
#include "base/place_file.h"
#include "base/shape.h"
#include "formats/safetensors/safetensors.h"

namespace tandem {

/// What to write.
enum class ConvertTarget { saved_model, checkpoint, safetensors };
Result<ConvertTarget> target_named(std::string_view name);

/// How kernels lie in the TensorFlow model.
enum class WeightLayout {
  tensorflow,  ///< [in, out], in files of our own
  source,      ///< [out, in], as PyTorch has them: the safetensors files themselves are the bundle's data
};

/// The one list of places: "hard-link", "reflink", "copy".
std::string_view place_name(Place place);
std::optional<Place> place_named(std::string_view name);

/// Processors, at most 4: one process is bound by its disk or by SHA-256, and more threads do not help.
unsigned default_threads();

struct ConvertOptions {
  std::optional<ConvertTarget> to;  ///< nothing: saved_model from Hugging Face, safetensors from TensorFlow
  std::optional<DType> dtype;       ///< storage; nothing keeps each tensor's own
  WeightLayout layout = WeightLayout::tensorflow;
  Place place = Place::hard_link;  ///< with WeightLayout::source, how the files come to lie in the output
  DType compute = DType::f32;      ///< arithmetic of the SavedModel
  /// Of decode_xla's linears: f32 or bf16 (LowerTfOptions).
  DType matmul_precision = DType::f32;
  bool inlined = false;            ///< its serving_default is nodes of the main graph, without functions
  std::optional<uint64_t> stages;  ///< so many SavedModels of consecutive layers; nothing: one of all
  std::string
      like;  ///< the model that this one came from: its dtypes, fp8 scales, carried tensors, side files
  std::string map_file;  ///< an edited structure map (tandem map --out)
  bool force = false;    ///< replace an existing output, if it is a model or an empty folder
  bool allow_tied_head =
      false;              ///< a head that is missing though the config says untied: tie it, and record that
  bool with_mtp = false;  ///< the first layer of multi-token prediction drafts for the SavedModel's loop
  bool without_mtp = false;  ///< going back: leave out carried tensors that the TensorFlow side lacks
  bool strict = false;       ///< warnings about the source are errors
  std::set<std::string> accepted_keys;  ///< config keys that nobody reads
  SafetensorsLimits limits;             ///< of the headers that are read
  /// Most bytes of tensor data in one file; a larger tensor has a file of its own. Nothing: 5e9, or going
  /// back the original's split.
  std::optional<uint64_t> max_shard_bytes;
  uint64_t memory =
      256ull << 20;  ///< what the process may take, besides three times the headers that it reads
  /// Delete each file of the source once all that is in it is written, synced and read back.
  bool delete_source = false;
  bool write = true;                     ///< false: read, convert and hash, and keep nothing (--sink null)
  bool sha256 = true;                    ///< of each file that is written, into its manifest
  unsigned threads = default_threads();  ///< that read, convert, write and hash
  /// Told the bytes done and to do; its error stops the conversion.
  std::function<Status(uint64_t done, uint64_t total)> progress;
};

/// One tensor that was written.
struct ConvertedTensor {
  std::string name;
  std::vector<std::string> from;
  DType from_dtype;
  DType dtype;
  Shape shape;
  std::vector<std::string> steps;  ///< in words
  uint32_t crc32c = 0;             ///< of its data as written
  CastCounts counts;               ///< what rounding did
};

struct ConvertReport {
  std::string architecture;
  std::string from;  ///< format of the source
  std::string to;    ///< format of the output
  std::vector<ConvertedTensor> tensors;
  uint64_t bytes = 0;  ///< of tensor data written
  std::vector<std::string>
      remarks;  ///< what a user should know: dtype changed, tensors left out, keys edited
};
Json to_json(const ConvertReport& report);

inline constexpr uint64_t kLeastMemory = 56ull << 20;
/// Errors: usage (convert_c4) for less memory than the program itself takes.
Status least_memory(const ConvertOptions& options);

/// Converts `source` into the new folder `destination`. The direction follows from the source.
/// Errors: exists (destination, without force; convert_c7 with force, if it is no model); convert_c1 all
/// tensors that do not fit the config, in one error; convert_c2 a value that overflows in the dtype asked for
/// (D04); convert_c3 carried tensors are missing; convert_c4 options that do not go together; convert_c5 a
/// tied copy differs from what it is tied to; those of readers, rules and lowering.
Result<ConvertReport> convert(const FileSystem& files, const std::string& source,
                              const std::string& destination, const ConvertOptions& options);

}  // namespace tandem
