"""Recovers the .proto files that formats/proto/ holds from an installed TensorFlow wheel.

The Linux wheels ship no .proto files, but every generated *_pb2 module carries its descriptor. This script takes the
descriptors that the SavedModel, checkpoint and fingerprint messages need, and prints each as .proto text with protoc's own
printer (a small C++ program: libprotobuf's Descriptor::DebugString).

  .venv/bin/python tools/recover_protos.py [DESTINATION]     (default: formats/proto)

Needs: tensorflow in this Python; g++ and libprotobuf-dev on the system.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from google.protobuf import descriptor_pb2
from tensorflow.core.protobuf import fingerprint_pb2, saved_model_pb2, tensor_bundle_pb2, trackable_object_graph_pb2

ROOTS = [saved_model_pb2, trackable_object_graph_pb2, tensor_bundle_pb2, fingerprint_pb2]

PRINTER = r"""
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <filesystem>
#include <fstream>
int main(int, char** arguments) {
  google::protobuf::FileDescriptorSet set;
  std::ifstream input(arguments[1], std::ios::binary);
  if (!set.ParseFromIstream(&input)) return 1;
  google::protobuf::DescriptorPool pool;
  for (const auto& file : set.file()) {
    const auto* descriptor = pool.BuildFile(file);
    if (descriptor == nullptr) return 1;
    if (file.name().rfind("google/", 0) == 0) continue;
    const auto path = std::filesystem::path(arguments[2]) / file.name();
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << descriptor->DebugString();
  }
}
"""


def closure(descriptors, found):
    """Adds every file descriptor that `descriptors` need, dependencies first."""
    for descriptor in descriptors:
        if descriptor.name not in found:
            closure(descriptor.dependencies, found)
            found[descriptor.name] = descriptor
    return found


def main():
    destination = sys.argv[1] if len(sys.argv) > 1 else str(pathlib.Path(__file__).parent.parent / "formats/proto")
    files = descriptor_pb2.FileDescriptorSet()
    for descriptor in closure([root.DESCRIPTOR for root in ROOTS], {}).values():
        descriptor.CopyToProto(files.file.add())
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "files.desc").write_bytes(files.SerializeToString())
        (folder / "printer.cpp").write_text(PRINTER)
        subprocess.run(
            ["g++", "-std=c++17", "-O0", folder / "printer.cpp", "-o", folder / "printer", "-lprotobuf", "-pthread"], check=True
        )
        subprocess.run([folder / "printer", folder / "files.desc", destination], check=True)
    print(sum(not f.name.startswith("google/") for f in files.file), "files written below", destination)


if __name__ == "__main__":
    main()
