// tandem-worker-torch: the engine `torch` (engines/engine.h has the protocol).

#include "engines/torch/torch_model.h"

int main() { tandem::serve_and_exit(tandem::load_torch_model); }
