#pragma once
// A model timed inside its own process, for benchmarks: no message and no copy of logits counts.

#include "engines/serve.h"

namespace tandem {

/// Answers op=time (bench/contender.h): what=first or prefill, one last_logits of input_ids i32 [batch,
/// tokens]; or what=decode, that and then `steps` more tokens in each row, greedily, of which the seconds
/// are. The reply has seconds, peak_bytes (the process's largest resident memory so far), logits f32 [batch,
/// vocab] of the first call and tokens i32 [batch, steps + 1]. Rows are not padded. Errors: invalid (time_c1)
/// a request that is none of these; those of the model.
Result<Message> timed_run(ServedModel& model, const Message& request);

}  // namespace tandem
