// Preloaded into the program by file_calls_test.py: the calls of the C library as a bad day has them.
//
//   HOSTILE_SHORT=1   read, pread and write move half of what is asked, and every third is interrupted first
//   HOSTILE_MALLOC=K  the K-th allocation of 64 KiB or more fails (0: none)
//   HOSTILE_COUNT=F   at the end the file F holds how many calls were cut short, and how many allocations
//   there were

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr size_t kLarge = 64 << 10;

std::atomic<unsigned long> cut{0}, calls{0}, allocations{0};

unsigned long number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::strtoul(text, nullptr, 10) : 0;
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

/// The size to move instead, or 0 for an interruption.
size_t size_for(size_t asked) {
  static const bool on = number("HOSTILE_SHORT") != 0;
  if (!on || asked < 2) return std::max<size_t>(asked, 1);
  ++cut;
  return ++calls % 3 == 0 ? 0 : asked / 2;
}

__attribute__((destructor)) void tell() {
  const char* path = std::getenv("HOSTILE_COUNT");
  if (!path) return;
  if (FILE* file = std::fopen(path, "w")) {
    std::fprintf(file, "%lu %lu\n", cut.load(), allocations.load());
    std::fclose(file);
  }
}

}  // namespace

extern "C" ssize_t read(int fd, void* to, size_t size) {
  static const auto real = next<ssize_t (*)(int, void*, size_t)>("read");
  const size_t some = size_for(size);
  return some == 0 ? (errno = EINTR, -1) : real(fd, to, std::min(some, size));
}

extern "C" ssize_t pread(int fd, void* to, size_t size, off_t at) {
  static const auto real = next<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  const size_t some = size_for(size);
  return some == 0 ? (errno = EINTR, -1) : real(fd, to, std::min(some, size), at);
}

extern "C" ssize_t pread64(int fd, void* to, size_t size, off64_t at) { return pread(fd, to, size, at); }

extern "C" ssize_t write(int fd, const void* from, size_t size) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  const size_t some = size_for(size);
  return some == 0 ? (errno = EINTR, -1) : real(fd, from, std::min(some, size));
}

extern "C" void* malloc(size_t size) {
  static const auto real = next<void* (*)(size_t)>("malloc");
  if (size < kLarge) return real(size);
  static const unsigned long failing = number("HOSTILE_MALLOC");
  if (++allocations != failing) return real(size);
  errno = ENOMEM;
  return nullptr;
}
