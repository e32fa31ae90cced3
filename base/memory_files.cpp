#include "base/memory_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>

namespace tandem {

struct MemoryFiles::Node {
  bool is_folder = false;
  std::string bytes, synced_bytes;  // of a file
  Names names, synced_names;        // of a folder
};

namespace {

class MemoryReadable : public ReadableFile {
 public:
  MemoryReadable(std::string path, std::string bytes) : path_(std::move(path)), bytes_(std::move(bytes)) {}
  const std::string& path() const override { return path_; }
  uint64_t size() const override { return bytes_.size(); }
  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
      return corrupt("file_c1", "{} bytes expected here, the file ends at byte {}", out.size(), bytes_.size())
          .at(path_, offset);
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  std::string path_, bytes_;
};

class MemoryWritable : public WritableFile {
 public:
  MemoryWritable(const MemoryFiles& files, std::string path, std::shared_ptr<MemoryFiles::Node> node)
      : files_(files), path_(std::move(path)), node_(std::move(node)) {}
  Status append(std::span<const std::byte> bytes) override { return files_.append(*node_, path_, bytes); }
  Status close() override { return files_.sync(*node_, path_); }

 private:
  const MemoryFiles& files_;
  std::string path_;
  std::shared_ptr<MemoryFiles::Node> node_;
};

std::string parent_of(const std::string& path) { return std::filesystem::path(path).parent_path().string(); }
std::string name_of(const std::string& path) { return std::filesystem::path(path).filename().string(); }

/// What is left of bytes that were appended and not synced: up to some byte, the end of it maybe zeros.
std::string torn(const std::string& synced, const std::string& now, std::mt19937_64& random) {
  if (!now.starts_with(synced)) return random() % 2 ? now : synced;  // emptied, and written anew
  std::string left = now.substr(0, synced.size() + random() % (now.size() - synced.size() + 1));
  const size_t tail = left.size() - synced.size();
  const size_t lost = random() % 2 ? random() % (tail + 1) : 0;
  std::fill(left.end() - static_cast<std::ptrdiff_t>(lost), left.end(), '\0');
  return left;
}

}  // namespace

MemoryFiles::MemoryFiles() : root_(std::make_shared<Node>()) { root_->is_folder = true; }

void MemoryFiles::stop_at(uint64_t k) {
  const std::lock_guard guard(mutex_);
  stop_at_ = k;
  changes_ = 0;
}

uint64_t MemoryFiles::changes() const {
  const std::lock_guard guard(mutex_);
  return changes_;
}

Status MemoryFiles::changes_something(std::string_view action, const std::string& path) const {
  ++changes_;
  if (stop_at_ != 0 && changes_ >= stop_at_) return file_error(action, path, EIO);
  return {};
}

std::shared_ptr<MemoryFiles::Node> MemoryFiles::find(const std::string& path) const {
  std::shared_ptr<Node> at = root_;
  for (const auto& part : std::filesystem::path(path).relative_path()) {
    if (part.empty()) continue;  // a slash at the end
    if (!at->is_folder) return nullptr;
    const auto next = at->names.find(part.string());
    if (next == at->names.end()) return nullptr;
    at = next->second;
  }
  return at;
}

void MemoryFiles::set(Names& names, const Entry& entry) {
  if (entry.node)
    names[entry.name] = entry.node;
  else
    names.erase(entry.name);
}

void MemoryFiles::apply(Change change) const {
  for (const Entry& entry : change) set(entry.folder->names, entry);
  pending_.push_back(std::move(change));
}

Result<std::unique_ptr<ReadableFile>> MemoryFiles::open(const std::string& path, bool) const {
  const std::lock_guard guard(mutex_);
  const auto node = find(path);
  if (!node) return file_error("open", path, ENOENT);
  if (node->is_folder) return unsafe("X6", "is a directory, not a regular file").at(path);
  return std::unique_ptr<ReadableFile>(std::make_unique<MemoryReadable>(path, node->bytes));
}

Result<std::unique_ptr<WritableFile>> MemoryFiles::create(const std::string& path) const {
  const std::lock_guard guard(mutex_);
  TANDEM_CHECK(changes_something("create", path));
  auto node = find(path);
  if (node && node->is_folder) return unsafe("X6", "is a directory, not a regular file").at(path);
  if (node) {
    node->bytes.clear();
  } else {
    const auto folder = find(parent_of(path));
    if (!folder || !folder->is_folder) return file_error("create", path, ENOENT);
    node = std::make_shared<Node>();
    apply({{folder, name_of(path), node}});
  }
  return std::unique_ptr<WritableFile>(std::make_unique<MemoryWritable>(*this, path, node));
}

Status MemoryFiles::append(Node& file, const std::string& path, std::span<const std::byte> bytes) const {
  const std::lock_guard guard(mutex_);
  TANDEM_CHECK(changes_something("write", path));
  file.bytes.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {};
}

Status MemoryFiles::sync(Node& file, const std::string& path) const {
  const std::lock_guard guard(mutex_);
  TANDEM_CHECK(changes_something("write", path));
  file.synced_bytes = file.bytes;
  return {};
}

Result<PathKind> MemoryFiles::kind(const std::string& path) const {
  const std::lock_guard guard(mutex_);
  const auto node = find(path);
  if (!node) return PathKind::absent;
  return node->is_folder ? PathKind::directory : PathKind::file;
}

Result<std::string> MemoryFiles::resolve(const std::string& path) const {
  const std::lock_guard guard(mutex_);
  if (!find(path)) return file_error("resolve", path, ENOENT);
  return std::filesystem::path(path).lexically_normal().string();
}

Result<std::vector<std::string>> MemoryFiles::list(const std::string& path) const {
  const std::lock_guard guard(mutex_);
  const auto node = find(path);
  if (!node || !node->is_folder) return file_error("list", path, node ? ENOTDIR : ENOENT);
  std::vector<std::string> found;
  for (const auto& [name, child] : node->names) found.push_back(name);
  return found;
}

Status MemoryFiles::make_directories(const std::string& path) const {
  const std::lock_guard guard(mutex_);
  std::shared_ptr<Node> at = root_;
  for (const auto& part : std::filesystem::path(path).relative_path()) {
    if (part.empty()) continue;
    if (const auto next = at->names.find(part.string()); next != at->names.end()) {
      at = next->second;
      if (!at->is_folder) return file_error("make directory", path, ENOTDIR);
      continue;
    }
    TANDEM_CHECK(changes_something("make directory", path));
    const auto made = std::make_shared<Node>();
    made->is_folder = true;
    apply({{at, part.string(), made}});
    at = made;
  }
  return {};
}

Status MemoryFiles::rename(const std::string& from, const std::string& to) const {
  {
    const std::lock_guard guard(mutex_);
    TANDEM_CHECK(changes_something("rename", to));
    const auto node = find(from), source = find(parent_of(from)), target = find(parent_of(to));
    if (!node || !target || !target->is_folder) return file_error("rename", to, ENOENT);
    if (const auto old = find(to); old && (old->is_folder != node->is_folder || !old->names.empty()))
      return file_error("rename", to, old->is_folder ? ENOTEMPTY : ENOTDIR);
    apply({{source, name_of(from), nullptr}, {target, name_of(to), node}});
  }
  return sync_directory(parent_of(to));
}

void MemoryFiles::remove(const std::shared_ptr<Node>& folder, const std::string& name) const {
  const std::shared_ptr<Node> node = folder->names.at(name);
  std::vector<std::string> inside;
  for (const auto& [child, unused] : node->names) inside.push_back(child);
  for (const std::string& child : inside) remove(node, child);
  apply({{folder, name, nullptr}});
}

Status MemoryFiles::remove_all(const std::string& path) const {
  const std::lock_guard guard(mutex_);
  TANDEM_CHECK(changes_something("remove", path));
  if (find(path)) remove(find(parent_of(path)), name_of(path));
  return {};
}

Status MemoryFiles::sync_directory(const std::string& path) const {
  const std::lock_guard guard(mutex_);
  TANDEM_CHECK(changes_something("sync", path));
  const auto folder = find(path);
  if (!folder || !folder->is_folder) return file_error("sync", path, ENOENT);
  sync_names(folder);
  return {};
}

// A rename between two folders is one change: with it goes what came before it in the other folder.
void MemoryFiles::sync_names(const std::shared_ptr<Node>& folder) const {
  std::set<std::shared_ptr<Node>> folders{folder};
  std::vector<Change> settled, open;
  for (auto change = pending_.rbegin(); change != pending_.rend(); ++change) {
    const bool touched = std::any_of(change->begin(), change->end(),
                                     [&](const Entry& entry) { return folders.contains(entry.folder); });
    if (touched)
      for (const Entry& entry : *change) folders.insert(entry.folder);
    (touched ? settled : open).push_back(std::move(*change));
  }
  std::reverse(settled.begin(), settled.end());
  std::reverse(open.begin(), open.end());
  for (const Change& change : settled)
    for (const Entry& entry : change) set(entry.folder->synced_names, entry);
  pending_ = std::move(open);
}

std::unique_ptr<MemoryFiles> MemoryFiles::after_power_loss(Survival survival, std::mt19937_64& random) const {
  const std::lock_guard guard(mutex_);
  std::map<const Node*, Names> names;
  const std::function<void(const Node&)> begin = [&](const Node& node) {
    if (!node.is_folder || names.contains(&node)) return;
    names[&node] = node.synced_names;
    for (const auto* children : {&node.synced_names, &node.names})
      for (const auto& [name, child] : *children) begin(*child);
  };
  begin(*root_);
  for (const Change& change : pending_) {
    const bool happened = survival == Survival::most || (survival == Survival::some && random() % 2 == 0);
    if (!happened) continue;
    for (const Entry& entry : change) {
      begin(*entry.folder);
      set(names[entry.folder.get()], entry);
    }
  }
  auto left = std::make_unique<MemoryFiles>();
  left->root_ = copy(*root_, names, survival, random);
  return left;
}

std::shared_ptr<MemoryFiles::Node> MemoryFiles::copy(const Node& node,
                                                     const std::map<const Node*, Names>& names,
                                                     Survival survival, std::mt19937_64& random) const {
  auto made = std::make_shared<Node>();
  made->is_folder = node.is_folder;
  if (!node.is_folder) {
    made->bytes = survival == Survival::least  ? node.synced_bytes
                  : survival == Survival::most ? node.bytes
                                               : torn(node.synced_bytes, node.bytes, random);
    made->synced_bytes = made->bytes;
    return made;
  }
  const auto found = names.find(&node);
  for (const auto& [name, child] : found == names.end() ? node.synced_names : found->second)
    made->names[name] = copy(*child, names, survival, random);
  made->synced_names = made->names;
  return made;
}

std::map<std::string, std::string> MemoryFiles::contents(const std::string& below) const {
  const std::lock_guard guard(mutex_);
  std::map<std::string, std::string> found;
  const std::function<void(const Node&, const std::string&)> walk = [&](const Node& node,
                                                                        const std::string& path) {
    if (!node.is_folder) found[path] = node.bytes;
    for (const auto& [name, child] : node.names) walk(*child, path.empty() ? name : join(path, name));
  };
  if (const auto node = find(below)) walk(*node, "");
  return found;
}

}  // namespace tandem
