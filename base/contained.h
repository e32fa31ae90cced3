#pragma once
// Exceptions of the standard library as results, for work that threads do: one that leaves a thread ends the
// program.

#include <exception>
#include <new>

#include "base/result.h"

namespace tandem {

/// What `work()`, a Status, gives. Errors: its own; memory for std::bad_alloc; bug for any other exception.
template <class Work>
Status contained(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::memory, {}, "out of memory", {}, {}, {}};
  } catch (const std::exception& error) {
    return bug("", "unexpected: {}", error.what());
  }
}

}  // namespace tandem
