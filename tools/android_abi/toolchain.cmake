# Compiles for Android's ABI (arm64, API 26) without the NDK: clang, musl's C headers, Debian's libc++ with the inline
# namespace of the NDK's. For tools/check_android_abi.sh, which fills DAF_CHECK_FOLDER and says what this shows. What is
# left to bionic stays unresolved.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DAF_CHECK_FOLDER)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_SYSTEM_NAME Linux)  # CMake's own support for Android asks for an NDK
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(ANDROID TRUE)
set(ANDROID_ABI arm64-v8a)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-android26)

file(GLOB jni /usr/lib/jvm/*/include/jni.h)
list(GET jni 0 jni)
cmake_path(GET jni PARENT_PATH jni)
set(headers ${DAF_CHECK_FOLDER}/include ${DAF_CHECK_FOLDER}/include/c++ /usr/lib/llvm-19/include/c++/v1
            ${DAF_CHECK_FOLDER}/parts/musl/aarch64-linux-musl ${DAF_CHECK_FOLDER}/parts/musl ${jni} ${jni}/linux)
list(JOIN headers " -isystem " headers)
set(CMAKE_CXX_FLAGS_INIT "-nostdinc++ -nostdlibinc -D_LIBCPP_HAS_MUSL_LIBC -isystem ${headers}")

set(link "-nostdlib --ld-path=/usr/bin/ld.lld-19 -L${DAF_CHECK_FOLDER}/run -Wl,--unresolved-symbols=ignore-all")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${link}")
# Executables start as those of glibc do: under emulation there is nothing else.
set(glibc /usr/aarch64-linux-gnu/lib)
set(CMAKE_EXE_LINKER_FLAGS_INIT
    "${link} -pie -Wl,--dynamic-linker=/lib/ld-linux-aarch64.so.1 ${glibc}/Scrt1.o ${glibc}/crti.o ${glibc}/crtn.o")
