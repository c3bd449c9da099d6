# The Android NDK's toolchain for 64-bit Arm. ANDROID_NDK_HOME (environment) names the NDK.

set(ndk "$ENV{ANDROID_NDK_HOME}")
if(NOT EXISTS "${ndk}/build/cmake/android.toolchain.cmake")
  message(FATAL_ERROR "ANDROID_NDK_HOME is \"${ndk}\", which holds no Android NDK (release 26 or newer); set it to the "
                      "directory with build/cmake/android.toolchain.cmake. See docs/building-for-devices.md")
endif()
set(ANDROID_ABI arm64-v8a)
set(ANDROID_PLATFORM android-28 CACHE STRING "The oldest Android to run on; 28 is the first with posix_spawn")
set(ANDROID_STL c++_static CACHE STRING "The C++ library: inside a program, or c++_shared beside other C++ libraries")
include("${ndk}/build/cmake/android.toolchain.cmake")
