# How our targets are compiled: one precompiled header for all of them, and the sources of a folder as one translation unit.
#
# LibTorch's headers cost some 20 s a file, 10 s with torch/torch.h precompiled, 4 s with what is below. A header can be shared by targets
# that are compiled with the same flags only, so all code is -fPIC (CMake would give executables -fPIE).
add_compile_options(-fPIC)

# Hardening: what overruns a buffer ends the program, and tables of addresses are read-only once it runs. Sanitizers look themselves.
if(NOT CDT_SANITIZE AND NOT CDT_TSAN)
  add_compile_options(-fstack-protector-strong)
  add_compile_options("$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")  # needs an optimizing compiler
endif()
add_link_options(LINKER:-z,relro LINKER:-z,now)

# For sources that are optimised otherwise than the precompiled header: GCC 14 refuses it where these options of -O2 are not theirs, too.
set(CDT_AS_PRECOMPILED)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag("-munroll-only-small-loops -mvzeroupper" CDT_HAS_OPTIONS_OF_X86)
  if(CDT_HAS_OPTIONS_OF_X86)
    set(CDT_AS_PRECOMPILED -munroll-only-small-loops -mvzeroupper)
  endif()
endif()

if(CDT_PRECOMPILED_HEADER)
  add_library(cdt_precompiled OBJECT ${CMAKE_CURRENT_LIST_DIR}/precompiled.cpp)
  target_link_libraries(cdt_precompiled PRIVATE ${TORCH_LIBRARIES} fmt::fmt-header-only nlohmann_json::nlohmann_json)
  target_compile_features(cdt_precompiled PRIVATE cxx_std_20)
  target_precompile_headers(cdt_precompiled PRIVATE
    <torch/autograd.h> <torch/cuda.h> <torch/nn/module.h> <torch/nn/pimpl.h> <torch/types.h> <torch/utils.h> <fmt/format.h> <nlohmann/json.hpp>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-fpch-preprocess)  # the compiler cache wants it
  endif()
endif()

# Warnings, the precompiled header, and one translation unit for each folder of the target's sources. Sources with options of their own
# stay alone. So names in anonymous namespaces are unique within a folder.
function(cdt_compile target)
  target_compile_options(${target} PRIVATE -Wall -Wextra)
  if(CDT_PRECOMPILED_HEADER)
    target_precompile_headers(${target} REUSE_FROM cdt_precompiled)
  endif()
  if(NOT CDT_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "${target}_${folder}" group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()
