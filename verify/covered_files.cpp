#include "verify/covered_files.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/hash.h"
#include "base/json.h"
#include "convert/open_model.h"
#include "formats/tensor_bundle/bundle_prefix.h"

namespace tandem {
namespace {

constexpr size_t kMaxFiles = 100'000;
constexpr int kMaxDepth = 32;
constexpr uint64_t kBlockBytes = 4ull << 20;
constexpr std::string_view kIndexSuffix = ".index";
/// Version control and the hub's downloads: no files of the model.
constexpr std::array<std::string_view, 2> kLeftOut{".git", ".cache"};

template <class Kind>
struct NameRow {
  Kind kind;
  std::string_view name;
};
constexpr NameRow<RegionKind> kRegionKinds[] = {{RegionKind::tensor, "tensor"},
                                                {RegionKind::header, "header"},
                                                {RegionKind::padding, "padding"},
                                                {RegionKind::file, "file"}};
constexpr NameRow<Covers> kCovers[] = {
    {Covers::folder, "folder"}, {Covers::file, "file"}, {Covers::checkpoint, "checkpoint"}};

template <class Kind, size_t n>
std::string_view name_in(const NameRow<Kind> (&rows)[n], Kind kind) {
  return std::find_if(rows, rows + n, [&](const auto& row) { return row.kind == kind; })->name;
}
template <class Kind, size_t n>
std::optional<Kind> named_in(const NameRow<Kind> (&rows)[n], std::string_view name) {
  for (const auto& row : rows)
    if (row.name == name) return row.kind;
  return std::nullopt;
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}
std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Status check_utf8(const std::string& name, const std::string& folder) {
  try {
    const std::string dumped = Json(name).dump();
    (void)dumped;
  } catch (const Json::exception&) {
    return unsupported("covered_c1", "a file's name is not UTF-8, and JSON cannot hold it").at(folder);
  }
  return {};
}

/// A folder's files, walked. A link to a folder is not followed (it may lead in a circle).
class Listing {
 public:
  explicit Listing(const FileSystem& files) : files_(files) {}
  Status add(const std::string& folder, const std::string& below, int depth) {
    if (depth > kMaxDepth)
      return unsupported("covered_c2", "folders nested deeper than {}", kMaxDepth).at(folder);
    TANDEM_TRY(const std::string real, files_.resolve(folder));
    TANDEM_TRY(const std::vector<std::string> names, files_.list(folder));
    for (const std::string& each : names) {
      if (depth == 0 && std::find(kLeftOut.begin(), kLeftOut.end(), each) != kLeftOut.end()) continue;
      const std::string path = join(folder, each);
      TANDEM_TRY(const PathKind kind, files_.kind(path));
      const auto target = files_.resolve(path);
      const bool is_link = !target.ok() || target.value() != join(real, each);
      if (kind == PathKind::directory && !is_link) {
        TANDEM_CHECK(add(path, below + each + "/", depth + 1));
        continue;
      }
      names_.push_back(below + each);
      if (names_.size() > kMaxFiles)
        return unsupported("covered_c2", "more than {} files", kMaxFiles).at(folder);
    }
    return {};
  }
  std::vector<std::string> names() && { return std::move(names_); }

 private:
  const FileSystem& files_;
  std::vector<std::string> names_;
};

bool belongs_to(std::string_view name, std::string_view prefix) {
  if (std::find(side_file_names().begin(), side_file_names().end(), name) != side_file_names().end())
    return true;
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return name == kIndexSuffix || name.starts_with(".data-");
}

/// A checkpoint's prefix, less the folder: what its index is called.
std::string prefix_in(const CoveredSide& side) {
  for (const CoveredFile& file : side.files)
    if (file.name.ends_with(kIndexSuffix)) return file.name.substr(0, file.name.size() - kIndexSuffix.size());
  return {};
}

Result<std::vector<std::string>> names_of_checkpoint(const FileSystem& files, const std::string& folder,
                                                     const std::string& prefix) {
  TANDEM_TRY(std::vector<std::string> names, files.list(folder));
  std::erase_if(names, [&](const std::string& each) { return !belongs_to(each, prefix); });
  return names;
}

/// Which files `path` stands for, and the folder and names of them.
struct Found {
  Covers covers;
  std::string folder;
  std::vector<std::string> names;
};

Result<Found> find_files(const FileSystem& files, const std::string& path) {
  TANDEM_TRY(const PathKind kind, files.kind(path));
  const auto format = detect(files, path);
  if (format.ok() && format.value() == ModelFormat::checkpoint) {
    TANDEM_TRY(const std::string prefix, bundle_prefix(files, path));
    Found found{Covers::checkpoint, parent_of(prefix), {}};
    TANDEM_TRY(found.names, names_of_checkpoint(files, found.folder, base_name(prefix)));
    return found;
  }
  if (kind == PathKind::file) return Found{Covers::file, parent_of(path), {base_name(path)}};
  if (kind != PathKind::directory) return Error(format.error());
  Listing listing(files);
  TANDEM_CHECK(listing.add(path, "", 0));
  return Found{Covers::folder, path, std::move(listing).names()};
}

using RegionsByPath = std::map<std::string, std::vector<FileRegion>>;

void add_safetensors(const FileSystem& files, const std::string& path, const SafetensorsLimits& limits,
                     RegionsByPath& regions) {
  const auto file = SafetensorsFile::open(files, path, limits);
  if (!file.ok()) return;  // then it is one region
  std::vector<FileRegion>& found = regions[path];
  for (const TensorInfo& tensor : file.value()->tensors())
    found.push_back({RegionKind::tensor,
                     tensor.name,
                     file.value()->data_offset(tensor.name),
                     byte_count(tensor.dtype, tensor.shape).value(),
                     {}});
}

void add_bundle(const FileSystem& files, const std::string& index, RegionsByPath& regions) {
  const auto bundle = TensorBundle::open(files, index.substr(0, index.size() - kIndexSuffix.size()));
  if (!bundle.ok()) return;
  for (BundleExtent& extent : bundle.value()->extents())
    regions[extent.file].push_back(
        {RegionKind::tensor, std::move(extent.name), extent.offset, extent.bytes, {}});
}

/// Tensors as they lie, and what is between them; those that overlap become one region with all their names.
std::vector<FileRegion> without_holes(std::vector<FileRegion> tensors, uint64_t bytes, bool has_header) {
  std::erase_if(tensors,
                [bytes](const FileRegion& region) {  // a file that was just cut has less than was read
                  return region.bytes == 0 || region.offset > bytes || region.bytes > bytes - region.offset;
                });
  std::sort(tensors.begin(), tensors.end(), [](const FileRegion& a, const FileRegion& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  std::vector<FileRegion> regions;
  uint64_t at = 0;
  const auto fill_up_to = [&](uint64_t end) {
    if (at == end) return;
    regions.push_back(
        {at == 0 && has_header ? RegionKind::header : RegionKind::padding, {}, at, end - at, {}});
    at = end;
  };
  for (FileRegion& tensor : tensors) {
    const uint64_t end = tensor.offset + tensor.bytes;
    if (tensor.offset < at) {
      regions.back().name += ", " + tensor.name;
      at = std::max(at, end);
      regions.back().bytes = at - regions.back().offset;
      continue;
    }
    fill_up_to(tensor.offset);
    regions.push_back(std::move(tensor));
    at = end;
  }
  fill_up_to(bytes);
  return regions;
}

Result<CoveredFile> covered(const FileSystem& files, const std::string& folder, const std::string& each,
                            const RegionsByPath& regions) {
  TANDEM_CHECK(check_utf8(each, folder));
  TANDEM_TRY(const std::string path, path_inside(files, folder, each));
  TANDEM_TRY(const auto file, files.open(path));
  CoveredFile result;
  result.name = each;
  result.bytes = file->size();
  result.modified_ns = file->modified_ns();
  const auto found = regions.find(path);
  if (found != regions.end())
    result.regions = without_holes(found->second, result.bytes, each.ends_with(".safetensors"));
  else if (result.bytes > 0)
    result.regions = {{RegionKind::file, {}, 0, result.bytes, {}}};
  return result;
}

/// Reads a stretch of a file into one or two running hashes.
class Stretches {
 public:
  Stretches(const ReadableFile& file, const OnBytes& on_bytes)
      : file_(file), on_bytes_(on_bytes), buffer_(std::min(file.size(), kBlockBytes)) {}
  Status read(uint64_t begin, uint64_t end, Sha256* region) {
    while (begin < end) {
      const auto block = std::span(buffer_).first(std::min<uint64_t>(end - begin, buffer_.size()));
      TANDEM_CHECK(file_.read(begin, block));
      whole_.update(block);
      if (region) region->update(block);
      begin += block.size();
      if (on_bytes_) TANDEM_CHECK(on_bytes_(block.size()));
    }
    return {};
  }
  std::string whole() { return whole_.hex(); }

 private:
  const ReadableFile& file_;
  const OnBytes& on_bytes_;
  std::vector<std::byte> buffer_;
  Sha256 whole_;
};

Status unchanged(const ReadableFile& file, const CoveredFile& covered) {
  if (file.size() == covered.bytes && file.modified_ns() == covered.modified_ns) return {};
  return invalid("covered_c3", "the file was written to while it was compared: {} bytes then, {} now",
                 covered.bytes, file.size())
      .at(file.path());
}

Status hash_file(const FileSystem& files, const std::string& path, CoveredFile& covered,
                 const OnBytes& on_bytes) {
  TANDEM_TRY(const auto file, files.open(path));
  TANDEM_CHECK(unchanged(*file, covered));
  TANDEM_TRY(FileDigests digests, digests_of(*file, covered.regions, on_bytes));
  TANDEM_TRY(const auto again, files.open(path));
  TANDEM_CHECK(unchanged(*again, covered));
  covered.sha256 = std::move(digests.whole);
  for (size_t i = 0; i < covered.regions.size(); ++i)
    covered.regions[i].sha256 = std::move(digests.regions[i]);
  return {};
}

}  // namespace

std::string_view name(RegionKind kind) { return name_in(kRegionKinds, kind); }
std::optional<RegionKind> region_kind_named(std::string_view text) { return named_in(kRegionKinds, text); }
std::string_view name(Covers covers) { return name_in(kCovers, covers); }
std::optional<Covers> covers_named(std::string_view text) { return named_in(kCovers, text); }

Result<CoveredSide> cover(const FileSystem& files, const std::string& path, const SafetensorsLimits& limits) {
  TANDEM_TRY(const Found found, find_files(files, path));
  RegionsByPath regions;
  for (const std::string& each : found.names) {
    const std::string at = join(found.folder, each);
    if (each.ends_with(".safetensors")) add_safetensors(files, at, limits, regions);
    if (each.ends_with(kIndexSuffix)) add_bundle(files, at, regions);
  }
  CoveredSide side{path, found.covers, {}};
  for (const std::string& each : found.names) {
    TANDEM_TRY(CoveredFile file, covered(files, found.folder, each, regions));
    side.files.push_back(std::move(file));
  }
  std::sort(side.files.begin(), side.files.end(),
            [](const CoveredFile& a, const CoveredFile& b) { return a.name < b.name; });
  return side;
}

Status hash(const FileSystem& files, CoveredSide& side, const OnBytes& on_bytes) {
  TANDEM_TRY(const CoveredPlace place, place_of(files, side, side.path));
  for (CoveredFile& file : side.files) {
    TANDEM_TRY(const std::string path, path_of(files, place, file.name));
    TANDEM_CHECK(hash_file(files, path, file, on_bytes));
  }
  return {};
}

uint64_t total_bytes(const CoveredSide& side) {
  uint64_t bytes = 0;
  for (const CoveredFile& file : side.files) bytes += file.bytes;
  return bytes;
}

Result<CoveredPlace> place_of(const FileSystem& files, const CoveredSide& side, const std::string& path) {
  TANDEM_TRY(const PathKind kind, files.kind(path));
  if (kind == PathKind::directory) return CoveredPlace{path, {}};
  if (side.covers == Covers::folder && kind != PathKind::absent)
    return invalid("covered_c4", "a folder was compared, and here is a file").at(path);
  if (side.covers == Covers::file && kind == PathKind::file) return CoveredPlace{parent_of(path), path};
  if (side.covers == Covers::checkpoint) {
    TANDEM_TRY(const PathKind parent, files.kind(parent_of(path)));
    if (parent == PathKind::directory) return CoveredPlace{parent_of(path), {}};
  }
  return missing("", "there is no such file or folder").at(path.empty() ? "\"\"" : path);
}

Result<std::string> path_of(const FileSystem& files, const CoveredPlace& place, const std::string& each) {
  if (!place.only_file.empty()) return place.only_file;
  return path_inside(files, place.folder, each);
}

Result<std::vector<std::string>> names_at(const FileSystem& files, const CoveredPlace& place,
                                          const CoveredSide& side) {
  if (side.covers == Covers::file) return std::vector<std::string>{};
  if (side.covers == Covers::checkpoint) return names_of_checkpoint(files, place.folder, prefix_in(side));
  Listing listing(files);
  TANDEM_CHECK(listing.add(place.folder, "", 0));
  return std::move(listing).names();
}

Result<FileDigests> digests_of(const ReadableFile& file, std::span<const FileRegion> regions,
                               const OnBytes& on_bytes) {
  Stretches stretches(file, on_bytes);
  FileDigests digests;
  digests.regions.resize(regions.size());
  uint64_t at = 0;
  if (regions.size() != 1 || regions[0].bytes != file.size()) {
    for (size_t i = 0; i < regions.size() && regions[i].bytes <= file.size() - at; ++i) {
      Sha256 region;
      TANDEM_CHECK(stretches.read(at, at + regions[i].bytes, &region));
      digests.regions[i] = region.hex();
      at += regions[i].bytes;
    }
  }
  TANDEM_CHECK(stretches.read(at, file.size(), nullptr));
  digests.whole = stretches.whole();
  if (regions.size() == 1 && regions[0].bytes == file.size()) digests.regions[0] = digests.whole;
  return digests;
}

}  // namespace tandem
