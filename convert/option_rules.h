#pragma once
// Which options of a conversion to TensorFlow go together, and with what source. Private to this folder.

#include "contract/graph.h"
#include "convert/convert.h"
#include "convert/open_model.h"

namespace tandem {

/// Errors: convert_c4 (usage) options that exclude each other, in --stages, --with-mtp and
/// --delete-source-as-done; convert_c11 (unsupported) a source that must not be deleted.
Status options_go_together(const OpenedModel& source, const ConvertOptions& options);

/// What to remark of --matmul-precision; "" without it. `contract` is that of the converted model. Errors:
/// convert_c4 (usage) where it would change nothing.
Result<std::string> may_reduce(const Contract& contract, const ConvertOptions& options);

}  // namespace tandem
