# find_executorch_sdk(): find_package(executorch) that also looks into the Python environment being installed into.
#
# An isolated build (pip's default) hides that environment's packages from the build, but runs its interpreter, and
# the interpreter still knows where they are.

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

macro(find_executorch_sdk)
  _python_package_directories(_fixed_capacity_packages)
  list(TRANSFORM _fixed_capacity_packages APPEND "/executorch")
  find_package(executorch 1.5 QUIET CONFIG PATHS ${_fixed_capacity_packages} NO_DEFAULT_PATH)
  if(NOT executorch_FOUND)
    find_package(executorch 1.5 QUIET CONFIG)
  endif()
  if(executorch_FOUND AND NOT TARGET executorch::threadpool)
    message(STATUS "The ExecuTorch package has no usable library targets (CMake 3.28 or newer is needed)")
    set(executorch_FOUND FALSE)
  endif()
endmacro()
