# find_executorch_sdk(): the ExecuTorch SDK as the targets executorch::*, from the directory FIXED_CAPACITY_EXECUTORCH,
# or else from the Python environment being installed into or one of CMake's own places.
#
# An isolated build (pip's default) hides that environment's packages from the build, but runs its interpreter, and
# the interpreter still knows where they are.

set(FIXED_CAPACITY_EXECUTORCH "" CACHE PATH "Directory of an ExecuTorch SDK: built and installed, or inside a wheel")

function(_python_package_directories result)
  set(${result} "" PARENT_SCOPE)
  set(python ${PYTHON_EXECUTABLE} ${Python_EXECUTABLE} ${Python3_EXECUTABLE})
  if(NOT python)
    find_program(FIXED_CAPACITY_PYTHON NAMES python3 python)
    set(python ${FIXED_CAPACITY_PYTHON})
  endif()
  if(NOT python)
    return()
  endif()
  list(GET python 0 python)
  execute_process(
    COMMAND ${python} -c "import sysconfig; print(sysconfig.get_path('purelib')+';'+sysconfig.get_path('platlib'))"
    OUTPUT_VARIABLE directories OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0)
    set(${result} "${directories}" PARENT_SCOPE)
  endif()
endfunction()

# The wheel names its targets executorch::*, an ExecuTorch built from source exports names of its own.
function(_name_executorch_targets)
  set(names runtime=executorch runtime=extension_data_loader threadpool=extension_threadpool
            kernels_optimized=optimized_native_cpu_ops_lib kernels_quantized=quantized_ops_lib
            backend_xnnpack=xnnpack_backend)
  foreach(name ${names})
    string(REGEX MATCH "(.+)=(.+)" name ${name})
    set(target executorch::${CMAKE_MATCH_1})
    if(NOT TARGET ${CMAKE_MATCH_2})
      list(APPEND missing ${CMAKE_MATCH_2})
      continue()
    endif()
    if(NOT TARGET ${target})
      add_library(${target} INTERFACE IMPORTED)
    endif()
    set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${CMAKE_MATCH_2})
  endforeach()
  if(missing)
    list(JOIN missing ", " missing)
    message(FATAL_ERROR "The ExecuTorch in ${FIXED_CAPACITY_EXECUTORCH} was built without ${missing}; build it with the "
                        "options in docs/building-for-devices.md")
  endif()
endfunction()

macro(_find_given_executorch)
  # Its own version is not asked for: an installation built from source states none.
  find_package(executorch QUIET CONFIG PATHS ${FIXED_CAPACITY_EXECUTORCH} NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
  if(NOT executorch_FOUND)
    message(FATAL_ERROR "FIXED_CAPACITY_EXECUTORCH is \"${FIXED_CAPACITY_EXECUTORCH}\", which holds no ExecuTorch SDK; "
                        "set it to the directory with lib/cmake. See docs/building-for-devices.md")
  endif()
  if(NOT TARGET executorch::runtime)
    _name_executorch_targets()
  endif()
endmacro()

macro(find_executorch_sdk)
  # What this machine's Python holds is for this machine's processor.
  if(FIXED_CAPACITY_EXECUTORCH OR (CMAKE_CROSSCOMPILING AND NOT CMAKE_DISABLE_FIND_PACKAGE_executorch))
    _find_given_executorch()
  else()
    _python_package_directories(_fixed_capacity_packages)
    list(TRANSFORM _fixed_capacity_packages APPEND "/executorch")
    find_package(executorch 1.5 QUIET CONFIG PATHS ${_fixed_capacity_packages} NO_DEFAULT_PATH)
    if(NOT executorch_FOUND)
      find_package(executorch 1.5 QUIET CONFIG)
    endif()
  endif()
  if(executorch_FOUND AND NOT TARGET executorch::threadpool)
    message(STATUS "The ExecuTorch package has no usable library targets (CMake 3.28 or newer is needed)")
    set(executorch_FOUND FALSE)
  endif()
endmacro()
