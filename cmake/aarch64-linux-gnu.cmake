# Toolchain file: builds for the DPU's CPU (aarch64, Debian 12) on a machine of another kind.
# scripts/arm-test.sh uses it. COMCH_ARM_SYSROOT, a variable of CMake or of the environment, is the
# folder that scripts/arm/sysroot.sh has made.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

# CMake reads this file again for each compiler check, without the command line's variables.
if(NOT COMCH_ARM_SYSROOT)
    set(COMCH_ARM_SYSROOT "$ENV{COMCH_ARM_SYSROOT}")
endif()
if(NOT IS_DIRECTORY "${COMCH_ARM_SYSROOT}/usr/lib/aarch64-linux-gnu")
    message(FATAL_ERROR "COMCH_ARM_SYSROOT is '${COMCH_ARM_SYSROOT}', which has no "
        "usr/lib/aarch64-linux-gnu: scripts/arm/sysroot.sh makes such a folder")
endif()
set(ENV{COMCH_ARM_SYSROOT} "${COMCH_ARM_SYSROOT}")
set(CMAKE_SYSROOT "${COMCH_ARM_SYSROOT}")

set(CMAKE_FIND_ROOT_PATH "${CMAKE_SYSROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${CMAKE_SYSROOT}")
set(ENV{PKG_CONFIG_LIBDIR}
    "${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig")

# Where the linker finds what a library needs that itself is linked to.
foreach(folder IN ITEMS lib usr/lib)
    string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT
        " -Wl,-rpath-link,${CMAKE_SYSROOT}/${folder}/aarch64-linux-gnu")
endforeach()

# What is built runs here by way of QEMU, as CTest runs it.
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64-static;-L;${CMAKE_SYSROOT}")
