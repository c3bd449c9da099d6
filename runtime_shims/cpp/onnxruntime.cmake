# find_onnxruntime(): ONNX Runtime's C API as the target onnxruntime::onnxruntime, from the header in
# FIXED_CAPACITY_ONNXRUNTIME_HEADERS and the library FIXED_CAPACITY_ONNXRUNTIME_LIBRARY, or else from the Python
# environment's onnxruntime package and CMake's own places.
#
# The package holds the library and no headers. The API only grows: an older header, from 1.17 on, serves.

set(FIXED_CAPACITY_ONNXRUNTIME_HEADERS "" CACHE PATH "Directory that holds onnxruntime_c_api.h, or has it below")
set(FIXED_CAPACITY_ONNXRUNTIME_LIBRARY "" CACHE FILEPATH "libonnxruntime.so of the processor that is built for")

function(_find_onnxruntime_header result)
  set(below onnxruntime/core/session include include/onnxruntime onnxruntime)
  set(places ${FIXED_CAPACITY_ONNXRUNTIME_HEADERS})
  find_path(directory onnxruntime_c_api.h PATHS ${places} PATH_SUFFIXES ${below} NO_CACHE NO_DEFAULT_PATH
            NO_CMAKE_FIND_ROOT_PATH)
  if(NOT directory AND NOT places)
    find_path(directory onnxruntime_c_api.h PATH_SUFFIXES ${below} NO_CACHE)
  endif()
  if(NOT directory)
    message(FATAL_ERROR "FIXED_CAPACITY_ONNXRUNTIME needs onnxruntime_c_api.h, and \"${places}\" does not hold it. "
                        "`make runner` fetches it; or take it from a release of ONNX Runtime (1.17 or later) and set "
                        "FIXED_CAPACITY_ONNXRUNTIME_HEADERS to its directory. See docs/building-for-devices.md")
  endif()
  set(${result} ${directory} PARENT_SCOPE)
endfunction()

function(_find_onnxruntime_library result)
  set(library ${FIXED_CAPACITY_ONNXRUNTIME_LIBRARY})
  if(NOT library AND NOT CMAKE_CROSSCOMPILING)  # what this machine's Python holds is for this machine's processor
    _python_package_directories(packages)
    list(TRANSFORM packages APPEND "/onnxruntime/capi")
    foreach(directory ${packages})
      file(GLOB found ${directory}/libonnxruntime.so.* ${directory}/libonnxruntime.*.dylib)
      list(APPEND library ${found})
    endforeach()
  endif()
  if(NOT library)
    find_library(library onnxruntime NO_CACHE)
  endif()
  if(library)
    list(GET library 0 library)
  endif()
  if(NOT EXISTS "${library}")
    message(FATAL_ERROR "FIXED_CAPACITY_ONNXRUNTIME needs ONNX Runtime's library, and none was found. Install it (pip "
                        "install 'onnxruntime>=1.27'), or set FIXED_CAPACITY_ONNXRUNTIME_LIBRARY to its file. See "
                        "docs/building-for-devices.md")
  endif()
  set(${result} ${library} PARENT_SCOPE)
endfunction()

function(find_onnxruntime)
  _find_onnxruntime_header(header)
  _find_onnxruntime_library(library)
  # A program asks for the library by the name inside it, which the file in a Python package does not have.
  if(library MATCHES "\\.so\\.([0-9]+)")
    set(link ${CMAKE_CURRENT_BINARY_DIR}/libonnxruntime.so.${CMAKE_MATCH_1})
    file(CREATE_LINK ${library} ${link} SYMBOLIC)
    set(library ${link})
  endif()
  message(STATUS "ONNX Runtime: ${library}, header in ${header}")
  add_library(onnxruntime::onnxruntime SHARED IMPORTED GLOBAL)
  set_target_properties(onnxruntime::onnxruntime PROPERTIES IMPORTED_LOCATION ${library})
  # Not our code: its warnings are none of ours.
  target_include_directories(onnxruntime::onnxruntime SYSTEM INTERFACE ${header})
endfunction()
