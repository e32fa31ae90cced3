// tandem-worker-tf TENSORFLOW_PACKAGE_FOLDER: the engine `tf` (engines/engine.h has the protocol).

#include "engines/tf/tf_model.h"

int main(int count, char** arguments) {
  const std::string package = count > 1 ? arguments[1] : "";
  tandem::TfApi api;
  tandem::serve_and_exit(
      [&](const tandem::Words& words) -> tandem::Result<std::unique_ptr<tandem::ServedModel>> {
        TANDEM_TRY(api, tandem::open_tensorflow(package));
        return tandem::load_saved_model(api, words);
      });
}
