# How everything is compiled: optimisation, warnings, sanitizers, ccache.
#
#   comch_options       interface target for every target of ours: warnings and sanitizers
#   comch_no_undefined  interface target for what other people's programs load
#   comch_parse_less()  what many sources include is not parsed for each, if a build asks for that
#   comch_compile_alone()  sources that cannot be compiled together with others

include_guard(GLOBAL)

# The copy loops and the ring code are what this project is about: -O3 also with debug information. That
# is functions and lines, which profilers, sanitizers and backtraces want; variables, which cost a tenth of
# the build, have mostly been optimised away (Debug has them).
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O3 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -g1 -DNDEBUG")

find_program(COMCH_CCACHE ccache)
if(COMCH_CCACHE)
    foreach(language IN ITEMS C CXX)
        if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
            set(CMAKE_${language}_COMPILER_LAUNCHER "${COMCH_CCACHE}")
        endif()
    endforeach()
endif()

add_library(comch_options INTERFACE)
target_compile_options(comch_options INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wcast-align -Wformat=2 -Wundef -Wvla
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi
                              -Wzero-as-null-pointer-constant>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wduplicated-cond -Wlogical-op>
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
    # (Not the names of another source that is compiled with this one.)
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wshadow>)
# clang takes some of these further than gcc does: into what NULL and the macros of UCX become, and into
# every int of a test.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(comch_options INTERFACE -Wno-sign-conversion -Wno-cast-align
        -Wno-format-nonliteral -Wno-null-conversion -Wno-gnu-zero-variadic-macro-arguments
        $<$<COMPILE_LANGUAGE:CXX>:-Wno-zero-as-null-pointer-constant>)
endif()
# gcc 12 sees impossible lengths where std::string and std::vector are inlined (its bugs 105651 and
# 105329); with -Werror they would break the build for nothing.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(comch_options INTERFACE -Wno-restrict -Wno-stringop-overflow
        -Wno-stringop-overread -Wno-array-bounds)
endif()
if(COMCH_WERROR)
    target_compile_options(comch_options INTERFACE -Werror)
endif()

# A module must not lack anything when it is linked; but clang's sanitizers are in the program that loads it.
add_library(comch_no_undefined INTERFACE)
if(NOT (COMCH_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang"))
    target_link_options(comch_no_undefined INTERFACE -Wl,--no-undefined)
endif()

if(COMCH_SANITIZE)
    if(NOT COMCH_SANITIZE MATCHES "^(address|undefined|address,undefined|undefined,address|thread)$")
        message(FATAL_ERROR "COMCH_SANITIZE is '${COMCH_SANITIZE}': "
            "use 'address', 'undefined', 'address,undefined' or 'thread'")
    endif()
    # Undefined behaviour ends the program, so that a test fails instead of printing.
    add_compile_options(-fsanitize=${COMCH_SANITIZE} -fno-sanitize-recover=all
                        -fno-omit-frame-pointer)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND COMCH_SANITIZE MATCHES "undefined")
        # The interfaces of UCX and of the vendor have functions called by other types than their own, and
        # to look at a virtual table clang writes to a pipe, which fails where a test has left no
        # descriptors.
        add_compile_options(-fno-sanitize=function,vptr)
    endif()
    add_link_options(-fsanitize=${COMCH_SANITIZE})
    # What code asks for, as each compiler has its own way of telling.
    if(COMCH_SANITIZE MATCHES "address")
        add_compile_definitions(COMCH_SANITIZE_ADDRESS)
    elseif(COMCH_SANITIZE STREQUAL "thread")
        add_compile_definitions(COMCH_SANITIZE_THREAD)
    endif()
    # Instrumented code takes several times as long to compile at -O3 and finds nothing more.
    foreach(language IN ITEMS C CXX)
        set(CMAKE_${language}_FLAGS_RELWITHDEBINFO "-O1 -g1")
        set(CMAKE_${language}_FLAGS_DEBUG "-g1")
    endforeach()
    if(COMCH_SANITIZE STREQUAL "thread")
        # gcc knows that fences are not modelled; a use of one that matters shows as a report.
        add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
    endif()
endif()

# comch_parse_less(TARGET [GTEST]): by two means, of which neither is the default, as a source that lacks an
# #include would compile, and whoever changes one source would wait for more than that.
#
# COMCH_UNITY_BUILD: eight sources are compiled as one. Of unoptimised code that takes a third to a half off,
# with either compiler. (Names in unnamed namespaces must differ, then.)
#
# COMCH_PRECOMPILED_HEADERS: with clang that takes a third off an unoptimised build; gcc gains little. The headers
# are parsed twice in all: once for the libraries, once for the test programs. (Once a target would be a tenth
# of such a build.) Not only once, because a compiler takes them only for the same kind of code: libraries are
# -fPIC and optimised, test programs are neither.
function(comch_parse_less target)
    set(is_test FALSE)
    set(from comch_precompiled)
    if("GTEST" IN_LIST ARGN)
        set(is_test TRUE)
        string(APPEND from _for_tests)
    endif()
    if(NOT COMCH_UNITY_BUILD MATCHES "^(ON|OFF|TESTS)$")
        message(FATAL_ERROR "COMCH_UNITY_BUILD is '${COMCH_UNITY_BUILD}': use ON, OFF or TESTS")
    endif()
    if(COMCH_UNITY_BUILD STREQUAL "ON" OR (is_test AND COMCH_UNITY_BUILD STREQUAL "TESTS"))
        set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    endif()
    if(NOT COMCH_PRECOMPILED_HEADERS)
        return()
    endif()
    if(NOT TARGET ${from})
        set(headers algorithm array atomic bit chrono cstdint cstring deque functional map memory mutex
            optional random set span string string_view thread utility vector fmt/format.h)
        set(file "${PROJECT_BINARY_DIR}/precompiled.cpp")
        file(CONFIGURE OUTPUT "${file}" CONTENT "int main() {}\n")
        if(is_test)
            list(APPEND headers gmock/gmock.h gtest/gtest.h)
            add_executable(${from} EXCLUDE_FROM_ALL "${file}")
            target_link_libraries(${from} PRIVATE GTest::gmock GTest::gtest)
            target_compile_options(${from} PRIVATE -O0)
        else()
            add_library(${from} OBJECT EXCLUDE_FROM_ALL "${file}")
        endif()
        target_link_libraries(${from} PRIVATE comch_options fmt::fmt)
        list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
        target_precompile_headers(${from} PRIVATE ${headers})
    endif()
    target_precompile_headers(${target} REUSE_FROM ${from})
endfunction()

# comch_compile_alone(SOURCE...): of targets of this folder.
function(comch_compile_alone)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
