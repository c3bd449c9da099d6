# The Android NDK's toolchain for 64-bit Arm. ANDROID_NDK_HOME (environment) names the NDK.

set(ndk "$ENV{ANDROID_NDK_HOME}")
if(NOT EXISTS "${ndk}/build/cmake/android.toolchain.cmake")
  message(FATAL_ERROR "ANDROID_NDK_HOME is \"${ndk}\", which holds no Android NDK (release 26 or newer); set it to the "
                      "directory with build/cmake/android.toolchain.cmake. See docs/building-for-devices.md")
endif()
set(ANDROID_ABI arm64-v8a)
# The first release whose C library has posix_spawn.
set(ANDROID_PLATFORM android-28)
# One runtime of C++ in one program; a second shared library of C++ beside it needs c++_shared.
set(ANDROID_STL c++_static)
include("${ndk}/build/cmake/android.toolchain.cmake")
