#!/bin/sh
# no_shared_protobuf.sh PROGRAM: a process that opens TensorFlow must neither load a shared protobuf nor offer its own
# protobuf's symbols to TensorFlow's libraries, which bring another version.
set -eu
libraries=$(ldd "$1")
echo "$libraries" | grep -q 'libc\.so' || { echo "ldd says nothing about $1"; exit 1; }
if echo "$libraries" | grep -i protobuf; then echo "$1 links a shared protobuf"; exit 1; fi
exported=$(nm --dynamic --defined-only "$1")
if echo "$exported" | grep -m3 google8protobuf; then echo "$1 exports protobuf symbols"; exit 1; fi
