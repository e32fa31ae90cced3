# libtorch out of the pip wheel, as target tandem_torch; TANDEM_TORCH_FOLDER is empty where there is no wheel. Looked for
# at each configure, never cached: `make venv` may have come in between.
set(TANDEM_TORCH_FOLDER "")
if(EXISTS "${CMAKE_SOURCE_DIR}/.venv/bin/python3")
  execute_process(
    COMMAND "${CMAKE_SOURCE_DIR}/.venv/bin/python3" -c
            "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE TANDEM_TORCH_FOLDER
    OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()

if(TANDEM_TORCH_FOLDER AND NOT TARGET tandem_torch)
  foreach(library torch_cpu c10)
    add_library(tandem_${library} SHARED IMPORTED GLOBAL)
    set_target_properties(tandem_${library} PROPERTIES IMPORTED_LOCATION "${TANDEM_TORCH_FOLDER}/lib/lib${library}.so")
  endforeach()
  add_library(tandem_torch INTERFACE)
  # After the system's own: the wheel brings another fmt and protobuf along.
  target_compile_options(tandem_torch INTERFACE "SHELL:-idirafter ${TANDEM_TORCH_FOLDER}/include")
  # libtorch carries a protobuf of its own: none of ours may be seen by it.
  target_link_options(tandem_torch INTERFACE "-Wl,-rpath,${TANDEM_TORCH_FOLDER}/lib" "-Wl,--exclude-libs,ALL")
  target_link_libraries(tandem_torch INTERFACE tandem_torch_cpu tandem_c10)
elseif(NOT TANDEM_TORCH_FOLDER)
  message(STATUS "PyTorch is not installed (`make venv`): the torch engine is left out")
endif()
