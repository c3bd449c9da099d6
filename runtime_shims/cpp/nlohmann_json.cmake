# find_nlohmann_json(): find_package(nlohmann_json), or the headers that the Python package of that name holds.

function(find_nlohmann_json)
  find_package(nlohmann_json 3.11 QUIET CONFIG GLOBAL)
  if(nlohmann_json_FOUND)
    return()
  endif()
  _python_package_directories(packages)
  list(TRANSFORM packages APPEND "/nlohmann_json/include")
  # Headers serve every processor; those of /usr/include would bring their neighbours into a cross build.
  find_path(NLOHMANN_JSON_INCLUDE_DIR nlohmann/json.hpp PATHS ${packages} NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
  if(NOT NLOHMANN_JSON_INCLUDE_DIR)
    message(FATAL_ERROR "The C++ runtime library needs nlohmann-json 3.11 or newer, and none was found. Install it "
                        "(pip install nlohmann-json, or Debian's nlohmann-json3-dev), or configure with "
                        "-DFIXED_CAPACITY_RUNTIME=OFF.")
  endif()
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED GLOBAL)
  target_include_directories(nlohmann_json::nlohmann_json INTERFACE ${NLOHMANN_JSON_INCLUDE_DIR})
endfunction()
