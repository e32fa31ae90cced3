#include "base/sha256_tree.h"

#define NO_COMPAT_IMB_API_053  // short macro names of old versions
#include <intel-ipsec-mb.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>

namespace tandem {
namespace {

constexpr size_t kChunk = Sha256Tree::kChunk;
constexpr size_t kChunksOfBlock = kSumBlock / kChunk;
static_assert(kSumBlock % kChunk == 0);

Sha256Digest sha256_of(const std::vector<Sha256Digest>& digests) {
  return sha256(std::as_bytes(std::span(digests)));
}

/// Several SHA-256 at once. A text has less than 64 KiB, which is what the library takes.
class ManySha256 {
 public:
  ManySha256() {
    if (!manager_) throw std::bad_alloc();
    init_mb_mgr_auto(manager_.get(), nullptr);
    check(imb_get_errno(manager_.get()));
  }

  /// `text` and `digest` are used until wait() returns.
  void begin(std::span<const std::byte> text, Sha256Digest& digest) {
    IMB_JOB* job = IMB_GET_NEXT_JOB(manager_.get());
    *job = {};
    job->cipher_mode = IMB_CIPHER_NULL;
    job->cipher_direction = IMB_DIR_ENCRYPT;
    job->chain_order = IMB_ORDER_HASH_CIPHER;
    job->hash_alg = IMB_AUTH_SHA_256;
    job->src = reinterpret_cast<const uint8_t*>(text.data());
    job->msg_len_to_hash_in_bytes = text.size();
    job->auth_tag_output = reinterpret_cast<uint8_t*>(digest.data());
    job->auth_tag_output_len_in_bytes = digest.size();
    for (job = IMB_SUBMIT_JOB(manager_.get()); job; job = IMB_GET_COMPLETED_JOB(manager_.get())) check(*job);
  }

  void wait() {
    while (const IMB_JOB* job = IMB_FLUSH_JOB(manager_.get())) check(*job);
  }

 private:
  void check(int error) const {
    if (error != 0) throw std::runtime_error(std::string("SHA-256 of chunks: ") + imb_get_strerror(error));
  }
  void check(const IMB_JOB& job) const {
    if (job.status == IMB_STATUS_COMPLETED) return;
    check(imb_get_errno(manager_.get()));
    throw std::runtime_error("SHA-256 of chunks: a job was not done");
  }

  struct Free {
    void operator()(IMB_MGR* manager) const { free_mb_mgr(manager); }
  };
  std::unique_ptr<IMB_MGR, Free> manager_{alloc_mb_mgr(0)};
};

}  // namespace

class Sha256TreeHash::State {
 public:
  void update(std::span<const std::byte> bytes) {
    const size_t missing = begun_.empty() ? 0 : kChunk - begun_.size();
    const auto head = bytes.first(std::min(missing, bytes.size()));
    begun_.insert(begun_.end(), head.begin(), head.end());
    bytes = bytes.subspan(head.size());
    const size_t whole = bytes.size() / kChunk;
    digests_.resize(whole + 1);
    size_t made = 0;
    if (begun_.size() == kChunk) many_.begin(begun_, digests_[made++]);
    for (size_t i = 0; i < whole; ++i) many_.begin(bytes.subspan(i * kChunk, kChunk), digests_[made++]);
    many_.wait();
    for (size_t i = 0; i < made; ++i) add(digests_[i]);
    if (begun_.size() == kChunk) begun_.clear();
    const auto tail = bytes.subspan(whole * kChunk);
    begun_.insert(begun_.end(), tail.begin(), tail.end());
  }

  Sha256Tree finish() {
    if (!begun_.empty()) {
      Sha256Digest last;
      many_.begin(begun_, last);
      many_.wait();
      add(last);
    }
    if (!chunks_.empty()) end_block();
    return {sha256_of(blocks_), std::move(blocks_)};
  }

 private:
  void add(const Sha256Digest& chunk) {
    chunks_.push_back(chunk);
    if (chunks_.size() == kChunksOfBlock) end_block();
  }

  void end_block() {
    blocks_.push_back(sha256_of(chunks_));
    chunks_.clear();
  }

  ManySha256 many_;
  std::vector<std::byte> begun_;       // of a chunk that is not whole
  std::vector<Sha256Digest> digests_;  // of the chunks of one update
  std::vector<Sha256Digest> chunks_;   // of a block that is not whole
  std::vector<Sha256Digest> blocks_;
};

Sha256TreeHash::Sha256TreeHash() : state_(std::make_unique<State>()) {}
Sha256TreeHash::~Sha256TreeHash() = default;
void Sha256TreeHash::update(std::span<const std::byte> bytes) { state_->update(bytes); }
Sha256Tree Sha256TreeHash::finish() { return state_->finish(); }

}  // namespace tandem
