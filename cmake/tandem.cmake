# Compiler settings, and the two functions every folder's CMakeLists.txt uses.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")  # assert() stays on: it guards against our own mistakes
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")

option(TANDEM_SANITIZE "Build with the address and undefined-behaviour sanitizers" OFF)
option(TANDEM_FUZZ "Build with clang for `make fuzz` and `make coverage`: sanitizers, libFuzzer's feedback, line counters" OFF)
if(TANDEM_SANITIZE OR TANDEM_FUZZ)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
if(TANDEM_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link -fprofile-instr-generate -fcoverage-mapping)
  add_link_options(-fprofile-instr-generate)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

# Strict mathematics: no contraction, or two evaluations of one formula could differ.
add_compile_options(-ffp-contract=off)
# Two warnings of g++ 12 that see what is not there: an overflow in fmt 9, and an unset string inside a variant.
set(TANDEM_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wno-stringop-overflow -Wno-maybe-uninitialized -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(TANDEM_WARNINGS -w)  # what is held to warnings is the build with g++
endif()

find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_library(IPSEC_MB IPSec_MB REQUIRED)
# Headers alone: base/highway_targets.cpp is all that else would come from its library.
find_path(HIGHWAY_HEADERS hwy/highway.h REQUIRED)
add_library(highway INTERFACE)
target_include_directories(highway SYSTEM INTERFACE ${HIGHWAY_HEADERS})
# In every file or in none: without optimisation Highway's choice of a target is one function, shared by all files.
target_compile_definitions(highway INTERFACE HWY_WANT_AVX3_DL HWY_STATIC_DEFINE)

# tandem_library(NAME [EXCLUDE file...] DEPS lib...): every .cpp of the current folder but tests and mains.
function(tandem_library NAME)
  cmake_parse_arguments(ARG "" "" "DEPS;EXCLUDE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  list(FILTER sources EXCLUDE REGEX "_(test|main|fuzz|worker)\\.cpp$")
  foreach(file ${ARG_EXCLUDE})
    list(REMOVE_ITEM sources "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
  endforeach()
  add_library(${NAME} STATIC ${sources})
  target_include_directories(${NAME} PUBLIC "${CMAKE_SOURCE_DIR}")
  target_compile_options(${NAME} PRIVATE ${TANDEM_WARNINGS})
  target_link_libraries(${NAME} PUBLIC ${ARG_DEPS})
endfunction()

# tandem_tests(NAME DEPS lib... [EXTRA file...] [SHARDS n]): every *_test.cpp of the current folder, and EXTRA, as one program, registered with ctest
# whole, or in n parts that may run side by side.
function(tandem_tests NAME)
  cmake_parse_arguments(ARG "" "SHARDS" "DEPS;LABELS;EXTRA" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp")
  list(APPEND sources ${ARG_EXTRA})
  list(REMOVE_DUPLICATES sources)
  if(NOT sources)
    return()
  endif()
  add_executable(${NAME} ${sources})
  target_compile_options(${NAME} PRIVATE ${TANDEM_WARNINGS} -O0)  # tests are compiled more often than they are run
  target_compile_definitions(${NAME} PRIVATE TANDEM_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TANDEM_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    set(test ${NAME})
    if(ARG_SHARDS GREATER 1)
      set(test ${NAME}_${shard}_of_${ARG_SHARDS})
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${test} COMMAND ${NAME})
    set_tests_properties(${test} PROPERTIES LABELS "unit;${ARG_LABELS}" TIMEOUT 600
                         ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()
