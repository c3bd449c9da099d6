# Xcode's compiler for iOS devices; the simulator is CMAKE_OSX_SYSROOT=iphonesimulator.

find_program(xcrun xcrun)
if(NOT xcrun)
  message(FATAL_ERROR "xcrun was not found; iOS needs macOS with Xcode (xcode-select --install). See "
                      "docs/building-for-devices.md")
endif()
set(CMAKE_SYSTEM_NAME iOS)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CMAKE_OSX_ARCHITECTURES arm64 CACHE STRING "Processors to build for")
set(CMAKE_OSX_DEPLOYMENT_TARGET 17.0 CACHE STRING "The oldest iOS to run on")
