#pragma once
// The files of one side of a comparison, every byte of them in a region that has a name: so that a flipped
// bit is told by file and tensor.

#include <functional>

#include "base/file.h"
#include "formats/safetensors/safetensors.h"

namespace tandem {

/// What a region of a file is.
enum class RegionKind {
  tensor,   ///< data of a tensor (or of a slice, or a string of a bundle), by its name in that file
  header,   ///< what a safetensors file says before its data
  padding,  ///< bytes of a bundle's shard that no entry uses
  file,     ///< the whole of a file without tensors of its own: config.json, saved_model.pb
};
std::string_view name(RegionKind kind);  ///< "tensor", "header", ...
std::optional<RegionKind> region_kind_named(std::string_view name);

struct FileRegion {
  RegionKind kind = RegionKind::file;
  std::string name;  ///< of the tensor; empty for the other kinds
  uint64_t offset = 0, bytes = 0;
  std::string sha256;  ///< empty until hashed
};

struct CoveredFile {
  std::string name;  ///< relative, with '/' between: "variables/variables.index"
  uint64_t bytes = 0;
  std::string sha256;               ///< empty until hashed
  std::vector<FileRegion> regions;  ///< by offset, back to back over the whole file; none where it is empty
  int64_t modified_ns = 0;
};

/// Which files a path stands for.
enum class Covers {
  folder,      ///< all files below it, but for the folders .git and .cache
  file,        ///< itself
  checkpoint,  ///< a TensorFlow checkpoint's index and data, and the side files beside it, but no other files
               ///< there
};
std::string_view name(Covers covers);
std::optional<Covers> covers_named(std::string_view name);

struct CoveredSide {
  std::string path;  ///< as it was given
  Covers covers = Covers::folder;
  std::vector<CoveredFile> files;  ///< by name
};

/// Told the number of bytes that were read just now; its error ends the work.
using OnBytes = std::function<Status(uint64_t)>;

/// Lists the files of a path and finds their regions; reads headers only. A file whose layout cannot be read
/// is one region. Errors: missing; covered_c1 a name that is not UTF-8; covered_c2 more than 100,000 files,
/// or folders nested deeper than 32; R5 X1 X6 what path_inside and open refuse, and links to folders; io.
Result<CoveredSide> cover(const FileSystem& files, const std::string& path,
                          const SafetensorsLimits& limits = {});

/// Reads every file once and sets all hashes, in a fixed amount of memory. Errors: covered_c3 a file is not
/// what it was when it was covered (size or time of writing); io; those of `on_bytes`.
Status hash(const FileSystem& files, CoveredSide& side, const OnBytes& on_bytes = {});
uint64_t total_bytes(const CoveredSide& side);

/// Where the files of a side lie when it is at `path` (the side's own, or another place).
/// Errors: missing, nothing is there; covered_c4 a file where a folder is needed.
struct CoveredPlace {
  std::string folder;
  std::string only_file;  ///< the path of a side that is one file, whatever its name is now; or empty
};
Result<CoveredPlace> place_of(const FileSystem& files, const CoveredSide& side, const std::string& path);
/// The path of a covered file there. Errors: X1 R5.
Result<std::string> path_of(const FileSystem& files, const CoveredPlace& place, const std::string& name);
/// The names of the files that are there now, as cover() would list them. Links that leave, links to folders
/// and special files are listed as names.
Result<std::vector<std::string>> names_at(const FileSystem& files, const CoveredPlace& place,
                                          const CoveredSide& side);

struct FileDigests {
  std::string whole;
  std::vector<std::string> regions;  ///< one a region; empty where the file ends before the region does
};
/// The hashes of a file and of its stretches, in one pass. Regions lie in order without holes.
Result<FileDigests> digests_of(const ReadableFile& file, std::span<const FileRegion> regions,
                               const OnBytes& on_bytes = {});

}  // namespace tandem
